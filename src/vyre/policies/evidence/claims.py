"""When may we say "the resident megakernel is X times faster"?

Units: nanoseconds; a speed-up is host-orchestrated time over resident time.  Rule: every sample must come from a large
enough device and graph, repeat it, have no pollution in its timed region, and reach the required factor; ``validate``
checks this.  O(samples).

vyre-driver has the same gate, with two weaknesses: a sample is two totals without spread, and the samples that it makes
of session plans have pollution counters of zero, so that their check cannot fail.  ``sample_from_session`` takes
measured counters only, and ``claim_from_repetitions`` judges raw interleaved repetitions: the claim is the median of
the paired ratios, and its distribution-free lower confidence bound must exceed the requirement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from decimal import Decimal
from statistics import median
from typing import Annotated, Final, get_type_hints

from vyre.domain.errors import PlanError
from vyre.policies.record import U32, U64, U64_MAX, Count, IntRange, Reason, record, verdict, why_field
from vyre.policies.transfer.residency import SessionPlan


@record
class SpeedupSample:
    """One comparison on one device; the times are totals over ``repetitions`` and exclude ``setup_ns``.

    ``timed_*`` and ``resident_borrowed_fallback_dispatches`` count events that must not happen in the timed region.
    """

    backend_id: str
    device_ordinal: U64
    device_memory_bytes: U64
    compute_capability_major: U32
    compute_capability_minor: U32
    graph_nodes: U64
    graph_edges: U64
    repetitions: U64
    host_orchestrated_ns: float
    resident_megakernel_ns: float
    setup_ns: float
    timed_graph_uploads: U64
    timed_host_allocations: U64
    timed_host_syncs: U64
    resident_borrowed_fallback_dispatches: U64


@record
class GateThresholds:
    """The least evidence that is accepted.

    ``max_timed_host_syncs`` is 0, as in vyre-driver, although reading a clock needs one.
    """

    backend_id: str = "cuda"
    min_device_memory_bytes: U64 = 16 * 2**30
    min_compute_capability: tuple[U32, U32] = (8, 0)
    min_graph_nodes: U64 = 10_000
    min_graph_edges: U64 = 80_000
    min_repetitions: U64 = 64
    min_samples: Count = 2
    max_timed_host_syncs: U64 = 0


@record
class GateInputs:
    """The samples, and the speed-up that each of them must reach."""

    samples: tuple[SpeedupSample, ...]
    required_speedup_x: float


@verdict
class SpeedupEvidence:
    """The least and the greatest speed-up of the samples, and their number."""

    min_speedup_x: float
    max_speedup_x: float
    sample_count: int
    total_repetitions: int


DEFAULT_THRESHOLDS: Final = GateThresholds()


def validate(inputs: GateInputs, thresholds: GateThresholds = DEFAULT_THRESHOLDS) -> SpeedupEvidence:
    """Returns the evidence if every sample passes the gate.

    Raises ``PlanError`` naming the first sample that does not pass.
    """
    if not inputs.samples:
        raise PlanError("EmptySamples")
    return _judge(inputs.samples, _required(inputs.required_speedup_x), thresholds)


def _judge(samples: Iterable[SpeedupSample], required: float, thresholds: GateThresholds) -> SpeedupEvidence:
    """Returns the evidence of samples; each is judged and counted before the next is taken."""
    speedups, repetitions = [], 0
    for index, sample in enumerate(samples):
        speedups.append(_speedup(index, sample, required, thresholds))
        repetitions += sample.repetitions
        if repetitions > U64_MAX:
            raise PlanError("RepetitionCountOverflow", index=index)
    if not speedups or len(speedups) < thresholds.min_samples:
        raise PlanError("InsufficientSampleCount", sample_count=len(speedups))
    return SpeedupEvidence(min(speedups), max(speedups), len(speedups), repetitions)


def _required(speedup: float) -> float:
    if not math.isfinite(speedup) or speedup <= 0:
        raise PlanError("InvalidRequiredSpeedup", required_x=speedup)
    return speedup


def _speedup(index: int, s: SpeedupSample, required: float, t: GateThresholds) -> float:
    """Returns the speed-up of one sample after checking it in the order of the gate."""
    capability = (s.compute_capability_major, s.compute_capability_minor)
    if s.backend_id != t.backend_id:
        raise PlanError("NonCudaEvidence", index=index, backend_id=s.backend_id)
    if s.device_memory_bytes < t.min_device_memory_bytes or capability < t.min_compute_capability:
        raise PlanError(
            "InsufficientCudaDevice",
            index=index,
            device_memory_bytes=s.device_memory_bytes,
            compute_capability_major=s.compute_capability_major,
            compute_capability_minor=s.compute_capability_minor,
        )
    if s.graph_nodes == 0 or s.graph_edges == 0 or s.repetitions <= 1:
        raise PlanError("NotRepeatedFixedGraph", index=index)
    if s.graph_nodes < t.min_graph_nodes or s.graph_edges < t.min_graph_edges or s.repetitions < t.min_repetitions:
        raise PlanError(
            "InsufficientScale",
            index=index,
            graph_nodes=s.graph_nodes,
            graph_edges=s.graph_edges,
            repetitions=s.repetitions,
        )
    if (
        s.timed_graph_uploads
        or s.timed_host_allocations
        or s.timed_host_syncs > t.max_timed_host_syncs
        or s.resident_borrowed_fallback_dispatches
    ):
        raise PlanError(
            "PollutedTimedRegion",
            index=index,
            graph_uploads=s.timed_graph_uploads,
            host_allocations=s.timed_host_allocations,
            host_syncs=s.timed_host_syncs,
            borrowed_fallback_dispatches=s.resident_borrowed_fallback_dispatches,
        )
    times = (s.host_orchestrated_ns, s.resident_megakernel_ns, s.setup_ns)
    if not all(map(math.isfinite, times)) or times[0] <= 0 or times[1] <= 0 or times[2] < 0:
        raise PlanError("InvalidTiming", index=index)
    speedup = s.host_orchestrated_ns / s.resident_megakernel_ns
    if speedup < required:
        raise PlanError("SpeedupBelowThreshold", index=index, observed_x=speedup, required_x=required)
    return speedup


COLUMNS: Final = tuple(f.name for f in fields(SpeedupSample))
"""Names of the columns of the CSV form."""
HEADER: Final = ",".join(COLUMNS)
"""First line of the CSV form."""
_FLOATS: Final = frozenset(name for name, hint in get_type_hints(SpeedupSample).items() if hint is float)
_INTEGER: Final = re.compile(r"\+?0*([0-9]{1,20})")


def format_csv(inputs: GateInputs, thresholds: GateThresholds = DEFAULT_THRESHOLDS) -> str:
    """Returns the samples as CSV with a header and numbers as plain decimals; raises like ``validate``."""
    validate(inputs, thresholds)
    rows = (",".join(_plain(getattr(sample, name)) for name in COLUMNS) for sample in inputs.samples)
    return "\n".join((HEADER, *rows)) + "\n"


def parse_csv(text: str, required_speedup_x: float, thresholds: GateThresholds = DEFAULT_THRESHOLDS) -> SpeedupEvidence:
    """Parses and judges the output of ``format_csv``; blank lines and spaces around fields are ignored.

    Each row is judged before the next is read.  ``line`` in errors counts the lines that are not blank, from 1.

    Raises ``PlanError``: ``EmptySamples`` for a text without any line, ``InvalidEvidenceHeader`` with the first line as
    ``observed``, ``InvalidEvidenceRow`` for a wrong number of cells, ``InvalidEvidenceValue``, and the errors of
    ``validate``.  A header without rows is evidence with too few samples, ``InsufficientSampleCount``.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise PlanError("EmptySamples")
    if lines[0].strip() != HEADER:
        raise PlanError("InvalidEvidenceHeader", fix=f"begin with the line {HEADER}.", observed=lines[0])
    return _judge(_rows(lines[1:], thresholds), _required(required_speedup_x), thresholds)


def _rows(lines: list[str], thresholds: GateThresholds) -> Iterator[SpeedupSample]:
    for number, line in enumerate(lines, 2):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(COLUMNS):
            raise PlanError("InvalidEvidenceRow", line=number)
        values: dict[str, object] = {}
        for name, cell in zip(COLUMNS, cells, strict=True):
            values[name] = _value(name, cell, thresholds)
            if values[name] is None:
                raise PlanError("InvalidEvidenceValue", line=number, field=name, value=cell)
        yield SpeedupSample(**values)  # type: ignore[arg-type]


def _value(name: str, cell: str, thresholds: GateThresholds) -> str | int | float | None:
    """Returns the value of a cell, or None if the column has no such value."""
    if name == "backend_id":
        return cell if cell == thresholds.backend_id else None
    if name in _FLOATS:
        try:
            return float(cell) if cell.isascii() and "_" not in cell else None
        except ValueError:
            return None
    bits = 32 if name in _NARROW else 64
    found = _INTEGER.fullmatch(cell)
    return int(found[1]) if found and int(found[1]) < 2**bits else None


_NARROW: Final = frozenset({"compute_capability_major", "compute_capability_minor"})


def _plain(value: str | int | float) -> str:
    """Returns a number without exponent and without ``.0``."""
    if not isinstance(value, float):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    return text.removesuffix(".0")


@record
class MeasuredSession:
    """A session as it ran: device, graph, both times, and telemetry counters over the timed region."""

    backend_id: str
    device_ordinal: U64
    device_memory_bytes: U64
    compute_capability_major: U32
    compute_capability_minor: U32
    graph_nodes: U64
    graph_edges: U64
    host_orchestrated_ns: float
    resident_megakernel_ns: float
    setup_ns: float
    timed_graph_uploads: U64
    timed_host_allocations: U64
    timed_host_syncs: U64
    resident_borrowed_fallback_dispatches: U64


def sample_from_session(plan: SessionPlan, measured: MeasuredSession) -> SpeedupSample:
    """Returns the sample of a session: repetitions from its plan, all other fields as measured."""
    seen = {f.name: getattr(measured, f.name) for f in fields(measured)}
    return SpeedupSample(repetitions=plan.avoided_host_fences + 1, **seen)


@record
class RepetitionInputs:
    """Times of interleaved repetitions: the i-th of both sides ran next to each other."""

    host_orchestrated_ns: tuple[float, ...]
    resident_megakernel_ns: tuple[float, ...]
    required_speedup_x: float


@record
class ClaimThresholds:
    """``error_ppm`` is the chance in a million that the true median is below the bound."""

    error_ppm: Annotated[int, IntRange(0, 1_000_000)] = 25_000


@verdict
class SpeedupClaim:
    """``lower_bound_x`` is None when there are too few repetitions for any bound."""

    supported: bool
    median_speedup_x: float
    lower_bound_x: float | None
    why: Reason = why_field()


DEFAULT_CLAIM: Final = ClaimThresholds()


def claim_from_repetitions(inputs: RepetitionInputs, thresholds: ClaimThresholds = DEFAULT_CLAIM) -> SpeedupClaim:
    """Judges whether the median speed-up exceeds the requirement.

    The bound is the k-th smallest ratio, k being the largest number with ``P(Binomial(n, 1/2) < k) <= error``.  It
    holds for any distribution of times.  O(n log n).
    """
    required = _required(inputs.required_speedup_x)
    host, resident = inputs.host_orchestrated_ns, inputs.resident_megakernel_ns
    if len(host) != len(resident):
        raise PlanError("RepetitionCountMismatch", host=len(host), resident=len(resident))
    if not host:
        raise PlanError("EmptySamples")
    pairs = list(zip(host, resident, strict=True))
    for index, pair in enumerate(pairs):
        if not all(math.isfinite(t) and t > 0 for t in pair):
            raise PlanError("InvalidTiming", index=index)
    ratios = sorted(h / r for h, r in pairs)
    middle, rank = median(ratios), _bound_rank(len(ratios), thresholds.error_ppm)
    if rank == 0:
        return SpeedupClaim(False, middle, None, Reason("{} repetitions are too few for a bound", (len(ratios),)))
    bound = ratios[rank - 1]
    return SpeedupClaim(
        bound > required, middle, bound, Reason("the median is at least {:.3f}; {} is required", (bound, required))
    )


def _bound_rank(n: int, error_ppm: int) -> int:
    """Returns the largest k with ``P(Binomial(n, 1/2) < k) <= error``, computed exactly."""
    tail, rank = 1, 0
    while rank < n and tail * 1_000_000 <= error_ppm * 2**n:
        rank += 1
        tail += math.comb(n, rank)
    return rank
