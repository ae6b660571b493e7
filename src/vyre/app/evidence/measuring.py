"""Writes measurements as evidence, with those claims that their samples support."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from vyre.adapters.evidence_files import write_bundle
from vyre.app.evidence.claims import JudgedClaim, judge_speed_claim
from vyre.app.evidence.provenance import device_of, empty_evidence, packages_of
from vyre.domain.arguments import expect, items_of, path_of, real
from vyre.domain.errors import InvalidInput
from vyre.domain.evidence.records import Measurement, Side, SpeedClaim
from vyre.ports.backend import Backend
from vyre.ports.provenance import SourceRepository

RUN: Final = uuid.uuid4().hex
"""Names this process: samples of another one are of another run."""


def write_measurements(
    path: Path | str,
    measurements: Sequence[Measurement],
    claims: Sequence[SpeedClaim] = (),
    *,
    packages: Sequence[str] = (),
    repository: SourceRepository | None = None,
    backend: Backend | None = None,
) -> tuple[JudgedClaim, ...]:
    """Writes a bundle of measurements, and returns the verdict on every claim.

    Only supported claims are written.  ``packages`` names distributions whose versions matter, and ``backend`` is what
    ran, if it was one.  Raises ``UnreadableFile``.
    """
    judged = tuple(judge_speed_claim(measurements, claim) for claim in claims)
    supported = tuple(each.claim for each in judged if each.verdict.supported)
    device = None if backend is None else device_of(backend)
    evidence = replace(
        empty_evidence(packages, repository), device=device, measurements=tuple(measurements), claims=supported
    )
    write_bundle(path_of("path", path), evidence, {})
    return judged


def write_claim(
    path: Path | str,
    backend: Backend,
    name: str,
    samples: Mapping[str, Sequence[float]],
    faster: str,
    slower: str,
    factor: float,
) -> JudgedClaim:
    """Implements ``Session.write_claim``."""
    path, device = path_of("path", path), device_of(backend).name
    for what, value in (("name", name), ("faster", faster), ("slower", slower)):
        expect(what, value, str, "a text", InvalidInput)
    expect("samples", samples, Mapping, "a mapping from the names of two sides to their times", InvalidInput)
    most, fix = sys.float_info.max, "give seconds, as numbers of at least 0."
    sides = []
    for side, times in samples.items():
        expect("a side of samples", side, str, "a text", InvalidInput)
        sides.append(Side(side, device, tuple([real(side, each, 0, most, fix) for each in items_of(side, times)])))
    factor = real("factor", factor, 0, most, fix)
    measurement = Measurement(name, "s", 1.0, "as the caller measured it", RUN, tuple(sides))
    claim, packages = SpeedClaim(name, faster, slower, factor), packages_of(str(backend.id))
    (judged,) = write_measurements(path, (measurement,), (claim,), packages=packages, backend=backend)
    return judged
