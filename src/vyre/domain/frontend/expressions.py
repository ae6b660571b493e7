"""The expressions of a kernel: one rule for each kind of syntax."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from enum import Enum
from types import ModuleType
from typing import Any, Final, NoReturn

from vyre.domain.frontend import operators
from vyre.domain.frontend.arrays import element, shape
from vyre.domain.frontend.asides import Aside, OpenAside, aside, chosen, closed_aside, opened_aside, placed
from vyre.domain.frontend.calls import call
from vyre.domain.frontend.captured_names import captured, is_captured, member, operand_from
from vyre.domain.frontend.comparisons import compare, truth
from vyre.domain.frontend.evaluation import expression, index_operands, kept_before, on_the_right, operands, test
from vyre.domain.frontend.functions import INSTEAD, OF_METHODS
from vyre.domain.frontend.known import fixed_items
from vyre.domain.frontend.lowering import Lowering, Variable
from vyre.domain.frontend.methods import CONVERSIONS
from vyre.domain.frontend.operands import Array, Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import condition, scalar
from vyre.domain.ir.foreign_names import KERNEL, Hints, closest, plain
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.types import ScalarType

_BOOL: Final = ScalarType.BOOL


# ---------------------------------------------------------------- rules
def _constant(k: Lowering, node: ast.Constant) -> Operand:
    value = node.value
    if isinstance(value, bool | int | float):
        return Constant(value)
    if value is None or isinstance(value, str):
        return Thing(value)
    k.fail(node, f"{value!r} is no value of a kernel", "use ints, floats and bools.")


def _name(k: Lowering, node: ast.Name) -> Operand:
    frame, name = k.frame, node.id
    if name in frame.names.plans or name in frame.env:
        if name not in frame.assigned or name not in frame.env:
            _fail_unassigned(k, name, node)
        operand = frame.env[name]
        return k.read(operand, node) if isinstance(operand, Variable) else operand
    return operand_from(k, captured(k, name, node), name, node)


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
    name = node.attr
    of = expression(k, node.value) if name in _OF_VALUES else _holder(k, node.value)
    match of:
        case Array() | Scalar() | Constant() if name in CONVERSIONS:
            return Method(of, name)
        case Array():
            return _array_attribute(k, of, name, node)
        case Thing(value=holder, is_dtype=False):
            return operand_from(k, _member(k, holder, node), name, node)
        case Scalar() | Constant() if name in ("cast", "bitcast"):
            return Method(of, name)
        case Scalar() | Constant() if name in OF_METHODS:
            k.fail(node, f"values of kernels have no method `{name}`", OF_METHODS[name])
        case _:
            _fail_attribute(k, node)


_OF_VALUES: Final = ("cast", "bitcast", "astype")


def _holder(k: Lowering, node: ast.expr) -> Operand:
    """Returns that of which an attribute is read: of objects outside the kernel any, since each is read again."""
    if isinstance(node, ast.Name) and not (node.id in k.frame.names.plans or node.id in k.frame.env):
        return Thing(captured(k, node.id, node))
    if isinstance(node, ast.Attribute):
        of = _holder(k, node.value)
        if isinstance(of, Thing) and not of.is_dtype:
            return Thing(_member(k, of.value, node))
    return expression(k, node)


def _member(k: Lowering, holder: Any, node: ast.Attribute) -> Any:
    try:
        return member(k, holder, node.attr)
    except AttributeError:
        if not (isinstance(holder, ModuleType) or (isinstance(holder, type) and issubclass(holder, Enum))):
            _fail_attribute(k, node)
        owner = ast.unparse(node.value)
        k.fail(node, f"`{owner}` has no attribute `{node.attr}`", _instead_of_attribute(owner, holder, node.attr))


def _fail_attribute(k: Lowering, node: ast.Attribute) -> NoReturn:
    k.fail(
        node,
        f"`{ast.unparse(node.value)}` has no attribute `{node.attr}` in a kernel",
        "name a number, a type or a module; what a method or a property computes is not captured.",
    )


def _instead_of_attribute(owner: str, holder: ModuleType | type[Enum], name: str) -> str:
    """Returns what to write instead of a name that a module or an enumeration does not have."""
    public = getattr(holder, "__all__", None) or [one for one in dir(holder) if not one.startswith("_")]
    near = closest(name, [one for one in public if one[0].isupper() is name[0].isupper()])
    if isinstance(holder, ModuleType) and name in INSTEAD:
        return INSTEAD[name]
    hints: Hints = KERNEL if holder.__name__ == "vyre" else {}
    return f"{hints.get(plain(name)) or (f'write {owner}.{near}' if near else 'check the name')}."


_METHODS: Final = tuple(f"atomic_{op.name.lower()}" for op in AtomicOp)


def _array_attribute(k: Lowering, array: Array, name: str, node: ast.Attribute) -> Operand:
    if name in _METHODS:
        return Method(array, name)
    if name == "shape":
        return shape(k, array, node)
    if name in ("size", "length"):
        fix = f"write len({array.name})." if array.axes == 1 else f"multiply the items of {array.name}.shape."
        k.fail(node, f"arrays of kernels have no attribute `{name}`", fix)
    if name == "dtype":
        return Thing(array.element, is_dtype=True)
    k.fail(
        node,
        f"arrays of kernels have no attribute `{name}`",
        OF_METHODS.get(name, f"they have .shape, .dtype, len() and {', '.join(_METHODS)}."),
    )


def _subscript(k: Lowering, node: ast.Subscript) -> Operand:
    of = expression(k, node.value)
    if isinstance(of, Array):
        return element(k, of, index_operands(k, node), node)
    index = expression(k, node.slice)
    if isinstance(of, Thing) and isinstance(of.value, range):
        of = Items(fixed_items(k, of, node))
    if isinstance(of, Items):
        if isinstance(index, Thing) or (isinstance(index, Constant) and not isinstance(index.value, int)):
            k.fail(node, f"a tuple is indexed with {index.value!r}", "give an int.")
        if not isinstance(index, Constant) or not isinstance(index.value, int):
            k.fail(
                node,
                "a tuple is indexed with something that is known only when the kernel runs",
                "use a number, unroll the loop with vyre.static, or pass the values as an array.",
            )
        try:
            return of.items[operator.index(index.held)]
        except TypeError:
            k.fail(node, f"a tuple is indexed with {index.held!r}", "give an int.")
        except IndexError:
            k.fail(node, f"there is no item {index.value} in a tuple of {len(of.items)}", "check the index.")
    scalar(k, of, node.value)
    k.fail(node, "a value of a lane is indexed", "index an array or a tuple.")


def _binary(k: Lowering, node: ast.BinOp) -> Operand:
    """Evaluates a chain of operators from its left end, so that its length counts as no depth."""
    links = [node]
    while isinstance(links[-1].left, ast.BinOp):
        links.append(links[-1].left)
    result = expression(k, links[-1].left)
    for link in reversed(links):
        start = len(k.body)
        right = expression(k, link.right)
        result = k.settled(operators.binary(k, link.op, kept_before(k, result, start, link.left), right, link))
    return result


def _unary(k: Lowering, node: ast.UnaryOp) -> Operand:
    if isinstance(node.op, ast.Not):
        known = test(k, node)
        return Constant(known) if isinstance(known, bool) else known
    return operators.unary(k, node.op, expression(k, node.operand), node)


def _compare(k: Lowering, node: ast.Compare) -> Operand:
    left, right = operands(k, (node.left, node.comparators[0]))
    rest = [aside(k, expression, part, "at the end of a chain of comparisons") for part in node.comparators[1:]]
    result: Operand = Constant(True)
    for index, op in enumerate(node.ops):
        if index and isinstance(result, Scalar):
            result, right = placed(k, result, node, rest[index - 1], where=True)
        elif index:
            k.body.extend(rest[index - 1].branch or ())
            right = rest[index - 1].value
        if index < len(rest) and isinstance(right, Scalar):
            right = operators.named(k, right, node)
        result = _both(k, result, compare(k, op, left, right, node), node)
        if isinstance(result, Constant) and not result.value:
            break
        left = right
    return result


def _both(k: Lowering, a: Operand, b: Operand, node: ast.expr) -> Operand:
    if isinstance(a, Constant):
        return b if a.value else a
    if isinstance(b, Constant):
        return a if b.value else b
    left, right = scalar(k, a, node), scalar(k, b, node)
    return operators.made(k, BinaryOp.AND, left, right, node, _BOOL)


def _bool_op(k: Lowering, node: ast.BoolOp) -> Operand:
    conjunction = isinstance(node.op, ast.And)
    result = expression(k, node.values[0])
    for part in node.values[1:]:
        if isinstance(result, Constant | Thing | Items):
            if truth(k, result, part) is not conjunction:
                return result
            result = expression(k, part)
            continue
        side = aside(k, expression, part, on_the_right(node))
        result = _joined(k, result, side, conjunction=conjunction, node=node)
    return result


def _joined(k: Lowering, a: Operand, side: Aside[Operand], *, conjunction: bool, node: ast.BoolOp) -> Operand:
    left = scalar(k, a, node)
    left = left if left.dtype is _BOOL or side.branch is None else operators.named(k, left, node)
    known, b = placed(k, condition(k, left, node), node, side, where=conjunction)
    left = known if left.dtype is _BOOL else left
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
    """Evaluates a chain of choices from its first one, so that its length counts as no depth."""
    opened: list[tuple[ast.IfExp, Scalar, Aside[Operand], OpenAside]] = []
    following: ast.expr = node
    while isinstance(following, ast.IfExp):
        node, known = following, test(k, following.test)
        if isinstance(known, bool):
            following = node.body if known else node.orelse
        else:
            on_true = aside(k, expression, node.body, _IN_CHOICE)
            opened.append((node, known, on_true, opened_aside(k)))
            following = node.orelse
    value = expression(k, following)
    for node, known, on_true, body in reversed(opened):
        value = k.settled(chosen(k, known, on_true, closed_aside(k, body, value, node.orelse, _IN_CHOICE), node))
    return value


_IN_CHOICE: Final = "in a conditional expression"


def _tuple(k: Lowering, node: ast.Tuple) -> Operand:
    values = operands(k, [one.value if isinstance(one, ast.Starred) else one for one in node.elts])
    items: list[Operand] = []
    for one, operand in zip(node.elts, values, strict=True):
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
