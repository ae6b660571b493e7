"""The port of stores that keep measured launch costs, one set for each backend, device and driver."""

from __future__ import annotations

from typing import Protocol

from vyre.domain.launch_costs import CostSource, LaunchCosts


class CostStore(Protocol):
    """A store of launch costs.  Every method may be called from any thread."""

    def load(self, source: CostSource, /) -> LaunchCosts | None:
        """Returns the costs of a source, or None if none are stored.

        Raises ``UnreadableFile`` for content that cannot be read or trusted, ``MalformedJson`` for damaged content,
        and ``ForeignCosts`` if the content belongs to another source.
        """

    def save(self, costs: LaunchCosts, /) -> None:
        """Stores costs in place of earlier ones of the same source.  Raises ``UnreadableFile`` if that failed."""
