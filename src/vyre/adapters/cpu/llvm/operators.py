"""The operators of the language on values: the front of the modules that write their instructions.

Constants are computed by the exact arithmetic of the domain.  Operators of uniform values are scalar instructions.  An
integer that is affine in the lane stays so under what keeps it affine; everything else is a vector instruction.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm import floating, functions, integer, narrowing
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.conversion import cast
from vyre.adapters.cpu.llvm.instructions import Instructions, Lifted, lift
from vyre.adapters.cpu.llvm.values import SCALAR, Narrow, Shape, Value, literal
from vyre.domain.ir.operators import (
    COMPARISONS,
    COUNTED,
    TRANSCENDENTALS,
    BinaryOp,
    UnaryOp,
    binary_result,
    unary_result,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_BOOL: Final = ScalarType.BOOL
_DIVISIONS: Final = frozenset({BinaryOp.DIV, BinaryOp.MOD})
_SUMS: Final = {BinaryOp.ADD: "add", BinaryOp.SUB: "sub"}
_ZERO_IS_NEUTRAL: Final = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.BIT_OR, BinaryOp.BIT_XOR, *COUNTED})
"""Integer operators that return the left operand if the right one is 0."""
_WRITTEN: Final = COMPARISONS | integer.WRITTEN | _DIVISIONS
"""Integer operators that have instructions here; the others are made of these."""


def binary(k: Kernel, op: BinaryOp, a: Value, b: Value) -> Value:
    """Returns ``a op b``; the types are legal by the operator tables."""
    result = binary_result(op, a.dtype, b.dtype)
    assert result is not None, f"the program is valid, but has {op} of {a.dtype} and {b.dtype}"
    if a.number is not None and b.number is not None:
        return literal(result, scalar.binary(op, a.dtype, a.number, b.number))
    element = SCALAR[a.dtype]
    if a.dtype is _BOOL:
        return _logic(k, op, a, b)
    if a.dtype.is_float:
        lifted = lift(k, a, b)
        if op in COMPARISONS:
            return _compared(k, lifted, floating.compare(lifted.ins, op, element, *lifted.operands))
        value = lifted.value(result, floating.binary(lifted.ins, op, element, *lifted.operands))
        narrowing.note_rounding(k, lifted.ins, op, value, a, b)
        return value
    if op in COUNTED:
        b = _count(k, a.dtype, b)
    short = _without_instruction(op, a, b) or _affine(k, op, a, b)
    if short is not None:
        return short
    if op not in _WRITTEN:
        from vyre.domain.dialects.laws.lowered import lowered  # few programs have such an operator

        return lowered(op, a.dtype, a, b, _Operators(k))
    lifted, signed = lift(k, a, b), a.dtype.is_signed
    ins, (x, y) = lifted.ins, lifted.operands
    if op in COMPARISONS:
        compared = _compared(k, lifted, _ordered(k, lifted, op, a, b))
        if op in (BinaryOp.EQ, BinaryOp.NE) and Shape.VARYING not in (a.shape, b.shape) and a.stride != b.stride:
            k.masks.note_unequal(compared.operand, equal=op is BinaryOp.EQ)
        return compared
    if op not in _DIVISIONS:
        return lifted.value(result, integer.binary(ins, op, element, x, y, signed=signed))
    if b.number is not None:
        by_constant = integer.divide_by_constant if op is BinaryOp.DIV else integer.remainder_by_constant
        return lifted.value(result, by_constant(ins, element, x, b.number, signed=signed))
    rule = integer.divide if op is BinaryOp.DIV else integer.remainder
    return lifted.value(result, rule(ins, element, x, y, signed=signed))


class _Operators:
    """The operators of values of a kernel, for those that are made of others."""

    def __init__(self, k: Kernel) -> None:
        self._k = k

    def literal(self, dtype: ScalarType, bits: int) -> Value:
        return literal(dtype, bits)

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: Value, right: Value) -> Value:
        return binary(self._k, op, left, right)

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: Value) -> Value:
        return unary(self._k, op, operand)


def _compared(k: Kernel, lifted: Lifted, operand: str) -> Value:
    return lifted.value(_BOOL, operand if lifted.ins.lanes is None else k.masks.held(operand))


def _ordered(k: Kernel, lifted: Lifted, op: BinaryOp, a: Value, b: Value) -> str:
    """Returns a comparison of integers.

    Vectors that were extended are compared as they were before, which keeps their order and is less work.
    """
    ins, (x, y), element, signed = lifted.ins, lifted.operands, SCALAR[a.dtype], a.dtype.is_signed
    narrow = k.narrow.get(a.operand) or k.narrow.get(b.operand)
    if narrow is not None and narrow.bits > 1:
        one, other = (_before_extension(k, ins, value, narrow) for value in (a, b))
        if one is not None and other is not None:
            element, x, y, signed = f"i{narrow.bits}", one, other, signed and narrow.is_signed
    return integer.compare(ins, op, element, x, y, signed=signed)


def _before_extension(k: Kernel, ins: Instructions, value: Value, like: Narrow) -> str | None:
    """Returns a vector of the bits of ``like`` whose extension in the same way is ``value``; None if there is none."""
    if value.number is None:
        narrow = k.narrow.get(value.operand)
        return narrow.operand if narrow is not None and narrow[1:] == like[1:] else None
    number, least = value.number, 0
    if like.is_signed:
        number -= (number >> (value.dtype.bits - 1)) << value.dtype.bits
        least = -(1 << (like.bits - 1))
    return ins.number(f"i{like.bits}", number) if least <= number < least + (1 << like.bits) else None


def _logic(k: Kernel, op: BinaryOp, a: Value, b: Value) -> Value:
    if b.number is not None and op in (BinaryOp.EQ, BinaryOp.NE):
        return a if b.number == (op is BinaryOp.EQ) else unary(k, UnaryOp.LOGICAL_NOT, a)
    lifted = lift(k, a, b)
    ins, (x, y) = lifted.ins, lifted.operands
    match op:
        case BinaryOp.AND | BinaryOp.OR:
            name = "and" if op is BinaryOp.AND else "or"
            if ins.lanes is not None:
                return lifted.value(_BOOL, k.masks.combined(name, x, y))
            return lifted.value(_BOOL, ins.do(name, "i1", x, y))
        case _:
            return lifted.value(_BOOL, integer.compare(ins, op, "i1", x, y, signed=False))


def _count(k: Kernel, dtype: ScalarType, count: Value) -> Value:
    """Returns the count of a shift or rotation in the type of the other operand, as far as its low bits go."""
    if count.number is not None:
        return literal(dtype, count.number & (dtype.bits - 1))
    return count if count.dtype is dtype else cast(k, dtype, count)


def _without_instruction(op: BinaryOp, a: Value, b: Value) -> Value | None:
    """Returns the result of an integer operator that is one of its operands or a constant, else None."""
    if b.number == 0 and op in _ZERO_IS_NEUTRAL:
        return a
    if a.number == 0 and op is BinaryOp.ADD:
        return b
    if op is BinaryOp.MUL:
        for one, other in ((a, b), (b, a)):
            if one.number == 0:
                return one
            if one.number == 1:
                return other
    return None


def _affine(k: Kernel, op: BinaryOp, a: Value, b: Value) -> Value | None:
    """Returns the result of an operator that keeps affine integers affine, None if that does not apply."""
    if Shape.AFFINE not in (a.shape, b.shape) or Shape.VARYING in (a.shape, b.shape):
        return None
    dtype, ins, element = a.dtype, Instructions(k.w, None), SCALAR[a.dtype]
    if op in _SUMS:
        stride = a.stride + b.stride if op is BinaryOp.ADD else a.stride - b.stride
        return k.affine(dtype, ins.do(_SUMS[op], element, a.operand, b.operand), stride)
    if op is BinaryOp.MUL:
        one, other = (a, b) if b.number is not None else (b, a)
        if other.number is None:
            return None
        return k.affine(dtype, ins.do("mul", element, one.operand, other.operand), one.stride * other.number)
    if op is BinaryOp.SHL and b.number is not None:
        return k.affine(dtype, ins.do("shl", element, a.operand, b.operand), a.stride << b.number)
    return None


def unary(k: Kernel, op: UnaryOp, a: Value) -> Value:
    """Returns ``op a``; the type is legal by the operator tables."""
    result = unary_result(op, a.dtype)
    assert result is not None, f"the program is valid, but has {op} of {a.dtype}"
    if a.number is not None:
        return literal(result, scalar.unary(op, a.dtype, a.number))
    element = SCALAR[a.dtype]
    if a.shape is Shape.AFFINE and op in (UnaryOp.NEGATE, UnaryOp.BIT_NOT):
        base = integer.unary(Instructions(k.w, None), op, element, a.operand, signed=a.dtype.is_signed)
        return k.affine(result, base, -a.stride)
    if op in TRANSCENDENTALS:
        return functions.call(k, op, a)
    lifted = lift(k, a)
    ins, (x,) = lifted.ins, lifted.operands
    if op is UnaryOp.LOGICAL_NOT:
        return lifted.value(result, ins.do("xor", "i1", x, "true") if ins.lanes is None else k.masks.inverse(x))
    if op in floating.CLASSIFICATIONS:
        return lifted.value(result, floating.classify(ins, op, element, x))
    if a.dtype.is_float:
        value = lifted.value(result, floating.unary(ins, op, element, x))
        narrowing.note_rounding(k, ins, op, value, a)
        return value
    return lifted.value(result, integer.unary(ins, op, element, x, signed=a.dtype.is_signed))


def select(k: Kernel, condition: Value, on_true: Value, on_false: Value) -> Value:
    """Returns ``on_true`` where the bool ``condition`` holds, else ``on_false``, of one type, bits unchanged."""
    if condition.number is not None:
        return on_true if condition.number else on_false
    if on_true == on_false:
        return on_true
    dtype, element = on_true.dtype, SCALAR[on_true.dtype]
    scalars = Instructions(k.w, None)
    shapes = (on_true.shape, on_false.shape)
    if condition.is_uniform and Shape.VARYING not in shapes and on_true.stride == on_false.stride:
        base = scalars.select(element, condition.operand, on_true.operand, on_false.operand)
        return k.affine(dtype, base, on_true.stride) if Shape.AFFINE in shapes else k.uniform(dtype, base)
    if condition.is_uniform:
        kind = k.vector_type(element)
        form = f"select i1 {{}}, {kind} {{}}, {kind} {{}}"
        return k.varying(dtype, k.w.pure(form, condition.operand, k.vector(on_true), k.vector(on_false)))
    lifted = lift(k, condition, on_true, on_false)
    return lifted.value(dtype, lifted.ins.select(element, *lifted.operands))


def fma(k: Kernel, a: Value, b: Value, c: Value) -> Value:
    """Returns ``a * b + c``, rounded once, of f32 or f64."""
    if a.number is not None and b.number is not None and c.number is not None:
        return literal(a.dtype, scalar.fma(a.dtype, a.number, b.number, c.number))
    lifted = lift(k, a, b, c)
    return lifted.value(a.dtype, floating.fma(lifted.ins, SCALAR[a.dtype], *lifted.operands))
