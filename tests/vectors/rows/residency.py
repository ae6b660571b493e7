"""Rows of the residency, capture and selection planners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vectors.codec import Row
from vectors.seeds.capture import plan_capture
from vectors.seeds.pass_selection import select_passes
from vectors.seeds.residency import ResidencyCounters, plan_queries, plan_session


def _add(left: ResidencyCounters, right: ResidencyCounters) -> ResidencyCounters:
    return left.add(right)


def _delta(later: ResidencyCounters, earlier: ResidencyCounters) -> ResidencyCounters:
    return later.delta_since(earlier)


FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "residency": {"checked_add": Row(_add, fallible=True), "checked_delta_since": Row(_delta, fallible=True)},
    "multi_query_execution": {"plan_multi_query_execution": Row(plan_queries, fallible=True)},
    "resident_graph_session": {"plan_cuda_resident_graph_session": Row(plan_session, fallible=True)},
    "graph_capture": {"plan_graph_capture_bindings": Row(plan_capture, fallible=True)},
    "benchmark_pass_selection": {"select_benchmark_passes": Row(select_passes, fallible=True)},
}
