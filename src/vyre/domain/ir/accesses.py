"""The buffers that a statement accesses, and the kinds of access."""

from __future__ import annotations

from typing import NamedTuple

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.expr import Atomic, Load
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, GridLoop, Stmt, Store, operands
from vyre.domain.ir.walk import unique_nodes


class Touch(IdentityEnum):
    """The kind of an access to elements of a buffer; reading a buffer's length is no access."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class BufferUse(NamedTuple):
    """One access: the name of the buffer, and the kind of access."""

    buffer: str
    touch: Touch


def accesses(stmt: Stmt) -> list[BufferUse]:
    """Returns the accesses of the statement itself, without nested bodies; an asynchronous copy counts where it
    starts.  A grid loop reads and writes its flag.
    """
    uses: list[BufferUse] = []
    for node in unique_nodes(operands(stmt)):
        if isinstance(node, Load):
            uses.append(BufferUse(node.buffer, Touch.READ))
        elif isinstance(node, Atomic):
            uses.append(BufferUse(node.buffer, Touch.ATOMIC))
    if isinstance(stmt, Store):
        uses.append(BufferUse(stmt.buffer, Touch.WRITE))
    elif isinstance(stmt, GridLoop):
        uses += (BufferUse(stmt.flag, Touch.READ), BufferUse(stmt.flag, Touch.WRITE))
    elif isinstance(stmt, AsyncLoad | AsyncStore):
        uses += (BufferUse(stmt.source, Touch.READ), BufferUse(stmt.destination, Touch.WRITE))
    return uses
