"""The evidence of a run: the samples that its groups keep, and the goals that they support as claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpu_runs.bench.goals import FASTER
from gpu_runs.provenance import PACKAGES, repository
from vyre.app.evidence.claims import JudgedClaim
from vyre.app.evidence.measuring import write_measurements
from vyre.domain.evidence.records import Measurement, Side, SpeedClaim

EVIDENCE: Final = ".evidence.zip"
_OURS: Final = "ours"
_THEIRS: Final = "theirs"


def bundle_of(record: Path) -> Path:
    """The bundle beside a record."""
    return record.with_suffix(EVIDENCE)


def write_evidence(
    path: Path,
    groups: Mapping[str, Mapping[str, Any]],
    goals: Sequence[Mapping[str, Any]],
    *,
    device: str,
    emulated: bool,
    revision: str | None,
) -> tuple[JudgedClaim, ...]:
    """Write the bundle, and return the verdicts on the claims of the goals that are met.

    ``groups``: the samples of each, with the name of the process that took them, as ``Tally.to_json`` has them.
    ``goals``: as ``goals.judge`` has them; those of a rehearsal are not measured.
    """
    state = "EMULATED: the times mean nothing" if emulated else "as the group measures it"
    measurements = [each for name, found in groups.items() for each in _measurements(name, found, device, state)]
    claims = list(claims_of(goals))
    return write_measurements(path, measurements, claims, packages=PACKAGES, repository=repository(revision))


def _measurements(group: str, found: Mapping[str, Any], device: str, state: str) -> Iterator[Measurement]:
    for each in found["samples"]:
        sides = tuple(Side(name, device, tuple(samples)) for name, samples in each["sides"].items())
        yield Measurement(f"{group}: {each['name']}", each["unit"], 1.0, state, found["run"], sides)


def claims_of(goals: Sequence[Mapping[str, Any]]) -> Iterator[SpeedClaim]:
    """The claims of those goals that are met and say how many times faster one side of a pair is than the other."""
    met = {goal["goal"] for goal in goals if goal["met"]}
    for name, group, pair, times in FASTER:
        if name in met:
            yield SpeedClaim(f"{group}: pairs, {pair}", _OURS, _THEIRS, times)


def device_name(facts: Mapping[str, Any] | None, backend: str) -> str:
    """How the evidence calls the device."""
    return f"{facts['name']}, on `{backend}`" if facts is not None else f"the device of `{backend}`"
