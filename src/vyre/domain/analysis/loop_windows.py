"""Loops of which neighbouring lanes together visit one range of elements, such as the rows of a sparse matrix.

A lane adds up the products of its row, each of which depends on the number of the round alone.  The products of all
lanes may then be computed first, in the order of memory, and each lane adds its own afterwards in the same order.  The
same holds for every value that a round computes from its counter, numbers and memory that nothing writes: it is an
*element* of the loop.  Linear in the nodes of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.program import Buffer
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import operands_first

MOST_ELEMENTS: Final = 4
"""The most values that a round may take from what was computed before."""
_WORD_BITS: Final = 32
_NUMBERS: Final = (ir.Literal, ir.SpecConst, ir.BufferLength)
_COMPUTED: Final = (
    ir.Binary,
    ir.Unary,
    ir.Select,
    ir.Cast,
    ir.Bitcast,
    ir.Narrow,
    ir.Pack,
    ir.Unpack,
    ir.WrapCast,
    ir.Fma,
)


class LoopWindow(NamedTuple):
    """A loop in two parts.

    - ``lets``: locals of a round that its elements depend on, in program order.
    - ``elements``: the expressions that are computed for all rounds of all lanes first; each reads memory at an index
      that depends on the counter, and has values of at most 32 bits.
    - ``rest``: the statements of a round that remain, in program order.  They read no memory but by ``elements``.
    """

    lets: tuple[ir.Let, ...]
    elements: tuple[ir.Expr, ...]
    rest: tuple[ir.Let | ir.Assign, ...]


class _Kind(IntEnum):
    """The kinds of expressions, by what they depend on."""

    LANE = 0
    NUMBERS = 1
    COUNTER = 2
    ELEMENT = 3


def loop_window(loop: ir.Loop, buffers: Mapping[str, Buffer]) -> LoopWindow | None:
    """Returns the parts of a loop that counts a u32 up by one; None if it has no elements, or does anything else.

    ``buffers`` are those of the program, by name.
    """
    step = loop.step
    if not isinstance(step, ir.Literal) or step.dtype is not ScalarType.U32 or step.bits != 1:
        return None
    body = [stmt for stmt in loop.body if isinstance(stmt, ir.Let | ir.Assign)]
    declared = [stmt.name for stmt in body if isinstance(stmt, ir.Let)]
    if len(body) < len(loop.body) or len({loop.var, *declared}) <= len(declared):
        return None
    assigned = {stmt.name for stmt in body if isinstance(stmt, ir.Assign)}
    kinds = _Kinds(loop.var, buffers)
    for stmt in body:
        kind = kinds.of(stmt.value)
        if isinstance(stmt, ir.Let) and stmt.name not in assigned and kind is not _Kind.LANE:
            kinds.names[stmt.name] = kind
    needed: set[str] = set()
    elements: dict[int, ir.Expr] = {}
    rest: list[ir.Let | ir.Assign] = []
    for stmt in reversed(body):
        is_element = isinstance(stmt, ir.Let) and stmt.name in kinds.names
        if is_element and stmt.name not in needed:
            continue
        if not kinds.collect(stmt.value, elements, needed):
            return None
        rest.append(stmt)
    if not 0 < len(elements) <= MOST_ELEMENTS:
        return None
    lets = tuple(stmt for stmt in body if isinstance(stmt, ir.Let) and stmt.name in kinds.names)
    return LoopWindow(lets, tuple(reversed(elements.values())), tuple(reversed(rest)))


class _Kinds:
    """The kinds of the expression objects of a loop; ``names`` has those of its counter and of its locals."""

    def __init__(self, counter: str, buffers: Mapping[str, Buffer]) -> None:
        self.names: Final = {counter: _Kind.COUNTER}
        self._buffers: Final = buffers
        self._known: Final[dict[int, _Kind]] = {}

    def of(self, root: ir.Expr) -> _Kind:
        """Returns the kind of an expression."""
        known = self._known
        for expr in operands_first(root, known):
            known[id(expr)] = self._own(expr)
        return known[id(root)]

    def collect(self, root: ir.Expr, elements: dict[int, ir.Expr], needed: set[str]) -> bool:
        """Adds the largest elements below an expression, and the locals that the rest of it reads.

        Returns whether the rest only computes.
        """
        stack = [root]
        while stack:
            expr = stack.pop()
            if isinstance(expr, ir.Var):
                needed.add(expr.name)
            elif self._known[id(expr)] is _Kind.ELEMENT:
                elements[id(expr)] = expr
            elif isinstance(expr, _COMPUTED):
                stack += ir.children(expr)
            elif not isinstance(expr, _NUMBERS):
                return False
        return True

    def _own(self, expr: ir.Expr) -> _Kind:
        if isinstance(expr, ir.Var):
            return self.names.get(expr.name, _Kind.LANE)
        if isinstance(expr, _NUMBERS):
            return _Kind.LANE if _is_wide(expr) else _Kind.NUMBERS
        least = min([self._known[id(part)] for part in ir.children(expr)], default=_Kind.LANE)
        if least is _Kind.LANE or _is_wide(expr):
            return _Kind.LANE
        if isinstance(expr, ir.Load):
            buffer = self._buffers[expr.buffer]
            if buffer.is_writable or _bits(buffer.element) > _WORD_BITS:
                return _Kind.LANE
            return _Kind.NUMBERS if least is _Kind.NUMBERS else _Kind.ELEMENT
        if isinstance(expr, _COMPUTED):
            return max(self._known[id(part)] for part in ir.children(expr))
        return _Kind.LANE


def _is_wide(expr: ir.Expr) -> bool:
    """Returns whether a node has, by itself, values of more than 32 bits."""
    dtype = expr.default.dtype if isinstance(expr, ir.SpecConst) else getattr(expr, "dtype", None)
    return dtype is not None and _bits(dtype) > _WORD_BITS


def _bits(dtype: object) -> int:
    """Returns the bits of a scalar type, and more than any has for another type."""
    return dtype.bits if isinstance(dtype, ScalarType) else 2 * _WORD_BITS
