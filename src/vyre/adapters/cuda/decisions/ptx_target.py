"""Which ``.version`` and ``.target`` is a kernel written for?

Rule: the lowest PTX version that has the target and the features in use, because a higher one only excludes older
drivers.  The table lists the smallest version that the assembler of CUDA 13.0 accepts for each target.  O(features).

A device newer than the table gets the largest known target below it: PTX of a lower target runs on every higher one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from vyre.domain.errors import BackendUnavailable, InvalidConfig, UnsupportedFeature
from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.types import ScalarType
from vyre.policies.record import U32, record, verdict

PtxVersion = tuple[int, int]

BASE_VERSIONS: Final[dict[int, PtxVersion]] = {
    75: (6, 3),
    80: (7, 0),
    86: (7, 1),
    87: (7, 4),
    88: (7, 3),
    89: (7, 8),
    90: (7, 8),
    100: (8, 6),
    103: (8, 8),
    110: (9, 0),
    120: (8, 7),
    121: (8, 8),
}
"""The lowest PTX version of each target, by the number of the target (90 for sm_90)."""
_TARGETS: Final = sorted(BASE_VERSIONS)

HALF_FROM: Final = {ScalarType.F16: 53, ScalarType.BF16: 90}
"""The first target that adds and multiplies 16-bit floats; the lowest PTX version of a target includes it."""


class Feature(IdentityEnum):
    """Features of a kernel that not every target or version has."""

    LARGE_PARAMETERS = "more than 4096 bytes of parameters"
    REDUCE = "a reduction across the subgroup in one instruction"
    ASYNC_COPY = "asynchronous copies into shared memory"
    WIDE_256 = "32-byte loads and stores"
    CACHE_HINTS = "cache eviction hints"


class Requirement(NamedTuple):
    """The lowest target, and the lowest version, that has a feature."""

    target: int
    version: PtxVersion


REQUIREMENTS: Final[dict[Feature, Requirement]] = {
    Feature.LARGE_PARAMETERS: Requirement(75, (8, 1)),
    Feature.REDUCE: Requirement(80, (7, 0)),
    Feature.ASYNC_COPY: Requirement(80, (7, 0)),
    Feature.WIDE_256: Requirement(100, (8, 8)),
    Feature.CACHE_HINTS: Requirement(75, (7, 4)),
}
"""The requirement of each feature."""

DRIVER_VERSIONS: Final[tuple[tuple[int, PtxVersion], ...]] = (
    (13_000, (9, 0)),
    (12_090, (8, 8)),
    (12_080, (8, 7)),
    (12_070, (8, 6)),
    (12_050, (8, 5)),
    (12_040, (8, 4)),
    (12_030, (8, 3)),
    (12_020, (8, 2)),
    (12_010, (8, 1)),
    (12_000, (8, 0)),
    (11_080, (7, 8)),
    (11_070, (7, 7)),
    (11_040, (7, 4)),
    (11_010, (7, 1)),
    (11_000, (7, 0)),
    (10_000, (6, 3)),
)
"""The highest PTX version that a driver reads, by driver version (1000 * major + 10 * minor), descending."""


@record
class TargetInputs:
    """A device and the features in use; ``device`` is the number of its target, 90 for sm_90."""

    device: U32
    features: frozenset[Feature] = frozenset()


@verdict
class PtxTarget:
    """A PTX ``version`` as (major, minor), and the ``number`` of a target."""

    version: PtxVersion
    number: int

    @property
    def version_text(self) -> str:
        """The version as PTX writes it, such as ``8.1``."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def text(self) -> str:
        """The target as PTX writes it, such as ``sm_90``."""
        return f"sm_{self.number}"

    @property
    def label(self) -> str:
        """The target, for telemetry."""
        return self.text


def select_target(inputs: TargetInputs) -> PtxTarget:
    """Returns version and target for a device.

    Raises ``UnsupportedFeature`` for a feature that the target lacks, ``InvalidConfig`` for a device below the oldest
    target.
    """
    place = bisect_right(_TARGETS, inputs.device)
    if place == 0:
        raise unknown_target(f"sm_{inputs.device}")
    number = _TARGETS[place - 1]
    version = BASE_VERSIONS[number]
    for feature in sorted(inputs.features, key=lambda f: f.value):
        needed = REQUIREMENTS[feature]
        if number < needed.target:
            raise UnsupportedFeature(
                feature=feature.value, backend=f"sm_{number}", fix=f"use a device of sm_{needed.target} or later."
            )
        version = max(version, needed.version)
    return PtxTarget(version, number)


def sm_number(target: str) -> int:
    """Returns the number of a target, 90 for ``sm_90``.

    Raises ``InvalidConfig``, which lists the known targets, for anything else.
    """
    match = re.fullmatch(r"sm_(\d{2,3})", target)
    if match is None or int(match[1]) not in BASE_VERSIONS:
        raise unknown_target(target)
    return int(match[1])


def unknown_target(target: str) -> InvalidConfig:
    """Returns the error for an unknown target, which lists the known ones."""
    known = ", ".join(f"sm_{number}" for number in BASE_VERSIONS)
    return InvalidConfig(f"unknown target {target!r}", fix=f"use one of {known}.")


def highest_version(driver_version: int) -> PtxVersion:
    """Returns the highest PTX version that a driver reads.

    A driver newer than the table counts as the newest one in it; a driver older than the table reads 6.0.
    """
    return next((version for driver, version in DRIVER_VERSIONS if driver <= driver_version), (6, 0))


def check_driver(target: PtxTarget, driver_version: int) -> None:
    """Raises ``BackendUnavailable`` if the driver is older than the PTX."""
    if target.version > highest_version(driver_version):
        needed = min(driver for driver, version in DRIVER_VERSIONS if version >= target.version)
        raise BackendUnavailable(
            f"the driver of CUDA {driver_version // 1000}.{driver_version % 1000 // 10} does not read PTX "
            f"{target.version_text}, which {target.text} needs",
            fix=f"update the driver to CUDA {needed // 1000}.{needed % 1000 // 10} or later.",
        )
