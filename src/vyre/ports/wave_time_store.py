"""The port of stores that keep measured times of waves, one table for each backend, device and driver."""

from __future__ import annotations

from typing import Protocol

from vyre.domain.launch_costs import CostSource
from vyre.domain.wave_times import WaveTimes


class WaveTimeStore(Protocol):
    """A store of times of waves.  Every method may be called from any thread."""

    def load(self, source: CostSource, /) -> WaveTimes | None:
        """Returns the times of a source, or None if none are stored.

        Raises ``UnreadableFile`` for content that cannot be read or trusted, ``MalformedJson`` for damaged content,
        and ``ForeignCosts`` if the content belongs to another source.
        """

    def save(self, table: WaveTimes, /) -> None:
        """Stores a table in place of the earlier one of the same source.  Raises ``UnreadableFile`` if that failed."""
