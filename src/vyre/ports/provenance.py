"""The port to the version control that holds the source of this package."""

from __future__ import annotations

from typing import Protocol

from vyre.domain.evidence.provenance import WorkingTree


class SourceRepository(Protocol):
    """The repository of a package's source, as it lies on this machine; no remote is asked."""

    def working_tree(self) -> WorkingTree | None:
        """Returns what the repository says now; None where no repository tracks the package.  Never raises."""
