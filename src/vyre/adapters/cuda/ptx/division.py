"""Division by a literal: the plan of ``policies.emission.constant_division``, in instructions."""

from __future__ import annotations

from vyre.adapters.cuda.ptx import integer
from vyre.adapters.cuda.ptx.integer import IntegerWriter
from vyre.adapters.cuda.ptx.values import Value, literal
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.policies.emission.constant_division import (
    ByOne,
    ByZero,
    Compare,
    DivisionInputs,
    Multiply,
    Shift,
    SignedMultiply,
    SignedShift,
    divide_by,
)
from vyre.policies.journal import DecisionSink, decide


def divide(x: IntegerWriter, op: BinaryOp, n: Value, divisor: int, sink: DecisionSink | None = None) -> Value:
    """Returns the quotient (DIV) or remainder (MOD) of ``n`` by the bit pattern ``divisor``.

    ``sink`` receives the decision how it is computed.
    """
    dtype = n.dtype
    dividend = Value(x.reg(n), dtype)
    plan = decide(sink, divide_by, DivisionInputs(divisor, dtype.bits, dtype.is_signed))
    wants_quotient = op is BinaryOp.DIV
    match plan:
        case ByZero(pattern):
            return literal(dtype, pattern if wants_quotient else 0)
        case ByOne(negate):
            if not wants_quotient:
                return literal(dtype, 0)
            return _negated(x, dividend) if negate else dividend
        case Shift(shift, mask):
            if not wants_quotient:
                return _of_two(x, "and.b", dividend, literal(dtype, mask))
            return _right(x, dividend, shift, arithmetic=False)
        case SignedShift(shift, bias_shift, keep, negate):
            sign = _right(x, dividend, dtype.bits - 1, arithmetic=True)
            biased = _of_two(x, "add.u", dividend, _right(x, sign, bias_shift, arithmetic=False))
            if not wants_quotient:
                return _of_two(x, "sub.u", dividend, _of_two(x, "and.b", biased, literal(dtype, keep)))
            quotient = _right(x, biased, shift, arithmetic=True)
            return _negated(x, quotient) if negate else quotient
        case Compare(threshold):
            reached = x.predicate(f"setp.ge.u{dtype.bits}", dividend.operand, literal(dtype, threshold).operand)
            selp = f"selp.b{dtype.bits}"
            if wants_quotient:
                return x.new(dtype, selp, 1, 0, reached)
            return _of_two(x, "sub.u", dividend, x.new(dtype, selp, literal(dtype, threshold).operand, 0, reached))
        case Multiply(multiplier, pre_shift, post_shift, add):
            quotient = _unsigned_quotient(x, dividend, multiplier, pre_shift, post_shift, add)
        case SignedMultiply(multiplier, post_shift, add, negate):
            quotient = _signed_quotient(x, dividend, multiplier, post_shift, add, negate)
    return quotient if wants_quotient else _remainder(x, dividend, quotient, divisor)


def _unsigned_quotient(
    x: IntegerWriter, n: Value, multiplier: int, pre_shift: int, post_shift: int, add: bool
) -> Value:
    high = integer.BINARY[BinaryOp.MUL_HIGH](x, _right(x, n, pre_shift, arithmetic=False), literal(n.dtype, multiplier))
    if add:
        high = _of_two(x, "add.u", high, _right(x, _of_two(x, "sub.u", n, high), 1, arithmetic=False))
    return _right(x, high, post_shift, arithmetic=False)


def _signed_quotient(x: IntegerWriter, n: Value, multiplier: int, post_shift: int, add: bool, negate: bool) -> Value:
    high = integer.BINARY[BinaryOp.MUL_HIGH](x, n, literal(n.dtype, multiplier))
    if add:
        high = _of_two(x, "add.u", high, n)
    shifted = _right(x, high, post_shift, arithmetic=True)
    sign = _right(x, n, n.dtype.bits - 1, arithmetic=True)
    return _of_two(x, "sub.u", sign, shifted) if negate else _of_two(x, "sub.u", shifted, sign)


def _remainder(x: IntegerWriter, n: Value, quotient: Value, divisor: int) -> Value:
    bits = n.dtype.bits
    product = x.new(n.dtype, f"mul.lo.u{bits}", quotient.operand, divisor)
    return _of_two(x, "sub.u", n, product)


def _right(x: IntegerWriter, a: Value, count: int, *, arithmetic: bool) -> Value:
    """Shifts right by a literal; an arithmetic shift of 32 bits is written as the shift operator writes it."""
    if count == 0:
        return a
    signed: ScalarType = {32: ScalarType.I32, 64: ScalarType.I64}[a.dtype.bits]
    unsigned: ScalarType = {32: ScalarType.U32, 64: ScalarType.U64}[a.dtype.bits]
    shifted = integer.BINARY[BinaryOp.SHR](
        x, Value(a.operand, signed if arithmetic else unsigned), literal(ScalarType.U32, count)
    )
    return Value(shifted.operand, a.dtype)


def _of_two(x: IntegerWriter, operation: str, a: Value, b: Value) -> Value:
    return x.new(a.dtype, f"{operation}{a.dtype.bits}", a.operand, b.operand)


def _negated(x: IntegerWriter, a: Value) -> Value:
    return integer.UNARY[UnaryOp.NEGATE](x, a)
