"""The expressions of a kernel: one rule for each kind of syntax."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from enum import Enum
from types import ModuleType
from typing import Any, Final, TypeVar

from vyre.domain.frontend import operators
from vyre.domain.frontend.arrays import element, length, shape
from vyre.domain.frontend.calls import call
from vyre.domain.frontend.captures import operand_of
from vyre.domain.frontend.lowering import Hole, Lowering, Variable
from vyre.domain.frontend.operands import Array, Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import condition, scalar
from vyre.domain.frontend.refused import refuse
from vyre.domain.ir.expr import Atomic, Binary, Select, children
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Let, Stmt
from vyre.domain.ir.types import ScalarType

_N = TypeVar("_N", bound=ast.expr)
_BOOL: Final = ScalarType.BOOL


def expression(k: Lowering, node: ast.expr) -> Operand:
    """Returns what an expression evaluates to; statements that it needs are recorded before it."""
    rule = _RULES.get(type(node))
    if rule is None:
        refuse(k, node)
    return k.settled(rule(k, node))


def value(k: Lowering, node: ast.expr) -> Scalar:
    """Returns an expression that must be a value of a lane."""
    return scalar(k, expression(k, node), node)


def test(k: Lowering, node: ast.expr) -> Scalar | bool:
    """Returns a condition, or its truth if it is known while the kernel is being built."""
    found = expression(k, node)
    if isinstance(found, Constant):
        return bool(found.value)
    if isinstance(found, Thing) and (found.value is None or isinstance(found.value, str)):
        return bool(found.value)
    if isinstance(found, Items):
        return bool(found.items)
    return condition(k, found, node)


def operands(k: Lowering, nodes: Sequence[ast.expr]) -> list[Operand]:
    """Returns several operands, which Python evaluates from left to right.

    Where a later one changes something, as an atomic does, the earlier ones are evaluated before it.
    """
    found: list[Operand] = []
    starts: list[int] = []
    for node in nodes:
        start = len(k.body)
        operand = expression(k, node)
        if any(has_effect(stmt) for stmt in k.body[start:]):
            _evaluate_before(k, found, starts, nodes)
        found.append(operand)
        starts.append(len(k.body))
    return [k.settled(operand) for operand in found]


def _evaluate_before(k: Lowering, found: list[Operand], starts: list[int], nodes: Sequence[ast.expr]) -> None:
    """Names the values so far at the places where they were written, if they may have changed since."""
    added = 0
    for index, operand in enumerate(found):
        if isinstance(operand, Scalar) and operand.changes:
            later = k.body[starts[index] + added :]
            del k.body[starts[index] + added :]
            found[index] = k.let(operand, "t", nodes[index])
            k.body.extend(later)
            added += 1
        starts[index] += added


def has_effect(stmt: Stmt | Hole) -> bool:
    """Returns whether a statement does more than to name a value: whether its place matters."""
    if isinstance(stmt, Hole):
        return False
    return not isinstance(stmt, Let) or _has_atomic(stmt)


def _has_atomic(stmt: Let) -> bool:
    stack = [stmt.value]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Atomic):
            return True
        stack.extend(children(expr))
    return False


def without_effects(k: Lowering, node: ast.expr, where: str) -> Operand:
    """Returns an operand that Python might not evaluate; one that changes something is refused there."""
    start = len(k.body)
    found = expression(k, node)
    if any(has_effect(stmt) for stmt in k.body[start:]):
        k.fail(
            node,
            f"this has statements, and stands {where}, where Python might not run it",
            "write it before, or use an `if` statement.",
        )
    return found


# ---------------------------------------------------------------- rules
def _constant(k: Lowering, node: ast.Constant) -> Operand:
    held = node.value
    if isinstance(held, bool | int | float):
        return Constant(held)
    if held is None or isinstance(held, str):
        return Thing(held)
    k.fail(node, f"{held!r} is no value of a kernel", "use ints, floats and bools.")
    raise AssertionError


def _name(k: Lowering, node: ast.Name) -> Operand:
    frame, name = k.frame, node.id
    if name in frame.names.plans or name in frame.env:
        if name not in frame.assigned:
            k.fail(
                node,
                f"`{name}` may have no value here, because not every way to this line assigns it",
                f"assign it before: {name} = ..., or in each branch.",
            )
        found = frame.env[name]
        return k.read(found, node) if isinstance(found, Variable) else found
    return operand_of(k, name, node)


def _attribute(k: Lowering, node: ast.Attribute) -> Operand:
    of = expression(k, node.value)
    name = node.attr
    match of:
        case Array():
            return _array_attribute(k, of, name, node)
        case Thing(value=held) if isinstance(held, ModuleType) or (isinstance(held, type) and issubclass(held, Enum)):
            try:
                found = getattr(held, name)
            except AttributeError:
                k.fail(node, f"`{ast.unparse(node.value)}` has no attribute `{name}`", "check the name.")
            return operand_of(k, name, node, found)
        case Scalar() | Constant() if name in ("cast", "bitcast"):
            return Method(of, name)
        case Scalar() | Constant() if name == "astype":
            k.fail(node, "values of kernels have no method `astype`", f"write f32({ast.unparse(node.value)}).")
        case _:
            what = ast.unparse(node.value)
            k.fail(
                node,
                f"`{what}` has no attribute `{name}` in a kernel",
                "name a number, a type or a module; what belongs to other objects may change and is not captured.",
            )
    raise AssertionError


_METHODS: Final = (
    "atomic_add",
    "atomic_or",
    "atomic_and",
    "atomic_xor",
    "atomic_min",
    "atomic_max",
    "atomic_exchange",
    "atomic_fetch_nand",
    "atomic_compare_exchange",
)


def _array_attribute(k: Lowering, array: Array, name: str, node: ast.Attribute) -> Operand:
    if name in _METHODS:
        return Method(array, name)
    if name == "shape":
        return shape(k, array, node)
    if name in ("size", "length"):
        fix = f"write len({array.name})." if array.axes == 1 else f"multiply the items of {array.name}.shape."
        k.fail(node, f"arrays of kernels have no attribute `{name}`", fix)
    if name == "dtype":
        return Thing(array.element)
    k.fail(
        node,
        f"arrays of kernels have no attribute `{name}`",
        f"they have .shape, .dtype, len() and {', '.join(_METHODS)}.",
    )
    raise AssertionError


def _subscript(k: Lowering, node: ast.Subscript) -> Operand:
    of = expression(k, node.value)
    if isinstance(of, Array):
        return element(k, of, index_operands(k, node), node)
    at = expression(k, node.slice)
    if isinstance(of, Items):
        if not isinstance(at, Constant) or not isinstance(at.value, int):
            k.fail(
                node,
                "a tuple is indexed with something that is known only when the kernel runs",
                "use a number, unroll the loop with vyre.static, or pass the values as an array.",
            )
        try:
            return of.items[at.value]
        except IndexError:
            k.fail(node, f"the tuple has {len(of.items)} items, and item {at.value} is asked for", "check the index.")
    scalar(k, of, node.value)
    k.fail(node, "a value of a lane is indexed", "index an array or a tuple.")
    raise AssertionError


def index_operands(k: Lowering, node: ast.Subscript) -> list[Operand]:
    """Returns the indices of a subscript of an array."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        if isinstance(part, ast.Slice):
            k.fail(node, "arrays of kernels cannot be sliced", "loop over the elements.")
    return operands(k, parts)


def _binary(k: Lowering, node: ast.BinOp) -> Operand:
    a, b = operands(k, (node.left, node.right))
    return operators.binary(k, node.op, a, b, node)


def _unary(k: Lowering, node: ast.UnaryOp) -> Operand:
    operand = expression(k, node.operand)
    if isinstance(node.op, ast.Not) and isinstance(operand, Thing | Items):
        return Constant(not (operand.value if isinstance(operand, Thing) else operand.items))
    return operators.unary(k, node.op, operand, node)


def _compare(k: Lowering, node: ast.Compare) -> Operand:
    given = operands(k, (node.left, *node.comparators))
    inner = len(given) - 1
    for index in range(1, inner):
        middle = given[index]
        if isinstance(middle, Scalar):
            given[index] = operators._named(k, middle, node)
    found: Operand | None = None
    for op, a, b in zip(node.ops, given, given[1:], strict=False):
        one = operators.compare(k, op, a, b, node)
        found = one if found is None else _both(k, found, one, node)
    assert found is not None
    return found


def _both(k: Lowering, a: Operand, b: Operand, node: ast.expr) -> Operand:
    if isinstance(a, Constant):
        return b if a.value else a
    if isinstance(b, Constant):
        return a if b.value else b
    left, right = scalar(k, a, node), scalar(k, b, node)
    return operators.made(k, BinaryOp.AND, left, right, node, _BOOL)


def _bool_op(k: Lowering, node: ast.BoolOp) -> Operand:
    conjunction = isinstance(node.op, ast.And)
    word = "and" if conjunction else "or"
    found = expression(k, node.values[0])
    for part in node.values[1:]:
        if isinstance(found, Constant | Thing | Items):
            if _truth(found) is not conjunction:
                return found
            found = expression(k, part)
            continue
        right = without_effects(k, part, f"on the right of `{word}`")
        found = _joined(k, found, right, conjunction=conjunction, node=node)
    return found


def _truth(operand: Constant | Thing | Items) -> bool:
    return bool(operand.items if isinstance(operand, Items) else operand.value)


def _joined(k: Lowering, a: Operand, b: Operand, *, conjunction: bool, node: ast.BoolOp) -> Operand:
    left = scalar(k, a, node)
    if isinstance(b, Constant) and isinstance(b.value, bool) and left.dtype is _BOOL:
        return left if b.value is conjunction else b
    if left.dtype is _BOOL:
        right = scalar(k, b, node)
        if right.dtype is not _BOOL:
            name = "and" if conjunction else "or"
            k.fail(node, f"`{name}` joins a truth value and a number", "compare the number: x != 0.")
        return operators.made(k, BinaryOp.AND if conjunction else BinaryOp.OR, left, right, node, _BOOL)
    left = operators._named(k, left, node)
    holds = condition(k, left, node)
    return operators.select(k, holds, b, left, node) if conjunction else operators.select(k, holds, left, b, node)


def _if_exp(k: Lowering, node: ast.IfExp) -> Operand:
    known = test(k, node.test)
    if isinstance(known, bool):
        return expression(k, node.body if known else node.orelse)
    on_true = without_effects(k, node.body, "in a conditional expression")
    on_false = without_effects(k, node.orelse, "in a conditional expression")
    return chosen(k, known, on_true, on_false, node)


def chosen(k: Lowering, known: Scalar, on_true: Operand, on_false: Operand, node: ast.AST) -> Operand:
    """Returns one of two operands, item by item where they are tuples."""
    if isinstance(on_true, Items) and isinstance(on_false, Items) and len(on_true.items) == len(on_false.items):
        known = operators._named(k, known, node)
        pairs = zip(on_true.items, on_false.items, strict=True)
        return Items(tuple(chosen(k, known, a, b, node) for a, b in pairs))
    left, right = operators.common(k, on_true, on_false, "the choice", node)
    changes = known.changes or left.changes or right.changes
    return Scalar(Select(known.expr, left.expr, right.expr, loc=k.loc(node)), left.dtype, left.cell, changes)


def _tuple(k: Lowering, node: ast.Tuple) -> Operand:
    return Items(tuple(operands(k, node.elts)))


def _call(k: Lowering, node: ast.Call) -> Operand:
    return call(k, node)


_RULES: Final[dict[type[ast.expr], Callable[[Lowering, Any], Operand]]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool_op,
    ast.IfExp: _if_exp,
    ast.Tuple: _tuple,
    ast.Call: _call,
}

__all__ = ["Binary", "chosen", "expression", "has_effect", "index_operands", "length", "operands", "test", "value"]
