"""Directory and limits of the cache: from the code, the environment and the defaults, in that order.

    variable               meaning                                         default
    VYRE_CACHE_DIR         the directory                                   ``vyre`` in the user's cache directory
    VYRE_CACHE_BYTES       maximum of bytes                                1 GiB
    VYRE_CACHE_ENTRIES     maximum of entries                              4096
    VYRE_CACHE_LAYERS      read-only directories, separated as in ``PATH`` none
    VYRE_CACHE_DISABLE     1: no cache on disk, whatever the code says     0

An empty variable is the same as an unset one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from vyre.domain.arguments import path_of
from vyre.domain.cache_config import CacheConfig, Durability, Eviction
from vyre.domain.errors import InvalidConfig
from vyre.domain.frozen import frozen
from vyre.domain.printable import shown
from vyre.domain.record import U64_MAX
from vyre.ports.support import Environment

T = TypeVar("T")

DIRECTORY: Final = "VYRE_CACHE_DIR"
BYTES: Final = "VYRE_CACHE_BYTES"
ENTRIES: Final = "VYRE_CACHE_ENTRIES"
LAYERS: Final = "VYRE_CACHE_LAYERS"
DISABLE: Final = "VYRE_CACHE_DISABLE"
DEFAULT_BYTES: Final = 1 << 30
DEFAULT_ENTRIES: Final = 4096
_FLAGS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}

CacheOption: TypeAlias = "CacheConfig | Path | str | Literal[False] | None"
"""A configuration; a directory; False for no cache on disk; None for the settings of the environment."""


@frozen(kw_only=True)
class CacheSettings:
    """The settings in effect; the paths are absolute."""

    directory: Path
    max_bytes: int = DEFAULT_BYTES
    max_entries: int = DEFAULT_ENTRIES
    durability: Durability = Durability.NONE
    layers: tuple[Path, ...] = ()
    eviction: Eviction = Eviction.COST


def cache_settings(cache: CacheOption, environment: Environment) -> CacheSettings | None:
    """Returns the settings, None if the cache is disabled; raises ``InvalidConfig`` naming the invalid setting."""
    if cache is False or _flag(environment, DISABLE):
        return None
    config = config_of(cache)
    return CacheSettings(
        directory=_absolute(config.directory or _value(environment, DIRECTORY, Path) or default_directory()),
        max_bytes=config.max_bytes or _positive(environment, BYTES) or DEFAULT_BYTES,
        max_entries=config.max_entries or _positive(environment, ENTRIES) or DEFAULT_ENTRIES,
        durability=config.durability,
        layers=tuple(map(_absolute, _layers(environment) if config.layers is None else config.layers)),
        eviction=config.eviction,
    )


def default_directory() -> Path:
    """Returns ``vyre`` in the user's cache directory.

    Symbolic links on the way there are resolved once, here, since a home behind a link is not unusual; their target is
    then checked like any other directory.
    """
    from platformdirs import user_cache_path

    return user_cache_path().resolve() / "vyre"


def config_of(cache: CacheOption) -> CacheConfig:
    """Returns ``cache`` as a ``CacheConfig``; None and False give an empty one.  Raises ``InvalidConfig``."""
    match cache:
        case CacheConfig():
            return cache
        case None | False:
            return CacheConfig()
        case Path() | str() if str(cache):
            return CacheConfig(directory=path_of("cache", cache))
    raise InvalidConfig(f"cache={shown(cache)} is no cache", fix="pass a directory, a CacheConfig or False.")


def _absolute(path: Path) -> Path:
    # Not resolve(): the check of the directory must see a link, and refuse it.
    try:
        return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100
    except RuntimeError:
        raise InvalidConfig(f"{path} begins with the home of nobody", fix="write the path in full.") from None


def _layers(environment: Environment) -> tuple[Path, ...]:
    listed = environment.get(LAYERS) or ""
    return tuple(Path(part) for part in listed.split(os.pathsep) if part)


def _positive(environment: Environment, name: str) -> int | None:
    def parse(text: str) -> int:
        number = int(text)
        if not 1 <= number <= U64_MAX:
            raise ValueError
        return number

    return _value(environment, name, parse, "a positive whole number")


def _flag(environment: Environment, name: str) -> bool:
    return _value(environment, name, lambda text: _FLAGS[text.lower()], "1 or 0") or False


def _value(environment: Environment, name: str, parse: Callable[[str], T], expected: str = "") -> T | None:
    text = (environment.get(name) or "").strip()
    if not text:
        return None
    try:
        return parse(text)
    except (ValueError, KeyError):
        raise InvalidConfig(f"{name}={text!r} is not {expected}", fix=f"set {name} to {expected}.") from None
