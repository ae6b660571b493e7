"""The statements of a body, one after the other, and branches.

Everything here returns whether the statement after it can be reached.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from vyre.domain.frontend.evaluation import test
from vyre.domain.frontend.lowering import Lowering, Variable, closed
from vyre.domain.frontend.refused import refuse
from vyre.domain.frontend.returns import always_returns, has_return, leave_loop, returned_flag, returns_in_a_loop
from vyre.domain.ir.expr import Unary
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.stmt import If


def run_body(k: Lowering, statements: list[ast.stmt]) -> bool:
    """Records the statements of a body."""
    return _from(k, statements, 0)


def _from(k: Lowering, statements: list[ast.stmt], first: int) -> bool:
    number = k.frame.names.body(statements)
    for index in range(first, len(statements)):
        stmt = statements[index]
        _reserve(k, number, index)
        if k.frame.returns is not None and not isinstance(stmt, ast.Return) and has_return(stmt):
            return _may_return(k, stmt, statements, index + 1)
        if not statement(k, stmt):
            return False
    return True


def _reserve(k: Lowering, number: int, index: int) -> None:
    """Keeps places for the variables that are declared before a statement."""
    for name in k.frame.names.declared.get((number, index), ()):
        if name not in k.frame.env:
            k.declares(name)
            k.frame.holes[name] = k.hole()


def elif_of(k: Lowering, statements: list[ast.stmt]) -> ast.If | None:
    """Returns the ``if`` that a body consists of, which has been begun; None for any other body.

    In a loop what follows a ``return`` needs more than that.
    """
    if len(statements) != 1 or not isinstance(only := statements[0], ast.If):
        return None
    if k.frame.returns is not None and k.frame.is_in_loop and has_return(only):
        return None
    _reserve(k, k.frame.names.body(statements), 0)
    return only


def statement(k: Lowering, node: ast.stmt) -> bool:
    """Records one statement."""
    rule = k.rules.statements.get(type(node))
    if rule is None:
        refuse(k, node)
    return rule(k, node)


# ---------------------------------------------------------------- functions that return early
def _may_return(k: Lowering, stmt: ast.stmt, statements: list[ast.stmt], rest: int) -> bool:
    """Records a statement in which an inlined function may return, and those after it for lanes that have not."""
    if k.frame.is_in_loop:
        return _may_return_from_loop(k, stmt, statements, rest)
    if rest == len(statements):
        return statement(k, stmt)
    if isinstance(stmt, ast.If):
        if always_returns(stmt.body) and not any(map(has_return, stmt.orelse)):
            return branch(k, stmt, lambda: run_body(k, stmt.body), lambda: _both(k, stmt.orelse, statements, rest))
        if always_returns(stmt.orelse) and not any(map(has_return, stmt.body)):
            return branch(k, stmt, lambda: _both(k, stmt.body, statements, rest), lambda: run_body(k, stmt.orelse))
    returns = k.frame.returns
    assert returns is not None
    flag = returned_flag(k, returns, stmt)
    if not statement(k, stmt):
        return False
    return unless_returned(k, flag, stmt, lambda: _from(k, statements, rest))


def _may_return_from_loop(k: Lowering, stmt: ast.stmt, statements: list[ast.stmt], rest: int) -> bool:
    """Does the same in a loop, which ``return`` leaves, so that what follows needs no test."""
    returns = k.frame.returns
    assert returns is not None
    flag = returned_flag(k, returns, stmt) if returns_in_a_loop(stmt) else None
    falls = statement(k, stmt)
    if flag is not None:
        leave_loop(k, flag, stmt)
    return falls and _from(k, statements, rest)


def _both(k: Lowering, first: list[ast.stmt], statements: list[ast.stmt], rest: int) -> bool:
    return run_body(k, first) and _from(k, statements, rest)


def unless_returned(k: Lowering, flag: Variable, node: ast.AST, run: Callable[[], bool]) -> bool:
    """Records what ``run`` records, for lanes that have not returned."""
    going = Unary(UnaryOp.LOGICAL_NOT, k.read(flag, node).expr, loc=k.loc(node))
    with k.open() as body:
        falls = run()
    k.emit(If(going, closed(body), loc=k.loc(node)))
    return falls


# ---------------------------------------------------------------- branches
def branch(k: Lowering, node: ast.If, then: Callable[[], bool], otherwise: Callable[[], bool]) -> bool:
    """Records an ``if``, whose two bodies ``then`` and ``otherwise`` record."""
    known = test(k, node.test)
    if isinstance(known, bool):
        return then() if known else otherwise()
    before = set(k.frame.assigned)
    with k.open() as first:
        falls = then()
    after_then = k.frame.assigned if falls else None
    k.frame.assigned = set(before)
    with k.open() as second:
        falls_too = otherwise()
    after_else = k.frame.assigned if falls_too else None
    k.frame.assigned = merged(before, after_then, after_else)
    k.emit(If(known.expr, closed(first), closed(second), loc=k.loc(node)))
    return falls or falls_too


def merged(before: set[str], *ways: set[str] | None) -> set[str]:
    """Returns the names that have a value whichever of the ways was taken; None is a way that does not get here."""
    reached = [way for way in ways if way is not None]
    return set.intersection(*reached) if reached else before
