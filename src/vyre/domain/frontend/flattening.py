"""Chains of branches whose conditions have statements of their own, which nest one body for each link.

``if a: A``, ``elif b: B`` is a chain of ``else if`` only where ``b`` is an expression.  Where it takes statements,
they stand in the ``else`` of ``a``, before the ``if`` of ``b``.  The flat form of such a chain has a local that tells
whether a lane has yet to choose, and nests no deeper than a chain of two links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from vyre.domain.ir.expr import Expr, Literal, Var
from vyre.domain.ir.limits import MAX_STATEMENT_DEPTH
from vyre.domain.ir.rebuilding import with_body, with_branches
from vyre.domain.ir.stmt import (
    WITH_BODIES,
    Assign,
    Body,
    If,
    Let,
    Stmt,
    Switch,
    if_chain,
    nested,
    operands,
    walk_statements,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes

_Unique = Callable[[str], str]
_FALSE: Final = Literal(ScalarType.BOOL, 0)
_TRUE: Final = Literal(ScalarType.BOOL, 1)


def flattened(body: Body, unique: _Unique) -> Body:
    """Returns a body, with its chains of branches in their flat form where it is nested too deep without.

    Each local has a name of its own; ``unique`` returns one that is new, and starts as the name that it gets.  Takes
    O(nodes) for each level of nesting.
    """
    pending = [(body, 0)]
    while pending:
        inner, depth = pending.pop()
        if depth > MAX_STATEMENT_DEPTH:
            return _flat(body, unique)
        for stmt in inner:
            if type(stmt) in WITH_BODIES:
                pending += nested(stmt, depth)
    return body


def _flat(body: Body, unique: _Unique) -> Body:
    return tuple([part for stmt in body for part in _flat_statement(stmt, unique)])


def _flat_statement(stmt: Any, unique: _Unique) -> Iterable[Stmt]:
    if type(stmt) is If:
        return _flat_chain(stmt, unique)
    if type(stmt) is Switch:
        return (with_branches(stmt, [_flat(arm.body, unique) for arm in stmt.arms], _flat(stmt.default, unique)),)
    return (with_body(stmt, _flat(stmt.body, unique)),) if type(stmt) in WITH_BODIES else (stmt,)


def _flat_chain(first: If, unique: _Unique) -> Iterable[Stmt]:
    sections, last = _sections(first)
    declared: list[Stmt] = []
    for body, _ in sections[1:]:
        declared += [stmt for stmt in body if _is_declaration(stmt)]
    waits = unique("waits") if len(sections) > 1 else ""
    statements: list[Stmt] = [*declared, Let(waits, _FALSE, loc=first.loc)] if waits else []
    for number, (body, links) in enumerate(sections):
        loc = links[0].loc
        chain: Body = (Assign(waits, _TRUE, loc=loc),) if number < len(sections) - 1 else _flat(last, unique)
        for link in reversed(links):
            chain = (If(link.condition, _flat(link.then, unique), chain, loc=link.loc),)
        if number:
            before = _flat(tuple([stmt for stmt in body[:-1] if not _is_declaration(stmt)]), unique)
            chain = (If(Var(waits, loc=loc), (Assign(waits, _FALSE, loc=loc), *before, *chain), loc=loc),)
        statements += chain
    return statements


def _sections(first: If) -> tuple[list[tuple[Body, tuple[If, ...]]], Body]:
    """Returns the parts of a chain which need not nest, and what the last ``else`` does.

    Each part is the body of an ``else`` and the links of the ``if`` that it ends with.  What follows a part uses none
    of its locals, but those that are declared without a value.
    """
    links, last = if_chain(first)
    sections: list[tuple[Body, tuple[If, ...]]] = [((first,), links)]
    while last and type(ending := last[-1]) is If:
        body, (links, last) = last, if_chain(ending)
        sections.append((body, links))
    later = _names(last)
    for number in range(len(sections) - 1, 0, -1):
        body, links = sections[number]
        if any(type(stmt) is Let and not _is_declaration(stmt) and stmt.name in later for stmt in body):
            del sections[number:]
            last = body
        later |= _names((*body[:-1], *[If(link.condition, link.then) for link in links]))
    return sections, last


def _is_declaration(stmt: Stmt) -> bool:
    return type(stmt) is Let and type(stmt.value) is Literal


def _names(body: Body) -> set[str]:
    roots: Iterable[Expr] = [root for stmt in walk_statements(body) for root in operands(stmt)]
    return {node.name for node in unique_nodes(roots) if type(node) is Var}
