"""Which ``.version`` and ``.target`` a kernel is written for.

The lowest PTX version that knows the target and the features in use is chosen: a higher one would only shut out older
drivers.  The table was read off the assembler of CUDA 13.0: the smallest accepted version of each target.  O(features).

A device newer than the table gets the largest known target below it: PTX of a lower target runs on every higher one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from vyre.domain.errors import BackendUnavailable, InvalidConfig, UnsupportedFeature
from vyre.domain.identity_enum import IdentityEnum
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
"""The lowest PTX version of each target."""
_TARGETS: Final = sorted(BASE_VERSIONS)


class Feature(IdentityEnum):
    """Features that a kernel may use and that only some targets or versions have."""

    LARGE_PARAMETERS = "more than 4096 bytes of parameters"
    REDUCE = "a reduction across the subgroup in one instruction"
    ASYNC_COPY = "asynchronous copies into shared memory"
    WIDE_256 = "32-byte loads and stores"
    CACHE_HINTS = "cache eviction hints"


class Requirement(NamedTuple):
    """The lowest target and the lowest PTX version that have a feature."""

    target: int
    version: PtxVersion


REQUIREMENTS: Final[dict[Feature, Requirement]] = {
    Feature.LARGE_PARAMETERS: Requirement(75, (8, 1)),
    Feature.REDUCE: Requirement(80, (7, 0)),
    Feature.ASYNC_COPY: Requirement(80, (7, 0)),
    Feature.WIDE_256: Requirement(100, (8, 8)),
    Feature.CACHE_HINTS: Requirement(75, (7, 4)),
}

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
    """``device``: the number of an sm, 90 for sm_90.  ``features``: those that the kernel uses."""

    device: U32
    features: frozenset[Feature] = frozenset()


@verdict
class PtxTarget:
    """``version`` as (major, minor); ``number`` is that of the target."""

    version: PtxVersion
    number: int

    @property
    def version_text(self) -> str:
        """Returns the version as it stands in ``.version``, such as ``8.6``."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def text(self) -> str:
        """Returns the target as it stands in ``.target``, such as ``sm_90``."""
        return f"sm_{self.number}"

    @property
    def label(self) -> str:
        """Returns the target, which is this verdict's short name in reports."""
        return self.text


def select_target(inputs: TargetInputs) -> PtxTarget:
    """Returns the target and version for a device and features.

    Raises ``UnsupportedFeature`` for a feature that the target lacks, and ``InvalidConfig`` below the oldest target.
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
    """Returns 90 for ``sm_90``.  Raises ``InvalidConfig`` with the known targets for any other text."""
    match = re.fullmatch(r"sm_(\d{2,3})", target)
    if match is None or int(match[1]) not in BASE_VERSIONS:
        raise unknown_target(target)
    return int(match[1])


def unknown_target(target: str) -> InvalidConfig:
    """Returns the error for a target that is not in the table; its fix lists those that are."""
    known = ", ".join(f"sm_{number}" for number in BASE_VERSIONS)
    return InvalidConfig(f"unknown target {target!r}", fix=f"use one of {known}.")


def highest_version(driver_version: int) -> PtxVersion:
    """Returns the highest PTX version that a driver reads; unknown newer drivers count as the newest known one."""
    return next((version for driver, version in DRIVER_VERSIONS if driver <= driver_version), (6, 0))


def check_driver(target: PtxTarget, driver_version: int) -> None:
    """Raises ``BackendUnavailable`` if the driver is too old to read the PTX."""
    if target.version > highest_version(driver_version):
        needed = min(driver for driver, version in DRIVER_VERSIONS if version >= target.version)
        raise BackendUnavailable(
            f"the driver of CUDA {driver_version // 1000}.{driver_version % 1000 // 10} does not read PTX "
            f"{target.version_text}, which {target.text} needs",
            fix=f"update the driver to CUDA {needed // 1000}.{needed % 1000 // 10} or later.",
        )
