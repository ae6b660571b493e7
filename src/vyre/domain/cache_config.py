"""The configuration of the cache on disk."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from vyre.domain.record import U64_MAX, IntRange, record


class Durability(Enum):
    """How much of an entry has reached the storage device when ``put`` returns.

    With every value, an entry that a power failure damages is detected and built again; ``FILE`` and ``DIR`` make
    such damage rarer and ``put`` slower.
    """

    NONE = "none"
    """Nothing: the operating system writes the entry back later."""
    FILE = "file"
    """The content of the entry has been synchronised."""
    DIR = "dir"
    """The content and the directory entry have been synchronised."""


class Eviction(Enum):
    """The policy that chooses the entry to evict when the cache is full."""

    COST = "cost_eviction"
    HEAT = "cache_eviction_heat"


@record
class CacheConfig:
    """The configuration of one cache on disk.

    A field that is None is taken from the environment, or else from the defaults.  ``directory`` holds the entries.
    ``max_bytes`` and ``max_entries`` bound its content.  ``layers`` are read-only cache directories that are
    searched, in this order, for entries that ``directory`` does not hold.
    """

    directory: Path | None = None
    max_bytes: Annotated[int, IntRange(1, U64_MAX)] | None = None
    max_entries: Annotated[int, IntRange(1, U64_MAX)] | None = None
    durability: Durability = Durability.NONE
    layers: tuple[Path, ...] | None = None
    eviction: Eviction = Eviction.COST
