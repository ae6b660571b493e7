"""Sessions and bundles in forked processes, which inherit them from their parent and must not use them.

A child has one thread.  The threads of its parent that would run its work do not exist there, and locks that they held
stay locked.  So every open object is notified once in the child, and refuses every use from then on.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class Inheritable(Protocol):
    """An object that ``tell_in_forks`` registers."""

    def inherited(self) -> None:
        """Called in a forked child of the process that made the object.  It must not take a lock."""
        ...


_OPEN: Final[WeakSet[Inheritable]] = WeakSet()


def tell_in_forks(made: Inheritable) -> None:
    """Calls ``made.inherited`` in every process that is forked while ``made`` is alive."""
    _OPEN.add(made)


def _tell() -> None:
    for made in list(_OPEN):
        made.inherited()


if hasattr(os, "register_at_fork"):  # other platforms have no fork
    os.register_at_fork(after_in_child=_tell)
