"""The port of stores that keep measured launch costs, one set for each backend, device and driver."""

from __future__ import annotations

from typing import Protocol

from vyre.domain.launch_costs import CostSource, LaunchCosts


class CostStore(Protocol):
    """Every method may be called from any thread.  What is saved replaces what was kept of its source."""

    def load(self, source: CostSource, /) -> LaunchCosts | None:
        """What is kept; None if nothing is.

        Raises ``UnreadableFile`` for what cannot be read or trusted, ``MalformedJson`` for what is damaged, and
        ``ForeignCosts`` for costs of another source that lie in its place.
        """
        ...

    def save(self, costs: LaunchCosts, /) -> None:
        """Raises ``UnreadableFile`` if that did not work."""
        ...
