"""``found_definitions``: the definitions of an operation that a builder names, from the registry of the process.

The registry loads files and packages, which is no task of this layer: it is imported by name on the first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from vyre.domain.ir.definitions import Definition

Lookup: TypeAlias = Callable[[str], "tuple[Definition, ...]"]
"""From the id of an operation to its definition, behind those that it calls; raises ``UnknownOperation``."""

_REGISTRY: Final = "vyre.app.dialects.current"


def found_definitions(operation: str) -> tuple[Definition, ...]:
    """Returns the definition of an operation, behind those that it calls; raises ``UnknownOperation``."""
    lookup: Lookup = import_module(_REGISTRY).definitions_of
    return lookup(operation)
