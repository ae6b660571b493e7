"""Which buffers a statement touches, and how."""

from __future__ import annotations

from typing import NamedTuple

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.expr import Atomic, Load
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, Stmt, Store, operands
from vyre.domain.ir.walk import unique_nodes


class Touch(IdentityEnum):
    """How elements of a buffer are touched; asking for its length touches none."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class BufferUse(NamedTuple):
    buffer: str
    touch: Touch


def accesses(stmt: Stmt) -> list[BufferUse]:
    """Accesses of the statement itself, not of nested bodies; an asynchronous copy counts where it starts."""
    found: list[BufferUse] = []
    for node in unique_nodes(operands(stmt)):
        if isinstance(node, Load):
            found.append(BufferUse(node.buffer, Touch.READ))
        elif isinstance(node, Atomic):
            found.append(BufferUse(node.buffer, Touch.ATOMIC))
    if isinstance(stmt, Store):
        found.append(BufferUse(stmt.buffer, Touch.WRITE))
    elif isinstance(stmt, AsyncLoad | AsyncStore):
        found += (BufferUse(stmt.source, Touch.READ), BufferUse(stmt.destination, Touch.WRITE))
    return found
