"""The layout of a cache directory.

    v1/                                  the version of this layout and of the format of entries
      entries/PP/PPPP...-KIND-KKKK.vya   PP...: digest of the program; KK...: digest of the key
      temporary/RRRR...                  entries being written
      quarantine/PPPP...-KIND-KKKK.vya   entries that did not verify, a few of the latest
      announced                          sizes of entries about to be written (see ``ledger``)

Entries of one program share a directory and the beginning of their names, so that a miss can be compared with existing
entries; the first byte of the digest spreads programs over 256 directories.  There is no directory per program: making
and removing one can take longer than the rest of a put.  A new layout gets a new version and leaves this one alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from blake3 import blake3

from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.errors import InvalidField

VERSION_DIRECTORY: Final = "v1"
SUFFIX: Final = ".vya"
PROGRAM_BYTES: Final = 32
_SHARD: Final = re.compile(r"[0-9a-f]{2}")
_ENTRY: Final = re.compile(rf"([0-9a-f]{{64}})-([a-z0-9_]+)-([0-9a-f]{{64}}){re.escape(SUFFIX)}")


class Layout:
    """The paths below ``root``."""

    __slots__ = ("announced", "entries", "quarantine", "root", "temporary", "version")

    def __init__(self, root: str) -> None:
        self.root: Final = root
        self.version: Final = f"{root}/{VERSION_DIRECTORY}"
        self.entries: Final = f"{self.version}/entries"
        self.temporary: Final = f"{self.version}/temporary"
        self.quarantine: Final = f"{self.version}/quarantine"
        self.announced: Final = f"{self.version}/announced"

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that must exist before a write; parents first."""
        return self.version, self.entries, self.temporary


class Name(NamedTuple):
    """The parts of an entry's file name; digests as hex."""

    program: str
    kind: str
    key_digest: str

    @property
    def family(self) -> str:
        """The common prefix of the names of all entries of the program and kind."""
        return f"{self.program}-{self.kind}-"

    @property
    def shard(self) -> str:
        """The name of the directory that holds the entry."""
        return self.program[:2]

    @property
    def path(self) -> str:
        """The path relative to ``entries``."""
        program, kind, key = self
        return f"{program[:2]}/{program}-{kind}-{key}{SUFFIX}"


class Place(NamedTuple):
    """The location of the entry of a key; ``key`` is encoded, ``path`` is that of the name."""

    name: Name
    path: str
    key: bytes


def place_of(key: ArtifactKey) -> Place:
    """Returns the place of a key.  Raises ``InvalidField`` for a program that is not a digest."""
    if len(key.program) != PROGRAM_BYTES:
        raise InvalidField(
            record="ArtifactKey", field="program", value=key.program, expected=f"a digest of {PROGRAM_BYTES} bytes"
        )
    encoded = key.encode()
    name = Name(key.program.hex(), key.kind._value_, blake3(encoded).hexdigest())
    return Place(name, name.path, encoded)


def parse_path(path: str) -> Name | None:
    """Returns the name of the entry at ``path`` (relative to ``entries``, or the file name alone); None for other
    files.
    """
    parsed = _ENTRY.fullmatch(path.rpartition("/")[2])
    return None if parsed is None else Name(parsed[1], parsed[2], parsed[3])


def shards(names: list[str]) -> Iterator[str]:
    """Yields the names that are names of shards."""
    return filter(_SHARD.fullmatch, names)
