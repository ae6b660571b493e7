"""Ranges, tuples and functions of them are evaluated while a kernel is being built."""

from __future__ import annotations

import ast
from typing import Final

from vyre.domain.frontend.arrays import length
from vyre.domain.frontend.call_arguments import whole_argument
from vyre.domain.frontend.lowering import MAX_UNROLLED, Lowering
from vyre.domain.frontend.operands import Array, Constant, Items, Method, Operand, Scalar, Thing

_RANGE: Final = "loop with `for i in range(n):` itself, downwards `for i in range(i32(n) - 1, -1, -1):`."


def static_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``vyre.static(x)``."""
    (operand,) = arguments
    if isinstance(operand, Scalar | Array | Method):
        k.fail(
            node, "vyre.static(...) is not known while the kernel is being built", "give numbers, tuples and ranges."
        )
    return operand


def fixed_items(k: Lowering, operand: Operand, node: ast.AST) -> tuple[Operand, ...]:
    """Returns the items of a tuple or of a range of numbers."""
    if isinstance(operand, Items):
        return operand.items
    if isinstance(operand, Thing) and isinstance(operand.value, range):
        if len(operand.value) > MAX_UNROLLED:
            fix = "write `for k in range(...)`, which is a loop of the kernel."
            k.fail(node, f"{len(operand.value)} rounds are too many to unroll", fix)
        return tuple(map(Constant, operand.value))
    if isinstance(operand, Array):
        fix = f"write a loop, `for i in range(len({operand.name})):`, and {operand.name}[i]."
        k.fail(node, f"the array `{operand.name}` stands where a tuple or a range of numbers is needed", fix)
    if isinstance(operand, Scalar | Constant):
        k.fail(node, "one value stands where a tuple or a range of numbers is needed", "write range(n) to count to n.")
    k.fail(node, "this is no tuple and no range of numbers", "give one that is known while the kernel is being built.")


def range_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns a ``range`` of numbers."""
    numbers = [whole_argument(k, one, "an end of this range", node, _RANGE) for one in arguments]
    if not 1 <= len(numbers) <= 3:
        k.fail(node, "range() takes one to three arguments", "write range(stop), range(start, stop) or with a step.")
    if len(numbers) == 3 and numbers[2] == 0:
        k.fail(node, "the step of range() is 0", "give a step that is not 0.")
    return Thing(range(*numbers))


def enumerate_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns the pairs of ``enumerate(items)``."""
    start = whole_argument(k, arguments[1], "the start", node) if len(arguments) > 1 else 0
    items = fixed_items(k, arguments[0], node)
    return Items(tuple(Items((Constant(start + n), item)) for n, item in enumerate(items)))


def zip_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns the rows of ``zip(...)``."""
    columns = [fixed_items(k, one, node) for one in arguments]
    is_strict = any(isinstance(one.value, ast.Constant) and one.value.value for one in node.keywords)
    if is_strict and len(set(map(len, columns))) > 1:
        k.fail(node, "the arguments of zip() have different lengths", "give as many items in each.")
    return Items(tuple(Items(row) for row in zip(*columns, strict=False)))


def reversed_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns the items of ``reversed(items)``."""
    return Items(fixed_items(k, arguments[0], node)[::-1])


def tuple_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns the items of ``tuple(items)``."""
    return Items(fixed_items(k, arguments[0], node))


def len_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``len(x)`` of an array, a tuple, a range or a text."""
    (operand,) = arguments
    if isinstance(operand, Array):
        return length(k, operand, node)
    if isinstance(operand, Items):
        return Constant(len(operand.items))
    if isinstance(operand, Thing) and isinstance(operand.value, range | str):
        return Constant(len(operand.value))
    k.fail(node, "len() is asked of something that has no length", "ask it of an array or a tuple.")
