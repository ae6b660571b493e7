"""What does a fused speculative dispatch report, and which of two variants was faster in one sample of each?

A fused dispatch reports how many items it committed and how many it rolled back, as two little-endian u32 at the end of
one output.  All O(1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from vectors.seeds.speculate import SpeculationReport, VariantRaceInputs
from vyre.domain.program_report import InvalidProgram
from vyre.policies.record import Count, Reason, record, verdict, why_field

TAIL_BYTES: Final = 8
"""Bytes of the two counters."""


def counter_tail(report: SpeculationReport) -> bytes:
    """Returns the eight bytes that ``parse_counter_tail`` reads."""
    return struct.pack("<II", report.committed, report.rolled_back)


def parse_counter_tail(output: bytes) -> SpeculationReport | None:
    """Returns the report in the last eight bytes.

    It is None unless the output consists of whole 32-bit words and has at least two of them.
    """
    if len(output) < TAIL_BYTES or len(output) % 4:
        return None
    return SpeculationReport(*struct.unpack("<II", output[-TAIL_BYTES:]))


@record
class CounterTail:
    """Which output of a fused program ends in the two counters; with ``strip``, callers see it without them."""

    output_index: Count
    strip: bool = True


class FusedResult(NamedTuple):
    """The report of a fused dispatch, and the outputs that callers see."""

    report: SpeculationReport
    outputs: tuple[bytes, ...]


def read_fused_result(outputs: Sequence[bytes], tail: CounterTail) -> FusedResult:
    """Returns the report of a fused dispatch and its outputs; raises ``InvalidProgram`` if there is no such report."""
    if tail.output_index >= len(outputs):
        raise InvalidProgram(
            f"a fused program reports in output {tail.output_index}, but has {len(outputs)} output(s)",
            fix="name the output whose last two u32 are the committed and rolled back counts.",
        )
    counted = outputs[tail.output_index]
    report = parse_counter_tail(counted)
    if report is None:
        raise InvalidProgram(
            f"output {tail.output_index} of a fused program has {len(counted)} bytes, which end in no two u32",
            fix="append the committed and rolled back counts as two u32 to an output of whole words.",
        )
    seen = list(outputs)
    if tail.strip:
        seen[tail.output_index] = counted[:-TAIL_BYTES]
    return FusedResult(report, tuple(seen))


class RaceWinner(Enum):
    """The faster variant of a race."""

    CONSERVATIVE = "conservative"
    SPECULATIVE = "speculative"


@verdict
class RaceResult:
    """The winner of a race; ``saved_ns`` is by how much it was faster."""

    winner: RaceWinner
    saved_ns: int
    why: Reason = why_field()


def race_variants(inputs: VariantRaceInputs) -> RaceResult:
    """Returns the faster variant, compile included; a tie goes to the conservative one."""
    conservative, speculative = inputs.conservative_total_ns, inputs.speculative_total_ns
    winner = RaceWinner.SPECULATIVE if speculative < conservative else RaceWinner.CONSERVATIVE
    return RaceResult(
        winner,
        abs(conservative - speculative),
        Reason("{} ns conservative, {} ns speculative, compiles included", (conservative, speculative)),
    )
