"""The speed-up gate of vyre-driver, which only the vectors ask for; see ``vyre.policies.evidence.claims``.

Units: nanoseconds; a speed-up is host-orchestrated time over resident time.  Every sample must come from a large enough
device and graph, repeat it, have no pollution in its timed region, and reach the required factor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from decimal import Decimal
from typing import Final, get_type_hints

from vyre.domain.errors import PlanError
from vyre.policies.record import U32, U64, U64_MAX, Count, record, verdict


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
