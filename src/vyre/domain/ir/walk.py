"""Walks over whole programs, without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vyre.domain.ir.expr import Expr, children
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import operands, walk_statements


def unique_nodes(roots: Iterable[Expr], seen: set[int] | None = None) -> Iterator[Expr]:
    """Every expression object below and including ``roots`` once, however often it is shared.

    ``seen`` holds the identities of objects that are left out; it grows.
    """
    seen = set() if seen is None else seen
    stack: list[Expr] = list(reversed(tuple(roots)))
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            yield expr
            stack.extend(reversed(children(expr)))


def unique_expressions(program: Program) -> Iterator[Expr]:
    """Every expression object of the program once, however often it is shared."""
    seen: set[int] = set()
    for stmt in walk_statements(program.body):
        yield from unique_nodes(operands(stmt), seen)
