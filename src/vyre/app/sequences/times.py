"""The times of the latest runs of a sequence, and what they tell about its launches.

Units: nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from vyre.app.sequences.structure import Structure
from vyre.domain.cost_limits import LEAST_SAMPLES, TELLING_LAUNCHES
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, of_samples

SAMPLES: Final = 32
"""The latest runs that are kept, of each structure and each way to submit it."""


class _Taken(NamedTuple):
    """The time of a run of so many kernels."""

    ns: int
    kernels: int


class _Whole(NamedTuple):
    """The time of a run of so many kernels as the caller sees it, as the backend does, and as the device does."""

    ns: int
    wall_ns: int
    device_ns: int
    kernels: int


class RunTimes:
    """Times of runs, by what was launched and how; one thread at a time may use it.

    ``overlaps``: the host submits launches while the device executes; else a run takes the sum of its costs, and the
    known ones are subtracted from it.
    """

    def __init__(self, *, overlaps: bool) -> None:
        self._overlaps = overlaps
        self._taken: dict[tuple[int, bool], deque[_Taken]] = {}
        self._around: dict[tuple[int, bool], deque[_Whole]] = {}
        self._kept: dict[int, deque[_Taken]] = {}
        self._handed: deque[int] = deque(maxlen=SAMPLES)

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
            taken = _Whole(whole_ns, timing.wall_ns, ns, kernels)
            self._around.setdefault(key, deque(maxlen=SAMPLES)).append(taken)

    def took_by_workers(self, structure: Structure, kernels: int, timing: DispatchTiming, whole_ns: int | None) -> None:
        """Records a run of so many launches that resident workers found in a queue; ``whole_ns`` as for ``took``."""
        if not kernels or timing.device_ns is None:
            return
        taken = self._kept.setdefault(id(structure), deque(maxlen=SAMPLES))
        taken.append(_Taken(timing.device_ns, kernels))
        if whole_ns is not None:
            self._handed.append(max(0, whole_ns - timing.device_ns))

    def kernel(self, structure: Structure, costs: LaunchCosts) -> Measured | None:
        """Returns the mean device time of a launch of a structure, or None before it was run.

        Times of lists come first, because the device itself tells them, and times of runs of many launches, of which
        what else a run costs is a smaller part.  Where only workers have run it, their time stands for it.
        """
        for one_by_one in (False, True):
            if taken := self._taken.get((id(structure), one_by_one)):
                return _middle(sorted(self._each(one, costs, one_by_one=one_by_one) for one in _long(taken)))
        taken = self._kept.get(id(structure))
        return _middle(sorted(_nearest(one.ns, one.kernels) for one in _long(taken))) if taken else None

    def launched(self, structure: Structure) -> Measured | None:
        """Returns the mean time of a launch of a structure by itself, with its kernel; None where launches overlap, and
        before there was a run of enough of them.
        """
        taken = self._taken.get((id(structure), True))
        if self._overlaps or not taken or max(one.kernels for one in taken) < TELLING_LAUNCHES:
            return None
        return _middle(sorted(_nearest(one.ns, one.kernels) for one in _long(taken)))

    def kept(
        self, structure: Structure, around: Measured | None, costs: LaunchCosts
    ) -> tuple[Measured | None, LaunchCosts]:
        """Returns the mean time of a launch of a structure that resident workers run, with the costs of workers that
        are kept: nothing is set up, and what finding a launch costs is in the time.

        The time is None before they have run the structure.  ``around``: the priced time of a run besides its launches.
        """
        known = _ns(costs.round_trip) + (0 if around is None else around.median_ns)
        if self._handed:
            costs = replace(costs, persistent_setup=_middle(sorted(max(0, ns - known) for ns in self._handed)))
        taken = self._kept.get(id(structure))
        if not taken:
            return None, costs
        nothing = Measured(0, 0, 0, len(taken), Provenance.MEASURED)
        mean = _middle(sorted(_nearest(one.ns, one.kernels) for one in _long(taken)))
        return mean, replace(costs, persistent_poll=nothing)

    def around(self, structure: Structure, costs: LaunchCosts, *, one_by_one: bool) -> Measured | None:
        """Returns the time of a run of a structure, submitted in this way, beside its kernels and the known costs of
        the backend; None before there was a run that had been prepared.
        """
        taken = self._around.get((id(structure), one_by_one))
        if self._overlaps or not taken:
            return None
        most = 2 * min(one.kernels for one in taken)
        runs = [one for one in taken if one.kernels <= most]  # in short runs it is a larger part
        if not one_by_one:
            nodes = structure.launches.each.kernels
            return _middle(sorted(max(0, _beside_list(one, nodes, costs)) for one in runs))
        launched, kernel = self.launched(structure), self.kernel(structure, costs)
        if launched is not None:
            each = launched.median_ns
        else:
            each = 0 if kernel is None else kernel.median_ns + _ns(costs.launch)
        return _middle(sorted(max(0, one.ns - one.kernels * each) for one in runs))

    def _each(self, one: _Taken, costs: LaunchCosts, *, one_by_one: bool) -> int:
        if self._overlaps:
            return one.ns // one.kernels
        if one_by_one:
            known = one.kernels * _ns(costs.launch)
        else:
            known = _ns(costs.round_trip) + one.kernels * _ns(costs.graph_gap)
        return _nearest(max(0, one.ns - known), one.kernels)


def _long(taken: Iterable[_Taken]) -> list[_Taken]:
    """Returns the runs of at least half as many launches as the longest."""
    runs = list(taken)
    least = max(one.kernels for one in runs) // 2
    return [one for one in runs if one.kernels >= least]


def _beside_list(one: _Whole, nodes: int, costs: LaunchCosts) -> int:
    """Returns what is left of the run of a list without the costs of its submission, or what its backend does not
    see where those are unknown.
    """
    replay = _ns(costs.graph_replay)
    if not replay:
        return one.ns - one.wall_ns
    return one.ns - one.device_ns - replay - nodes * _ns(costs.graph_replay_node)


def _nearest(ns: int, parts: int) -> int:
    """Returns the part of a time to the nearest nanosecond: short kernels run thousands of times in a list."""
    return (ns + parts // 2) // parts


def _ns(cost: Measured | None) -> int:
    return 0 if cost is None or cost.provenance is not Provenance.MEASURED else cost.median_ns


def _middle(each: list[int]) -> Measured:
    if len(each) >= LEAST_SAMPLES:
        return of_samples(each, Provenance.MEASURED)
    apart_ns = each[-1] - each[0]
    return Measured(each[len(each) // 2], apart_ns, apart_ns, len(each), Provenance.MEASURED)
