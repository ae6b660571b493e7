"""The port of stores that keep measurements of the tuner.

As with the store of artifacts, no result depends on it: lost records are measured again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from vyre.domain.tuning import TuningKey, TuningRecord


class TuningStoreStats(NamedTuple):
    """Counts since the store was opened.  ``failed`` counts puts that stored nothing, ``corrupt`` counts dropped
    lines.
    """

    reads: int = 0
    puts: int = 0
    failed: int = 0
    corrupt: int = 0


class TuningStore(Protocol):
    """A store of tuning records.

    Every method may be called from any thread and raises no exception for a failure of the storage.  The content is
    the merge of the records that all processes have put.
    """

    def get(self, key: TuningKey, /) -> Sequence[TuningRecord]:
        """Returns all stored records of a key, latest first."""

    def put(self, records: Sequence[TuningRecord], /) -> bool:
        """Adds records; returns False if that failed."""

    def records(self) -> Iterator[TuningRecord]:
        """Yields every stored record."""

    def stats(self) -> TuningStoreStats:
        """Returns the counts of this store."""
