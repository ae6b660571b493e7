"""Operands that Python might not evaluate: those of ``a if c else b``, and on the right of ``and``, ``or`` and chains.

All lanes evaluate them, as ``select`` does, unless a lane could tell: a load of an element to which another lane may
store counts as an access, and a loop of an inlined function may end for those lanes alone that need it.  A branch
around such an operand runs it for the lanes that need it.  Subgroup operations take the values of all lanes, and so do
their operands.

An element whose index is the id along the only axis that a kernel reads is taken for the lane's own.  A launch over
further axes has several lanes for it.  A check for races may then name loads of operands that a lane does not choose;
no result depends on them, because the lane drops what it loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from vyre.domain.frontend import operators
from vyre.domain.frontend.lowering import Effects, Hole, Lowering, closed
from vyre.domain.frontend.operands import Items, Operand, Scalar
from vyre.domain.ir import expr as e
from vyre.domain.ir import stmt as s
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import operands_first

_Value = TypeVar("_Value")
_WITHOUT_EFFECT: Final = (s.Let, s.Assign, s.If, s.Switch, s.Loop, s.Break, s.Continue)
"""Statements that change nothing but locals of the operand in which they stand."""


class Aside(NamedTuple, Generic[_Value]):
    """An operand, and the statements of the branch in which it is evaluated; None where all lanes evaluate it.

    ``exchanges``: whether it has an operation that takes the values of all lanes.
    """

    value: _Value
    branch: list[s.Stmt | Hole] | None
    exchanges: bool


def aside(k: Lowering, evaluate: Callable[[Lowering, ast.expr], _Value], node: ast.expr, where: str) -> Aside[_Value]:
    """Returns an operand that Python might not evaluate; one that changes something is refused there."""
    return closed_aside(k, opened_aside(k), evaluate(k, node), node, where)


class OpenAside(NamedTuple):
    """The open body of such an operand, and how many loads came before it."""

    body: list[s.Stmt | Hole]
    start: int


def opened_aside(k: Lowering) -> OpenAside:
    """Opens the body of an operand, which ``closed_aside`` closes."""
    return OpenAside(k.begin(), len(k.loads))


def closed_aside(k: Lowering, opened: OpenAside, value: _Value, node: ast.expr, where: str) -> Aside[_Value]:
    """Returns what ``aside`` does of an operand that has been evaluated since its body was opened."""
    k.end()
    body, start = opened
    pending = list(closed(body))
    is_branch = not all(isinstance(stmt, s.Let) for stmt in pending)
    changes = exchanges = False
    while pending:
        stmt = pending.pop()
        known = k.effects.get(id(stmt))
        effects = [known] if known else [_effects(k, root) for root in s.operands(stmt)]
        changes = changes or not isinstance(stmt, _WITHOUT_EFFECT) or any(one.has_atomic for one in effects)
        exchanges = exchanges or any(one.exchanges for one in effects)
        pending += () if known else [inner for part in s.bodies(stmt) for inner in part]
    if changes:
        problem = f"this has statements, and stands {where}, where Python might not run it"
        k.fail(node, problem, "write it before, or use an `if` statement.")
    exchanges = exchanges or any(_effects(k, root).exchanges for root in _values(value))
    if len(k.loads) > start and not exchanges:
        k.optional_loads += k.loads[start:]
        is_branch = is_branch or any(id(load) in k.racing for load, _ in k.loads[start:])
    if not is_branch:
        k.body.extend(body)
    return Aside(value, body if is_branch else None, exchanges)


def _effects(k: Lowering, root: e.Expr) -> Effects:
    for node in operands_first(root, k.effects):
        parts = [k.effects[id(part)] for part in e.children(node)]
        has_atomic = type(node) in e.ATOMICS or any(part.has_atomic for part in parts)
        exchanges = type(node) in e.EXCHANGING or any(part.exchanges for part in parts)
        k.effects[id(node)] = Effects(node, has_atomic, exchanges)
    return k.effects[id(root)]


def _emit_branch(k: Lowering, branch: s.If, *sides: Aside[Any]) -> None:
    """Records a branch of operands, into which the check of an operand around it need not look again."""
    exchanges = any(side.exchanges for side in sides) or _effects(k, branch.condition).exchanges
    k.effects[id(branch)] = Effects(branch, False, exchanges)
    k.emit(branch)


def _expressions(statements: Iterable[s.Stmt]) -> Iterator[e.Expr]:
    return (expr for stmt in statements for root in s.operands(stmt) for expr in e.walk(root))


def _values(value: object) -> list[e.Expr]:
    if isinstance(value, Items):
        return [expr for item in value.items for expr in _values(item)]
    return [value.expr] if isinstance(value, Scalar) else []


def placed(k: Lowering, test: Scalar, node: ast.AST, side: Aside[_Value], *, where: bool) -> tuple[Scalar, _Value]:
    """Records the branch of an operand that is needed where a condition has the truth ``where``.

    Returns the condition, which has a name where a branch tests it, and what the operand evaluates to.
    """
    if side.branch is None:
        return test, side.value
    test = operators.named(k, test, node)
    value = _assigned(k, side.value, side.branch, node)
    met = test if where else operators.negated(k, test, node)
    _emit_branch(k, s.If(met.expr, closed(side.branch), loc=k.loc(node)), side)
    return test, value


def chosen(k: Lowering, test: Scalar, on_true: Aside[Operand], on_false: Aside[Operand], node: ast.AST) -> Operand:
    """Returns one of two operands, item by item where they are tuples.

    Where one of them has a branch, both are evaluated in branches, which assign the same locals.  Those of a choice in
    the second operand are taken, so that a chain of choices is one of ``else if``, which does not nest.
    """
    if on_true.branch is None and on_false.branch is None:
        return _selected(k, test, on_true.value, on_false.value, node)
    loc, then, otherwise, free = k.loc(node), on_true.branch or [], list[s.Stmt](), set[str]()
    for stmt in closed(on_false.branch or []):
        if isinstance(stmt, s.Let) and isinstance(stmt.value, e.Literal):
            k.emit(stmt)
            free.add(stmt.name)
        else:
            otherwise.append(stmt)

    def assigned(a: Operand, b: Operand) -> Operand:
        if isinstance(a, Items) and isinstance(b, Items) and len(a.items) == len(b.items):
            return Items(tuple([assigned(*pair) for pair in zip(a.items, b.items, strict=True)]))
        left, right = operators.common(k, a, b, "the choice", node)
        if isinstance(right.expr, e.Var) and right.expr.name in free:
            name = right.expr.name
            free.remove(name)
        else:
            name = k.unique("t")
            k.emit(s.Let(name, e.Literal(left.dtype or ScalarType.U32, 0), loc=loc))
            otherwise.append(s.Assign(name, right.expr, loc=loc))
        then.append(s.Assign(name, left.expr, loc=loc))
        return Scalar(e.Var(name, loc=loc), left.dtype, left.cell)

    both = [
        side.value if side.branch is not None else _of_all_lanes(k, side.value, node) for side in (on_true, on_false)
    ]
    value = assigned(*both)
    _emit_branch(k, s.If(test.expr, closed(then), tuple(otherwise), loc=loc), on_true, on_false)
    return value


def _of_all_lanes(k: Lowering, value: Operand, node: ast.AST) -> Operand:
    """Returns an operand whose operations on values of all lanes are evaluated here, ahead of a branch."""
    if isinstance(value, Items):
        return Items(tuple([_of_all_lanes(k, item, node) for item in value.items]))
    if isinstance(value, Scalar) and _effects(k, value.expr).exchanges:
        return k.let(value, "t", node)
    return value


def _selected(k: Lowering, test: Scalar, a: Operand, b: Operand, node: ast.AST) -> Operand:
    if isinstance(a, Items) and isinstance(b, Items) and len(a.items) == len(b.items):
        test = operators.named(k, test, node)
        return Items(tuple([_selected(k, test, *pair, node) for pair in zip(a.items, b.items, strict=True)]))
    return operators.select(k, test, a, b, node)


def _assigned(k: Lowering, value: Any, body: list[s.Stmt | Hole], node: ast.AST) -> Any:
    """Returns an operand as locals, which are zero where the body that assigns them is not run."""
    if isinstance(value, Items):
        return Items(tuple(_assigned(k, item, body, node) for item in value.items))
    if not isinstance(value, Scalar) or isinstance(value.expr, e.Literal):
        return value
    name, loc = k.unique("t"), k.loc(node)
    k.emit(s.Let(name, e.Literal(value.dtype or ScalarType.U32, 0), loc=loc))
    body.append(s.Assign(name, value.expr, loc=loc))
    return Scalar(e.Var(name, loc=loc), value.dtype, value.cell, is_narrow=value.is_narrow)


def racing_loads(k: Lowering) -> frozenset[int]:
    """Returns the syntax, by identity, of the loads in operands that read elements to which other lanes may store.

    Those may not where the array is never written, or where the load and each store have the global id for index.
    """
    if not k.optional_loads:
        return frozenset()
    statements = list(s.walk_statements(k.finish()))
    parts = list(_expressions(statements))
    changed = {one.name for one in statements if isinstance(one, s.Assign)}
    fixed = {one.name: one.value for one in statements if isinstance(one, s.Let) and one.name not in changed}
    has_one_axis = len({one.axis for one in parts if isinstance(one, e.LaunchId)}) == 1

    def is_own(index: e.Expr) -> bool:
        index = fixed.get(index.name, index) if isinstance(index, e.Var) else index
        return has_one_axis and isinstance(index, e.LaunchId) and index.kind is e.IdKind.GLOBAL

    stores = {(one.buffer, is_own(one.index)) for one in (*statements, *parts) if isinstance(one, s.Store | e.Atomic)}
    stores |= {(one.flag, False) for one in statements if isinstance(one, s.GridLoop)}
    return frozenset(
        id(node)
        for node, load in k.optional_loads
        if (load.buffer, False) in stores or ((load.buffer, True) in stores and not is_own(load.index))
    )
