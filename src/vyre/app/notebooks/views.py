"""Functions that return results, explanations, reports and kernels as HTML for notebooks."""

from __future__ import annotations

import base64
from functools import singledispatch
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vyre.app.calibration.service import KnownCosts
from vyre.app.capabilities import operations_text, profile_rows
from vyre.app.demo.png import png_bytes
from vyre.app.explain.curves import price_curves
from vyre.app.explain.explanation import Explanation
from vyre.app.kernels.kernel import Kernel
from vyre.app.result import Result
from vyre.app.selection import SelectionReport
from vyre.app.session_reports import SessionReports
from vyre.app.tuning.race import RaceReport
from vyre.app.tuning.report import TuningReport
from vyre.domain.durations import duration
from vyre.domain.errors import VyreError
from vyre.domain.html.charts import bar, curves, line
from vyre.domain.html.markup import Html, bold, code, folded, panel, paragraph, table, text
from vyre.domain.html.programs import program_view
from vyre.domain.html.times import costs_table, timing_table
from vyre.policies.launching.execution_prices import Price

if TYPE_CHECKING:
    import numpy.typing as npt

FIRST: Final = 6
"""Values of an output that are shown."""
MOST_POINTS: Final = 120
MOST_PIXELS: Final = 192
"""Largest picture of an output along an axis; larger arrays are shown by some of their elements."""


@singledispatch
def view_of(shown: object) -> Html:
    """Returns the view of something that has one."""
    raise NotImplementedError(type(shown).__name__)


@view_of.register(Result)
def result_view(result: Result) -> Html:
    """Returns the outputs with their first values and a picture of each, and the time of the dispatch."""
    rows = [
        (bold(name), f"{array.dtype}[{', '.join(map(str, array.shape))}]", _first(array), _picture(array))
        for name, array in result.items()
    ]
    parts = [table(("output", "type", "first values", ""), rows)] if rows else [paragraph("It has no outputs.")]
    if result.resident:
        parts.append(paragraph(f"Updated on the device: {', '.join(result.resident)}"))
    parts += [paragraph(str(result.launch)), folded("time", timing_table(result.timing))]
    return panel(Html(f"Result from {bold(result.backend)} in {text(duration(result.timing.wall_ns))}"), *parts)


def _first(array: npt.NDArray[Any]) -> str:
    values = ", ".join(str(value) for value in array.reshape(-1)[:FIRST])
    return f"{values}, ..." if array.size > FIRST else values


def _picture(array: npt.NDArray[Any]) -> Html:
    """Returns the course of an array with one axis, and a picture of one with two."""
    if array.dtype.kind not in "iufb" or array.size < 2:
        return Html("")
    if array.ndim == 1:
        return line([float(value) for value in array[:: -(-array.size // MOST_POINTS)]])
    if array.ndim != 2 or min(array.shape) < 2:
        return Html("")
    part = array[:: -(-array.shape[0] // MOST_PIXELS), :: -(-array.shape[1] // MOST_PIXELS)].astype(np.float64)
    with np.errstate(all="ignore"):
        known = part[np.isfinite(part)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        grey = np.nan_to_num((part / 2 - low / 2) / ((high / 2 - low / 2) or 1.0) * 255, nan=0, posinf=255, neginf=0)
    data = base64.b64encode(png_bytes(np.clip(grey, 0, 255).astype(np.uint8))).decode()
    title = text(f"from {low:g} (black) to {high:g} (white)")
    return Html(f'<img alt="{title}" title="{title}" src="data:image/png;base64,{data}" style="max-width:12em">')


@view_of.register(Explanation)
def explanation_view(explanation: Explanation) -> Html:
    """Returns the ways to run a program with their predicted times, a chart of them, and the other decisions."""
    work, plan = explanation.inputs.workload, explanation.plan
    runs = work.batch * work.repeats
    prices = [quote for quote in plan.quotes if isinstance(quote, Price)]
    largest = max([1, *(price.total_ns for price in prices)])
    rows = []
    for planned in plan.quotes:
        offer = explanation.offer(planned.mode)
        quote = planned if offer is None else offer.quote
        mode = bold(f"{quote.mode.value} (chosen)") if quote.mode is plan.mode else text(quote.mode.value)
        if isinstance(quote, Price):
            whole, each = duration(quote.total_ns), duration(quote.total_ns / runs)
            rows.append((mode, whole, each, quote.provenance.value, bar(quote.total_ns / largest)))
        else:
            rows.append((mode, "-", "-", f"unavailable: {quote.why}", Html("")))
    sizes, by_mode = price_curves(explanation)
    parts = [
        table(("mode", "predicted", "a run", "costs", ""), rows),
        paragraph(f"{plan.mode.value}, since {plan.why}"),
        curves(sizes, by_mode, "batch; predicted time of a run"),
    ]
    if explanation.others:
        parts.append(folded("further decisions", table(("decision", "verdict", "why"), explanation.others)))
    parts += [paragraph(f"note: {note}") for note in explanation.notes]
    title = f" on {explanation.backend}: {work.repeats} x {work.batch} runs"
    return panel(Html(f"{bold(explanation.program)}{text(title)}"), *parts)


@view_of.register(SelectionReport)
def selection_view(report: SelectionReport) -> Html:
    """Returns the backends with the reason why each was chosen or not, and the plans of the session so far."""
    rows = [
        (bold(f"{each.id} (chosen)") if each.chosen else each.id, each.role.value, each.reason)
        for each in report.candidates
    ]
    rows += [(failure.entry_point, "broken", failure.reason) for failure in report.failures]
    parts = [table(("backend", "role", "reason"), rows)]
    if report.race_checks:
        parts.append(paragraph(f"race checks: {report.race_checks}"))
    latest = {planned.work: planned.plan for planned in report.planned}
    if latest:
        plans = [(work, plan.mode.value, plan.why) for work, plan in latest.items()]
        parts.append(folded("planned executions", table(("work", "mode", "why"), plans)))
    return panel(Html(f"Backend {bold(report.chosen)}: {text(report.reason)}"), *parts)


@view_of.register(SessionReports)
def session_view(session: SessionReports) -> Html:
    """Returns the backend of a session: its profile and its operations."""
    named = ", ".join(sorted(session.supported_ops))
    facts = [*profile_rows(session.profile), ("operations", operations_text(session.supported_ops))]
    title = Html(f"Session on {bold(session.profile.backend)}, version {text(session.version)}")
    return panel(title, table(("fact", "value"), facts), folded("operations", paragraph(named)))


@view_of.register(TuningReport)
def tuning_view(report: TuningReport) -> Html:
    """Returns the candidates with their times, and the winner."""
    medians = [median for median in report.medians if median]
    largest = max([1.0, *medians])
    rows = []
    for number, (candidate, median, samples) in enumerate(
        zip(report.candidates, report.medians, report.samples, strict=True)
    ):
        name = f"{candidate} (declared)" if number == 0 else str(candidate)
        shown = "-" if median is None else duration(median) if report.measured else f"{median:.0f}"
        picture = bar(median / largest) if median else Html("")
        rows.append((bold(name) if candidate == report.winner else name, shown, len(samples), picture))
    title = f"Fastest: {report.winner}" if report.winner else "No other way is proven faster than the declared one"
    parts = [table(("candidate", "median" if report.measured else "work", "samples", ""), rows), paragraph(report.why)]
    if not report.measured:
        parts.append(paragraph("Nothing was measured: these are estimates of a model."))
    if report.rejected:
        rejected = [(each.candidate, each.reason) for each in report.rejected]
        parts.append(folded("rejected", table(("candidate", "reason"), rejected)))
    return panel(title, *parts)


@view_of.register(RaceReport)
def race_view(report: RaceReport) -> Html:
    """Returns the variants of a race, and why one of them won."""
    rows: list[tuple[object, object]] = [(each.name, each.verdict.why) for each in report.raced]
    rows += [(name, f"{cost} by the model") for name, cost in report.estimates.items()]
    parts = [table(("variant", "verdict"), rows)] if rows else []
    return panel(Html(f"{bold(report.winner)}: {text(report.why)}"), *parts)


@view_of.register(KnownCosts)
def known_costs_view(known: KnownCosts) -> Html:
    """Returns launch costs and their origin."""
    changed = [paragraph(f"changed: {verdict.why}") for verdict in known.corrected]
    return panel(f"Launch costs: {known.why}", costs_table(known.costs), *changed)


@view_of.register(Kernel)
def kernel_view(kernel: Kernel[...]) -> Html:
    """Returns the source of a kernel and, unless it is generic, its program."""
    source = "\n".join(kernel.definition.source.lines)
    generic = (*kernel._parameters.generic, *kernel._parameters.statics)
    if generic:
        rest = paragraph(f"It is generic over {', '.join(generic)}.")
    else:
        try:
            rest = folded("program", program_view(kernel.program))
        except VyreError as error:
            rest = code(str(error))
    return panel(Html(f"Kernel {bold(kernel.__name__)}"), code(source), rest)
