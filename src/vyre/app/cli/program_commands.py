"""Commands that take a program: run, show, emit, aot and validate."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from vyre.adapters.bundles.files import check_digest
from vyre.adapters.files import write_files
from vyre.adapters.program_files import ProgramForm, render_program
from vyre.adapters.terminal import complain, put
from vyre.app.aot import BUNDLE_SUFFIX, aot_emitters, build_bundle
from vyre.app.cli import arguments, report
from vyre.app.cli.calls import call_of, call_of_bundle
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.gates import admit, gates_of, with_gates
from vyre.app.cli.loading import InvalidSource, load_migrated, load_resolved, load_valid, tell
from vyre.app.cli.options import (
    PROGRAM_HELP,
    AsJson,
    Assume,
    AsWritten,
    BackendName,
    Checks,
    Form,
    Gates,
    GridSync,
    Groups,
    Inputs,
    Lanes,
    Locations,
    ProgramPath,
    Sizes,
    Spec,
    Target,
    Timeout,
)
from vyre.app.journal import DecisionJournal
from vyre.app.opening import open as open_session
from vyre.app.race_checks import WHY as RACE_CHECKS_WHY
from vyre.app.source_lines import with_source_lines
from vyre.app.verdicts import keep_verdict
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig, KernelSourceError
from vyre.domain.evidence.failures import PROGRAM_ERRORS
from vyre.domain.gates import Gate
from vyre.domain.ir.program import Program
from vyre.domain.printable import indented
from vyre.domain.program_report import Report
from vyre.domain.validation.validator import validate as validate_program


def run(
    program: Annotated[Path, typer.Argument(help=f"{PROGRAM_HELP[:-1]}; or a .vyrz bundle.")],
    input_: Inputs = [],  # noqa: B006  # typer copies defaults
    out: Annotated[list[str], typer.Option("--out", help="name=file; .npy, anything else gets raw bytes.")] = [],  # noqa: B006
    grid: Groups = None,
    extent: Lanes = None,
    spec: Spec = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    expect: Annotated[
        str | None, typer.Option("--expect", help="Digest of the program, or of a bundle's file; refuse any other.")
    ] = None,
    entry: Annotated[
        str | None, typer.Option("--entry", help="The entry point of a bundle; needed for several.")
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option("--evidence", help="Run once more, and write a bundle for `vyre replay` here.")
    ] = None,
    check: Checks = None,
    gate: Gates = [],  # noqa: B006
    timeout: Timeout = None,
    backend: BackendName = "auto",
    as_json: AsJson = False,
) -> int:
    """Run a program, a kernel of a Python file or a bundle once on files or literals."""
    config = _config(timeout)
    races = arguments.checks_races(check)
    groups, lanes = arguments.shape(grid, "--grid"), arguments.shape(extent, "--extent")
    if program.suffix == BUNDLE_SUFFIX:
        call = call_of_bundle(program, entry, expect, input_, size)
    elif entry is not None:
        raise InvalidConfig("--entry names an entry point of a bundle", fix="leave it out.")
    else:
        call = call_of(program, input_, size)
        check_digest(f"the program {program}", expect, call.program.digest)
    admit(call.program, gates_of(gate))
    targets = arguments.outputs(out, call.program)
    arguments.expect_inputs(call.inputs, call.program)
    launch = call.launch(groups, lanes, spec)
    launch["race_check"] = races
    journal = None if evidence is None else DecisionJournal()
    with (
        open_session(backend, journal=journal) as session,
        report.progress(f"running {program.name} on {session.backend}"),
    ):
        keep_verdict(call.program, session._selection.code_store())
        try:
            result = session.dispatch(call.program, call.inputs, config, **launch)
        except PROGRAM_ERRORS:
            if evidence is not None:
                session.write_evidence(evidence, call.program, call.inputs, config, **launch)
                complain(f"note: the evidence is in {evidence}")
            raise
        if evidence is not None:
            session.write_evidence(evidence, call.program, call.inputs, config, **launch)
        reason = session.explain().reason if result.backend == session.backend else RACE_CHECKS_WHY
    shaped = {name: array.reshape(call.shapes.get(name, array.shape)) for name, array in result.items()}
    write_files({path: report.file_content(path, shaped[name]) for name, path in targets.items()})
    report.print_result(result, targets, reason, as_json=as_json)
    return Exit.OK


def _config(timeout: float | None) -> DispatchConfig | None:
    if timeout is None:
        return None
    if not (timeout > 0 and isfinite(timeout)):
        raise InvalidConfig(f"--timeout {timeout} is no time", fix="give seconds above 0.")
    return DispatchConfig(timeout_s=timeout)


def show(
    program: ProgramPath,
    form: Annotated[str, typer.Option("--as", help="text, json, wire or summary.")] = "text",
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead.")] = None,
    as_json: AsJson = False,
) -> int:
    """Print a program in one of its written forms, or a summary of it (wire is printed as hex)."""
    if form not in (forms := [*(f.value for f in ProgramForm), "summary"]):
        raise InvalidConfig(f"--as {form} is no form", fix=f"use one of {', '.join(forms)}.")
    loaded = load_migrated(program)
    tell(program, loaded)
    if form == "summary":
        text = report.summary(loaded.program, as_json=as_json)
        content = text.encode() + b"\n"
    else:
        content = render_program(loaded.program, ProgramForm(form))
        text = content.hex() if form == "wire" else content.decode().removesuffix("\n")
    if out is not None:
        write_files({out: content})
    else:
        put(text)
    return Exit.OK


def emit(
    program: ProgramPath,
    target: Target = None,
    assume: Assume = None,
    grid_sync: GridSync = "native",
    spec: Spec = [],  # noqa: B006
    form: Form = None,
    gate: Gates = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead.")] = None,
    as_written: AsWritten = False,
    locations: Locations = False,
    as_json: AsJson = False,
) -> int:
    """Print a program as code (PTX, LLVM IR or assembly); --json adds everything needed to launch it by hand."""
    from vyre.app.emission import emit as emit_program
    from vyre.app.emission import lowering_choices, optimizer_results

    loaded = load_valid(program)
    admit(loaded.program, gates_of(gate))
    constants = arguments.constants(spec)
    module = emit_program(
        loaded.program,
        target=target,
        assume=assume.split(",") if assume else (),
        grid_sync=grid_sync,
        spec=constants,
        form=form,
        optimize=not as_written,
        locations=locations,
    )
    passes = () if as_written else optimizer_results(loaded.program, target=target, spec=constants)
    choices = lowering_choices(loaded.program, target=target, optimize=not as_written)
    document = module.to_json() | {
        "lowerings": [choice._asdict() for choice in choices],
        "passes": [result._asdict() for result in passes],
    }
    for choice in choices:
        complain(f"note: operation {indented(str(choice))}")
    text = json.dumps(document, indent=2) if as_json else with_source_lines(module.text).removesuffix("\n")
    if out is not None:
        write_files({out: text.encode() + b"\n"})
    else:
        put(text)
    return Exit.OK


def aot(
    programs: Annotated[list[Path], typer.Argument(help=f"{PROGRAM_HELP[:-1]}; each is an entry point.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle's file, e.g. kernel.vyrz.")],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Targets and groups of them, separated by commas, e.g. sm_90,sm_120; default: all groups."
        ),
    ] = None,
    spec: Spec = [],  # noqa: B006
    workgroup: Annotated[str | None, typer.Option("--workgroup", help="Lanes of a workgroup, e.g. 128.")] = None,
    gate: Gates = [],  # noqa: B006
    ptx_only: Annotated[bool, typer.Option("--ptx-only", help="Omit machine code.")] = False,
    as_written: AsWritten = False,
    as_json: AsJson = False,
) -> int:
    """Compile programs ahead of time: one file that runs without a compiler."""
    entries: dict[str, Program] = {}
    for path in programs:
        loaded = load_valid(path).program
        admit(loaded, gates_of(gate))
        name = loaded.name or path.stem
        if name in entries:
            raise InvalidConfig(f"two programs have the name {name}", fix="give one of them another name.")
        entries[name] = loaded
    written = build_bundle(
        entries,
        out,
        targets=None if target is None else target.split(","),
        spec=arguments.constants(spec),
        workgroup=arguments.shape(workgroup, "--workgroup"),
        emitters=aot_emitters(machine_code=not ptx_only),
        optimize=not as_written,
    )
    report.print_bundle(written, as_json=as_json)
    return Exit.OK


def validate(
    programs: Annotated[list[Path], typer.Argument(help="Programs: .vyre text, .vyrb wire, .json, or kernel.py:name.")],
    gate: Gates = [],  # noqa: B006
    as_json: AsJson = False,
) -> int:
    """Check programs and print every diagnostic; exit code 1 if one is invalid or refused by a gate."""
    gates = gates_of(gate)
    checked = [_check(path, gates) for path in programs]
    report.print_reports(checked, as_json=as_json)
    return Exit.OK if all(c.report.ok for c in checked) else Exit.WRONG


def _check(path: Path, gates: tuple[Gate, ...]) -> report.Checked:
    try:
        loaded = load_resolved(path)
    except InvalidSource as invalid:
        return report.Checked(path, Report(errors=(report.diagnostic_of(invalid.error),)), invalid.source)
    except KernelSourceError as error:
        return report.Checked(path, Report(errors=(report.diagnostic_of(error),)), report.source_of(error))
    checked = with_gates(validate_program(loaded.program), loaded.program, gates)
    return report.Checked(path, checked, loaded.source, loaded.notes)
