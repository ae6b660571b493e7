"""Traversals of whole programs, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from vyre.domain.ir.expr import LEAVES, Expr, children
from vyre.domain.ir.stmt import Body, GridLoop, Let, Loop, Stmt, bodies, operands, walk_statements

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program


def unique_nodes(roots: Iterable[Expr], seen: set[int] | None = None) -> Iterator[Expr]:
    """Yields every expression object below and including ``roots`` once, however often it is shared.

    ``seen`` holds the identities of objects that are skipped; the traversal adds to it.
    """
    seen = set() if seen is None else seen
    stack: list[Expr] = [*roots][::-1]
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            yield expr
            if type(expr) not in LEAVES:
                stack += children(expr)[::-1]


def operands_first(root: Expr, known: Container[int]) -> Iterator[Expr]:
    """Yields the expression objects below and including ``root`` that are not ``known``, each after its operands.

    Operands come from left to right.  ``known`` holds identities; the caller adds that of every expression before it
    asks for the next one.
    """
    stack: list[Expr] = [root]
    while stack:
        node = stack[-1]
        if id(node) in known:
            stack.pop()
            continue
        if type(node) not in LEAVES:
            waiting = [operand for operand in children(node) if id(operand) not in known]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
        stack.pop()
        yield node


def program_statements(program: Program) -> Iterator[Stmt]:
    """Yields every statement of the program, those of its definitions first; does not recurse."""
    for definition in program.definitions:
        yield from walk_statements(definition.body)
    yield from walk_statements(program.body)


def declared_names(body: Body) -> Iterator[str]:
    """Yields the name of each local that the statements declare, in program order."""
    for stmt in walk_statements(body):
        if isinstance(stmt, Let | GridLoop):
            yield stmt.name
        elif isinstance(stmt, Loop):
            yield stmt.var


def unique_expressions(program: Program) -> Iterator[Expr]:
    """Yields every expression object of the program and its definitions once, however often it is shared."""
    roots = [root for stmt in program_statements(program) for root in operands(stmt)]
    return unique_nodes([*roots, *[definition.result for definition in program.definitions]])


def containers(body: Body, is_wanted: Callable[[Stmt], bool]) -> set[int]:
    """Returns the identities of the statements that contain a wanted one, at any depth; does not recurse."""
    containing: set[int] = set()
    open_bodies: list[tuple[Stmt | None, Iterator[Stmt]]] = [(None, iter(body))]
    while open_bodies:
        around, rest = open_bodies[-1]
        for stmt in rest:
            if around is not None and is_wanted(stmt):
                containing.add(id(around))
            nested = bodies(stmt)
            if nested:
                open_bodies += [(stmt, iter(inner)) for inner in nested]
                break
        else:
            open_bodies.pop()
            outer = open_bodies[-1][0] if open_bodies else None
            if outer is not None and id(around) in containing:
                containing.add(id(outer))
    return containing


def of_this_loop(body: Body) -> Iterator[Stmt]:
    """Yields the statements of a body in any order, those in loops inside of it left out."""
    stack = list(body)
    while stack:
        stmt = stack.pop()
        yield stmt
        if not isinstance(stmt, Loop):
            for nested in bodies(stmt):
                stack += nested


def size_if_small(
    root: Expr, most: int, checks: Mapping[type, Callable[[Any], None]], visited: dict[int, Expr] | None = None
) -> int:
    """Returns the size of an expression, 0 if it is above ``most``; it is less deep than large.

    It is found faster than by ``measure``, which says what ``checks`` and ``visited`` are.
    """
    size, stack = 0, [root]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind in checks:
            checks[kind](node)
        if kind not in LEAVES:
            stack += children(node)
        if visited is not None:
            visited[id(node)] = node
        size += 1
        if size > most:
            return 0
    return size


_LEAF: Final = (0, 1)
NO_CHECKS: Final[Mapping[type, Callable[[Any], None]]] = {}


def measure(
    root: Expr,
    known: dict[int, tuple[int, int]],
    most: int,
    checks: Mapping[type, Callable[[Any], None]] = NO_CHECKS,
    visited: dict[int, Expr] | None = None,
) -> tuple[int, int]:
    """Returns height (0 for a leaf) and size, at most ``most``, of an expression; shared nodes count at every use.

    ``known`` memoizes nodes by identity, so that the cost is linear in distinct nodes.  ``checks``, by the type of a
    node, are called with each node that is not in ``known``, and ``visited`` receives these nodes by identity.
    """
    measured = known.get(id(root))
    if measured is not None:
        return measured
    stack: list[Expr] = [root]
    while stack:
        node = stack[-1]
        height, size = _LEAF
        waiting = len(stack)
        for child in children(node):
            below = known.get(id(child))
            if below is None:
                stack.append(child)
            else:
                size += below[1]
                if below[0] >= height:
                    height = below[0] + 1
        if len(stack) == waiting:
            if type(node) in checks:
                checks[type(node)](node)
            if visited is not None:
                visited[id(node)] = node
            known[id(node)] = (height, size if size < most else most)
            stack.pop()
    return known[id(root)]
