"""How does the host read back lists of diagnostics, of each of which it wants the first?

Units: bytes in 64 bits; a figure that exceeds them raises ``PlanError``.  Records ascend by shard, and each begins at
the next multiple of ``alignment``.  The budget, meant for the device, is compared with what the host reads.
"""

from __future__ import annotations

from collections.abc import Iterable

from vyre.domain.errors import PlanError
from vyre.policies.arith import BPS, U32_MAX, ratio
from vyre.policies.record import U32, U64, Reason, checked_u64, record, verdict, why_field
from vyre.policies.transfer.readback import Alignment, _packed


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
