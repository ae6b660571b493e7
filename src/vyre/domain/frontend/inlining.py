"""Calls of ``@vyre.function``: the statements of the function become part of the caller's."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

from vyre.domain.frontend.assignment import declare_parameters, refuse_array
from vyre.domain.frontend.blocks import run_body
from vyre.domain.frontend.call_arguments import refuse_stars
from vyre.domain.frontend.captured_names import operand_from, read
from vyre.domain.frontend.evaluation import operands
from vyre.domain.frontend.inlined import Inlined, argument_names, argument_nodes
from vyre.domain.frontend.lowering import MAX_INLINED, Frame, Lowering, Returns
from vyre.domain.frontend.operands import Constant, Items, Operand, Scalar
from vyre.domain.frontend.operators import typed
from vyre.domain.frontend.returns import declare_results
from vyre.domain.ir.expr import LaunchId, Literal, Var


def inline(k: Lowering, function: Inlined[..., object], node: ast.Call) -> Operand:
    """Returns what a call of a function evaluates to, after recording its statements."""
    if len(k.frames) > MAX_INLINED:
        k.fail(
            node,
            f"calls are nested more than {MAX_INLINED} deep here, or `{function.__name__}` calls itself",
            "write the recursion as a loop, with a stack in vyre.private_array where it needs one.",
        )
    read(k, function.captured.function, "__code__")
    arguments = _arguments(k, function, node)
    frame = Frame(function.source, function.names, function.captured)
    for name, operand in arguments.items():
        frame.env[name] = operand
        frame.assigned.add(name)
    tree = function.source.tree
    returns = frame.returns = Returns(k.hole(), is_last=_returns_last(tree))
    k.frames.append(frame)
    k.frame = frame
    try:
        declare_parameters(k, arguments)
        if run_body(k, tree.body) and returns.variables is not None:
            k.fail(
                tree.body[-1],
                f"`{function.__name__}` may end here without `return`, and gives a value elsewhere",
                "end every way through the function with `return`.",
            )
        return declare_results(k, returns, tree)
    finally:
        k.frames.pop()
        k.frame = k.frames[-1]


@lru_cache(maxsize=1024)
def _returns_last(function: ast.FunctionDef) -> bool:
    """Returns whether the only ``return`` of a function is its last statement."""
    returns = [one for stmt in function.body for one in ast.walk(stmt) if isinstance(one, ast.Return)]
    return len(returns) == 1 and returns[0] is function.body[-1]


# ---------------------------------------------------------------- arguments
def _arguments(k: Lowering, function: Inlined[..., object], node: ast.Call) -> dict[str, Operand]:
    """Returns what the parameters of a function are given, in their order."""
    refuse_stars(k, node)
    tree = function.source.tree.args
    if tree.vararg is not None or tree.kwarg is not None:
        k.fail(node, f"`{function.__name__}` takes *args or **kwargs", "give each parameter a name.")
    defaults = _defaults(k, function)
    written = _written_arguments(k, function, node, defaults)
    by_name = dict(zip(written, operands(k, list(written.values())), strict=True))
    operands_of = {}
    for one in argument_nodes(function.source.tree):
        name = one.arg
        operand = (
            _evaluated(k, by_name[name], name, node)
            if name in by_name
            else operand_from(k, defaults[name], f"{name} of {function.__name__}", node)
        )
        refuse_array(k, operand, node)
        dtype = function.annotated(one)
        if dtype is not None and isinstance(operand, Scalar | Constant):
            operand = typed(k, operand, dtype, f"`{name}` of {function.__name__}", node)
        operands_of[name] = operand
    return operands_of


def _defaults(k: Lowering, function: Inlined[..., object]) -> dict[str, object]:
    """Returns the present values of parameters that may be left out."""
    python_function, tree = function.captured.function, function.source.tree.args
    by_position = [one.arg for one in (*tree.posonlyargs, *tree.args)]
    defaults = dict(zip(reversed(by_position), reversed(read(k, python_function, "__defaults__") or ()), strict=False))
    by_name = read(k, python_function, "__kwdefaults__") or {}
    return defaults | {name: read(k, by_name, name) for name in by_name}


def _written_arguments(
    k: Lowering, function: Inlined[..., object], node: ast.Call, defaults: Mapping[str, object]
) -> Mapping[str, ast.expr]:
    """Returns the arguments of a call by parameter, in the order in which they are written."""
    tree = function.source.tree.args
    by_position = [one.arg for one in (*tree.posonlyargs, *tree.args)]
    by_name = [one.arg for one in (*tree.args, *tree.kwonlyargs)]
    arguments: dict[str, ast.expr] = dict(zip(by_position, node.args, strict=False))
    unknown = [one.arg or "" for one in node.keywords if one.arg not in by_name]
    twice = [one.arg for one in node.keywords if one.arg in arguments]
    arguments |= {one.arg: one.value for one in node.keywords if one.arg is not None}
    names = argument_names(function.source.tree)
    missing = [name for name in names if name not in arguments and name not in defaults]
    if unknown:
        problem, fix = (
            f"has no parameter `{unknown[0]}` that is given by name",
            f"its parameters are {', '.join(names)}.",
        )
    elif twice:
        problem, fix = f"gets `{twice[0]}` twice", "give it once."
    elif len(node.args) > len(by_position):
        problem, fix = (
            f"takes {len(by_position)} arguments by position, and {len(node.args)} are given",
            "leave some out.",
        )
    elif missing:
        problem, fix = f"gets no {' and no '.join(f'`{name}`' for name in missing)}", f"give {', '.join(missing)}."
    else:
        return arguments
    k.fail(node, f"`{function.__name__}({', '.join(names)})` {problem}", fix)


def _evaluated(k: Lowering, operand: Operand, name: str, node: ast.AST) -> Operand:
    """Returns an argument, which Python evaluates once and before the function runs."""
    if isinstance(operand, Items):
        return Items(tuple(_evaluated(k, item, name, node) for item in operand.items))
    if isinstance(operand, Scalar) and (operand.changes or not isinstance(operand.expr, Var | Literal | LaunchId)):
        return k.let(operand, name, node)
    return operand
