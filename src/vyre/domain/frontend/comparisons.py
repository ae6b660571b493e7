"""Comparisons of the operands of a kernel: ``<``, ``==``, ``in``, and ``is`` of types."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import chain
from typing import Any, Final, NoReturn

from vyre.domain.frontend.captures import is_dtype, is_plain
from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import Array, Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import binary, common, computed, constant, made, named, negated, not_a_value
from vyre.domain.ir.numpy_scalars import is_numpy
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown

_BOOL: Final = ScalarType.BOOL
_COMPARED: Final[Mapping[type[ast.cmpop], tuple[Callable[[Any, Any], Any], BinaryOp | None, str]]] = {
    ast.Eq: (operator.eq, BinaryOp.EQ, "=="),
    ast.NotEq: (operator.ne, BinaryOp.NE, "!="),
    ast.Lt: (operator.lt, BinaryOp.LT, "<"),
    ast.LtE: (operator.le, BinaryOp.LE, "<="),
    ast.Gt: (operator.gt, BinaryOp.GT, ">"),
    ast.GtE: (operator.ge, BinaryOp.GE, ">="),
    ast.Is: (operator.is_, None, "is"),
    ast.IsNot: (operator.is_not, None, "is not"),
    ast.In: (lambda a, b: a in b, None, "in"),
    ast.NotIn: (lambda a, b: a not in b, None, "not in"),
}
"""Each comparison in Python, and its operation where values of a kernel have one."""


def compare(k: Lowering, op: ast.cmpop, a: Operand, b: Operand, node: ast.AST) -> Operand:
    """Returns ``a op b``, a truth value; that of Python where both are known while the kernel is being built."""
    a, b = k.settled(a), k.settled(b)
    if is_known(a) and is_known(b):
        return _of_known(k, op, a, b, node)
    if isinstance(op, ast.In | ast.NotIn):
        return _among(k, op, a, b, node)
    _, made_of, text = _COMPARED[type(op)]
    if made_of is None or not (isinstance(a, Scalar | Constant) and isinstance(b, Scalar | Constant)):
        _of_things(k, op, a, b, node)
    left, right = common(k, a, b, f"`{text}`", node)
    if left.dtype is _BOOL and made_of not in (BinaryOp.EQ, BinaryOp.NE):
        k.fail(node, f"`{text}` is not defined for bool", "convert: u32(a) counts a truth value as 0 or 1.")
    return made(k, made_of, left, right, node, _BOOL)


class _Dtype:
    """The type of an array's elements, which equals what the ``numpy.dtype`` of such an array equals, and vyre's."""

    def __init__(self, element: ScalarType) -> None:
        self._element: Final = element

    def __eq__(self, other: object) -> bool:
        import numpy as np

        if isinstance(other, ScalarType | _Dtype):
            return self._element is (other._element if isinstance(other, _Dtype) else other)
        if self._element in (_BOOL, ScalarType.BF16):
            raise TypeError(f"NumPy has several types for {self._element.text}")
        return bool(np.dtype(self._element.numpy_name) == other)

    __hash__ = None  # type: ignore[assignment]


def is_known(operand: Operand) -> bool:
    """Returns whether an operand is an object of Python that is known while the kernel is being built."""
    return isinstance(operand, Constant | Thing) or (isinstance(operand, Items) and all(map(is_known, operand.items)))


def known_object(operand: Operand) -> Any:
    """Returns the object of Python that a known operand is."""
    if isinstance(operand, Items):
        return tuple(map(known_object, operand.items))
    if isinstance(operand, Constant):
        return operand.held
    assert isinstance(operand, Thing)
    return _Dtype(operand.value) if operand.is_dtype else operand.value


def truth(k: Lowering, operand: Operand, node: ast.AST) -> bool:
    """Returns the truth of what is known while the kernel is being built."""
    if isinstance(operand, Items):
        return bool(operand.items)
    value = known_object(operand)
    if not is_plain(value):
        k.fail(node, f"the truth of {shown(value)} is a matter of its class", "compare it, such as x is None.")
    return bool(value)


def _of_known(k: Lowering, op: ast.cmpop, a: Operand, b: Operand, node: ast.AST) -> Constant:
    """Returns what Python says of two objects; refuses where code of the user's or the identity of numbers decides."""
    left, right = known_object(a), known_object(b)
    if isinstance(op, ast.Is | ast.IsNot):
        left, right = (one.value if isinstance(one, Thing) else known_object(one) for one in (a, b))
        of_array = any(isinstance(one, Thing) and one.is_dtype for one in (a, b))
        if not (_has_identity(left) or _has_identity(right)) or (of_array and (is_dtype(left) or is_dtype(right))):
            k.fail(node, "`is` compares objects, and values of a kernel are none", "write == or !=.")
        return Constant(_COMPARED[type(op)][0](left, right))
    if isinstance(op, ast.In | ast.NotIn) and not isinstance(right, tuple | str | range):
        k.fail(node, "`in` looks into tuples only", "write a tuple of the values, x in (1, 2, 3), or a loop.")
    if not (is_plain(left) and is_plain(right)):
        k.fail(node, "this compares an object by the operators of its class", "compare numbers, texts or types.")
    parts, others = _parts(left), _parts(right)
    if isinstance(right, tuple) and any(isinstance(one, float) and one != one for one in (*parts, *others)):
        k.fail(node, "NaN in a tuple is compared by identity in Python", "compare the items one by one.")
    if _mixes_types(parts, others) or _mixes_types(others, parts):
        k.fail(node, "this compares a type of vyre and one of NumPy", "write both alike: f32, or np.float32.")
    return constant(k, computed(k, _COMPARED[type(op)][0], node, left, right), node)


def _has_identity(value: object) -> bool:
    """Returns whether Python has one object only of what a value means, as it has of None and of classes."""
    return isinstance(value, bool | Enum) or not (
        isinstance(value, int | float | str | tuple | range) or is_numpy(value)
    )


def _parts(value: object) -> tuple[object, ...]:
    """Returns the items of a tuple and of tuples in it; any other value by itself."""
    return tuple(chain.from_iterable(map(_parts, value))) if isinstance(value, tuple) else (value,)


def _mixes_types(ours: tuple[object, ...], others: tuple[object, ...]) -> bool:
    of_numpy = (is_dtype(one) or (isinstance(one, type) and one.__module__ == "numpy") for one in others)
    return any(isinstance(one, ScalarType) for one in ours) and any(of_numpy)


def _of_things(k: Lowering, op: ast.cmpop, a: Operand, b: Operand, node: ast.AST) -> NoReturn:
    """Raises the error for a comparison of what is no value, or by identity."""
    for operand in (a, b):
        if isinstance(operand, Array | Items | Method):
            not_a_value(k, operand, node)
    if isinstance(op, ast.Is | ast.IsNot):
        k.fail(node, "`is` compares objects, and values of a kernel are none", "write == or !=.")
    not_a_value(k, a if isinstance(a, Thing) else b, node)


def _among(k: Lowering, op: ast.cmpop, a: Operand, b: Operand, node: ast.AST) -> Operand:
    if not isinstance(b, Items):
        k.fail(node, "`in` looks into tuples only", "write a tuple of the values, x in (1, 2, 3), or a loop.")
    result: Operand = Constant(False)
    if isinstance(a, Scalar):
        a = named(k, a, node)
    for item in b.items:
        same = compare(k, ast.Eq(), a, item, node)
        if isinstance(same, Constant) and isinstance(result, Constant):
            result = Constant(result.value or same.value)
        elif isinstance(result, Constant) and not result.value:
            result = same
        else:
            result = binary(k, ast.BitOr(), result, same, node)
    if isinstance(op, ast.In):
        return result
    return Constant(not result.value) if isinstance(result, Constant) else negated(k, result, node)
