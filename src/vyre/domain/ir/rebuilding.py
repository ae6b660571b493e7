"""Trees of nodes in which some have been replaced: one rewriter for expressions, statements and bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, Final, TypeVar

from vyre.domain.ir.expr import EXPR_TYPES, Atomic, Expr
from vyre.domain.ir.forms import BODIES, OPERANDS, PARTS, Parts
from vyre.domain.ir.node import Node
from vyre.domain.ir.stmt import STMT_TYPES, Arm, Block, Body, If, Loop, Region, Stmt, Switch, if_chain

_Root = TypeVar("_Root", bound="Node | tuple[Any, ...]")
_Node = TypeVar("_Node", bound="Expr | Stmt")

_BODY: Final = Parts((), lambda body: body, lambda _, *items: items)
_FOREIGN: Final = Parts((), lambda _: (), lambda other: other)
_LEAVES: Final = frozenset([cls for cls in (*EXPR_TYPES, *STMT_TYPES) if not PARTS[cls].names])


def rebuilt(root: _Root, change: Callable[[Any], Any], memo: dict[int, Any] | None = None) -> _Root:
    """Returns a tree of nodes, or a tuple of them, with every node passed through ``change``, operands first.

    ``change`` gets a node of which operands and bodies have been replaced.  A node of which nothing has changed stays
    the same object; shared nodes stay shared.  ``memo`` holds the results by the identity of the old nodes, for calls
    that share nodes; what it holds already is taken from there.  Labels of arms and defaults of constants are no parts
    that change.  Does not recurse.  O(nodes).
    """
    return rebuilt_from(root, lambda _, node: change(node), memo)


def rebuilt_from(root: _Root, change: Callable[[Any, Any], Any], memo: dict[int, Any] | None = None) -> _Root:
    """Returns what ``rebuilt`` returns; ``change`` gets each node of the old tree, and that node with new operands."""
    if memo is None:
        memo = {}
    stack: list[Any] = [root]
    while stack:
        item = stack[-1]
        key = id(item)
        if key in memo:  # a part that stands twice in one node
            stack.pop()
            continue
        kind = type(item)
        parts = _BODY if kind is tuple else PARTS.get(kind, _FOREIGN)
        old = parts.of(item)
        waiting: list[Any] = []
        for part in old:
            if id(part) not in memo and part is not None:
                if type(part) in _LEAVES and not waiting:
                    memo[id(part)] = change(part, part)
                else:
                    waiting.append(part)
        if waiting:
            waiting.reverse()
            stack += waiting
            continue
        stack.pop()
        new = list(map(memo.get, map(id, old)))
        node = item if all(map(is_, old, new)) else parts.replaced(item, *new)
        memo[key] = node if kind is tuple or parts is _FOREIGN else change(item, node)
    return memo[id(root)]  # type: ignore[no-any-return]


def with_operands(node: _Node, operands: Sequence[Expr | None]) -> _Node:
    """Returns an expression or statement with other operands, None for an absent one; the very node if they are its
    own.
    """
    own = OPERANDS[type(node)]
    if all(map(is_, own.of(node), operands)):
        return node
    return own.replaced(node, *operands)  # type: ignore[no-any-return]


def with_children(expr: Expr, operands: Sequence[Expr]) -> Expr:
    """Returns an expression with other operands than its ``children``, which lack an absent one of an atomic."""
    if type(expr) is Atomic and expr.expected is None:
        return with_operands(expr, (operands[0], None, operands[1]))
    return with_operands(expr, operands)


def with_body(stmt: Any, body: Body) -> Any:
    """Returns a loop, block, region or arm with another body; the very object if the body is the same one."""
    return stmt if body is stmt.body else BODIES[type(stmt)].replaced(stmt, body)


def with_branches(stmt: Switch, arms: list[Body], default: Body) -> Switch:
    """Returns a switch with other bodies; the statement itself if all bodies are the same objects."""
    new: list[Arm] = list(map(with_body, stmt.arms, arms))
    if default is stmt.default and all(map(is_, stmt.arms, new)):
        return stmt
    return Switch(stmt.selector, tuple(new), default, loc=stmt.loc)


def with_bodies(stmt: Stmt, change: Callable[[Body], Body]) -> Stmt:
    """Returns a statement of which each body has been changed; in a chain of ``else if`` those of all links."""
    match stmt:
        case If():
            links, rest = if_chain(stmt)
            rest = change(rest)
            for link in reversed(links):
                rest = (replace(link, then=change(link.then), otherwise=rest),)
            return rest[0]
        case Switch():
            return with_branches(stmt, [change(arm.body) for arm in stmt.arms], change(stmt.default))
        case Loop() | Block() | Region():
            return replace(stmt, body=change(stmt.body))
    return stmt


def same_statements(old: Body, new: list[Stmt]) -> Body:
    """Returns ``old`` if the new statements are the very same objects, else the new ones as a body."""
    if len(old) == len(new) and all(map(is_, old, new)):
        return old
    return tuple(new)
