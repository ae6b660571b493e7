"""Which kinds of nodes a program has, and how many: found in one walk, for all who ask what a program contains."""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.domain.ir.expr import LEAVES, Expr, Literal, Unary, children
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import operands, walk_statements
from vyre.domain.ir.types import ScalarType

_CACHED: Final = "node_facts"


class NodeFacts(NamedTuple):
    """The nodes of a program.

    ``types``: the classes of its statements and expressions.  ``literals``: the types of its literals.  ``unary``: its
    unary operators.  What is no type or operator, in an invalid program, is left out.  ``nodes``: the number of its
    statements and of its expression objects, each counted once.
    """

    types: frozenset[type[Node]]
    literals: frozenset[ScalarType]
    unary: frozenset[UnaryOp]
    nodes: int


def node_facts(program: Program) -> NodeFacts:
    """Returns the facts of a program; cached on it.  Linear in its nodes.

    Raises ``InvalidProgram`` for what is no statement or expression.
    """
    found = program._cache.get(_CACHED)
    if type(found) is not NodeFacts:
        found = program._cache[_CACHED] = _facts(program)
    return found


def _facts(program: Program) -> NodeFacts:
    types: set[type[Node]] = set()
    literals: set[ScalarType] = set()
    unary: set[UnaryOp] = set()
    seen: set[int] = set()
    stack: list[Expr] = []
    statements = 0
    for stmt in walk_statements(program.body):
        statements += 1
        types.add(type(stmt))
        stack += operands(stmt)
        while stack:
            expr = stack.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            kind = type(expr)
            types.add(kind)
            if kind in LEAVES:
                if isinstance(expr, Literal) and isinstance(expr.dtype, ScalarType):
                    literals.add(expr.dtype)
                continue
            if isinstance(expr, Unary) and isinstance(expr.op, UnaryOp):
                unary.add(expr.op)
            stack += children(expr)
    return NodeFacts(frozenset(types), frozenset(literals), frozenset(unary), statements + len(seen))
