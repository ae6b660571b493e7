"""What a user may say about the cache on disk."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from vyre.domain.record import U64_MAX, IntRange, record


class Durability(Enum):
    """How much of a put has reached the device before the put returns.

    Whatever is chosen, an entry that a power failure damages is noticed and built again; the other values cost time and
    make that rarer.
    """

    NONE = "none"
    """Nothing: the operating system writes when it likes."""
    FILE = "file"
    """The content of the entry."""
    DIR = "dir"
    """The content and the name of the entry."""


class Eviction(Enum):
    """Who leaves when the cache is full: the policy of that name decides."""

    COST = "cost_eviction"
    HEAT = "cache_eviction_heat"


@record
class CacheConfig:
    """Every field that is None is taken from the environment, else from the defaults.

    ``directory``: where entries are kept.  ``max_bytes`` and ``max_entries``: what it may hold.  ``layers``: further
    cache directories that are only read, in this order, for what ``directory`` does not hold.
    """

    directory: Path | None = None
    max_bytes: Annotated[int, IntRange(1, U64_MAX)] | None = None
    max_entries: Annotated[int, IntRange(1, U64_MAX)] | None = None
    durability: Durability = Durability.NONE
    layers: tuple[Path, ...] | None = None
    eviction: Eviction = Eviction.COST
