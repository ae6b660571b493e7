"""How does the host read back many small results: in one slab of packed records instead of a copy for each?

Units: bytes in 64 bits; a figure that exceeds them raises ``PlanError`` and never wraps.  All plans pack alike: records
ascend by slot, each begins at the next multiple of ``alignment`` after the one before it, and empty results take no
space.  ``plan_results`` packs result slots and leaves the large ones to copies of their own.  O(n log n).

vyre-driver has this one.  It needs lengths that only the kernel knows, so it can report what was read and not what to
allocate.
``plan_slab`` is for the time before the launch: it takes the most that each producer may leave, budgets the memory on
the device, and returns how many copies the host will need, whatever the lengths turn out to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Final, NamedTuple, TypeAlias

from vyre.domain.errors import PlanError
from vyre.policies.arith import BPS, U32_MAX, ceil_div, ratio
from vyre.policies.record import U32, U64, U64_MAX, IntRange, Reason, checked_u64, record, verdict, why_field

Alignment: TypeAlias = Annotated[int, IntRange(1, U64_MAX)]
"""The number of bytes of which every offset is a multiple; 1 packs densely."""


class _Place(NamedTuple):
    key: int
    offset: int
    size: int


def _packed(sizes: Iterable[tuple[int, int]], alignment: int) -> tuple[list[_Place], int]:
    """Returns the places of the records that are not empty, by ascending key, and the bytes up to the end of
    the last.
    """
    places, end = [], 0
    for key, size in sorted(sizes):
        if size:
            offset = _aligned(end, alignment)
            end = checked_u64(offset + size, "compact bytes")
            places.append(_Place(key, offset, size))
    return places, end


def _aligned(end: int, alignment: int) -> int:
    return (ceil_div(end, alignment) or 0) * alignment


@record
class ResultSlot:
    """A result that wrote ``meaningful_bytes`` of its buffer."""

    slot: U32
    meaningful_bytes: U64
    capacity_bytes: U64


@record
class ResultInputs:
    """Results; those longer than ``max_compact_record_bytes`` are copied on their own."""

    slots: tuple[ResultSlot, ...]
    max_compact_record_bytes: U64
    alignment: Alignment = 1


@verdict
class CompactRecord:
    """The bytes of a slot, at an offset of the slab."""

    slot: int
    compact_offset: int
    bytes: int


@verdict
class ResultPlan:
    """Slab records and slots with a copy of their own, both ascending; figures are bytes of copies to the host.

    ``avoided_readback_bytes`` is the size of all buffers less the bytes that are read.
    """

    compact_records: tuple[CompactRecord, ...]
    direct_slots: tuple[int, ...]
    full_capacity_bytes: int
    compact_bytes: int
    direct_bytes: int
    selected_readback_bytes: int
    avoided_readback_bytes: int
    avoided_readback_basis_points: int
    why: Reason = why_field()


def plan_results(inputs: ResultInputs) -> ResultPlan:
    """Packs short results, copies long ones separately, and skips empty ones.

    Raises ``PlanError``: ``DuplicateSlot``, ``MeaningfulExceedsCapacity``, ``ByteCountOverflow``.
    """
    full = _capacity_of(inputs.slots)
    limit = inputs.max_compact_record_bytes
    small = ((s.slot, s.meaningful_bytes) for s in inputs.slots if s.meaningful_bytes <= limit)
    places, compact = _packed(small, inputs.alignment)
    large = sorted((s.slot, s.meaningful_bytes) for s in inputs.slots if s.meaningful_bytes > limit)
    direct = sum(size for _, size in large)
    selected = checked_u64(compact + direct, "selected readback bytes")
    avoided = max(full - selected, 0)
    return ResultPlan(
        compact_records=tuple(CompactRecord(*place) for place in places),
        direct_slots=tuple(slot for slot, _ in large),
        full_capacity_bytes=full,
        compact_bytes=compact,
        direct_bytes=direct,
        selected_readback_bytes=selected,
        avoided_readback_bytes=avoided,
        avoided_readback_basis_points=ratio(avoided, full, BPS, if_zero=0, cap=U32_MAX),
        why=Reason(
            "{} results share a copy, {} have their own: {} of {} bytes", (len(places), len(large), selected, full)
        ),
    )


def _capacity_of(slots: Iterable[ResultSlot]) -> int:
    seen: set[int] = set()
    full = 0
    for s in slots:
        if s.slot in seen:
            raise PlanError("DuplicateSlot", slot=s.slot)
        seen.add(s.slot)
        if s.meaningful_bytes > s.capacity_bytes:
            raise PlanError(
                "MeaningfulExceedsCapacity",
                slot=s.slot,
                meaningful_bytes=s.meaningful_bytes,
                capacity_bytes=s.capacity_bytes,
            )
        full = checked_u64(full + s.capacity_bytes, "full capacity bytes")
    return full


@record
class SlabInputs:
    """The most bytes that each producer may leave, by its slot.

    That is ``min(capacity, max_compact_record_bytes)`` of a result, and ``min(candidates, max_records_per_shard) *
    diagnostic_record_bytes`` of a shard.  ``header_bytes`` hold the lengths and counts that the host needs to unpack
    the slab; they precede it.
    """

    capacities: tuple[U64, ...]
    header_bytes: U64


@record
class SlabThresholds:
    """``first_chunk_bytes`` is the size up to which a copy costs hardly more than one of the header."""

    alignment: Alignment = 16
    first_chunk_bytes: U64 = 64 * 1024


class SlabReadback(Enum):
    """Header and slab are read in one copy, or the header first and then exactly the bytes that it lists."""

    ONE_COPY = "one_copy"
    HEADER_FIRST = "header_first"


@verdict
class SlabPlan:
    """Memory on the device: the header, then the slab; ``copies`` is the most that reading both takes."""

    slab_offset: int
    slab_bytes: int
    resident_bytes: int
    readback: SlabReadback
    copies: int
    why: Reason = why_field()


DEFAULT_SLAB: Final = SlabThresholds()


def plan_slab(inputs: SlabInputs, thresholds: SlabThresholds = DEFAULT_SLAB) -> SlabPlan:
    """Returns the memory for records of any lengths up to the capacities, packed with the same alignment.  O(n).

    Kernels pack by numbers of 32 bits, so that more bytes are over the budget.

    Raises ``PlanError``: ``OverBudget``, ``ByteCountOverflow``.
    """
    alignment = thresholds.alignment
    slab = checked_u64(sum(_aligned(capacity, alignment) for capacity in inputs.capacities), "slab bytes")
    offset = _aligned(inputs.header_bytes, alignment)
    resident = checked_u64(offset + slab, "resident bytes")
    if resident > U32_MAX:
        raise PlanError("OverBudget", required_bytes=resident, budget_bytes=U32_MAX)
    at_once = resident <= thresholds.first_chunk_bytes or slab == 0
    return SlabPlan(
        slab_offset=offset,
        slab_bytes=slab,
        resident_bytes=resident,
        readback=SlabReadback.ONE_COPY if at_once else SlabReadback.HEADER_FIRST,
        copies=1 if at_once else 2,
        why=Reason("header and slab take {} bytes, a first copy {}", (resident, thresholds.first_chunk_bytes)),
    )
