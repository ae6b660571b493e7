"""Loads of consecutive elements by lanes that each have a place of their own: rows are read, and transposed.

W lanes that load n elements each would gather n times.  Instead each lane reads its row, four elements of 32 bits at a
time, and the rows of four lanes become four vectors in every 128 bits of the registers.  That holds where the rows of
all active lanes lie in the buffer; else the elements are gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from vyre.adapters.cpu.llvm import addressing
from vyre.adapters.cpu.llvm.addressing import is_large, loaded_type
from vyre.adapters.cpu.llvm.blocks import each_word, either_each
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.values import Shape, Value
from vyre.domain.analysis.adjacent_loads import ROW, AdjacentGroup, AdjacentLoad
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Load

Gather = Callable[[Load, Value], str]
_BYTES: Final = 4


def row_of(k: Kernel, node: Load, index: Value) -> AdjacentLoad | None:
    """Returns the place of a load in a group that is read by rows; None for any other load."""
    if not k.options.slow_gathers or k.lanes < ROW or index.dtype.bits != 32:
        return None
    if element_of(k.buffers[node.buffer]).size != _BYTES or (index.dtype.is_signed and is_large(k, node.buffer)):
        return None
    return k.adjacent.of(node)


def load(k: Kernel, member: AdjacentLoad, index: Value, gathered: Gather) -> str:
    """Returns the elements of one load of a group at the index of that load, a vector.

    ``gathered`` loads the elements of one node at an index.  The first load of a group that is written reads all.
    """
    key = f"row {member.group.number} {k.mask}"
    row = k.w.known(f"{key} {member.place}")
    if row is None:
        for place, vector in enumerate(_Group(k, member, index, gathered).vectors()):
            k.w.remember(f"{key} {place}", vector)
        row = k.w.known(f"{key} {member.place}")
        assert row is not None
    return row


class _Group:
    def __init__(self, k: Kernel, member: AdjacentLoad, index: Value, gathered: Gather) -> None:
        self._k: Final = k
        self._group: Final[AdjacentGroup] = member.group
        self._gathered: Final = gathered
        self._name: Final = member.group.nodes[0].buffer
        self._kind: Final = loaded_type(element_of(k.buffers[self._name]))
        self._first: Final = self._moved(index, -member.place)

    def vectors(self) -> tuple[str, ...]:
        """Returns the elements of each load."""
        k, first, width = self._k, self._first, len(self._group.nodes)
        kinds = [k.vector_type(self._kind)] * width
        if first.shape is Shape.AFFINE and first.stride < 1 << 31:
            base = addressing.extended(k, Value(first.dtype, first.operand, Shape.UNIFORM))
            last = k.w.pure(f"add i64 {{}}, {(k.lanes - 1) * first.stride + width - 1}", base)
            fits = k.w.pure("icmp ult i64 {}, {}", last, k.length(self._name))
            fits = k.w.pure("and i1 {}, {}", fits, k.w.pure("icmp sge i64 {}, 0", base))
            rows = [k.w.pure(f"add i64 {{}}, {lane * first.stride}", base) for lane in range(k.lanes)]
            return either_each(k, fits, kinds, partial(self._by_rows, rows), self._by_gathers)
        fits, mask = self._fitting()
        return either_each(k, fits, kinds, lambda: self._by_rows(self._varying_rows(mask)), self._by_gathers)

    def _moved(self, index: Value, distance: int) -> Value:
        """Returns the index of the element so many places further."""
        k = self._k
        if not distance:
            return index
        number = distance & 0xFFFF_FFFF
        if index.shape is Shape.AFFINE:
            return k.affine(index.dtype, k.w.pure(f"add i32 {{}}, {number}", index.operand), index.stride)
        return k.varying(index.dtype, k.w.pure(f"add {k.vector_type('i32')} {{}}, splat (i32 {number})", index.operand))

    def _fitting(self) -> tuple[str, str | None]:
        """Returns whether the rows of all active lanes lie in the buffer, an i1, and the active lanes."""
        k = self._k
        limit = addressing.limit(k, self._name, self._first)
        room = k.w.call("i32", "usub.sat.i32", ("i32", limit), ("i32", str(len(self._group.nodes) - 1)))
        vector = k.vector_type("i32")
        outside = k.w.pure(f"icmp uge {vector} {{}}, {{}}", k.vector(self._first), k.splat("i32", room))
        outside = k.both(k.mask, outside) or outside
        fits = k.w.pure("xor i1 {}, true", k.any(outside))
        # Inactive lanes read the first row, which there must be even if no lane is active.
        return k.w.pure("and i1 {}, {}", fits, k.w.pure("icmp ne i32 {}, 0", room)), k.mask

    def _varying_rows(self, mask: str | None) -> list[str]:
        k, chosen = self._k, self._k.vector(self._first)
        if mask is not None:
            chosen = k.chosen(mask, k.vector_type("i32"), chosen)
        return each_word(k, chosen)

    def _by_gathers(self) -> tuple[str, ...]:
        return tuple(self._gathered(node, self._moved(self._first, q)) for q, node in enumerate(self._group.nodes))

    def _by_rows(self, rows: list[str]) -> tuple[str, ...]:
        """Reads the rows, whose first elements have these numbers (i64 operands), and transposes them."""
        k, kind = self._k, self._kind
        starts = [k.w.pure(f"getelementptr {kind}, ptr {{}}, i64 {{}}", k.base(self._name), row) for row in rows]
        vectors: list[str] = []
        for quad in range(0, len(self._group.nodes), ROW):
            vectors += columns(k, kind, [self._quad(start, quad) for start in starts])
        return tuple(vectors)

    def _quad(self, start: str, first: int) -> str:
        k, kind = self._k, self._kind
        address = k.w.pure(f"getelementptr {kind}, ptr {{}}, i64 {first}", start) if first else start
        k.w.declare("!0 = !{}")
        return k.w.here(f"load <{ROW} x {kind}>, ptr {address}, align {_BYTES}, !invariant.load !0")


def columns(k: Kernel, kind: str, parts: list[str]) -> list[str]:
    """Returns the vectors of the first, second, third and fourth elements of W parts, of four elements each."""
    rows = [_joined(k, kind, parts[first::ROW]) for first in range(ROW)]
    (low, high), (low2, high2) = (_halves(k, kind, *rows[first : first + 2], step=1) for first in (0, 2))
    return [*_halves(k, kind, low, low2, step=2), *_halves(k, kind, high, high2, step=2)]


def _joined(k: Kernel, kind: str, parts: list[str]) -> str:
    """Returns one vector of several, of four elements each."""
    size = ROW
    while len(parts) > 1:
        order = range(2 * size)
        parts = [_shuffled(k, kind, *pair, size, order) for pair in zip(parts[::2], parts[1::2], strict=True)]
        size *= 2
    return parts[0]


def _halves(k: Kernel, kind: str, one: str, other: str, *, step: int) -> tuple[str, str]:
    """Returns the first and the last halves of every 128 bits of two vectors, mixed by ``step`` elements."""
    lanes, halves = k.lanes, []
    for half in (0, 2):
        order: list[int] = []
        for lane in range(0, lanes, ROW):
            for piece in range(half, half + 2, step):
                place = list(range(lane + piece, lane + piece + step))
                order += [*place, *[lanes + number for number in place]]
        halves.append(_shuffled(k, kind, one, other, lanes, order))
    return halves[0], halves[1]


def _shuffled(k: Kernel, kind: str, one: str, other: str, size: int, order: list[int] | range) -> str:
    vector, numbers = f"<{size} x {kind}>", ", ".join(f"i32 {number}" for number in order)
    return k.w.pure(f"shufflevector {vector} {{}}, {vector} {{}}, <{len(order)} x i32> <{numbers}>", one, other)
