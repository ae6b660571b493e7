"""Launches cut into groups that run as one program each: the policies of fusion decide, on facts about the stages.

A run of stages that can be compared is examined once.  ``plan_dataflow`` cuts it where a barrier would be needed that
the executor does not have, or where a launch would bind too much memory.  Inside such a cut a stage joins the group
before it if ``decide_fusion`` accepts the two as one kernel; a stage that takes nothing from the group joins if
``decide_cross_pipeline_fusion`` finds the two independent and a launch costs enough to be worth sharing.
``fusion_pressures`` weighs what each stage would gain.  At last ``join_stages`` makes the program, and a program that
needs too many registers is cut again.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final

from vyre.domain.frozen import frozen
from vyre.domain.fusion.examination import ArrayUse, ExaminedStages, live_locals
from vyre.domain.fusion.joining import examine_stages, join_stages
from vyre.domain.fusion.stages import CannotJoin, JoinedStages, StageBarrier, StageCall
from vyre.domain.names import Dim3
from vyre.domain.record import U64_MAX
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.stage_fusion.launch_fusion import (
    AccessRelation,
    BufferUse,
    DataflowInputs,
    DataflowStage,
    StageBuffer,
    plan_dataflow,
)

_RELATIONS: Final = {
    StageBarrier.NONE: AccessRelation.POINTWISE,
    StageBarrier.WORKGROUP: AccessRelation.WORKGROUP,
    StageBarrier.GRID: AccessRelation.GLOBAL,
}


@frozen
class FusionLimits:
    """The limits of a group of joined stages, and the costs by which joining is judged.

    ``most_stages``: the stages of a group.  ``most_live``: the locals that its program may keep alive at once.
    ``shared_nbytes`` and ``most_lanes``: of a workgroup.  ``most_nbytes``: the bytes that a launch may bind.
    ``most_groups``: the workgroups of a launch along each axis; None: any number.
    ``grid_barriers``: the executor can make all workgroups of a launch wait for each other.  ``eager``: stages are
    joined wherever the bytes stay the same, whether or not that saves anything.  ``launch_ns``: the time of a launch
    that does nothing.  ``bytes_per_ns``: the bandwidth of memory.
    """

    most_stages: int = 16
    most_live: int = 64
    shared_nbytes: int = 48 << 10
    most_lanes: int = 1024
    most_nbytes: int = U64_MAX
    most_groups: Dim3 | None = None
    grid_barriers: bool = False
    eager: bool = False
    launch_ns: float = 5_000.0
    bytes_per_ns: float = 10.0


@frozen
class FusedGroup:
    """Stages that are one launch: ``joined`` is their program, or None for a stage that stays as it is.

    ``why`` says what separates the group from the one before.
    """

    stages: range
    joined: JoinedStages | None
    why: str


def plan_groups(
    stages: Sequence[StageCall],
    temporary: Collection[Hashable] = (),
    *,
    alone: Mapping[int, str] | None = None,
    limits: FusionLimits | None = None,
    sink: DecisionSink | None = None,
) -> tuple[FusedGroup, ...]:
    """Returns the launches that replace stages which run in this order; every stage is in one group.

    ``temporary`` holds the identities of arrays that nobody reads after the stages and whose old content does not
    matter; ``alone`` the numbers of stages that stay as they are, with the reasons.  ``sink`` receives the decisions.
    The programs must be valid (``InvalidProgram``).
    """
    return tuple(_Planner(stages, temporary, limits or FusionLimits(), sink).groups(alone or {}))


class _Planner:
    def __init__(
        self,
        stages: Sequence[StageCall],
        temporary: Collection[Hashable],
        limits: FusionLimits,
        sink: DecisionSink | None,
    ) -> None:
        self._stages, self._limits, self._sink = stages, limits, sink
        self._users: dict[Hashable, set[int]] = {identity: set() for identity in temporary}
        for number, call in enumerate(stages):
            for identity in call.buffers:
                if identity in self._users:
                    self._users[identity].add(number)

    def groups(self, alone: Mapping[int, str]) -> Iterator[FusedGroup]:
        start, why = 0, "the first stage"
        while start < len(self._stages):
            if start in alone:
                yield FusedGroup(range(start, start + 1), None, alone[start])
                start, why = start + 1, f"of the stage before: {alone[start]}"
                continue
            stop = start
            while stop < len(self._stages) and stop - start < self._limits.most_stages and stop not in alone:
                stop += 1
            ended = "the group before is full"
            for group in self._run(start, stop, why):
                yield group
                start = group.stages.stop
            why = ended

    def _run(self, start: int, stop: int, why: str) -> Iterator[FusedGroup]:
        """Yields the groups of neighbours that may be joined as far as their configs go."""
        while start < stop:
            reach = stop
            examined = examine_stages(self._stages[start:reach])
            reason = ""
            while isinstance(examined, CannotJoin):
                reason = examined.reason
                reach = start + max(1, min(examined.stage, reach - start - 1))
                if reach - start == 1:
                    break
                examined = examine_stages(self._stages[start:reach])
            if isinstance(examined, CannotJoin):
                yield FusedGroup(range(start, start + 1), None, why)
                start, why = start + 1, reason
                continue
            yield from self._cut(examined, start, why)
            start, why = reach, reason

    def _cut(self, examined: ExaminedStages, start: int, why: str) -> Iterator[FusedGroup]:
        """Yields the groups of stages that were examined together, the first of which is number ``start``."""
        plan = decide(self._sink, plan_dataflow, self._dataflow_inputs(examined, start))
        for number, launch in enumerate(plan.launches.groups):
            first, last = launch.stage_ids[0] - start, launch.stage_ids[-1] - start
            why = str(launch.why) if number else why
            place = first
            while place <= last:
                count = 1
                reason = ""
                while place + count <= last and not (
                    reason := self._obstacle(examined, start, range(place, place + count), place + count)
                ):
                    count += 1
                yield from self._made(start + place, count, why)
                place, why = place + count, reason

    def _made(self, first: int, count: int, why: str) -> Iterator[FusedGroup]:
        """Yields the stages as one group, or as several where the program would not be valid or too large."""
        while count:
            taken, reason = count, ""
            longest: JoinedStages | None = None
            while taken > 1:
                numbers = frozenset(range(first, first + taken))
                inside = [identity for identity, users in self._users.items() if users <= numbers]
                group = self._stages[first : first + taken]
                joined = join_stages(group, inside, shared_nbytes=self._shared_left(group))
                if isinstance(joined, CannotJoin):
                    taken, reason = max(1, min(joined.stage, taken - 1)), joined.reason
                elif any(
                    n > most for n, most in zip(joined.grid, self._limits.most_groups or joined.grid, strict=True)
                ):
                    reason = f"with stage {first + taken - 1} the launch would have {joined.grid} workgroups"
                    taken -= 1
                elif (live := live_locals(joined.program)) > self._limits.most_live:
                    reason = f"with stage {first + taken - 1} {live} locals would be alive at once"
                    taken -= 1
                else:
                    longest = joined
                    break
            yield FusedGroup(range(first, first + taken), longest, why)
            first, count, why = first + taken, count - taken, reason

    def _shared_left(self, group: Sequence[StageCall]) -> int:
        own = sum(b.static_nbytes or 0 for call in group for b in call.program.buffers if b.is_workgroup)
        return max(0, self._limits.shared_nbytes - own)

    # ---- the policies
    def _obstacle(self, examined: ExaminedStages, start: int, group: range, later: int) -> str:
        """Returns why a stage does not join the group before it, or an empty text; both count from ``start``."""
        if self._limits.eager:
            return ""
        lanes, most_lanes = prod(examined.workgroup), self._limits.most_lanes
        if lanes > most_lanes:
            return f"workgroups of {lanes} lanes exceed {most_lanes}"
        shared = sum(examined.stages[number].shared_nbytes for number in (*group, later))
        if shared > self._limits.shared_nbytes:
            return f"{shared} bytes of shared memory exceed {self._limits.shared_nbytes}"
        numbers = _numbers(examined)
        read, written = _touched(use for number in group for use in examined.stages[number].uses)
        read_later, written_later = _touched(examined.stages[later].uses)
        conflicting = sorted(written & (read_later | written_later) | read & written_later, key=numbers.__getitem__)
        if written & read_later:
            wide = [each for each in conflicting if _is_wide(examined, group, later, each)]
            if wide and not self._limits.grid_barriers:
                return f"array {numbers[wide[0]]} is shared between workgroups; only a launch boundary orders them"
            return ""
        if conflicting:
            overwritten = [numbers[each] for each in conflicting[:4]]
            return f"stage {start + later} overwrites array(s) {overwritten} of the stages before"
        cost = min(self._cost_ns(examined, number) for number in (later, *group))
        if cost > 50 * self._limits.launch_ns:
            return f"stage {start + later} takes nothing from the stages before, and sharing a launch would save little"
        return ""

    def _dataflow_inputs(self, examined: ExaminedStages, start: int) -> DataflowInputs:
        numbers = _numbers(examined)
        sizes: dict[int, int] = {}
        stages: list[DataflowStage] = []
        for later, facts in enumerate(examined.stages):
            uses: dict[int, BufferUse] = {}
            for use in facts.uses:
                number = numbers[use.identity]
                sizes[number] = max(sizes.get(number, 0), use.nbytes)
                widest = max(
                    (
                        _RELATIONS[examined.relations[earlier, later][use.identity]]
                        for earlier in range(later)
                        if use.identity in examined.relations.get((earlier, later), {})
                    ),
                    key=list(AccessRelation).index,
                    default=AccessRelation.POINTWISE,
                )
                mode = AccessMode.READ
                if use.writes:
                    mode = AccessMode.WRITE if use.replaces and not use.reads else AccessMode.READ_WRITE
                if number in uses and uses[number].mode is not mode:
                    mode = AccessMode.READ_WRITE
                uses[number] = BufferUse(number, mode, widest)
            stages.append(DataflowStage(start + later, 0, 0, False, tuple(uses.values())))
        used = {numbers[identity] for identity, users in self._users.items() if identity in numbers and users}
        inside = range(start, start + len(stages))
        kept = {
            number
            for identity, number in numbers.items()
            if number not in used or not all(user in inside for user in self._users[identity])
        }
        buffers = tuple(StageBuffer(number, sizes[number], number in kept) for number in sorted(sizes))
        return DataflowInputs(tuple(stages), buffers, self._limits.most_nbytes, self._limits.grid_barriers)

    def _cost_ns(self, examined: ExaminedStages, number: int) -> float:
        """Returns the time of a stage as its traffic has it."""
        uses = examined.stages[number].uses
        return sum(use.nbytes * (use.reads + use.writes) for use in uses) / self._limits.bytes_per_ns


def _numbers(examined: ExaminedStages) -> dict[Hashable, int]:
    numbers: dict[Hashable, int] = {}
    for facts in examined.stages:
        for use in facts.uses:
            numbers.setdefault(use.identity, len(numbers))
    return numbers


def _touched(uses: Iterable[ArrayUse]) -> tuple[set[Hashable], set[Hashable]]:
    """Returns the arrays that are read, and those that are written."""
    used = tuple(uses)
    return {use.identity for use in used if use.reads}, {use.identity for use in used if use.writes}


def _is_wide(examined: ExaminedStages, group: range, later: int, array: Hashable) -> bool:
    """Returns whether lanes of several workgroups may access an array in a stage and in those before it."""
    relations = [examined.relations.get((earlier, later), {}) for earlier in group]
    barriers = [relation[array] for relation in relations if array in relation]
    return not barriers or StageBarrier.GRID in barriers
