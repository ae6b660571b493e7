"""Functions that return timings and launch costs as HTML for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.domain.durations import duration
from vyre.domain.html.charts import bar
from vyre.domain.html.markup import Html, panel, paragraph, table

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchTiming
    from vyre.domain.launch_costs import LaunchCosts


_RATE: Final = "_per_gib"
"""The end of the names of costs that are rates, and not compared with times."""


def timing_view(timing: DispatchTiming) -> Html:
    """Returns the durations of a dispatch, with bars of their share of the whole."""
    return panel("Time of a dispatch", timing_table(timing))


def timing_table(timing: DispatchTiming) -> Html:
    """Returns the table of ``timing_view`` alone."""
    named = (
        ("whole dispatch", timing.wall_ns),
        ("kernels on the device", timing.device_ns),
        ("host, before waiting", timing.enqueue_ns),
        ("waiting and reading back", timing.wait_ns),
        ("submitting one kernel", timing.launch_ns),
    )
    whole = max(1, timing.wall_ns)
    return table(("", "time", ""), [(name, duration(ns), bar(ns / whole)) for name, ns in named if ns is not None])


def costs_view(costs: LaunchCosts) -> Html:
    """Returns the costs of launches as a table."""
    return panel(f"Launch costs of {costs.source}", costs_table(costs))


def costs_table(costs: LaunchCosts) -> Html:
    """Returns the table of ``costs_view`` alone."""
    known = [*costs.known().items(), *((f"kernel {each.pipeline}", each.time) for each in costs.kernels)]
    if not known:
        return paragraph("No cost is known.")
    largest = max([1, *(cost.median_ns for name, cost in known if not name.endswith(_RATE))])
    return table(
        ("cost", "median", "spread", "samples", "provenance", ""),
        [
            (
                name.replace("_", " ").replace("gib", "GiB"),
                duration(cost.median_ns),
                duration(cost.spread_ns),
                cost.count,
                cost.provenance.value,
                "" if name.endswith(_RATE) else bar(cost.median_ns / largest),
            )
            for name, cost in known
        ],
    )
