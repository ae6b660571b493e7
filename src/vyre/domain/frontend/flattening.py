"""Chains of branches whose conditions have statements of their own, which nest one body for each link.

``if a: A``, ``elif b: B`` is a chain of ``else if`` only where ``b`` is an expression.  Where it takes statements,
they stand in the ``else`` of ``a``, before the ``if`` of ``b``.  The flat form of such a chain has a local that tells
whether a lane has yet to choose, and nests no deeper than a chain of two links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.limits import MAX_STATEMENT_DEPTH
from vyre.domain.ir.rebuilding import with_body, with_branches
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes

_Unique = Callable[[str], str]
_FALSE: Final = ir.Literal(ScalarType.BOOL, 0)
_TRUE: Final = ir.Literal(ScalarType.BOOL, 1)


def flattened(body: ir.Body, unique: _Unique) -> ir.Body:
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
            if type(stmt) in ir.WITH_BODIES:
                pending += ir.nested(stmt, depth)
    return body


def _flat(body: ir.Body, unique: _Unique) -> ir.Body:
    return tuple([part for stmt in body for part in _flat_statement(stmt, unique)])


def _flat_statement(stmt: Any, unique: _Unique) -> Iterable[ir.Stmt]:
    if type(stmt) is ir.If:
        return _flat_chain(stmt, unique)
    if type(stmt) is ir.Switch:
        return (with_branches(stmt, [_flat(arm.body, unique) for arm in stmt.arms], _flat(stmt.default, unique)),)
    return (with_body(stmt, _flat(stmt.body, unique)),) if type(stmt) in ir.WITH_BODIES else (stmt,)


def _flat_chain(first: ir.If, unique: _Unique) -> Iterable[ir.Stmt]:
    sections, last = _sections(first)
    declared: list[ir.Stmt] = []
    for body, _ in sections[1:]:
        declared += [stmt for stmt in body if _is_declaration(stmt)]
    waits = unique("waits") if len(sections) > 1 else ""
    statements: list[ir.Stmt] = [*declared, ir.Let(waits, _FALSE, loc=first.loc)] if waits else []
    for number, (body, links) in enumerate(sections):
        loc = links[0].loc
        chain: ir.Body = (ir.Assign(waits, _TRUE, loc=loc),) if number < len(sections) - 1 else _flat(last, unique)
        for link in reversed(links):
            chain = (ir.If(link.condition, _flat(link.then, unique), chain, loc=link.loc),)
        if number:
            before = _flat(tuple([stmt for stmt in body[:-1] if not _is_declaration(stmt)]), unique)
            chain = (ir.If(ir.Var(waits, loc=loc), (ir.Assign(waits, _FALSE, loc=loc), *before, *chain), loc=loc),)
        statements += chain
    return statements


def _sections(first: ir.If) -> tuple[list[tuple[ir.Body, tuple[ir.If, ...]]], ir.Body]:
    """Returns the parts of a chain which need not nest, and what the last ``else`` does.

    Each part is the body of an ``else`` and the links of the ``if`` that it ends with.  What follows a part uses none
    of its locals, but those that are declared without a value.
    """
    links, last = ir.if_chain(first)
    sections: list[tuple[ir.Body, tuple[ir.If, ...]]] = [((first,), links)]
    while last and type(ending := last[-1]) is ir.If:
        body, (links, last) = last, ir.if_chain(ending)
        sections.append((body, links))
    later = _names(last)
    for number in range(len(sections) - 1, 0, -1):
        body, links = sections[number]
        if any(type(stmt) is ir.Let and not _is_declaration(stmt) and stmt.name in later for stmt in body):
            del sections[number:]
            last = body
        later |= _names((*body[:-1], *[ir.If(link.condition, link.then) for link in links]))
    return sections, last


def _is_declaration(stmt: ir.Stmt) -> bool:
    return type(stmt) is ir.Let and type(stmt.value) is ir.Literal


def _names(body: ir.Body) -> set[str]:
    roots: Iterable[ir.Expr] = [root for stmt in ir.walk_statements(body) for root in ir.operands(stmt)]
    return {node.name for node in unique_nodes(roots) if type(node) is ir.Var}
