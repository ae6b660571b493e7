"""Lowers conversions and functions of Python that kernels have: ``int``, ``min``, ``abs``, ``round`` and the like."""

from __future__ import annotations

import ast
import math
import operator

from vyre.domain.frontend import operators
from vyre.domain.frontend.call_arguments import called
from vyre.domain.frontend.comparisons import compare
from vyre.domain.frontend.known import fixed_items
from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import PLACEHOLDER, Constant, Items, Operand, Scalar, Thing
from vyre.domain.frontend.operators import condition, literal, scalar
from vyre.domain.ir.expr import Cast, Select, Unary
from vyre.domain.ir.operators import INTEGERS, UNARY, BinaryOp, UnaryOp, unary_result
from vyre.domain.ir.types import ScalarType


def converted(k: Lowering, dtype: ScalarType, operand: Operand, node: ast.AST) -> Operand:
    """Returns an operand converted to a type, as ``f32(x)`` does: a cast of a value, or a literal of a number."""
    if not dtype.is_executable:
        wide = dtype.widened.text
        fix = (
            f"compute in {wide}; a store to an array of {dtype.text} narrows, and vyre.narrow({dtype.text}, x) rounds."
        )
        k.fail(node, f"no value has the type {dtype.text}, which exists in arrays only", fix)
    operand = k.settled(operand)
    if isinstance(operand, Constant):
        number = operand.value
        if dtype is ScalarType.BOOL:
            return literal(k, Constant(bool(number)), dtype, node)
        if isinstance(number, bool):
            number = int(number)
        if isinstance(number, float) and dtype.is_integer:
            if not math.isfinite(number):
                k.fail(node, f"{dtype.text}({number}) has no value", "use a finite number.")
            number = int(number)
        return literal(k, Constant(number), dtype, node)
    value = scalar(k, operand, node)
    if value.dtype is dtype:
        return value
    return Scalar(Cast(dtype, value.expr, loc=k.loc(node)), dtype, None, value.changes)


def int_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``int(x)``, which kernels have for numbers and integers."""
    (operand,) = arguments
    if isinstance(operand, Constant):
        return operators.constant(k, operators.computed(k, int, node, operand.held), node)
    value = scalar(k, operand, node)
    if value.dtype is not None and not value.dtype.is_integer:
        written = operators.written(node.args[0] if node.args else None)
        k.fail(
            node,
            f"int() of {value.dtype.text} does not say which integer type it makes",
            f"write i32({written}) or u32({written}), which leave out what follows the point.",
        )
    return value


def float_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``float(x)``, which kernels have for numbers, texts such as "inf", and floats."""
    (operand,) = arguments
    if isinstance(operand, Constant):
        return operators.constant(k, operators.computed(k, float, node, operand.held), node)
    if isinstance(operand, Thing) and isinstance(operand.value, str):
        try:
            return Constant(float(operand.value))
        except ValueError:
            pass
    value = scalar(k, operand, node)
    if value.dtype is not None and not value.dtype.is_float:
        written = operators.written(node.args[0] if node.args else None)
        fix = f"write f32({written}) or f64({written})."
        k.fail(node, f"float() of {value.dtype.text} does not say which float type it makes", fix)
    return value


def bool_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``bool(x)``."""
    (operand,) = arguments
    return Constant(bool(operand.value)) if isinstance(operand, Constant) else condition(k, operand, node)


def smallest_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``min(...)``."""
    return _extreme(k, arguments, node, ast.Lt(), BinaryOp.MIN)


def largest_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``max(...)``."""
    return _extreme(k, arguments, node, ast.Gt(), BinaryOp.MAX)


def _extreme(k: Lowering, arguments: list[Operand], node: ast.Call, beats: ast.cmpop, op: BinaryOp) -> Operand:
    if len(arguments) == 1 and isinstance(arguments[0], Scalar | Constant):
        name = called(node)
        k.fail(node, f"`{name}` compares several values, and one is given", f"write {name}(a, b).")
    if len(arguments) == 1:
        arguments = list(fixed_items(k, arguments[0], node))
    if not arguments:
        k.fail(node, "the smallest or largest of nothing is asked for", "give at least one value.")
    best = arguments[0]
    for other in arguments[1:]:
        best, other = k.settled(best), k.settled(other)
        if isinstance(best, Constant) and isinstance(other, Constant):
            won = operators.computed(k, operator.lt if op is BinaryOp.MIN else operator.gt, node, other.held, best.held)
            best = other if won else best
            continue
        a, b = operators.common(k, best, other, f"`{called(node)}`", node)
        if a.dtype is ScalarType.BOOL:
            k.fail(node, "truth values have no order", "write `and` or `or`.")
        if a.dtype is None or a.dtype in INTEGERS:
            best = operators.made(k, op, a, b, node)
            continue
        # Python compares, so that NaN and the sign of zero are those of the first operand that is not beaten.
        a, b = operators.named(k, a, node), operators.named(k, b, node)
        test = compare(k, beats, b, a, node)
        assert isinstance(test, Scalar)
        changes = a.changes or b.changes
        best = Scalar(Select(test.expr, b.expr, a.expr, loc=k.loc(node)), a.dtype, None, changes)
    return best


def abs_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``abs(x)``."""
    (operand,) = arguments
    if isinstance(operand, Constant):
        return operators.constant(k, operators.computed(k, abs, node, operand.held), node)
    return unary_function(k, UnaryOp.ABS, operand, node)


def round_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``round(x)``, half to even; that of a float keeps its type."""
    (operand,) = arguments
    if isinstance(operand, Constant):
        return operators.constant(k, operators.computed(k, round, node, operand.held), node)
    value = scalar(k, operand, node)
    if value.dtype is None or value.dtype.is_integer:
        return value
    return unary_function(k, UnaryOp.ROUND_EVEN, value, node)


def divmod_of(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    """Returns ``divmod(a, b)`` of integers, rounded down."""
    a, b = arguments
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Items(tuple(operators.binary(k, op, a, b, node) for op in (ast.FloorDiv(), ast.Mod())))
    a, b = (operators.named(k, one, node) if isinstance(one, Scalar) else one for one in arguments)
    quotient, rest = operators.floor_division(k, a, b, node), operators.remainder(k, a, b, node)
    return Items((quotient, rest))


def unary_function(k: Lowering, op: UnaryOp, operand: Operand, node: ast.AST) -> Scalar:
    """Returns an operation of one operand."""
    value = scalar(k, operand, node)
    if value.dtype is None:
        if value.cell is not None and not (UNARY[op].operands & INTEGERS):
            value.cell.root.fractional = True
        return Scalar(PLACEHOLDER, None, value.cell, value.changes)
    dtype = unary_result(op, value.dtype)
    if dtype is None:
        allowed = ", ".join(operators.spelled(t) for t in ScalarType if t in UNARY[op].operands)
        k.fail(node, f"`{UNARY[op].text}` is not defined for {value.dtype.text}", f"convert to one of {allowed}.")
    return Scalar(Unary(op, value.expr, loc=k.loc(node)), dtype, None, value.changes)
