"""The port of stores that keep compiled artifacts for other processes and later runs.

A store is never needed for an answer: whatever it cannot do, work goes on without it.  It gives back exactly what was
put under a key, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from vyre.domain.artifact_key import ArtifactKey

NEIGHBOURS: Final = 16
"""Keys of one program that are compared to say why a key was missed."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """``metadata``: what a user of ``code`` must know, encoded by whoever made it.  ``cost_ns``: time to make it."""

    metadata: bytes
    code: bytes
    cost_ns: int = 0

    @property
    def nbytes(self) -> int:
        return len(self.metadata) + len(self.code)


class StoreStats(NamedTuple):
    """``entries`` and ``nbytes`` are of now, the rest are counts since this store was opened."""

    entries: int = 0
    nbytes: int = 0
    hits: int = 0
    misses: int = 0
    puts: int = 0
    corrupt: int = 0
    evicted: int = 0


class StoredEntry(NamedTuple):
    """``nbytes``: what removing it frees.  ``layer``: the read-only part of the store that it is in, as people know it;
    empty where it can be removed.
    """

    key: ArtifactKey
    nbytes: int
    layer: str = ""


class ArtifactStore(Protocol):
    """Every method may be called from any thread and raises nothing for what the storage does."""

    def get(self, key: ArtifactKey, /) -> Artifact | None:
        """The artifact, verified; None if there is none that can be trusted."""
        ...

    def put(self, key: ArtifactKey, artifact: Artifact, /) -> bool:
        """Keep it for others; False if that did not work."""
        ...

    def neighbours(self, key: ArtifactKey, /) -> Sequence[ArtifactKey]:
        """At most ``NEIGHBOURS`` keys of the same program and kind that are stored."""
        ...

    def entries(self) -> Iterator[StoredEntry]:
        """All that is stored, once for each part of the store that has it; what cannot be read is left out."""
        ...

    def remove(self, key: ArtifactKey, /) -> bool:
        """Is it gone, whoever removed it?  What a read-only part of the store has under ``key`` stays."""
        ...

    def stats(self) -> StoreStats: ...
    def close(self) -> None: ...
