"""Calls of ``@vyre.function``: the statements of the function become part of the caller's."""

from __future__ import annotations

import ast
from typing import Final

from vyre.domain.frontend.inlined import Inlined
from vyre.domain.frontend.lowering import MAX_INLINED, Frame, Hole, Lowering, Returns, Variable
from vyre.domain.frontend.operands import Constant, Items, Operand, Scalar, Thing
from vyre.domain.frontend.operators import common, scalar, standalone, typed
from vyre.domain.ir.expr import LaunchId, Literal, Var
from vyre.domain.ir.stmt import Assign, Break, Let
from vyre.domain.ir.types import ScalarType

_BOOL: Final = ScalarType.BOOL


def inline(k: Lowering, function: Inlined[..., object], node: ast.Call) -> Operand:
    """Returns what a call of a function evaluates to, after recording its statements."""
    from vyre.domain.frontend.statements import declare_parameters, run_body

    if len(k.frames) > MAX_INLINED:
        k.fail(
            node,
            f"calls are nested more than {MAX_INLINED} deep here, or `{function.__name__}` calls itself",
            "write the recursion as a loop, with a stack in vyre.private_array where it needs one.",
        )
    arguments = _arguments(k, function, node)
    frame = Frame(function.source, function.names, function.captured)
    for name, operand in arguments.items():
        frame.env[name] = operand
        frame.assigned.add(name)
    body = function.source.tree.body
    frame.returns = Returns(k.hole(), is_last=_returns_last(body))
    k.frames.append(frame)
    k.frame = frame
    try:
        declare_parameters(k, arguments)
        run_body(k, body)
        returns = frame.returns
        found = returns.result
        if found is None and returns.variables:
            values = tuple(k.read(variable, function.source.tree) for variable in returns.variables)
            found = Items(values) if returns.is_tuple else values[0]
            _declare(k, returns, function.source.tree)
    finally:
        k.frames.pop()
        k.frame = k.frames[-1]
    return Thing(None) if found is None else found


def _returns_last(body: list[ast.stmt]) -> bool:
    """Returns whether the only ``return`` of a function is its last statement."""
    returns = [one for stmt in body for one in ast.walk(stmt) if isinstance(one, ast.Return)]
    return len(returns) == 1 and returns[0] is body[-1]


def _arguments(k: Lowering, function: Inlined[..., object], node: ast.Call) -> dict[str, Operand]:
    from vyre.domain.frontend.calls import _refuse_stars
    from vyre.domain.frontend.expressions import operands

    _refuse_stars(k, node)
    tree = function.source.tree.args
    if tree.vararg is not None or tree.kwarg is not None:
        k.fail(node, f"`{function.__name__}` takes *args or **kwargs", "give each parameter a name.")
    positional = [one.arg for one in (*tree.posonlyargs, *tree.args)]
    only = [one.arg for one in tree.kwonlyargs]
    wanted: dict[str, ast.expr] = dict(zip(positional, node.args, strict=False))
    wrong = len(node.args) > len(positional)
    for keyword in node.keywords:
        name = keyword.arg or ""
        if name in wanted or name not in (*positional, *only):
            wrong = True
        wanted[name] = keyword.value
    defaults = dict(zip(reversed(positional), reversed(tree.defaults), strict=False))
    defaults |= {name: value for name, value in zip(only, tree.kw_defaults, strict=True) if value is not None}
    missing = [name for name in (*positional, *only) if name not in wanted and name not in defaults]
    if wrong or missing:
        parameters = ", ".join((*positional, *only))
        k.fail(
            node,
            f"the arguments do not fit `{function.__name__}({parameters})`",
            f"give {', '.join(missing)}." if missing else "repair the call.",
        )
    given = dict(zip(wanted, operands(k, list(wanted.values())), strict=True))
    found = {
        name: _argument(k, given[name], name, node) if name in given else _default(k, function, defaults[name])
        for name in (*positional, *only)
    }
    for one in (*tree.posonlyargs, *tree.args, *tree.kwonlyargs):
        dtype = function.annotated(one.arg)
        if dtype is not None and isinstance(found[one.arg], Scalar | Constant):
            found[one.arg] = typed(k, found[one.arg], dtype, f"`{one.arg}` of {function.__name__}", node)
    return found


def _argument(k: Lowering, operand: Operand, name: str, node: ast.AST) -> Operand:
    """Returns an argument, which Python evaluates once."""
    if isinstance(operand, Scalar) and (operand.changes or not isinstance(operand.expr, Var | Literal | LaunchId)):
        return k.let(operand, name, node)
    return operand


def _default(k: Lowering, function: Inlined[..., object], node: ast.expr) -> Operand:
    from vyre.domain.frontend.expressions import expression

    caller = k.frame
    k.frame = Frame(function.source, function.names, function.captured)
    try:
        return expression(k, node)
    finally:
        k.frame = caller


# ---------------------------------------------------------------- return
def return_value(k: Lowering, node: ast.Return) -> bool:
    """Records ``return`` in an inlined function; returns whether the next statement can be reached, which it cannot."""
    from vyre.domain.frontend.expressions import expression

    returns = k.frame.returns
    assert returns is not None
    found = Thing(None) if node.value is None else expression(k, node.value)
    if returns.is_last:
        if isinstance(found, Scalar) and found.changes:
            found = k.let(found, "result", node)
        returns.result = found
        return False
    _assign(k, returns, found, node)
    if returns.flag is not None:
        k.emit(Assign(returns.flag.name, Literal(_BOOL, 1), loc=k.loc(node)))
    if any(not loop.unrolled for loop in k.frame.loops):
        k.emit(Break(loc=k.loc(node)))
    return False


def _assign(k: Lowering, returns: Returns, found: Operand, node: ast.Return) -> None:
    if isinstance(found, Thing) and found.value is None and returns.variables is None:
        return
    items = found.items if isinstance(found, Items) else (found,)
    if returns.variables is None:
        returns.is_tuple = isinstance(found, Items)
        returns.variables = [_variable(k, item, node) for item in items]
    if len(items) != len(returns.variables) or isinstance(found, Items) is not returns.is_tuple:
        k.fail(node, "the `return` statements of the function give different numbers of values", "repair one of them.")
    for variable, item in zip(returns.variables, items, strict=True):
        like = k.read(variable, node)
        _, value = common(k, like, item, "the results of the function", node)
        k.emit(Assign(variable.name, value.expr, loc=k.loc(node)))


def _variable(k: Lowering, item: Operand, node: ast.AST) -> Variable:
    item = k.settled(item)
    if isinstance(item, Constant) and item.own is None and not isinstance(item.value, bool):
        known = k.unknown(fractional=isinstance(item.value, float), negative=item.value < 0)
        if isinstance(known, ScalarType):
            return Variable(k.unique("result"), known)
        return Variable(k.unique("result"), None, known)
    value = standalone(k, item, node) if isinstance(item, Constant) else scalar(k, item, node)
    return Variable(k.unique("result"), value.dtype, value.cell)


def _declare(k: Lowering, returns: Returns, node: ast.AST) -> None:
    """Declares the variables of the results where the function began."""
    assert returns.variables is not None
    returns.start.more = [
        Let(one.name, Literal(one.dtype or ScalarType.U32, 0), loc=k.loc(node)) for one in returns.variables
    ]


def returned_flag(k: Lowering, node: ast.AST) -> Variable:
    """Returns the variable that tells whether the open function has returned, and declares it on first use."""
    returns = k.frame.returns
    assert returns is not None
    if returns.flag is None:
        returns.flag = Variable(k.unique("returned"), _BOOL)
        k.fill(returns.start, returns.flag, node)
    return returns.flag


__all__ = ["Hole", "inline", "return_value", "returned_flag"]
