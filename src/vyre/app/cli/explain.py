"""``vyre explain``: explains the decisions about a program, and replays recorded ones."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from vyre.adapters.terminal import complain, put
from vyre.app.cli import arguments, report
from vyre.app.cli.chart import Curve, chart, marks
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.loading import load_valid
from vyre.app.cli.options import PROGRAM_HELP, AsJson, BackendName, Spec
from vyre.app.device_passes.placement import HOST
from vyre.app.explain.curves import price_curves
from vyre.app.explain.explanation import Explanation
from vyre.app.explain.journals import replay_file, write_decisions
from vyre.app.explain.service import ASSUMED_COSTS, MEASURED_COSTS
from vyre.app.opening import open as open_session
from vyre.domain.durations import duration
from vyre.domain.errors import InvalidConfig
from vyre.domain.printable import indented, one_line
from vyre.domain.value_json import to_json
from vyre.policies.decision_records import Replayed, ReplayOutcome
from vyre.policies.launching.execution_prices import Price, Quote
from vyre.ports.planning import DispatchWork


def explain(
    program: Annotated[Path | None, typer.Argument(help=PROGRAM_HELP, show_default=False)] = None,
    batch: Annotated[int, typer.Option("--batch", help="Runs that are submitted together.")] = 1,
    repeats: Annotated[int, typer.Option("--repeats", help="How often such a batch is submitted.")] = 1,
    costs: Annotated[
        str | None,
        typer.Option("--costs", help="measured, assumed, or a file of `vyre calibrate -o`; default: the best known."),
    ] = None,
    kernel_time: Annotated[
        int | None, typer.Option("--kernel-time-ns", help="Device time of a launch, if none was measured.")
    ] = None,
    spec: Spec = [],  # noqa: B006  # typer copies defaults
    record: Annotated[Path | None, typer.Option("--record", help="Write the decisions to this file.")] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="Decide the decisions of this file again, and compare.")
    ] = None,
    backend: BackendName = "auto",
    optimizer: Annotated[
        str, typer.Option("--optimizer", help="Where the session's passes run: host, or device.")
    ] = HOST,
    as_json: AsJson = False,
) -> int:
    """Explain how a program would be run and why; or replay recorded decisions, with exit code 1 if one differs."""
    if (program is None) is (replay is None):
        raise InvalidConfig("explain takes a program, or --replay and a file", fix="give one of them.")
    if replay is not None:
        return _replay(replay, as_json=as_json)
    assert program is not None
    loaded = load_valid(program)
    wanted = costs if costs in (None, ASSUMED_COSTS, MEASURED_COSTS) else Path(str(costs))
    with open_session(backend, optimizer=optimizer) as session:
        explanation = session.explain(
            loaded.program,
            batch=batch,
            repeats=repeats,
            costs=wanted,
            kernel_time_ns=kernel_time,
            spec=arguments.constants(spec),
        )
    for note in explanation.notes:
        complain(f"note: {indented(note)}")
    if record is not None:
        write_decisions(explanation.decisions, record)
    if as_json:
        report.put_json(_document(explanation))
        return Exit.OK
    _print(explanation)
    if record is not None:
        put(f"wrote {one_line(str(record))}")
    return Exit.OK


# ---- a program
def _print(explanation: Explanation) -> None:
    work, plan = explanation.inputs.workload, explanation.plan
    runs = f"{work.repeats} x {work.batch} runs of {_each(explanation.work)}"
    put(f"{one_line(explanation.program)} on {explanation.backend}: {runs}")
    rows = report.table("", "mode", "predicted", "a run", "costs", "made of")
    for quote in plan.quotes:
        offer = explanation.offer(quote.mode)
        shown = quote if offer is None else offer.quote
        *cells, text = _cells(shown, work.batch * work.repeats)
        text = text if offer is None else f"{text} ({offer.call})"
        report.add_row(rows, "*" if quote.mode is plan.mode else "", quote.mode.value, *cells, text)
    report.put_table(rows)
    put(f"{plan.mode.value}: {plan.why} (gain {plan.gain_ns} ns, margin {plan.margin_ns} ns)")
    if explanation.others:
        rows = report.table("decision", "verdict", "why")
        for answer in explanation.others:
            report.add_row(rows, *answer)
        put("")
        report.put_table(rows)
    for choice in explanation.lowerings:
        put(f"operation {indented(str(choice))}")
    for result in explanation.passes:
        put(f"pass {result}")
    if sys.stdout.isatty():
        for line in _chart(explanation):
            put(line)


def _each(work: DispatchWork) -> str:
    launches, copies = work.kernels, work.operations - work.kernels
    parts = [f"{launches} launches" if launches > 1 else "one launch"]
    if copies:
        parts.append(f"{copies} copies or fills" if copies > 1 else "one copy or fill")
    return f"{' and '.join(parts)} each"


def _cells(quote: Quote, runs: int) -> tuple[str, str, str, str]:
    if not isinstance(quote, Price):
        return "-", "-", "-", f"unavailable: {quote.why}"
    terms = " + ".join(f"{term.times} x {term.cost} {duration(term.each_ns)}" for term in quote.terms)
    return duration(quote.total_ns), duration(quote.total_ns // runs), quote.provenance.value, terms


def _chart(explanation: Explanation) -> list[str]:
    """Returns a chart of the predicted time of a run in each mode, over batches up to four times as large."""
    sizes, times = price_curves(explanation)
    mark = marks(list(times))
    curves = [Curve(mode, mark[mode], values) for mode, values in times.items()]
    ascii_only = not (sys.stdout.encoding or "ascii").startswith("utf")
    lines = chart(sizes, curves, shutil.get_terminal_size().columns, ascii_only=ascii_only)
    return ["", "predicted time of a run", *lines] if lines else []


def _document(explanation: Explanation) -> dict[str, Any]:
    return {
        "program": explanation.program,
        "backend": explanation.backend,
        "mode": explanation.plan.mode.value,
        "why": str(explanation.plan.why),
        "gain_ns": explanation.plan.gain_ns,
        "margin_ns": explanation.plan.margin_ns,
        "costs": explanation.costs,
        "notes": list(explanation.notes),
        "launches": explanation.work.kernels,
        "operations": explanation.work.operations,
        "modes": [_quote_json(quote) for quote in explanation.plan.quotes],
        "offers": [_quote_json(offer.quote) | {"call": offer.call} for offer in explanation.offers],
        "decisions": [answer._asdict() for answer in explanation.others],
        "lowerings": [choice._asdict() for choice in explanation.lowerings],
        "passes": [result._asdict() for result in explanation.passes],
        "inputs": to_json(explanation.inputs),
    }


def _quote_json(quote: Quote) -> dict[str, Any]:
    if not isinstance(quote, Price):
        return {"mode": quote.mode.value, "predicted_ns": None, "unavailable": str(quote.why)}
    return {
        "mode": quote.mode.value,
        "predicted_ns": quote.total_ns,
        "provenance": quote.provenance.value,
        "terms": [term._asdict() for term in quote.terms],
    }


# ---- recorded decisions
def _replay(path: Path, *, as_json: bool) -> int:
    decisions = list(replay_file(path))
    counts = Counter(replayed.outcome for replayed in decisions)
    if as_json:
        differing = [_replayed_json(place, each) for place, each in enumerate(decisions, 1) if _is_worth_telling(each)]
        counted = {outcome.value: counts[outcome] for outcome in ReplayOutcome}
        report.put_json({"decisions": len(decisions), "outcomes": counted, "differing": differing})
    else:
        for place, each in enumerate(decisions, 1):
            if _is_worth_telling(each):
                _tell(place, each)
        put(", ".join(f"{counts[outcome]} {outcome.value}" for outcome in ReplayOutcome))
    return Exit.OK if all(each.reproduced for each in decisions) else Exit.WRONG


def _is_worth_telling(replayed: Replayed) -> bool:
    return replayed.outcome is not ReplayOutcome.SAME


def _tell(place: int, replayed: Replayed) -> None:
    same = "; the verdict is the same" if replayed.reproduced else ""
    why = f" ({one_line(replayed.why)})" if replayed.why else ""
    put(f"decision {place}: {one_line(replayed.record.policy)}: {replayed.outcome.value}{why}{same}")
    for difference in replayed.differences:
        put(f"  {difference}")


def _replayed_json(place: int, replayed: Replayed) -> dict[str, Any]:
    return {
        "decision": place,
        "policy": replayed.record.policy,
        "outcome": replayed.outcome.value,
        "reproduced": replayed.reproduced,
        "why": replayed.why,
        "differences": [difference._asdict() for difference in replayed.differences],
    }
