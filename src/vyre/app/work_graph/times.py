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


class RunTimes:
    """Times of runs, by what was launched and how; one thread at a time may use it.

    ``overlaps``: the host submits launches while the device executes; else a run takes the sum of its costs, and the
    known ones are subtracted from it.
    """

    def __init__(self, *, overlaps: bool) -> None:
        self._overlaps = overlaps
        self._taken: dict[tuple[int, bool], deque[_Taken]] = {}
        self._around: dict[bool, deque[int]] = {}

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
            self._around.setdefault(one_by_one, deque(maxlen=SAMPLES)).append(max(0, whole_ns - timing.wall_ns))

    def kernel(self, structure: Structure, costs: LaunchCosts) -> Measured | None:
        """Returns the mean device time of a launch of a structure, or None before it was run.

        Times of lists come first, because the device itself tells them.
        """
        for one_by_one in (False, True):
            if taken := self._taken.get((id(structure), one_by_one)):
                return _middle(sorted(self._each(one, costs, one_by_one=one_by_one) for one in taken))
        return None

    @property
    def around(self) -> Measured | None:
        """The time of a run outside the calls of the backend; None before there was one that was prepared."""
        if self._overlaps:
            return None
        for one_by_one in (False, True):
            if found := self._around.get(one_by_one):
                return _middle(sorted(found))
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
