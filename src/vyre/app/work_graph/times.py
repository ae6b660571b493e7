"""The times of the latest runs of a work graph, and what they tell about its launches.

Units: nanoseconds.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from vyre.app.work_graph.structure import Structure
from vyre.domain.cost_limits import LEAST_SAMPLES
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, of_samples

SAMPLES: Final = 9


class _Taken(NamedTuple):
    """The time of a run of so many kernels."""

    ns: int
    kernels: int


class _Whole(NamedTuple):
    """The time of a run as the caller sees it, as the backend does, and as the device does; the launches of a round."""

    ns: int
    wall_ns: int
    device_ns: int
    nodes: int

    def beside(self, replay_ns: int, node_ns: int) -> int:
        """Returns what is left of the run of a list without these costs, or what its backend does not see."""
        if not replay_ns:
            return self.ns - self.wall_ns
        return self.ns - self.device_ns - replay_ns - self.nodes * node_ns


class RunTimes:
    """Times of runs, by what was launched and how; one thread at a time may use it.

    ``overlaps``: the host submits launches while the device executes; else a run takes the sum of its costs, and the
    known ones are subtracted from it.
    """

    def __init__(self, *, overlaps: bool) -> None:
        self._overlaps = overlaps
        self._taken: dict[tuple[int, bool], deque[_Taken]] = {}
        self._around: dict[bool, deque[_Whole]] = {}

    def took(
        self, structure: Structure, kernels: int, timing: DispatchTiming, *, one_by_one: bool, whole_ns: int | None
    ) -> None:
        """Records a run of so many launches; ``whole_ns`` is its time as the caller sees it, None for one that was
        prepared first.
        """
        if not kernels:
            return
        ns = timing.device_ns if timing.device_ns is not None else timing.wall_ns
        key = id(structure), one_by_one
        self._taken.setdefault(key, deque(maxlen=SAMPLES)).append(_Taken(ns, kernels))
        if whole_ns is not None:
            nodes = structure.launches.kernels(1) - structure.launches.kernels(0)
            taken = _Whole(whole_ns, timing.wall_ns, ns, nodes)
            self._around.setdefault(one_by_one, deque(maxlen=SAMPLES)).append(taken)

    def kernel(self, structure: Structure, costs: LaunchCosts) -> Measured | None:
        """Returns the mean device time of a launch of a structure, or None before it was run.

        Times of lists come first, because the device itself tells them.
        """
        for one_by_one in (False, True):
            if taken := self._taken.get((id(structure), one_by_one)):
                return _middle(sorted(self._each(one, costs, one_by_one=one_by_one) for one in taken))
        return None

    def around(self, costs: LaunchCosts) -> Measured | None:
        """Returns the time of a run beside its kernels and the known costs of the backend; None before there was a run
        that had been prepared.
        """
        if self._overlaps:
            return None
        if found := self._around.get(False):
            replay, node = _ns(costs.graph_replay), _ns(costs.graph_replay_node)
            return _middle(sorted(max(0, one.beside(replay, node)) for one in found))
        if found := self._around.get(True):
            return _middle(sorted(max(0, one.ns - one.wall_ns) for one in found))
        return None

    def _each(self, one: _Taken, costs: LaunchCosts, *, one_by_one: bool) -> int:
        if self._overlaps:
            return one.ns // one.kernels
        if one_by_one:
            known = one.kernels * _ns(costs.launch)
        else:
            known = _ns(costs.round_trip) + one.kernels * _ns(costs.graph_gap)
        return max(0, one.ns - known) // one.kernels


def _ns(cost: Measured | None) -> int:
    return 0 if cost is None or cost.provenance is not Provenance.MEASURED else cost.median_ns


def _middle(each: list[int]) -> Measured:
    if len(each) >= LEAST_SAMPLES:
        return of_samples(each, Provenance.MEASURED)
    apart_ns = each[-1] - each[0]
    return Measured(each[len(each) // 2], apart_ns, apart_ns, len(each), Provenance.MEASURED)
