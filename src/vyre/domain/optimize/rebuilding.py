"""Expressions and statements with other operands, made fast: passes of the optimizer do this for every node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vyre.domain.ir.expr import (
    CHILDREN,
    LEAVES,
    Atomic,
    Binary,
    Bitcast,
    Call,
    Cast,
    Expr,
    Fma,
    Load,
    Narrow,
    Pack,
    Select,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupShuffle,
    Unary,
    Unpack,
    WrapCast,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.stmt import (
    Arm,
    Assign,
    AsyncLoad,
    AsyncStore,
    Block,
    Body,
    GridLoop,
    If,
    Let,
    Loop,
    Region,
    Stmt,
    Store,
    Switch,
    Trap,
)

EXPRESSIONS: Final[dict[type[Node], Callable[..., Any]]] = {
    Load: lambda n, index: Load(n.buffer, index, loc=n.loc),
    Binary: lambda n, left, right: Binary(n.op, left, right, loc=n.loc),
    Unary: lambda n, operand: Unary(n.op, operand, loc=n.loc),
    Select: lambda n, condition, yes, no: Select(condition, yes, no, loc=n.loc),
    Cast: lambda n, operand: Cast(n.dtype, operand, loc=n.loc),
    Bitcast: lambda n, operand: Bitcast(n.dtype, operand, loc=n.loc),
    Narrow: lambda n, operand: Narrow(n.dtype, operand, loc=n.loc),
    Pack: lambda n, operand: Pack(n.dtype, operand, loc=n.loc),
    Unpack: lambda n, operand: Unpack(n.dtype, operand, loc=n.loc),
    WrapCast: lambda n, operand: WrapCast(n.dtype, operand, loc=n.loc),
    Fma: lambda n, a, b, c: Fma(a, b, c, loc=n.loc),
    Atomic: lambda n, index, expected, value: Atomic(n.op, n.buffer, index, expected, value, n.ordering, loc=n.loc),
    Call: lambda n, *args: Call(n.op, args, loc=n.loc),
    SubgroupAdd: lambda n, value: SubgroupAdd(value, loc=n.loc),
    SubgroupBallot: lambda n, condition: SubgroupBallot(condition, loc=n.loc),
    SubgroupShuffle: lambda n, value, lane: SubgroupShuffle(value, lane, loc=n.loc),
}
"""Functions from an expression that has operands, and new operands, to the expression with these, by its type."""
STATEMENTS: Final[dict[type[Node], Callable[..., Any]]] = {
    Let: lambda s, value: Let(s.name, value, loc=s.loc),
    Assign: lambda s, value: Assign(s.name, value, loc=s.loc),
    Store: lambda s, index, value: Store(s.buffer, index, value, loc=s.loc),
    If: lambda s, condition: If(condition, s.then, s.otherwise, loc=s.loc),
    Switch: lambda s, selector: Switch(selector, s.arms, s.default, loc=s.loc),
    Loop: lambda s, start, stop, step: Loop(s.var, start, stop, step, s.body, loc=s.loc),
    GridLoop: lambda s, limit: GridLoop(s.name, limit, s.flag, s.body, loc=s.loc),
    AsyncLoad: lambda s, offset, size: AsyncLoad(s.source, s.destination, offset, size, s.tag, loc=s.loc),
    AsyncStore: lambda s, offset, size: AsyncStore(s.source, s.destination, offset, size, s.tag, loc=s.loc),
    Trap: lambda s, address: Trap(address, s.tag, loc=s.loc),
}
"""The same for statements and the expressions that they evaluate themselves."""


def rewritten(root: Expr, rule: Callable[[Expr], Expr], made: dict[int, Expr]) -> Expr:
    """Returns an expression with every node replaced by what ``rule`` returns for it, operands first.

    ``rule`` gets a node whose operands are replaced already.  ``made`` holds the results by the identity of the nodes
    of the old expression, and what it holds is taken from there.  A node of which nothing changes stays the same
    object.  Does not recurse; O(nodes).
    """
    return rewritten_from(root, lambda _, new: rule(new), made)


def rewritten_from(root: Expr, rule: Callable[[Any, Any], Expr], made: dict[int, Expr]) -> Expr:
    """Returns what ``rewritten`` returns; ``rule`` gets a node of the old expression, and that node with operands that
    are replaced already.
    """
    found = made.get(id(root))
    if found is not None:
        return found
    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in made:  # an operand that stands twice in one expression
            stack.pop()
            continue
        kind = type(node)
        new: Expr
        if kind in LEAVES:
            new = node
        else:
            old = CHILDREN[kind](node)
            waiting = [operand for operand in old if operand is not None and id(operand) not in made]
            if waiting:
                stack += waiting[::-1]
                continue
            operands = [None if operand is None else made[id(operand)] for operand in old]
            new = node
            for one, other in zip(old, operands, strict=True):
                if one is not other:
                    new = EXPRESSIONS[kind](node, *operands)
                    break
        stack.pop()
        made[id(node)] = rule(node, new)
    return made[id(root)]


def with_body(stmt: Stmt, body: Body) -> Stmt:
    """Returns a loop, block or region with another body; the statement itself if the body is the same object."""
    match stmt:
        case Loop() if body is not stmt.body:
            return Loop(stmt.var, stmt.start, stmt.stop, stmt.step, body, loc=stmt.loc)
        case GridLoop() if body is not stmt.body:
            return GridLoop(stmt.name, stmt.limit, stmt.flag, body, loc=stmt.loc)
        case Block() if body is not stmt.body:
            return Block(body, loc=stmt.loc)
        case Region() if body is not stmt.body:
            return Region(stmt.generator, body, stmt.source, loc=stmt.loc)
        case _:
            return stmt


def with_branches(stmt: Switch, arms: list[Body], default: Body) -> Switch:
    """Returns a switch with other bodies; the statement itself if all bodies are the same objects."""
    if default is stmt.default and all(new is arm.body for arm, new in zip(stmt.arms, arms, strict=True)):
        return stmt
    made = [Arm(arm.labels, new, loc=arm.loc) for arm, new in zip(stmt.arms, arms, strict=True)]
    return Switch(stmt.selector, tuple(made), default, loc=stmt.loc)


def same_statements(old: Body, new: list[Stmt]) -> Body:
    """Returns ``old`` if the new statements are the very same objects, else the new ones as a body."""
    if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)):
        return old
    return tuple(new)
