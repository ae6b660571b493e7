"""How does the host read back many small results: in one slab of packed records instead of a copy for each?

Units: bytes in 64 bits; a figure that exceeds them raises ``PlanError`` and never wraps.  All plans pack alike: records
ascend by slot or shard, each begins at the next multiple of ``alignment`` after the one before it, and empty results
take no space.  ``plan_results`` packs result slots and leaves the large ones to copies of their own;
``plan_diagnostics`` packs capped lists of diagnostics.  O(n log n).

vyre-driver has these two.  Both need lengths that only the kernel knows, so they can report what was read and not what
to allocate; and the budget of the diagnostics, meant for the device, is compared with the bytes that the host reads.
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
class DiagnosticShard:
    """A part of the work: ``emitted_diagnostics`` of its ``candidate_items`` have a record.

    Without records the host would read all candidates, ``raw_item_bytes`` each.  It reads ``counter_bytes`` in either
    case.
    """

    shard: U32
    candidate_items: U64
    emitted_diagnostics: U64
    raw_item_bytes: U64
    diagnostic_record_bytes: U64
    counter_bytes: U64
    severity_mask: U32


@record
class DiagnosticInputs:
    """Shards, of each of which at most ``max_records_per_shard`` are read; ``budget_bytes`` limits the bytes that the
    host reads.
    """

    shards: tuple[DiagnosticShard, ...]
    max_records_per_shard: U64
    budget_bytes: U64
    alignment: Alignment = 1


@verdict
class CompactRange:
    """The records of a shard, at an offset of the slab."""

    shard: int
    compact_offset: int
    records: int
    bytes: int


@verdict
class DiagnosticPlan:
    """Ranges by ascending shard; ``overflow_records`` were emitted and exceed the cap.

    ``compression_ratio_bps`` is the number of bytes read over the bytes of all candidates.
    """

    compact_ranges: tuple[CompactRange, ...]
    counter_readback_bytes: int
    compact_readback_bytes: int
    host_readback_bytes: int
    raw_candidate_readback_bytes: int
    avoided_readback_bytes: int
    compression_ratio_bps: int
    overflow_records: int
    requires_overflow_flag: bool
    requires_device_prefix_scan: bool
    final_only_host_readback: bool = True
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether some records exceed the cap, for telemetry."""
        return "overflow" if self.overflow_records else "complete"


def plan_diagnostics(inputs: DiagnosticInputs) -> DiagnosticPlan:
    """Packs the first diagnostics of every shard that has any.

    Raises ``PlanError``: ``ZeroRecordCap``, ``DuplicateShard``, ``ZeroRawItemBytes``, ``EmittedExceedsCandidates``,
    ``ZeroDiagnosticRecordBytes``, ``MissingSeverityMask``, ``ByteCountOverflow``, ``OverBudget``.
    """
    cap = inputs.max_records_per_shard
    if cap == 0:
        raise PlanError("ZeroRecordCap")
    raw, counters = _check_shards(inputs.shards)
    records = {s.shard: min(s.emitted_diagnostics, cap) for s in inputs.shards}
    sizes = ((s.shard, records[s.shard] * s.diagnostic_record_bytes) for s in inputs.shards)
    places, compact = _packed(sizes, inputs.alignment)
    overflow = sum(s.emitted_diagnostics - records[s.shard] for s in inputs.shards)
    host = checked_u64(counters + compact, "host readback bytes")
    if host > inputs.budget_bytes:
        raise PlanError("OverBudget", required_bytes=host, budget_bytes=inputs.budget_bytes)
    return DiagnosticPlan(
        compact_ranges=tuple(CompactRange(key, offset, records[key], size) for key, offset, size in places),
        counter_readback_bytes=counters,
        compact_readback_bytes=compact,
        host_readback_bytes=host,
        raw_candidate_readback_bytes=raw,
        avoided_readback_bytes=max(raw - host, 0),
        compression_ratio_bps=ratio(host, raw, BPS, if_zero=0, cap=U32_MAX),
        overflow_records=overflow,
        requires_overflow_flag=overflow > 0,
        requires_device_prefix_scan=len(places) > 1,
        why=Reason("{} bytes instead of {}; {} diagnostics are only counted", (host, raw, overflow)),
    )


def _check_shards(shards: Iterable[DiagnosticShard]) -> tuple[int, int]:
    """Returns the bytes of all candidates and of all counters."""
    seen: set[int] = set()
    raw = counters = 0
    for s in shards:
        if s.shard in seen:
            raise PlanError("DuplicateShard", shard=s.shard)
        seen.add(s.shard)
        if s.raw_item_bytes == 0:
            raise PlanError("ZeroRawItemBytes", shard=s.shard)
        if s.emitted_diagnostics > s.candidate_items:
            raise PlanError(
                "EmittedExceedsCandidates",
                shard=s.shard,
                emitted_diagnostics=s.emitted_diagnostics,
                candidate_items=s.candidate_items,
            )
        if s.emitted_diagnostics and s.diagnostic_record_bytes == 0:
            raise PlanError("ZeroDiagnosticRecordBytes", shard=s.shard)
        if s.emitted_diagnostics and s.severity_mask == 0:
            raise PlanError("MissingSeverityMask", shard=s.shard)
        raw = checked_u64(raw + s.candidate_items * s.raw_item_bytes, "raw candidate readback bytes")
        counters = checked_u64(counters + s.counter_bytes, "counter readback bytes")
    return raw, counters


@record
class SlabInputs:
    """The most bytes that each producer may leave, by its slot.

    That is ``min(capacity, max_compact_record_bytes)`` of a result, and ``min(candidates, max_records_per_shard) *
    diagnostic_record_bytes`` of a shard.  ``header_bytes`` hold the lengths and counts that the host needs to unpack
    the slab; they precede it.
    """

    capacities: tuple[U64, ...]
    header_bytes: U64
    budget_bytes: U64


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

    Raises ``PlanError``: ``OverBudget``, ``ByteCountOverflow``.
    """
    alignment = thresholds.alignment
    slab = checked_u64(sum(_aligned(capacity, alignment) for capacity in inputs.capacities), "slab bytes")
    offset = _aligned(inputs.header_bytes, alignment)
    resident = checked_u64(offset + slab, "resident bytes")
    if resident > inputs.budget_bytes:
        raise PlanError("OverBudget", required_bytes=resident, budget_bytes=inputs.budget_bytes)
    at_once = resident <= thresholds.first_chunk_bytes or slab == 0
    return SlabPlan(
        slab_offset=offset,
        slab_bytes=slab,
        resident_bytes=resident,
        readback=SlabReadback.ONE_COPY if at_once else SlabReadback.HEADER_FIRST,
        copies=1 if at_once else 2,
        why=Reason("header and slab take {} bytes, a first copy {}", (resident, thresholds.first_chunk_bytes)),
    )
