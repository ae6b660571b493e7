"""The port of stores that keep verdicts on lowerings.

No result depends on it: what is lost or cannot be read is checked again.
"""

from __future__ import annotations

from typing import Protocol

from vyre.domain.dialects.lowering import LoweringKey, LoweringVerdict


class VerdictStore(Protocol):
    """A store of verdicts.  Every method may be called from any thread and raises no exception for a failure of the
    storage.
    """

    def get(self, key: LoweringKey, /) -> LoweringVerdict | None:
        """Returns the verdict on a lowering, or None if there is none that can be read."""

    def of_operation(self, operation: str, backend: str, /) -> tuple[LoweringVerdict, ...]:
        """Returns all verdicts on lowerings of an operation on a backend, of any version, that can be read."""

    def put(self, verdict: LoweringVerdict, /) -> bool:
        """Stores a verdict in place of an earlier one; returns False if that failed."""
