"""``vyre tune``: measures alternatives to a program's workgroup size, and says whether one is faster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from vyre.adapters.terminal import put
from vyre.app.cli import arguments, report
from vyre.app.cli.calls import call_of
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson, BackendName, Groups, Inputs, Lanes, ProgramPath, Sizes, Spec
from vyre.app.opening import open as open_session
from vyre.app.tuning.report import TuningReport, TuningSource
from vyre.app.tuning.tuner import TuningSettings
from vyre.app.verdicts import keep_verdict
from vyre.domain.errors import InvalidConfig
from vyre.domain.printable import one_line


def tune(
    program: ProgramPath,
    input_: Inputs = [],  # noqa: B006  # typer copies defaults
    grid: Groups = None,
    extent: Lanes = None,
    spec: Spec = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    budget: Annotated[
        float | None, typer.Option("--budget", help="Seconds of measuring after which no candidate wins.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure even if a result is stored.")] = False,
    sizes_only: Annotated[
        bool, typer.Option("--sizes-only", help="Do not try code generation profiles and padded grids.")
    ] = False,
    store: Annotated[Path | None, typer.Option("--store", help="The cache directory to store it in.")] = None,
    pin: Annotated[
        Path | None, typer.Option("--pin", help="Pins to apply: launches that they cover are not measured.")
    ] = None,
    export: Annotated[Path | None, typer.Option("--export", help="Write all stored winners to this file.")] = None,
    backend: BackendName = "auto",
    as_json: AsJson = False,
) -> int:
    """Measure alternatives to the declared workgroup size and store the result; the program stays unchanged."""
    if budget is not None and not budget > 0:
        raise InvalidConfig(f"--budget {budget} is no time", fix="give seconds above 0.")
    call = call_of(program, input_, size)
    groups, lanes = arguments.shape(grid, "--grid"), arguments.shape(extent, "--extent")
    settings = TuningSettings(profiles=not sizes_only, budget_s=budget, again=again)
    with open_session(backend, cache=store, pins=pin) as session:
        with report.progress(f"tuning {program.name} on {session.backend}"):
            keep_verdict(call.program, session._selection.code_store())
            tuned = session.tune(call.program, call.inputs, settings=settings, **call.launch(groups, lanes, spec))
        exported = None if export is None else len(session.export_pins(export))
    if as_json:
        report.put_json(_document(tuned) | ({} if exported is None else {"exported": exported}))
        return Exit.OK
    _print(tuned)
    if exported is not None:
        put(f"wrote {exported} pins to {one_line(str(export))}")
    return Exit.OK


def _print(tuned: TuningReport) -> None:
    rows = report.table("", "lanes", "profile", _TITLE[tuned.measured], "saves", "samples")
    declared = tuned.medians[0]
    for number, (candidate, median, samples) in enumerate(
        zip(tuned.candidates, tuned.medians, tuned.samples, strict=True)
    ):
        report.add_row(
            rows,
            str(number),
            str(candidate.size) + (" (declared)" if number == 0 else ""),
            candidate.profile or "-",
            "-" if median is None else f"{median / 1e3:.2f} us" if tuned.measured else f"{median:.0f}",
            "-" if not median or not declared else f"{(declared - median) / declared:+.1%}",
            str(len(samples)),
        )
    report.put_table(rows)
    for candidate, reason in tuned.rejected:
        put(f"rejected {candidate}: {reason}")
    if not tuned.measured:
        put("nothing was measured: these are estimates of a model")
    if tuned.source is TuningSource.STORE:
        put("remembered: nothing was launched")
    put(f"{'no winner' if tuned.winner is None else f'winner {tuned.winner}'}: {tuned.why}")
    for line in in_words(tuned):
        put(line)


def in_words(tuned: TuningReport) -> list[str]:
    """Returns what the report says, for people who have never tuned a program: the answer, and what to do with it."""
    if tuned.source is TuningSource.PIN:
        return [
            "",
            f"In words: a pin fixes how this is launched: {tuned.winner or 'as declared'}. Nothing was launched.",
        ]
    declared, count = tuned.candidates[0], len(tuned.candidates)
    how = "were timed now" if tuned.source is TuningSource.RUN else "were timed earlier"
    if not tuned.measured:
        how = "were estimated by a model, without a device"
    medians = dict(zip(tuned.candidates, tuned.medians, strict=True))
    if count == 1:
        return ["", "In words: there is no other way to launch this program here, so that nothing was compared."]
    profiles = ", in how their code is generated" if any(each.profile for each in tuned.candidates) else ""
    lines = [
        "",
        f"In words: {count} ways to launch this program {how}.",
        f"They differ in how many lanes form a workgroup{profiles}, and never in results.",
    ]
    if tuned.winner is None:
        return [*lines, f"None is proven faster than the declared one ({declared}): leave the program as it is."]
    what = "time" if tuned.measured else "work"
    saved, best = medians.get(declared), medians.get(tuned.winner)
    gain = f", in {1 - best / saved:.0%} less {what} than the declared one ({declared})" if saved and best else ""
    lines.append(f"The best is {tuned.winner}{gain}.")
    if tuned.measured:
        lines.append("The cache keeps that: session.dispatch(..., tune=True) applies it to launches like this one.")
    else:
        lines.append("Tune it on the device itself before you rely on that.")
    return lines


_TITLE = {True: "median", False: "work"}


def _document(tuned: TuningReport) -> dict[str, Any]:
    config = tuned.config
    return {
        "key": asdict(tuned.key),
        "times": tuned.kind.value,
        "measured": tuned.measured,
        "source": tuned.source.value,
        "candidates": [
            {"size": candidate.size, "profile": candidate.profile, "median": median, "samples": list(samples)}
            for candidate, median, samples in zip(tuned.candidates, tuned.medians, tuned.samples, strict=True)
        ],
        "rejected": [
            {"size": candidate.size, "profile": candidate.profile, "reason": reason}
            for candidate, reason in tuned.rejected
        ],
        "winner": None if tuned.winner is None else asdict(tuned.winner),
        "why": tuned.why,
        "config": {
            "workgroup": config.workgroup,
            "grid": config.grid,
            "profile": config.profile,
            "pad_grid": config.pad_grid,
        },
    }
