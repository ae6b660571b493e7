"""The port of stores that keep what tuning measured.

Like the store of artifacts it is never needed for an answer: what it loses is measured again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from vyre.domain.tuning import TuningKey, TuningRecord


class TuningStoreStats(NamedTuple):
    """Counts since the store was opened.  ``failed``: puts that kept nothing.  ``corrupt``: lines that were dropped."""

    reads: int = 0
    puts: int = 0
    failed: int = 0
    corrupt: int = 0


class TuningStore(Protocol):
    """Every method may be called from any thread and raises nothing for what the storage does.

    What two processes put is there for both: the content is the merge of all puts.
    """

    def get(self, key: TuningKey, /) -> Sequence[TuningRecord]:
        """All records of a key that are kept, latest first."""
        ...

    def put(self, records: Sequence[TuningRecord], /) -> bool:
        """Add records; False if that did not work."""
        ...

    def records(self) -> Iterator[TuningRecord]:
        """Everything that is kept."""
        ...

    def stats(self) -> TuningStoreStats: ...
