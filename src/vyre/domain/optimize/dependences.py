"""What the value of an expression depends on, and how high it is: found once for each node, operands first."""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.expr import CHILDREN, IMPURE, LEAVES, Expr, Load, Var
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Assign, walk_statements
from vyre.domain.optimize.flow import FENCE, Key

_NOTHING: Final[frozenset[Key]] = frozenset()
_MOST: Final = 16
"""An expression that depends on more changing things than these is never moved, so that the sets stay small."""


class Dependences(NamedTuple):
    """Facts about an expression.

    ``changing``: the locals, buffers and fences on which its value depends; None: it is not to be moved.  ``height`` is
    0 for an expression without operands.  ``loads``: it reads memory.
    """

    changing: frozenset[Key] | None
    height: int
    loads: bool


_LEAF: Final = Dependences(_NOTHING, 0, False)


_CONSTANT: Final[frozenset[type]] = (LEAVES - {Var}) | {type(None)}
"""Operands that depend on nothing; None is the absent one of an atomic."""


def _union(a: frozenset[Key] | None, b: frozenset[Key] | None) -> frozenset[Key] | None:
    if a is None or b is None:
        return None
    joined = a | b
    return joined if len(joined) <= _MOST else None


class DependenceFacts:
    """The dependences of expressions of one program in which every local has a name of its own."""

    def __init__(self, program: Program) -> None:
        self.assigned: frozenset[str] = frozenset(
            stmt.name for stmt in walk_statements(program.body) if type(stmt) is Assign
        )
        """The locals that the program assigns."""
        self._buffers = program.buffers_by_name
        self._written = written_buffers(program)
        self._memory: dict[str, frozenset[Key]] = {}
        self._known: dict[int, tuple[Expr, Dependences]] = {}

    def of(self, expr: Expr) -> Dependences:
        """Returns the facts of an expression; its operands must have been asked for before."""
        known = self._known.get(id(expr))
        if known is not None:
            return known[1]
        kind = type(expr)
        if kind in LEAVES:
            if kind is not Var or expr.name not in self.assigned:  # type: ignore[union-attr]
                return _LEAF
            facts = Dependences(frozenset((expr.name,)), 0, False)  # type: ignore[union-attr]
        else:
            facts = self._found(expr)
        self._known[id(expr)] = expr, facts
        return facts

    def _found(self, expr: Expr) -> Dependences:
        changing: frozenset[Key] | None = _NOTHING
        kind = type(expr)
        height, loads = 0, kind is Load
        for operand in CHILDREN[kind](expr):
            if type(operand) in _CONSTANT:
                continue
            below = self.of(operand)
            if below is _LEAF:
                continue
            if below.changing is not changing:
                changing = _union(changing, below.changing)
            if below.height > height:
                height = below.height
            loads = loads or below.loads
        if type(expr) is Load:
            if expr.buffer in self._written:
                changing = _union(changing, self.memory(expr.buffer))
        elif kind in IMPURE:
            changing = None
        return Dependences(changing, height + 1, loads)

    def memory(self, buffer: str) -> frozenset[Key]:
        """Returns the changes on which an element of a buffer depends; none if the program does not write it."""
        keys = self._memory.get(buffer)
        if keys is None:
            keys = _NOTHING
            if buffer in self._written:
                private = self._buffers[buffer].is_private
                keys = frozenset(((buffer,),)) if private else frozenset(((buffer,), FENCE))
            self._memory[buffer] = keys
        return keys


def written_buffers(program: Program) -> frozenset[str]:
    """Returns the names of the buffers to which any statement of a program may write."""
    return frozenset(
        use.buffer for stmt in walk_statements(program.body) for use in accesses(stmt) if use.touch is not Touch.READ
    )
