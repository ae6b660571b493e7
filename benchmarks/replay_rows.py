"""The rows measure the decision to replay a graph in a warm dispatch: asking, finding the graph, keeping the time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from benchmarks.harness import Metric, Row, Samples, measure
from vyre.adapters.caching.memory_cache import Built, MemoryCache
from vyre.adapters.replay_decision import ReplayDecision, ReplayPlanner, Verdict, Work
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Provenance

_SEEN: Final = 4096
"""Runs before the clock starts; behind them a decision is taken as seldom as in a long run of a program."""
_DEVICE_NS: Final = 5_000
_WALL_NS: Final = 40_000

_DEAR: Final = replace(ASSUMED, graph_replay=ASSUMED.graph_record)
"""No graph is worth its replays."""


def _decided(costs: LaunchCosts) -> ReplayDecision:
    decision = ReplayPlanner("costs", costs, Provenance.MEASURED).decision(Work("a dispatch", 4, 1))
    assert decision is not None
    for _ in range(_SEEN):
        if decision.verdict() is Verdict.RECORD:
            decision.recorded(0)
        decision.took(_DEVICE_NS, _WALL_NS)
    return decision


def _replayed(rounds: int) -> Samples:
    decision, graphs = _decided(ASSUMED), MemoryCache[int, object]()
    graphs.get_or_build(0, lambda: Built(decision, 1))

    def warm() -> None:
        if decision.verdict() is not Verdict.REPLAY or graphs.get(0) is None:
            raise AssertionError("what was recorded is not replayed")
        decision.took(_DEVICE_NS, _WALL_NS)

    return measure(warm, rounds)


def _plain(rounds: int) -> Samples:
    decision = _decided(_DEAR)

    def warm() -> None:
        if decision.verdict() is not Verdict.PLAIN:
            raise AssertionError("it is replayed at a loss")
        decision.took(_DEVICE_NS, _WALL_NS)

    return measure(warm, rounds)


_STATE: Final = "decided before; what it is decided by did not change"
ROWS: Final = (
    Row("replay_decision_warm", Metric.COST, "us", 0.3, None, _replayed, _STATE, scale=1e6),
    Row("plain_decision_warm", Metric.COST, "us", 0.3, None, _plain, _STATE, scale=1e6),
)
