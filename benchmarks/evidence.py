"""The evidence of a suite: the samples of every row, and the claims that they support."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness import Metric, Outcome, Row
from benchmarks.machine import PACKAGES
from vyre.adapters.machine_facts import environment
from vyre.app.evidence.claims import JudgedClaim
from vyre.app.evidence.measuring import RUN, write_measurements
from vyre.domain.evidence.records import Measurement, Side, SpeedClaim

OURS: Final = "ours"
THEIRS: Final = "theirs"


def write_evidence(path: Path, outcomes: Sequence[Outcome]) -> tuple[JudgedClaim, ...]:
    """Writes the bundle of measured rows, and returns the verdicts on the claims of those that reach a number."""
    measurements = tuple(measurement(outcome) for outcome in outcomes if not outcome.missing)
    claims = [claim for outcome in outcomes for claim in claims_of(outcome)]
    return write_measurements(path, measurements, claims, packages=PACKAGES)


def measurement(outcome: Outcome, run: str = RUN) -> Measurement:
    """Returns the samples of a row as evidence."""
    here, row = environment(()), outcome.row
    device = f"{here.processor}, {here.cores} cores, {here.system}"
    sides = [Side(OURS, device, tuple(map(float, outcome.samples.ours)))]
    if outcome.samples.theirs:
        sides.append(Side(THEIRS, device, tuple(map(float, outcome.samples.theirs))))
    return Measurement(row.name, row.unit, row.scale, row.state, run, tuple(sides))


def claims_of(outcome: Outcome) -> Iterator[SpeedClaim]:
    """Yields the claim that a row reaches the number that its median reaches; none for rows without a rival."""
    bound = {"aim": outcome.row.aim, "required": outcome.row.required}.get(outcome.verdict)
    factor = None if bound is None else _factor(outcome.row, bound)
    if factor is not None:
        yield SpeedClaim(outcome.row.name, OURS, THEIRS, factor)


def _factor(row: Row, bound: float) -> float | None:
    """Returns the quotient of their time and ours that reaches the bound."""
    match row.metric:
        case Metric.RATIO:
            return row.scale / bound if bound > 0 else None
        case Metric.SPEEDUP:
            return bound / row.scale
        case Metric.COST | Metric.RATE:
            return None
