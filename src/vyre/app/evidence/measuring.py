"""Writes measurements as evidence, with those claims that their samples support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vyre.adapters.evidence_files import write_bundle
from vyre.app.evidence.claims import JudgedClaim, judge_speed_claim
from vyre.app.evidence.provenance import empty_evidence
from vyre.domain.arguments import path_of
from vyre.domain.evidence.records import Measurement, SpeedClaim
from vyre.ports.provenance import SourceRepository


def write_measurements(
    path: Path | str,
    measurements: Sequence[Measurement],
    claims: Sequence[SpeedClaim] = (),
    *,
    packages: Sequence[str] = (),
    repository: SourceRepository | None = None,
) -> tuple[JudgedClaim, ...]:
    """Writes a bundle of measurements, and returns the verdict on every claim.

    Only supported claims are written.  ``packages`` names distributions whose versions matter.  Raises
    ``UnreadableFile``.
    """
    judged = tuple(judge_speed_claim(measurements, claim) for claim in claims)
    made = tuple(each.claim for each in judged if each.verdict.supported)
    evidence = replace(empty_evidence(packages, repository), measurements=tuple(measurements), claims=made)
    write_bundle(path_of("path", path), evidence, {})
    return judged
