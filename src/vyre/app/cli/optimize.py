"""``vyre optimize``: writes a program that gives the same results with less work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vyre.adapters.files import write_files
from vyre.adapters.program_files import ProgramForm, form_of, render_program
from vyre.adapters.terminal import complain, put
from vyre.app.cli import arguments, report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.loading import load_valid
from vyre.app.cli.options import AsJson, ProgramPath, Spec
from vyre.app.optimizer_check import CheckedRuns, check_runs
from vyre.app.optimizer_proof import ProgramProof, prove_programs
from vyre.app.optimizing import OptimizedProgram
from vyre.app.optimizing import optimize as optimize_program
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.bake import with_constants
from vyre.domain.ir.program import Program
from vyre.domain.printable import one_line
from vyre.domain.specialization import spec_literals


def optimize(
    program: ProgramPath,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write: .vyre, .vyrb or .json; default: print text.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what each pass did, and which laws rewrote an expression.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Run both programs on the reference and compare; prove them equal where z3 can."),
    ] = False,
    passes: Annotated[
        str | None, typer.Option("--passes", help="Passes in their order, e.g. copies,folding; default: all.")
    ] = None,
    spec: Spec = [],  # noqa: B006  # typer copies defaults
    as_json: AsJson = False,
) -> int:
    """Write a program that gives the same bytes and errors with less work."""
    loaded = load_valid(program).program
    constants = arguments.constants(spec)
    if constants:
        loaded = with_constants(loaded, spec_literals(loaded, constants))
    after = optimize_program(loaded, passes=None if passes is None else [name for name in passes.split(",") if name])
    checked = check_runs(loaded, after.program) if check else None
    proof = _proof(loaded, after.program) if checked is not None and checked.ok else None
    form = ProgramForm.TEXT if out is None else form_of(out)
    content = render_program(after.program, form)
    is_kept = checked is None or checked.ok
    if out is not None and is_kept:
        write_files({out: content})
    if as_json:
        report.put_json(_document(after, checked, proof))
    elif out is None and is_kept:
        put(content.decode().removesuffix("\n"))
    if not as_json:
        _tell(after, checked, proof, explain=explain)
    return Exit.OK if is_kept else Exit.WRONG


def _proof(before: Program, after: Program) -> ProgramProof | None:
    """Returns a proof, or why there is none; None if the prover is not installed."""
    from vyre.adapters.proving.prover import Z3Prover  # few runs prove

    try:
        return prove_programs(before, after, Z3Prover())
    except UnsupportedFeature:
        return None


def _tell(after: OptimizedProgram, checked: CheckedRuns | None, proof: ProgramProof | None, *, explain: bool) -> None:
    """Writes to standard error, since standard output may hold the program."""
    if explain:
        complain("\n".join((str(after), *after.rewrites())))
    if checked is not None:
        complain(one_line(checked.text))
    if proof is not None:
        complain(one_line(proof.text))


def _document(after: OptimizedProgram, checked: CheckedRuns | None, proof: ProgramProof | None) -> dict[str, object]:
    document: dict[str, object] = {
        "digest": after.program.digest.hex(),
        "passes": [result._asdict() | {"counts": dict(result.counts)} for result in after.results],
        "rewrites": list(after.rewrites()),
    }
    if checked is not None:
        document["check"] = {
            "agreed": checked.agreed,
            "skipped": checked.skipped,
            "differences": [difference._asdict() for difference in checked.differences],
            "invalid": checked.invalid,
        }
    if proof is not None:
        document["proof"] = proof._asdict()
    return document
