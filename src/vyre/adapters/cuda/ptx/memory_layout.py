"""The places of workgroup buffers in the shared memory of a block, and of private buffers.

The elements of private buffers are registers where every index is known, else they lie in local memory.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vyre.domain.ir.expr import Cast, Expr, Literal, Load
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Store, operands, walk_statements
from vyre.domain.ir.walk import unique_nodes

ALIGNMENT: Final = 16
STATIC_LIMIT: Final = 49_152
"""The number of bytes that every target allows without opting in."""


class SharedLayout:
    """The layout of shared memory in bytes.

    ``offsets`` are by buffer name; the first ``zeroed`` bytes must be zeroed; ``nbytes`` is the total.
    """

    def __init__(self, program: Program, zeroed: Collection[str]) -> None:
        self.offsets: Final[dict[str, int]] = {}
        self.zeroed: int = 0
        end = 0
        buffers = [b for b in program.buffers if b.is_workgroup]
        for buffer in sorted(buffers, key=lambda b: b.name not in zeroed):
            self.offsets[buffer.name] = end
            end += -(-(buffer.static_nbytes or 0) // ALIGNMENT) * ALIGNMENT
            if buffer.name in zeroed:
                self.zeroed = end
        self.nbytes: Final = end

    @property
    def dynamic(self) -> bool:
        """Whether the area exceeds the size that can be declared statically."""
        return self.nbytes > STATIC_LIMIT


REGISTERS: Final = 64
"""The most elements that a lane keeps in registers, of all its private buffers together."""


class PrivateLayout:
    """The private buffers that a program accesses.

    ``in_registers``: names of those whose elements are registers.  ``arrays``: the bytes of each of the others, a
    multiple of 16.  ``read``: names of those that are loaded from; nothing else can observe what they hold.
    """

    def __init__(self, program: Program) -> None:
        private = {buffer.name: buffer for buffer in program.buffers if buffer.is_private}
        read: set[str] = set()
        known: dict[str, set[int] | None] = {}
        """The elements of each buffer that are accessed; None if an index is computed."""
        for stmt in walk_statements(program.body) if private else ():
            for node in unique_nodes(operands(stmt)):
                if type(node) is Load and node.buffer in private:
                    read.add(node.buffer)
                    _note(known, node.buffer, node.index)
            if type(stmt) is Store and stmt.buffer in private:
                _note(known, stmt.buffer, stmt.index)
        self.read: Final = frozenset(read)
        self.in_registers: Final[set[str]] = set()
        self.arrays: Final[dict[str, int]] = {}
        room = REGISTERS
        for name in known:
            elements = known[name]
            if elements is not None and len(elements) <= room:
                self.in_registers.add(name)
                room -= len(elements)
            else:
                self.arrays[name] = -(-(private[name].static_nbytes or 0) // ALIGNMENT) * ALIGNMENT


def _note(known: dict[str, set[int] | None], name: str, index: Expr) -> None:
    elements = known.setdefault(name, set())
    if elements is None:
        return
    while isinstance(index, Cast) and index.dtype.is_integer:
        index = index.operand
    if isinstance(index, Literal) and index.dtype.is_integer:
        elements.add(index.bits)
    else:
        known[name] = None
