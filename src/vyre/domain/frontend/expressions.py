"""The expressions of a kernel: one rule for each kind of syntax."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from enum import Enum
from types import ModuleType
from typing import Any, Final, NoReturn

from vyre.domain.frontend import operators
from vyre.domain.frontend.arrays import element, shape
from vyre.domain.frontend.calls import call
from vyre.domain.frontend.captures import is_captured, operand_of
from vyre.domain.frontend.comparisons import compare
from vyre.domain.frontend.evaluation import expression, index_operands, on_the_right, operands, test, without_effects
from vyre.domain.frontend.known import fixed_items
from vyre.domain.frontend.lowering import Lowering, Variable
from vyre.domain.frontend.operands import Array, Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import condition, scalar
from vyre.domain.ir.expr import Select
from vyre.domain.ir.foreign_names import KERNEL, Hints, closest, plain
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType

_BOOL: Final = ScalarType.BOOL


# ---------------------------------------------------------------- rules
def _constant(k: Lowering, node: ast.Constant) -> Operand:
    held = node.value
    if isinstance(held, bool | int | float):
        return Constant(held)
    if held is None or isinstance(held, str):
        return Thing(held)
    k.fail(node, f"{held!r} is no value of a kernel", "use ints, floats and bools.")


def _name(k: Lowering, node: ast.Name) -> Operand:
    frame, name = k.frame, node.id
    if name in frame.names.plans or name in frame.env:
        if name not in frame.assigned or name not in frame.env:
            _fail_unassigned(k, name, node)
        found = frame.env[name]
        return k.read(found, node) if isinstance(found, Variable) else found
    return operand_of(k, name, node)


def _fail_unassigned(k: Lowering, name: str, node: ast.Name) -> NoReturn:
    if is_captured(k, name):
        k.fail(
            node,
            f"`{name}` is assigned in this function, so that Python takes it for a local name, which has no value here",
            "give the local another name than the one outside.",
        )
    k.fail(
        node,
        f"`{name}` may have no value here, because not every way to this line assigns it",
        f"assign it before: {name} = ..., or in each branch.",
    )


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
                owner = ast.unparse(node.value)
                k.fail(node, f"`{owner}` has no attribute `{name}`", _instead_of_attribute(owner, held, name))
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


def _instead_of_attribute(owner: str, held: ModuleType | type[Enum], name: str) -> str:
    """Returns what to write instead of a name that a module or an enumeration does not have."""
    hints: Hints = KERNEL if held.__name__ == "vyre" else {}
    public = getattr(held, "__all__", None) or [one for one in dir(held) if not one.startswith("_")]
    near = closest(name, public)
    return f"{hints.get(plain(name)) or (f'write {owner}.{near}' if near else 'check the name')}."


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


def _subscript(k: Lowering, node: ast.Subscript) -> Operand:
    of = expression(k, node.value)
    if isinstance(of, Array):
        return element(k, of, index_operands(k, node), node)
    at = expression(k, node.slice)
    if isinstance(of, Thing) and isinstance(of.value, range):
        of = Items(fixed_items(k, of, node))
    if isinstance(of, Items):
        if isinstance(at, Thing) or (isinstance(at, Constant) and not isinstance(at.value, int)):
            k.fail(node, f"a tuple is indexed with {at.value!r}", "give an int.")
        if not isinstance(at, Constant) or not isinstance(at.value, int):
            k.fail(
                node,
                "a tuple is indexed with something that is known only when the kernel runs",
                "use a number, unroll the loop with vyre.static, or pass the values as an array.",
            )
        try:
            return of.items[at.value]
        except IndexError:
            k.fail(node, f"there is no item {at.value} in a tuple of {len(of.items)}", "check the index.")
    scalar(k, of, node.value)
    k.fail(node, "a value of a lane is indexed", "index an array or a tuple.")


def _binary(k: Lowering, node: ast.BinOp) -> Operand:
    a, b = operands(k, (node.left, node.right))
    return operators.binary(k, node.op, a, b, node)


def _unary(k: Lowering, node: ast.UnaryOp) -> Operand:
    if isinstance(node.op, ast.Not):
        known = test(k, node)
        return Constant(known) if isinstance(known, bool) else known
    return operators.unary(k, node.op, expression(k, node.operand), node)


def _compare(k: Lowering, node: ast.Compare) -> Operand:
    given = operands(k, (node.left, node.comparators[0]))
    given += [without_effects(k, part, "at the end of a chain of comparisons") for part in node.comparators[1:]]
    for index, middle in enumerate(given[1:-1], 1):
        if isinstance(middle, Scalar):
            given[index] = operators.named(k, middle, node)
    found = compare(k, node.ops[0], given[0], given[1], node)
    for op, a, b in zip(node.ops[1:], given[1:-1], given[2:], strict=True):
        found = _both(k, found, compare(k, op, a, b, node), node)
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
    found = expression(k, node.values[0])
    for part in node.values[1:]:
        if isinstance(found, Constant | Thing | Items):
            if _truth(found) is not conjunction:
                return found
            found = expression(k, part)
            continue
        right = without_effects(k, part, on_the_right(node))
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
    if isinstance(k.settled(b), Scalar) and scalar(k, b, node).dtype is _BOOL:
        number = operators.written(node.values[0])
        k.fail(
            node,
            f"`{'and' if conjunction else 'or'}` gives a number or a truth value here, which have two types",
            f"compare the number: {number} != 0.",
        )
    left = operators.named(k, left, node)
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
        known = operators.named(k, known, node)
        pairs = zip(on_true.items, on_false.items, strict=True)
        return Items(tuple(chosen(k, known, a, b, node) for a, b in pairs))
    left, right = operators.common(k, on_true, on_false, "the choice", node)
    changes = known.changes or left.changes or right.changes
    return Scalar(Select(known.expr, left.expr, right.expr, loc=k.loc(node)), left.dtype, left.cell, changes)


def _tuple(k: Lowering, node: ast.Tuple) -> Operand:
    given = operands(k, [one.value if isinstance(one, ast.Starred) else one for one in node.elts])
    items: list[Operand] = []
    for one, operand in zip(node.elts, given, strict=True):
        items.extend(fixed_items(k, operand, one) if isinstance(one, ast.Starred) else (operand,))
    return Items(tuple(items))


EXPRESSIONS: Final[Mapping[type[ast.expr], Callable[[Lowering, Any], Operand]]] = {
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
    ast.Call: call,
}
"""The rules by kind of syntax."""
