"""Assignment to names, tuples of names and elements of arrays."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NoReturn

from vyre.domain.frontend import operators
from vyre.domain.frontend.arrays import store
from vyre.domain.frontend.captures import is_array
from vyre.domain.frontend.evaluation import expression, index_operands, kept, kept_before
from vyre.domain.frontend.lowering import Lowering, Variable, flexible
from vyre.domain.frontend.names import Kind
from vyre.domain.frontend.operands import Array, Constant, Items, Operand, Scalar
from vyre.domain.frontend.operators import is_bare, literal, typed
from vyre.domain.frontend.refused import refuse
from vyre.domain.ir.expr import Var
from vyre.domain.ir.stmt import Assign, Let
from vyre.domain.ir.types import ScalarType


def declare_parameters(k: Lowering, arguments: Mapping[str, Operand]) -> None:
    """Makes variables of the parameters that the function assigns."""
    for name, operand in arguments.items():
        if name in k.frame.names.plans:
            if not isinstance(operand, Scalar | Constant):
                _fail_parameter(k, name, operand)
            del k.frame.env[name]
            set_name(k, name, operand, k.frame.source.tree)


def _fail_parameter(k: Lowering, name: str, operand: Operand) -> NoReturn:
    """Raises the error for a parameter that holds an array, a tuple or a function, and is assigned."""
    tree = k.frame.source.tree
    stores = (one for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    place: ast.AST = next((one for one in stores if one.id == name), tree)
    fix = f"assign its elements, {name}[i] = ..., or use another name." if isinstance(operand, Array) else ""
    k.fail(place, f"the parameter `{name}` holds {_kind(operand)}, and is assigned", fix or "use another name.")


def assign_to(k: Lowering, target: ast.expr, value: Operand, node: ast.AST) -> None:
    """Records the assignment of a value to a target."""
    match target:
        case ast.Name(id=name):
            set_name(k, name, value, node)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(k, targets, value, node)
        case ast.Subscript():
            start = len(k.body)
            of = array_of(k, target)
            indices = index_operands(k, target)
            value = kept_before(k, value, start, node)
            if of.is_writable:
                value = typed(k, value, of.dtype, f"what is stored to `{of.name}`", value_node(node), value_node(node))
            store(k, of, indices, value, target)
        case ast.Attribute():
            k.fail(target, "attributes cannot be assigned in a kernel", "assign names and elements of arrays.")
        case _:
            refuse(k, target)


def value_node(node: ast.AST) -> ast.AST:
    """Returns what an assignment assigns, as it is written; any other node as it is."""
    value = getattr(node, "value", None)
    return value if isinstance(value, ast.expr) else node


def array_of(k: Lowering, target: ast.Subscript) -> Array:
    """Returns the array of which an element is assigned."""
    of = expression(k, target.value)
    if isinstance(of, Array):
        return of
    if isinstance(of, Items):
        k.fail(
            target,
            "items of a tuple cannot be assigned",
            "make a new tuple, or use vyre.private_array(f32, n) for memory of the lane.",
        )
    k.fail(target, "only elements of arrays can be assigned", "assign the whole name.")


def _unpack(k: Lowering, targets: list[ast.expr], operand: Operand, node: ast.AST) -> None:
    for target in targets:
        if isinstance(target, ast.Starred):
            refuse(k, target)
    if not isinstance(operand, Items):
        k.fail(node, "one value is assigned to several names", "give a tuple of as many items.")
    if len(operand.items) != len(targets):
        items = "one item is" if len(operand.items) == 1 else f"{len(operand.items)} items are"
        names = "one name" if len(targets) == 1 else f"{len(targets)} names"
        k.fail(node, f"{items} assigned to {names}", "give as many items as there are names.")
    # Python evaluates all items before it assigns the first one.
    if len(targets) > 1:
        operand = Items(
            tuple(kept(k, item, node, _hint(k, target)) for target, item in zip(targets, operand.items, strict=True))
        )
    for target, item in zip(targets, operand.items, strict=True):
        assign_to(k, target, item, node)


def _hint(k: Lowering, target: ast.expr) -> str:
    is_fixed = isinstance(target, ast.Name) and k.plan(target.id).kind is Kind.FIXED
    return target.id if isinstance(target, ast.Name) and is_fixed else "t"


# ---------------------------------------------------------------- names
def set_name(k: Lowering, name: str, operand: Operand, node: ast.AST) -> None:
    """Gives a name a value."""
    frame = k.frame
    operand = k.settled(operand)
    refuse_array(k, operand, node)
    if k.plan(name).kind is Kind.VARIABLE:
        known = frame.env.get(name)
        if isinstance(known, Variable):
            value = fitted(k, known, operand, f"what is assigned to `{name}`", value_node(node))
            k.emit(Assign(known.name, value.expr, loc=k.loc(node)))
        else:
            _declare(k, name, operand, node)
    elif isinstance(operand, Scalar) and _is_made_here(operand):
        frame.env[name] = k.let(operand, name, node)
    else:
        frame.env[name] = kept(k, operand, node, name)
    frame.assigned.add(name)


def refuse_array(k: Lowering, operand: Operand, node: ast.AST) -> None:
    """Refuses another name for a captured array without axes, which Python would change by that name."""
    if isinstance(operand, Constant) and is_array(operand.held):
        k.fail(node, "a captured array gets another name, by which it may be changed", "take its number: float(K).")


def _is_made_here(value: Scalar) -> bool:
    """Returns whether a value is evaluated by an assignment; a local that never changes only gets another name."""
    return value.changes or not isinstance(value.expr, Var) or value.dtype is None


def _declare(k: Lowering, name: str, operand: Operand, node: ast.AST) -> None:
    """Declares a variable with its first value."""
    frame = k.frame
    if not isinstance(operand, Scalar | Constant):
        k.fail(
            node,
            f"`{name}` is assigned more than once, and holds {_kind(operand)}",
            f"give its parts names of their own, or each value of `{name}` another name.",
        )
    variable, value = _new_variable(k, name, operand, node)
    frame.env[name] = variable
    hole = frame.holes.pop(name, None)
    if hole is None:
        k.declares(name)
        k.emit(Let(variable.name, value.expr, loc=k.loc(node)))
    else:
        k.fill(hole, variable, node)
        k.emit(Assign(variable.name, value.expr, loc=k.loc(node)))


def _new_variable(k: Lowering, name: str, operand: Scalar | Constant, node: ast.AST) -> tuple[Variable, Scalar]:
    if not is_bare(operand):
        value = operand if isinstance(operand, Scalar) else literal(k, operand, operand.own or ScalarType.BOOL, node)
        return Variable(k.unique(name), value.dtype, value.cell, operand.is_narrow), value
    assert isinstance(operand, Constant)
    if operand.value < 0 and not isinstance(operand.value, float):
        k.fail(
            node,
            f"the variable `{name}` starts with a negative number, and which signed type it has is not said",
            f"annotate it: {name}: i32 = {operand.value}.",
        )
    variable = k.number_variable(name, operand.value)
    if variable.dtype is not None:
        return variable, literal(k, operand, variable.dtype, node)
    assert variable.cell is not None
    return variable, flexible(variable.cell)


def _kind(operand: Operand) -> str:
    return {Array: "an array", Items: "a tuple"}.get(type(operand), "something that is no number")


def fitted(k: Lowering, variable: Variable, operand: Operand, role: str, node: ast.AST) -> Scalar:
    """Returns a value with the type of a variable; ``role`` names it in the error."""
    if variable.dtype is None and variable.cell is not None:
        variable.dtype = variable.cell.root.dtype
    if variable.dtype is not None:
        return typed(k, operand, variable.dtype, role, node, node if isinstance(node, ast.expr) else None)
    _, value = operators.common(k, k.read(variable, node), operand, role, node)
    return value
