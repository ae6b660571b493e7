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


def measure(root: Expr, known: dict[int, tuple[int, int]], most: int) -> tuple[int, int]:
    """Height of an expression (0 for a leaf) and size with shared nodes written out, but at most ``most``.

    ``known`` remembers nodes by identity, so that the cost is linear in distinct nodes.
    """
    found = known.get(id(root))
    if found is not None:
        return found
    stack: list[Expr] = [root]
    while stack:
        node = stack[-1]
        height, size, ready = 0, 1, True
        for child in children(node):
            below = known.get(id(child))
            if below is None:
                stack.append(child)
                ready = False
            elif ready:
                height, size = max(height, below[0] + 1), size + below[1]
        if ready:
            known[id(node)] = (height, min(size, most))
            stack.pop()
    return known[id(root)]
