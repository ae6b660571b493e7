"""Methods of values and arrays: ``x.bitcast(f32)``, ``counts.atomic_add(i, 1)``."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any, Final, NoReturn

from vyre.domain.frontend.arrays import position
from vyre.domain.frontend.call_arguments import bound, positional, type_argument
from vyre.domain.frontend.evaluation import expression
from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import PLACEHOLDER, Array, Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import spelled, standalone, typed
from vyre.domain.frontend.python_functions import converted
from vyre.domain.ir.expr import Atomic, Bitcast, Expr
from vyre.domain.ir.foreign_names import type_hint
from vyre.domain.ir.operators import ATOMIC_ELEMENTS, AtomicOp, Ordering, bitcast_is_legal
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown

CONVERSIONS: Final = ("astype", "to", "type", "view")
"""Methods of NumPy and others that convert, or keep the bits; a kernel calls the type."""


_NARROW: Final = [one.text for one in ScalarType if not one.is_executable]


def call_method(k: Lowering, method: Method, node: ast.Call) -> Operand:
    if method.name in CONVERSIONS:
        _refuse_conversion(k, method, node)
    if isinstance(method.of, Array):
        return _atomic(k, method.of, method.name, node)
    (target,) = positional(k, node, 1)
    dtype = type_argument(k, target, node)
    if method.name == "cast":
        return converted(k, dtype, method.of, node)
    value = standalone(k, method.of, node) if isinstance(method.of, Constant) else method.of
    if value.dtype is None:
        return Scalar(PLACEHOLDER, dtype)
    if not bitcast_is_legal(value.dtype, dtype):
        k.fail(
            node,
            f"{value.dtype.text} cannot be bitcast to {dtype.text}",
            "bitcast between u32, i32 and f32, or between u64, i64 and f64.",
        )
    return Scalar(Bitcast(dtype, value.expr, loc=k.loc(node)), dtype, None, value.changes)


def _refuse_conversion(k: Lowering, method: Method, node: ast.Call) -> NoReturn:
    """Raises the error for a conversion by a method, whose fix names the type that is asked for."""
    asked = [expression(k, one) for one in (*node.args, *(keyword.value for keyword in node.keywords))]
    dtype = _spelled_type(asked[0].value) if asked and isinstance(asked[0], Thing) else None
    of = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else "x"
    what, element = ("arrays", f"{of}[i]") if isinstance(method.of, Array) else ("values", of)
    call = f"vyre.narrow({dtype}, {element})" if dtype in _NARROW else f"{dtype or 'f32'}({element})"
    if method.name == "view":
        call = f"{element}.bitcast({dtype or 'u32'})"
    meant = "" if dtype else ", with the type that is meant"
    k.fail(node.func, f"{what} of kernels have no method `{method.name}`", f"write {call}{meant}.")


def _spelled_type(named: Any) -> str | None:
    """Returns the name of the type of vyre that a type, or its name, of vyre, Python or NumPy means, or None."""
    if isinstance(named, ScalarType):
        return spelled(named)
    import numpy as np

    with suppress(TypeError, ValueError):
        return type_hint(named) or type_hint(np.dtype(named))
    return None


def _atomic(k: Lowering, array: Array, name: str, node: ast.Call) -> Operand:
    op = AtomicOp[name.removeprefix("atomic_").upper()]
    compares = op is AtomicOp.COMPARE_EXCHANGE
    ordering = _ordering(k, node)
    parameters = ("index", "expected", "value") if compares else ("index", "value")
    rest = ast.copy_location(
        ast.Call(node.func, node.args, [one for one in node.keywords if one.arg != "ordering"]), node
    )
    arguments = bound(k, rest, parameters, len(parameters))
    if array.is_private:
        fix = f"write {array.name}[i] = ...: no other lane has the array."
        k.fail(node, f"`{array.name}` is memory of one lane, on which there are no atomics", fix)
    if not array.is_writable:
        k.fail(node, f"`{array.name}` is read-only; an atomic reads and writes it", "annotate it as InOut or Out.")
    if array.element not in ATOMIC_ELEMENTS:
        k.fail(
            node,
            f"`{array.name}` holds {array.element!r}, on which there are no atomics",
            "use an array of u32, i32 or u64; add floats up in workgroup memory, or as integers in fixed point.",
        )
    place = arguments[0]
    index = position(k, array, list(place.items) if isinstance(place, Items) else [place], node)
    expected = typed(k, arguments[1], array.dtype, "the expected value", node) if compares else None
    value = typed(k, arguments[-1], array.dtype, "the operand of an atomic", node)
    compared: Expr | None = None if expected is None else expected.expr
    atomic = Atomic(op, array.name, index.expr, compared, value.expr, ordering, loc=k.loc(node))
    return k.let(Scalar(atomic, array.dtype), "old", node)


def _ordering(k: Lowering, node: ast.Call) -> Ordering:
    for keyword in node.keywords:
        if keyword.arg == "ordering":
            operand = expression(k, keyword.value)
            value = getattr(operand, "value", None)
            if isinstance(value, Ordering):
                return value
            k.fail(node, f"ordering={shown(value)} is no memory ordering", "give one, such as vyre.Ordering.RELAXED.")
    return Ordering.SEQ_CST
