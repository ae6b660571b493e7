"""``found_definitions``: the definitions of an operation that a builder names, from the registry of the process.

The registry loads files and packages, which is no task of this layer; whoever makes one sets it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from vyre.domain.errors import UnknownOperation

if TYPE_CHECKING:
    from vyre.domain.ir.definitions import Definition

Lookup: TypeAlias = Callable[[str], "tuple[Definition, ...]"]
"""From the id of an operation to its definition, behind those that it calls; raises ``UnknownOperation``."""

_current: Lookup | None = None


def set_lookup(lookup: Lookup | None) -> None:
    """Sets where operations are found from now on; None: nowhere."""
    global _current
    _current = lookup


def found_definitions(operation: str) -> tuple[Definition, ...]:
    """Returns the definition of an operation, behind those that it calls; raises ``UnknownOperation``."""
    lookup = _current
    if lookup is None:
        raise UnknownOperation(operation=operation)
    return lookup(operation)
