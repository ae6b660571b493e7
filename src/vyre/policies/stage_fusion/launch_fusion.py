"""Which neighbouring stages run as one launch?

Units: bytes in 64 bits; a figure that exceeds them raises ``PlanError`` and never wraps.  Stages are taken in order.  A
stage joins the open launch unless its inputs come through the host, its layout differs, or the launch would need more
than ``max_group_bytes``; then it opens a launch of its own.

vyre-driver has this rule for a chain of which it knows the sizes alone.  Equal layouts do not say whether two stages
can be one kernel, inputs larger than the output before are not counted, and an intermediate is counted both as needed
and as avoided.  ``plan_dataflow`` is the same rule over the buffers that the stages read and write: a stage joins if
the executor can order it after the stages whose bytes it accesses, and a launch needs the buffers that it binds, each
once.  A stage marked ``requires_host_materialization`` waits for the host to supply its inputs, so the mark separates
it from the stage before and not from the one after; a result that is used later is a kept buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Final, Protocol

from vyre.domain.errors import PlanError
from vyre.policies.concurrency.hazards import Access, AccessMode, conflicts
from vyre.policies.record import U32, U64, Reason, checked_u64, record, verdict, why_field


class AccessRelation(Enum):
    """Which lanes wrote the elements that a lane of the consumer reads.

    ``POINTWISE``: the same lane.  ``WORKGROUP``: lanes of the same workgroup.  ``GLOBAL``: any lanes.
    """

    POINTWISE = "pointwise"
    WORKGROUP = "workgroup"
    GLOBAL = "global"


@record
class Stage:
    """One kernel of a sequence; ``requires_host_materialization`` says that its inputs come through the host."""

    id: U32
    layout_hash: U64
    scratch_bytes: U64
    requires_host_materialization: bool


@record
class BufferUse:
    """The access of a stage to a buffer; WRITE replaces all of its content.

    ``relation`` says which lanes accessed, in earlier stages, the bytes that a lane of this stage accesses; where
    several apply, it is the widest.
    """

    resource: U64
    mode: AccessMode
    relation: AccessRelation = AccessRelation.GLOBAL


@record
class DataflowStage(Stage):
    """A stage and its access to each of its buffers."""

    uses: tuple[BufferUse, ...]


@record
class StageBuffer:
    """``resource`` is the identity of a buffer; a ``kept`` one is read after the last stage."""

    resource: U64
    byte_len: U64
    kept: bool = False


@record
class DataflowInputs:
    """A sequence of stages.

    ``cooperative`` says that the executor can make all lanes of a launch wait for each other.
    """

    stages: tuple[DataflowStage, ...]
    buffers: tuple[StageBuffer, ...]
    max_group_bytes: U64
    cooperative: bool = False


@verdict
class LaunchGroup:
    """The stages of one launch, the bytes bound to it, and those of intermediates that it need not write out.

    ``why`` says what separates it from the launch before.
    """

    stage_ids: tuple[int, ...]
    layout_hash: int
    required_bytes: int
    avoided_intermediate_bytes: int
    why: Reason = why_field()


@verdict
class LaunchFusionPlan:
    """Launches in order, and their totals."""

    groups: tuple[LaunchGroup, ...]
    launch_count: int
    avoided_launches: int
    avoided_intermediate_bytes: int


@verdict
class GroupDataflow:
    """How a launch runs its stages.

    ``barriers`` says, for each stage except the first, among which lanes a barrier stands before it; POINTWISE is no
    barrier.  ``unallocated`` are the buffers that live in registers, ascending.
    """

    barriers: tuple[AccessRelation, ...]
    unallocated: tuple[int, ...]


@verdict
class DataflowPlan:
    """``dataflow`` has an entry for each launch; ``peak_bytes`` is the most that is allocated at any time.

    A buffer is alive from the launch that first writes it, or from the start if its content is older, until the last
    launch that uses it, or to the end if it is kept.
    """

    launches: LaunchFusionPlan
    dataflow: tuple[GroupDataflow, ...]
    peak_bytes: int

    @property
    def label(self) -> str:
        """Whether some launch has several stages, for telemetry."""
        return "some joined" if self.launches.avoided_launches else "all apart"


def plan_dataflow(inputs: DataflowInputs) -> DataflowPlan:
    """Returns the launches of stages, judged by the buffers that they read and write.

    An intermediate is avoided if its launch has all of its uses, the first of them replaces it, each later one is
    point-wise, and it is not kept: then every lane holds its own element.  Raises ``PlanError``: ``ZeroBudget``,
    ``DuplicateStage``, ``StageOverBudget``, ``ByteCountOverflow``, ``DuplicateBuffer``, ``UnknownBuffer``,
    ``DuplicateUse``.  O(uses + pairs of uses of a buffer in one launch).
    """
    rule = _Dataflow(inputs)
    groups = _cut(inputs.stages, inputs.max_group_bytes, rule)
    spans = [range(g.first, g.stop) for g in groups]
    dataflow = tuple(
        GroupDataflow(tuple(rule.barriers[s.start + 1 : s.stop]), tuple(sorted(rule.unallocated(s)))) for s in spans
    )
    return DataflowPlan(_plan_of(groups), dataflow, rule.peak_bytes(spans))


@dataclass(slots=True)
class _Group:
    """A launch that is still growing: the stages from ``first`` up to, not including, ``stop``."""

    stages: Sequence[Stage]
    first: int
    stop: int
    required: int
    avoided: int
    why: Reason


class _Rule(Protocol):
    """What is known of the stages; ``place`` is the position of a stage."""

    def added(self, first: int, place: int) -> int:
        """Returns the bytes that the stage adds to a launch that began with stage ``first``, at most ``place``.

        The number may be negative.
        """

    def avoided(self, first: int, place: int) -> int:
        """Returns the bytes of intermediates that need no memory when the stage joins the launch."""

    def obstacle(self, first: int, place: int) -> Reason | None:
        """Returns why the stage cannot be ordered after those before it in one launch, or None.

        Called for each stage in turn.
        """


def _cut(stages: Sequence[Stage], budget: int, rule: _Rule) -> list[_Group]:
    if budget == 0:
        raise PlanError("ZeroBudget")
    seen: set[int] = set()
    for stage in stages:
        if stage.id in seen:
            raise PlanError("DuplicateStage", id=stage.id)
        seen.add(stage.id)
    groups: list[_Group] = []
    for place, stage in enumerate(stages):
        why = _join(groups[-1], stage, budget, rule) if groups else Reason("the first stage")
        if why is None:
            continue
        required = checked_u64(rule.added(place, place), "stage bytes")
        if required > budget:
            raise PlanError("StageOverBudget", id=stage.id, required_bytes=required, budget_bytes=budget)
        groups.append(_Group(stages, place, place + 1, required, 0, why))
    return groups


def _join(group: _Group, stage: Stage, budget: int, rule: _Rule) -> Reason | None:
    """Adds the stage to the launch, or returns why it opens one of its own."""
    first, place = group.first, group.stop
    if stage.requires_host_materialization:
        return Reason("the inputs of stage {} come through the host", (stage.id,))
    if stage.layout_hash != group.stages[first].layout_hash:
        return Reason("stage {} has another layout", (stage.id,))
    obstacle = rule.obstacle(first, place)
    if obstacle is not None:
        return obstacle
    required = checked_u64(group.required + rule.added(first, place), "fused bytes")
    if required > budget:
        return Reason("with stage {} the launch would need {} of {} bytes", (stage.id, required, budget))
    group.stop, group.required = place + 1, required
    group.avoided += rule.avoided(first, place)
    return None


def _plan_of(groups: Sequence[_Group]) -> LaunchFusionPlan:
    launch_groups = tuple(
        LaunchGroup(
            stage_ids=tuple(stage.id for stage in g.stages[g.first : g.stop]),
            layout_hash=g.stages[g.first].layout_hash,
            required_bytes=g.required,
            avoided_intermediate_bytes=g.avoided,
            why=g.why,
        )
        for g in groups
    )
    stages = groups[-1].stop if groups else 0
    avoided = sum(g.avoided for g in groups)
    return LaunchFusionPlan(
        groups=launch_groups,
        launch_count=len(launch_groups),
        avoided_launches=stages - len(launch_groups),
        avoided_intermediate_bytes=checked_u64(avoided, "avoided intermediate bytes"),
    )


_WIDTH: Final = {relation: place for place, relation in enumerate(AccessRelation)}


@dataclass(slots=True)
class _Lifetime:
    """The stages that use a buffer, and whether a launch that has all of them needs no memory for it."""

    first: int
    last: int
    written_first: bool
    pointwise: bool


class _Dataflow:
    """The rule of a dataflow: buffers by identity; a launch binds each of them once."""

    def __init__(self, inputs: DataflowInputs) -> None:
        self._stages, self._cooperative = inputs.stages, inputs.cooperative
        self._buffers = _by_resource(inputs.buffers)
        self._lifetimes: dict[int, _Lifetime] = {}
        self._before: list[dict[int, int]] = [self._uses_before(*numbered) for numbered in enumerate(self._stages)]
        self._accesses = [[Access(use.resource, use.mode) for use in stage.uses] for stage in self._stages]
        self.barriers = [AccessRelation.POINTWISE] * len(self._stages)
        self._earlier: dict[int, list[tuple[int, Access]]] = {}
        self._ordered: dict[AccessRelation, int] = {}

    def _uses_before(self, place: int, stage: DataflowStage) -> dict[int, int]:
        """Returns for each buffer of a stage the last stage that used it before, or -1."""
        before: dict[int, int] = {}
        for use in stage.uses:
            if use.resource not in self._buffers:
                raise PlanError("UnknownBuffer", id=stage.id, resource=use.resource)
            if use.resource in before:
                raise PlanError("DuplicateUse", id=stage.id, resource=use.resource)
            known = self._lifetimes.get(use.resource)
            if known is None:
                before[use.resource] = -1
                self._lifetimes[use.resource] = _Lifetime(place, place, use.mode is AccessMode.WRITE, pointwise=True)
            else:
                before[use.resource] = known.last
                known.last = place
                known.pointwise &= use.relation is AccessRelation.POINTWISE
        return before

    def added(self, first: int, place: int) -> int:
        before = self._before[place]
        bound = sum(self._buffers[resource].byte_len for resource, last in before.items() if last < first)
        return self._stages[place].scratch_bytes + bound - self.avoided(first, place)

    def avoided(self, first: int, place: int) -> int:
        return sum(self._buffers[resource].byte_len for resource in self._ended(first, place))

    def _ended(self, first: int, place: int) -> Iterable[int]:
        """Yields the buffers that a launch from stage ``first`` on need not allocate and that this stage is the last to
        use.
        """
        for resource in self._before[place]:
            life = self._lifetimes[resource]
            private = life.written_first and life.pointwise and not self._buffers[resource].kept
            if private and first <= life.first < life.last == place:
                yield resource

    def unallocated(self, span: range) -> Iterable[int]:
        """Yields the buffers that a launch of these stages need not allocate."""
        return (resource for place in span for resource in self._ended(span.start, place))

    def obstacle(self, first: int, place: int) -> Reason | None:
        if place == first + 1:
            self._earlier = {access.resource: [(first, access)] for access in self._accesses[first]}
            self._ordered = dict.fromkeys(AccessRelation, first)
        stage, accesses = self._stages[place], self._accesses[place]
        earlier = [use for access in accesses for use in self._earlier.get(access.resource, ())]
        barrier = AccessRelation.POINTWISE
        for conflict in conflicts([access for _, access in earlier], accesses):
            relation = stage.uses[conflict.later].relation
            if earlier[conflict.earlier][0] < self._ordered[relation]:
                continue  # a barrier stands between the two already
            if relation is AccessRelation.GLOBAL and not self._cooperative:
                return Reason("stage {} shares buffer {} between workgroups", (stage.id, conflict.resource))
            barrier = max(barrier, relation, key=_WIDTH.__getitem__)
        self.barriers[place] = barrier
        for relation in AccessRelation:
            if _WIDTH[relation] <= _WIDTH[barrier]:
                self._ordered[relation] = place
        for access in accesses:
            self._earlier.setdefault(access.resource, []).append((place, access))
        return None

    def peak_bytes(self, spans: Sequence[range]) -> int:
        """Returns the largest sum, over the launches of these stages, of live buffers and scratch."""
        change = [0] * (len(spans) + 1)
        launch_of = [number for number, span in enumerate(spans) for _ in span]
        absent = {resource for span in spans for resource in self.unallocated(span)}
        for resource, life in self._lifetimes.items():
            if resource not in absent:
                size, kept = self._buffers[resource].byte_len, self._buffers[resource].kept
                change[launch_of[life.first] if life.written_first else 0] += size
                change[len(spans) if kept else launch_of[life.last] + 1] -= size
        for stage, number in zip(self._stages, launch_of, strict=True):
            change[number] += stage.scratch_bytes
            change[number + 1] -= stage.scratch_bytes
        return checked_u64(max(accumulate(change)), "peak bytes")


def _by_resource(buffers: Iterable[StageBuffer]) -> dict[int, StageBuffer]:
    known: dict[int, StageBuffer] = {}
    for buffer in buffers:
        if buffer.resource in known:
            raise PlanError("DuplicateBuffer", resource=buffer.resource)
        known[buffer.resource] = buffer
    return known
