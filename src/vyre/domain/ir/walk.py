"""Walks over whole programs, without recursion."""

from __future__ import annotations

from collections.abc import Iterator

from vyre.domain.ir.expr import Expr, children
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import operands, walk_statements


def unique_expressions(program: Program) -> Iterator[Expr]:
    """Every expression object of the program once, however often it is shared."""
    seen: set[int] = set()
    for stmt in walk_statements(program.body):
        stack: list[Expr] = list(reversed(operands(stmt)))
        while stack:
            expr = stack.pop()
            if id(expr) not in seen:
                seen.add(id(expr))
                yield expr
                stack.extend(reversed(children(expr)))
