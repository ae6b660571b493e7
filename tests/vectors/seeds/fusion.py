"""May a consumer kernel be stitched onto its producer?

Rule, in this order: the workgroup sizes are equal and within the device's lanes; the shared memory of both is within
the budget; no fused intermediate is consumed elsewhere; there is at least one intermediate.  O(inputs + outputs) with
sets.

vyre-driver has this rule, which does not consider *how* the consumer reads the intermediate.  A consumer that reads
elements other lanes wrote needs a barrier, one that reads elements other workgroups wrote needs a launch boundary; and
a consumer that overwrites what the producer reads races with it.  Nor does a name say where a buffer lies: two names
may be one buffer.  ``FusionHazards`` supplies those facts, and ``hazards`` finds by resource and byte what the kernels
share; without them, which is the default, the rule above decides alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from vectors.seeds.intervals import check_intervals
from vyre.policies.concurrency.hazards import WHOLE, Access, AccessMode, Interval, conflicts
from vyre.policies.record import U32, U64, Reason, record, verdict, why_field
from vyre.policies.stage_fusion.launch_fusion import AccessRelation

Dim3: TypeAlias = tuple[U32, U32, U32]


@record
class FusionCaps:
    """The limits of the device."""

    max_shared_memory_bytes: U32
    max_invocations_per_workgroup: U32


CONSERVATIVE_CAPS: Final = FusionCaps(16_384, 256)
HIGH_END_CAPS: Final = FusionCaps(131_072, 1_024)


@record
class KernelShape:
    """Launch shape of one kernel and the names of the buffers that it reads and writes."""

    workgroup_size: Dim3
    shared_memory_bytes: U32
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@record
class BufferRelation:
    """The access relation of a buffer."""

    buffer: str
    relation: AccessRelation


@record
class BufferPlace:
    """The resource in which ``buffer`` lies, and the bytes of it that each kernel accesses."""

    buffer: str
    resource: U64
    upstream: tuple[Interval, ...] = WHOLE
    downstream: tuple[Interval, ...] = WHOLE

    def __post_init__(self) -> None:
        check_intervals("BufferPlace", "upstream", self.upstream)
        check_intervals("BufferPlace", "downstream", self.downstream)


@record
class FusionHazards:
    """Facts that make the decision sound: the access relation of each intermediate; one that is not listed counts as
    GLOBAL.

    A buffer without a place is a resource of its own.  Two names for shared bytes count as GLOBAL.
    """

    relations: tuple[BufferRelation, ...]
    places: tuple[BufferPlace, ...] = ()


@record
class FusionInputs:
    """Two kernels; ``other_consumers`` are the names of buffers that kernels other than ``downstream`` read."""

    upstream: KernelShape
    downstream: KernelShape
    caps: FusionCaps
    other_consumers: tuple[str, ...] = ()
    hazards: FusionHazards | None = None


@verdict
class Accept:
    """The kernels may be fused; with ``needs_barrier``, a workgroup barrier goes between the two bodies."""

    needs_barrier: bool = False
    why: Reason = why_field()


@verdict
class WorkgroupSizeMismatch:
    """The workgroup sizes differ or exceed the device's lanes."""

    upstream: tuple[int, int, int]
    downstream: tuple[int, int, int]
    why: Reason = why_field()


@verdict
class SharedMemoryBudget:
    """The kernels need more bytes of shared memory than the device has."""

    needed: int
    cap: int
    why: Reason = why_field()


@verdict
class OutputConsumedElsewhere:
    """Another kernel reads an intermediate."""

    why: Reason = why_field()


@verdict
class NoPipelineDependency:
    """The consumer reads nothing that the producer writes."""

    why: Reason = why_field()


@verdict
class CrossWorkgroupDependency:
    """``buffer`` carries values between workgroups, or is overwritten while other lanes still read it."""

    buffer: str
    why: Reason = why_field()


FusionVerdict: TypeAlias = (
    Accept
    | WorkgroupSizeMismatch
    | SharedMemoryBudget
    | OutputConsumedElsewhere
    | NoPipelineDependency
    | CrossWorkgroupDependency
)


def decide_fusion(inputs: FusionInputs) -> FusionVerdict:
    """Returns the first test that fails, or ``Accept``."""
    up, down, caps = inputs.upstream, inputs.downstream, inputs.caps
    x, y, z = up.workgroup_size
    if up.workgroup_size != down.workgroup_size or x * y * z > caps.max_invocations_per_workgroup:
        return WorkgroupSizeMismatch(
            up.workgroup_size,
            down.workgroup_size,
            Reason(
                "workgroups {} and {} must be equal and at most {} lanes",
                (up.workgroup_size, down.workgroup_size, caps.max_invocations_per_workgroup),
            ),
        )
    needed, cap = up.shared_memory_bytes + down.shared_memory_bytes, caps.max_shared_memory_bytes
    if needed > cap:
        return SharedMemoryBudget(needed, cap, Reason("{} bytes of shared memory exceed {}", (needed, cap)))
    fused = set(up.outputs) & set(down.inputs)
    elsewhere = fused & set(inputs.other_consumers)
    if elsewhere:
        return OutputConsumedElsewhere(Reason("others read {}", (sorted(elsewhere)[:4],)))
    if not fused:
        return NoPipelineDependency(Reason("the consumer reads nothing the producer writes"))
    return _check_hazards(inputs, fused)


def _check_hazards(inputs: FusionInputs, fused: set[str]) -> FusionVerdict:
    if inputs.hazards is None:
        return Accept(why=Reason("intermediates {} stay inside one kernel", (sorted(fused)[:4],)))
    relations = {r.buffer: r.relation for r in inputs.hazards.relations}
    needs_barrier = False
    for first, buffer in sorted(_shared(inputs.upstream, inputs.downstream, inputs.hazards.places)):
        relation = relations.get(buffer, AccessRelation.GLOBAL) if first == buffer else AccessRelation.GLOBAL
        if relation is AccessRelation.GLOBAL:
            return CrossWorkgroupDependency(
                buffer, Reason("{} is shared between workgroups; only a launch boundary orders them", (buffer,))
            )
        needs_barrier |= relation is AccessRelation.WORKGROUP
    template = "{} pass between lanes of one workgroup" if needs_barrier else "{} stay in the lane that wrote them"
    return Accept(needs_barrier, Reason(template, (sorted(fused)[:4],)))


def _shared(up: KernelShape, down: KernelShape, places: tuple[BufferPlace, ...]) -> set[tuple[str, str]]:
    """Returns the names in the two kernels whose accesses conflict."""
    known = {place.buffer: place for place in places}
    numbers: dict[str | int, int] = {}  # numbers of resources: of those with a place, and of names without one

    def accesses(shape: KernelShape, *, later: bool) -> Iterator[tuple[str, Access]]:
        for mode, names in ((AccessMode.READ, shape.inputs), (AccessMode.WRITE, shape.outputs)):
            for name in names:
                resource: str | int = name
                intervals = WHOLE
                if name in known:
                    place = known[name]
                    resource, intervals = place.resource, place.downstream if later else place.upstream
                yield name, Access(numbers.setdefault(resource, len(numbers)), mode, intervals)

    before, after = list(accesses(up, later=False)), list(accesses(down, later=True))
    found = conflicts([access for _, access in before], [access for _, access in after])
    return {(before[c.earlier][0], after[c.later][0]) for c in found}
