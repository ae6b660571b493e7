"""``return`` in functions that are inlined: where results go, and how lanes that have returned skip what follows."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Final

from vyre.domain.frontend.assignment import fitted
from vyre.domain.frontend.evaluation import expression, kept
from vyre.domain.frontend.lowering import Lowering, Returns, Variable
from vyre.domain.frontend.operands import Constant, Items, Operand, Thing
from vyre.domain.frontend.operators import is_bare, scalar, standalone
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.stmt import Assign, Break, If, Let
from vyre.domain.ir.types import ScalarType

_BOOL: Final = ScalarType.BOOL


@lru_cache(maxsize=1024)
def has_return(statement: ast.stmt) -> bool:
    """Returns whether a ``return`` stands in a statement."""
    return any(isinstance(one, ast.Return) for one in ast.walk(statement))


def returns_in_a_loop(statement: ast.stmt) -> bool:
    """Returns whether a ``return`` stands in a loop of a statement, so that it leaves that loop only by itself."""
    loops = (one for one in ast.walk(statement) if isinstance(one, ast.For | ast.While | ast.With))
    return any(has_return(loop) for loop in loops)


def always_returns(statements: list[ast.stmt]) -> bool:
    """Returns whether a body ends with a ``return`` on every way."""
    while statements and isinstance(last := statements[-1], ast.If) and always_returns(last.body):
        statements = last.orelse
    return bool(statements) and isinstance(statements[-1], ast.Return)


def return_value(k: Lowering, returns: Returns, node: ast.Return) -> None:
    """Records ``return`` in an inlined function."""
    value = Thing(None) if node.value is None else expression(k, node.value)
    if returns.is_last:
        returns.result = kept(k, value, node, "result")
        return
    _assign_results(k, returns, value, node)
    if returns.flag is not None:
        k.emit(Assign(returns.flag.name, Literal(_BOOL, 1), loc=k.loc(node)))
    if k.frame.is_in_loop:
        k.emit(Break(loc=k.loc(node)))


def _assign_results(k: Lowering, returns: Returns, result: Operand, node: ast.Return) -> None:
    is_nothing = isinstance(result, Thing) and result.value is None
    returns.gives_nothing |= is_nothing
    if returns.gives_nothing:
        if is_nothing and returns.variables is None:
            return
        k.fail(
            node, "some `return` statements of the function give a value and some give none", "let each give a value."
        )
    items = result.items if isinstance(result, Items) else (result,)
    if returns.variables is None:
        returns.is_tuple = isinstance(result, Items)
        returns.variables = [_variable(k, item, node) for item in items]
    if len(items) != len(returns.variables) or isinstance(result, Items) is not returns.is_tuple:
        k.fail(
            node, "the `return` statements of the function give different numbers of values", "let each give as many."
        )
    # All items are evaluated before the first of them is stored, which a later one cannot read.
    for variable, item in zip(returns.variables, items, strict=True):
        value = fitted(k, variable, item, "the result of the function", node)
        k.emit(Assign(variable.name, value.expr, loc=k.loc(node)))


def _variable(k: Lowering, item: Operand, node: ast.AST) -> Variable:
    item = k.settled(item)
    if isinstance(item, Constant) and is_bare(item):
        return k.number_variable("result", item.value)
    value = standalone(k, item, node) if isinstance(item, Constant) else scalar(k, item, node)
    return Variable(k.unique("result"), value.dtype, value.cell)


def declare_results(k: Lowering, returns: Returns, node: ast.AST) -> Operand:
    """Declares the variables of the results where the function began; returns what the call evaluates to."""
    if returns.variables is None:
        return Thing(None) if returns.result is None else returns.result
    values = tuple(k.settled(k.read(variable, node)) for variable in returns.variables)
    returns.start.more = [
        Let(one.name, Literal(one.dtype or ScalarType.U32, 0), loc=k.loc(node)) for one in returns.variables
    ]
    return Items(values) if returns.is_tuple else values[0]


def returned_flag(k: Lowering, returns: Returns, node: ast.AST) -> Variable:
    """Returns the variable that tells whether the open function has returned, and declares it on first use."""
    if returns.flag is None:
        returns.flag = Variable(k.unique("returned"), _BOOL)
        k.fill(returns.start, returns.flag, node)
    return returns.flag


def leave_loop(k: Lowering, flag: Variable, node: ast.AST) -> None:
    """Records that lanes which have returned from an inner loop leave the loop around it, too."""
    k.emit(If(k.read(flag, node).expr, (Break(loc=k.loc(node)),), loc=k.loc(node)))
