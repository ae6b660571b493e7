"""Where things are below the root of a cache.

    v1/                                       the version of this layout and of the format of entries
      entries/PP/PPPP.../KIND-KKKK....vya     PP...: digest of the program; KK...: digest of the key
      temporary/RRRR...                       entries being written
      quarantine/KIND-KKKK....vya             entries that did not verify, a few of the latest
      announced                               sizes of entries about to be written (see ``ledger``)

Entries of one program share a directory, so that a miss can be compared with what there is; the first byte of the
digest spreads programs over 256 directories.  Another layout gets another version and leaves this one alone.
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
_PROGRAM_BYTES: Final = 32
_SHARD: Final = re.compile(r"[0-9a-f]{2}")
_GROUP: Final = re.compile(r"[0-9a-f]{62}")
_ENTRY: Final = re.compile(rf"([a-z0-9_]+)-([0-9a-f]{{64}}){re.escape(SUFFIX)}")


class Layout:
    """Paths below ``root``."""

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
        """What must be there before anything is written; parents first."""
        return self.version, self.entries, self.temporary


class Place(NamedTuple):
    """Where the entry of a key is, below ``entries``; ``key`` is encoded."""

    group: str
    name: str
    key: bytes

    @property
    def path(self) -> str:
        return f"{self.group}/{self.name}"


def place_of(key: ArtifactKey) -> Place:
    """Raises ``InvalidField`` for a program that is no digest."""
    if len(key.program) != _PROGRAM_BYTES:
        raise InvalidField(
            record="ArtifactKey", field="program", value=key.program, expected=f"a digest of {_PROGRAM_BYTES} bytes"
        )
    program, encoded = key.program.hex(), key.encode()
    return Place(f"{program[:2]}/{program[2:]}", entry_name(key.kind.value, blake3(encoded).hexdigest()), encoded)


def entry_name(kind: str, digest: str) -> str:
    return f"{kind}-{digest}{SUFFIX}"


class Name(NamedTuple):
    """What the name of an entry says; ``digest``: of its key, as hex."""

    kind: str
    digest: str


def parse_entry_name(name: str) -> Name | None:
    """None for whatever else lies there."""
    found = _ENTRY.fullmatch(name)
    return None if found is None else Name(found[1], found[2])


def shards(names: list[str]) -> Iterator[str]:
    return filter(_SHARD.fullmatch, names)


def groups(names: list[str]) -> Iterator[str]:
    return filter(_GROUP.fullmatch, names)
