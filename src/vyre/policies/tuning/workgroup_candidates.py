"""Which workgroup sizes may replace the declared one, and which of them are worth measuring?

A size is a candidate only if no result can depend on it.  The program must not observe how lanes are grouped: no local
or workgroup id, no count of workgroups, no workgroup memory, barrier, subgroup operation or async copy, no trap (which
of several is reported first depends on the grouping), no atomics whose order shows, no element that two lanes access.
A launch is rounded up to whole workgroups, so the lanes that one size has more than another must also have no effect.

Unlike vyre-driver, which checks neither for barriers and subgroup operations nor the lanes that rounding adds, and
which replaces the declared size without being told to, this checks all of them.  O(sizes).
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from vyre.domain.analysis.lane_facts import LaneFacts
from vyre.policies.record import U32, U32_MAX, U64, Count, IntRange, Reason, record, verdict, why_field

_LANES: Final = 2**32
Size: TypeAlias = Annotated[int, IntRange(1, U32_MAX)]


@record
class LaunchFacts:
    """A launch whose workgroup size may change.

    - ``declared``: lanes of a workgroup per axis.
    - ``lanes``: lanes requested along x, before rounding up to workgroups.
    - ``one_dimension``: whether the launch has no other axis.
    - ``active_lanes``: only lanes below this number have an effect; None if any lane may have one.
    - ``counts_steps``: whether the steps of lanes are limited.
    """

    declared: tuple[Size, Size, Size]
    lanes: U64
    one_dimension: bool = True
    active_lanes: U64 | None = None
    counts_steps: bool = False


@record
class CandidateThresholds:
    """``sizes`` are considered beside the declared one; ``max_lanes`` is the limit of a workgroup on the device."""

    sizes: tuple[Size, ...] = (32, 64, 128, 256, 512, 1024)
    max_lanes: U32 = 1024


@verdict
class RefusedSize:
    """A size that is no candidate, and why."""

    size: int
    why: Reason = why_field()


@verdict
class WorkgroupCandidates:
    """``sizes`` holds the declared size first, then the others ascending.

    It holds only the declared size if results may depend on it; ``why`` says so.
    """

    sizes: tuple[int, ...]
    refused: tuple[RefusedSize, ...] = ()
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether there are several sizes, for telemetry."""
        return "one size" if len(self.sizes) == 1 else "several sizes"


DEFAULT_THRESHOLDS: Final = CandidateThresholds()
_OBSTACLES: Final = {
    "group_ids": "it uses ids of workgroups, or of lanes in them",
    "group_count": "it uses the number of workgroups",
    "workgroup_memory": "it has workgroup memory",
    "barriers": "it has barriers",
    "subgroup_operations": "it has subgroup operations",
    "async_copies": "it copies asynchronously",
    "indirect": "it takes its grid from memory",
    "traps": "it can trap",
    "order_sensitive": "it depends on the order of atomics",
}
"""Facts that tie a program to its size."""


def obstacle(facts: LaneFacts, launch: LaunchFacts) -> Reason | None:
    """Returns why the size must not change, or None."""
    if not launch.one_dimension or launch.declared[1:] != (1, 1):
        return Reason("the launch has more than one dimension")
    for name, text in _OBSTACLES.items():
        if getattr(facts, name):
            return Reason(text)
    if facts.shared_writes:
        return Reason("lanes may meet in `{}`, which is written", (facts.shared_writes[0],))
    return None


def workgroup_candidates(
    facts: LaneFacts, launch: LaunchFacts, thresholds: CandidateThresholds = DEFAULT_THRESHOLDS
) -> WorkgroupCandidates:
    """Returns every size with which the program certainly gives the same bytes, and why the others are refused."""
    declared = launch.declared[0]
    tied = obstacle(facts, launch)
    if tied is not None:
        return WorkgroupCandidates((declared,), (), tied)
    sizes, refused = [declared], []
    for size in sorted(set(thresholds.sizes) - {declared}):
        why = _refusal(size, facts, launch, thresholds)
        if why is None:
            sizes.append(size)
        else:
            refused.append(RefusedSize(size, why))
    return WorkgroupCandidates(
        tuple(sizes), tuple(refused), Reason("{} sizes give the same bytes as {}", (len(sizes) - 1, declared))
    )


def _refusal(size: int, facts: LaneFacts, launch: LaunchFacts, thresholds: CandidateThresholds) -> Reason | None:
    if size > thresholds.max_lanes:
        return Reason("a workgroup of the device has at most {} lanes", (thresholds.max_lanes,))
    lanes, usual = launched(launch.lanes, size), launched(launch.lanes, launch.declared[0])
    most, least = max(lanes, usual), min(lanes, usual)
    if most * facts.stride > _LANES:
        return Reason("the indices of {} lanes wrap", (most,))
    if lanes == usual:
        return None
    active = launch.active_lanes
    if active is None:
        return Reason("it launches {} lanes, not {}, and each may have an effect", (lanes, usual))
    if active > least:
        return Reason("it launches {} lanes, not {}, and {} may have an effect", (lanes, usual, active))
    if launch.counts_steps:
        return Reason("it launches {} lanes, not {}, and their steps count", (lanes, usual))
    return None


def launched(lanes: int, size: int) -> int:
    """Returns the lanes of a launch that covers ``lanes``: whole workgroups, at least one."""
    return max(1, -(-lanes // size)) * size


@record
class SizeOccupancy:
    """A size and the share of a multiprocessor's warps that it keeps resident; None if unknown."""

    size: Size
    occupancy_bps: U32 | None = None


@record
class ShortlistThresholds:
    """``most`` is the number of sizes kept, ``worst_bps`` the least occupancy kept, as a share of the best."""

    most: Count = 6
    worst_bps: U32 = 5_000


@verdict
class Shortlist:
    """The sizes that are worth measuring, and the others with the reason."""

    sizes: tuple[int, ...]
    refused: tuple[RefusedSize, ...] = ()

    @property
    def label(self) -> str:
        """Whether sizes were refused, for telemetry."""
        return "some refused" if self.refused else "none refused"


DEFAULT_SHORTLIST: Final = ShortlistThresholds()


def shortlist(sizes: tuple[SizeOccupancy, ...], thresholds: ShortlistThresholds = DEFAULT_SHORTLIST) -> Shortlist:
    """Returns the sizes worth measuring: always the first, then those of highest occupancy, ties to the smaller.

    Occupancy is not speed, so it only excludes sizes that leave most of a multiprocessor idle.
    """
    best = max((size.occupancy_bps or 0 for size in sizes), default=0)
    kept, refused = list(sizes[:1]), []
    for size in sorted(sizes[1:], key=lambda each: (-(each.occupancy_bps or 0), each.size)):
        occupancy = size.occupancy_bps
        if occupancy is not None and (occupancy == 0 or occupancy * 10_000 < best * thresholds.worst_bps):
            why = Reason("it keeps {} bps of the warps resident, the best {}", (occupancy, best))
            refused.append(RefusedSize(size.size, why))
        elif len(kept) >= thresholds.most:
            refused.append(RefusedSize(size.size, Reason("{} sizes are enough", (thresholds.most,))))
        else:
            kept.append(size)
    return Shortlist(tuple(size.size for size in kept), tuple(refused))
