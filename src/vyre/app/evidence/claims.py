"""Claims of speed: only those that the samples of one run support are written, and all are judged again on reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vyre.domain.evidence.records import Evidence, Measurement, SpeedClaim
from vyre.policies.evidence.claims import ClaimInputs, MeasuredSide, SpeedupClaim, judge_claim
from vyre.policies.journal import DecisionSink, decide


class JudgedClaim(NamedTuple):
    """A claim and the verdict on it; ``str`` is a sentence."""

    claim: SpeedClaim
    verdict: SpeedupClaim

    def __str__(self) -> str:
        claim, verdict = self.claim, self.verdict
        takes = f"{claim.slower} takes at least {claim.factor:.3g} times as long as {claim.faster}"
        return f"`{claim.measurement}`: {takes}: {'supported' if verdict.supported else 'refused'}, {verdict.why}"


def judge_speed_claim(
    measurements: Iterable[Measurement], claim: SpeedClaim, sink: DecisionSink | None = None
) -> JudgedClaim:
    """Judges a claim by the samples of the measurement that it names; what was not measured is refused."""
    named = next((each for each in measurements if each.name == claim.measurement), None)
    faster, slower = (_side(named, name) for name in (claim.faster, claim.slower))
    return JudgedClaim(claim, decide(sink, judge_claim, ClaimInputs(faster, slower, claim.factor)))


def refused_claims(evidence: Evidence) -> Iterator[JudgedClaim]:
    """Yields the claims of a manifest that its samples do not support."""
    for claim in evidence.claims:
        judged = judge_speed_claim(evidence.measurements, claim)
        if not judged.verdict.supported:
            yield judged


def _side(measurement: Measurement | None, name: str) -> MeasuredSide | None:
    if measurement is None:
        return None
    measured = next((side for side in measurement.sides if side.name == name), None)
    return None if measured is None else MeasuredSide(measured.name, measured.device, measurement.run, measured.samples)
