"""The port of stores that keep compiled artifacts for other processes and later runs.

No result depends on a store: where it fails, work goes on without it.  A store returns exactly what was put under a
key, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.frozen import frozen

NEIGHBOURS: Final = 16
"""The largest number of keys of one program that are compared to explain a cache miss."""


@frozen
class Artifact:
    """A compiled artifact.

    ``metadata`` is what a user of ``code`` must know, encoded by the backend that compiled it.  ``cost_ns`` is the
    time, in nanoseconds, that compiling it took.
    """

    metadata: bytes
    code: bytes
    cost_ns: int = 0

    @property
    def nbytes(self) -> int:
        """Returns the number of bytes that metadata and code take together."""
        return len(self.metadata) + len(self.code)


class StoreStats(NamedTuple):
    """Statistics of a store.

    ``entries`` and ``nbytes`` describe the current content; the other fields are counts since this store was opened.
    """

    entries: int = 0
    nbytes: int = 0
    hits: int = 0
    misses: int = 0
    puts: int = 0
    corrupt: int = 0
    evicted: int = 0


class StoredEntry(NamedTuple):
    """One entry of a store.

    ``nbytes`` is the number of bytes that removing the entry frees.  ``layer`` names the read-only part of the store
    that holds the entry; it is empty for an entry that can be removed.
    """

    key: ArtifactKey
    nbytes: int
    layer: str = ""


class ArtifactStore(Protocol):
    """A store of compiled artifacts.

    Every method may be called from any thread.  No method raises an exception for a failure of the storage.
    """

    def get(self, key: ArtifactKey, /) -> Artifact | None:
        """Returns the verified artifact of a key, or None if the store holds none that can be trusted."""

    def put(self, key: ArtifactKey, artifact: Artifact, /) -> bool:
        """Stores an artifact for others.  Returns False if it could not be stored."""

    def neighbours(self, key: ArtifactKey, /) -> Sequence[ArtifactKey]:
        """Returns at most ``NEIGHBOURS`` stored keys of the same program and kind."""

    def entries(self) -> Iterator[StoredEntry]:
        """Yields every entry, once for each part of the store that holds it.  Unreadable entries are left out."""

    def remove(self, key: ArtifactKey, /) -> bool:
        """Removes the entry of a key and returns whether it is gone, whichever process removed it.

        An entry in a read-only part of the store stays.
        """

    def stats(self) -> StoreStats:
        """Returns the statistics of the store."""

    def close(self) -> None:
        """Releases the resources of the store; the stored artifacts remain."""
