"""What a forked process inherits and must not use: sessions and bundles of its parent.

A child has one thread.  Threads of its parent that would run its work are not there, and locks that they held stay
locked.  So everything that was open is told in the child, once, and refuses from then on.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Inheritable(Protocol):
    """Whatever ``tell_in_forks`` was called with."""

    def inherited(self) -> None:
        """This process is a fork of the one that made the object.  No lock may be taken here."""
        ...


_OPEN: Final[WeakSet[Inheritable]] = WeakSet()


def tell_in_forks(made: Inheritable) -> None:
    """Have ``made.inherited`` called in every process that is forked while ``made`` is alive."""
    _OPEN.add(made)


def _tell() -> None:
    for made in list(_OPEN):
        made.inherited()


if hasattr(os, "register_at_fork"):  # elsewhere no process is a fork
    os.register_at_fork(after_in_child=_tell)
