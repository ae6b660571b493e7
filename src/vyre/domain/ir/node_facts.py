"""Which kinds of nodes a program has, and how many: found in one walk, for all who ask what a program contains."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from vyre.domain.ir.expr import Expr, Literal, Unary
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.stmt import Stmt
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import program_statements, unique_expressions

_CACHED: Final = "node_facts"


class NodeFacts(NamedTuple):
    """The nodes of a program, with those of its definitions.

    ``types``: the classes of its statements and expressions.  ``literals``: the types of its literals.  ``unary``: its
    unary operators.  What is no type or operator, in an invalid program, is left out.  ``nodes``: the number of its
    statements and of its expression objects, each counted once.
    """

    types: frozenset[type[Node]]
    literals: frozenset[ScalarType]
    unary: frozenset[UnaryOp]
    nodes: int


@kept_with_program(_CACHED)
def node_facts(program: Program) -> NodeFacts:
    """Returns the facts of a program; cached on it.  Linear in its nodes.

    Raises ``InvalidProgram`` for what is no statement or expression.
    """
    return _facts_of([*program_statements(program)], [*unique_expressions(program)])


def remember_nodes(program: Program, statements: Collection[Stmt], expressions: Collection[Expr]) -> None:
    """Caches the facts of a program whose nodes another walk has visited, each expression object once."""
    program._cache[_CACHED] = _facts_of(statements, expressions)


def _facts_of(statements: Collection[Stmt], expressions: Collection[Expr]) -> NodeFacts:
    types = frozenset((*map(type, statements), *map(type, expressions)))
    literals = [expr.dtype for expr in expressions if type(expr) is Literal]
    unary = [expr.op for expr in expressions if type(expr) is Unary]
    return NodeFacts(
        types,
        frozenset([dtype for dtype in literals if isinstance(dtype, ScalarType)]),
        frozenset([op for op in unary if isinstance(op, UnaryOp)]),
        len(statements) + len(expressions),
    )
