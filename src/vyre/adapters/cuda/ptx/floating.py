"""Float operators: every rounding is explicit, so that nothing is contracted, flushed or approximated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.adapters.cuda.ptx.operands import Operand, Register, hexadecimal
from vyre.adapters.cuda.ptx.values import Value, immediate, in_register
from vyre.adapters.cuda.ptx.writer import CLASS_OF, Writer
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType

_S = ScalarType
Row: TypeAlias = Callable[[Writer, Value, Value], Value]
UnaryRow: TypeAlias = Callable[[Writer, Value], Value]

CANONICAL_NAN: Final = {_S.F32: 0x7FC0_0000, _S.F64: 0x7FF8_0000_0000_0000}
ONE: Final = {_S.F32: 0x3F80_0000, _S.F64: 0x3FF0_0000_0000_0000}
_BELOW_HALF: Final = {_S.F32: 0x3EFF_FFFF, _S.F64: 0x3FDF_FFFF_FFFF_FFFF}
_INFINITY: Final = {_S.F32: 0x7F80_0000, _S.F64: 0x7FF0_0000_0000_0000}


def _f(dtype: ScalarType) -> str:
    return f"f{dtype.bits}"


def new(w: Writer, dtype: ScalarType, operation: str, *operands: Operand, number: bool = False) -> Value:
    """Writes an operation and returns its result; ``number``: it is certainly not NaN."""
    return Value(w.emit(CLASS_OF[dtype], operation, *operands), dtype, number=number)


def bits_of(w: Writer, value: Value) -> Register:
    """Returns the bit pattern in an integer register."""
    size = value.dtype.bits
    return w.emit("r" if size == 32 else "rd", f"mov.b{size}", in_register(w, value))


def canonical(w: Writer, value: Value) -> Value:
    """Returns the value with NaN made canonical, for use where its bits become observable."""
    if value.bits is not None and not value.number:
        return Value(immediate(value.dtype, CANONICAL_NAN[value.dtype]), value.dtype, CANONICAL_NAN[value.dtype])
    if value.number:
        return value
    f = _f(value.dtype)
    nan = w.emit("p", f"setp.nan.{f}", value.operand, value.operand)
    pattern = immediate(value.dtype, CANONICAL_NAN[value.dtype])
    return new(w, value.dtype, f"selp.{f}", pattern, value.operand, nan)


def _plain(operation: str, result: ScalarType | None = None) -> Row:
    return lambda w, a, b: new(w, result or a.dtype, f"{operation}.{_f(a.dtype)}", in_register(w, a), b.operand)


def _extreme(operation: str) -> Row:
    """Minimum or maximum, as the instruction computes it: a NaN yields the other operand, and -0 is below +0."""

    def row(w: Writer, a: Value, b: Value) -> Value:
        return new(w, a.dtype, f"{operation}.{_f(a.dtype)}", in_register(w, a), b.operand, number=a.number or b.number)

    return row


BINARY: Final[dict[BinaryOp, Row]] = {
    BinaryOp.ADD: _plain("add.rn"),
    BinaryOp.SUB: _plain("sub.rn"),
    BinaryOp.MUL: _plain("mul.rn"),
    BinaryOp.DIV: _plain("div.rn"),
    BinaryOp.MIN: _extreme("min"),
    BinaryOp.MAX: _extreme("max"),
    BinaryOp.EQ: _plain("setp.eq", _S.BOOL),
    BinaryOp.NE: _plain("setp.neu", _S.BOOL),
    BinaryOp.LT: _plain("setp.lt", _S.BOOL),
    BinaryOp.GT: _plain("setp.gt", _S.BOOL),
    BinaryOp.LE: _plain("setp.le", _S.BOOL),
    BinaryOp.GE: _plain("setp.ge", _S.BOOL),
}


def fma(w: Writer, a: Value, b: Value, c: Value) -> Value:
    """Returns ``a * b + c``, rounded once."""
    return new(w, a.dtype, f"fma.rn.{_f(a.dtype)}", in_register(w, a), b.operand, in_register(w, c))


def _of_one(operation: str, *, keeps_numbers: bool = False) -> UnaryRow:
    return lambda w, a: new(
        w, a.dtype, f"{operation}.{_f(a.dtype)}", in_register(w, a), number=keeps_numbers and a.number
    )


def _to_integral(mode: str) -> UnaryRow:
    return lambda w, a: _of_one(f"cvt.{mode}.{_f(a.dtype)}", keeps_numbers=True)(w, a)


_sqrt: Final = _of_one("sqrt.rn")
_reciprocal: Final = _of_one("rcp.rn")


def _round(w: Writer, a: Value) -> Value:
    """Rounds halves away from zero: adds the float below one half with the sign of x, then truncates (exact for every
    x).
    """
    size = a.dtype.bits
    kind = "r" if size == 32 else "rd"
    sign = w.emit(kind, f"and.b{size}", bits_of(w, a), hexadecimal(1 << (size - 1)))
    half = w.emit(kind, f"or.b{size}", sign, hexadecimal(_BELOW_HALF[a.dtype]))
    as_float = w.emit(CLASS_OF[a.dtype], f"mov.b{size}", half)
    moved = new(w, a.dtype, f"add.rn.{_f(a.dtype)}", in_register(w, a), as_float)
    return _to_integral("rzi")(w, moved)


def _sign(w: Writer, a: Value) -> Value:
    x, f = in_register(w, a), _f(a.dtype)
    zero, one = immediate(a.dtype, 0), immediate(a.dtype, ONE[a.dtype])
    minus_one = immediate(a.dtype, ONE[a.dtype] | 1 << (a.dtype.bits - 1))
    kind = CLASS_OF[a.dtype]
    above, below = w.emit("p", f"setp.gt.{f}", x, zero), w.emit("p", f"setp.lt.{f}", x, zero)
    positive = w.emit(kind, f"selp.{f}", one, zero, above)
    signed = w.emit(kind, f"selp.{f}", minus_one, positive, below)
    nan = w.emit("p", f"setp.nan.{f}", x, x)
    return new(w, a.dtype, f"selp.{f}", x, signed, nan, number=a.number)


def _is_nan(w: Writer, a: Value) -> Value:
    x = in_register(w, a)
    return new(w, _S.BOOL, f"setp.nan.{_f(a.dtype)}", x, x)


def _magnitude_test(relation: str) -> UnaryRow:
    """Compares the bit pattern without its sign with that of infinity."""

    def row(w: Writer, a: Value) -> Value:
        size = a.dtype.bits
        magnitude = w.emit(
            "r" if size == 32 else "rd", f"and.b{size}", bits_of(w, a), hexadecimal((1 << (size - 1)) - 1)
        )
        return new(w, _S.BOOL, f"setp.{relation}.u{size}", magnitude, hexadecimal(_INFINITY[a.dtype]))

    return row


UNARY: Final[dict[UnaryOp, UnaryRow]] = {
    UnaryOp.NEGATE: _of_one("neg", keeps_numbers=True),
    UnaryOp.ABS: _of_one("abs", keeps_numbers=True),
    UnaryOp.SQRT: _sqrt,
    UnaryOp.FLOOR: _to_integral("rmi"),
    UnaryOp.CEIL: _to_integral("rpi"),
    UnaryOp.TRUNC: _to_integral("rzi"),
    UnaryOp.ROUND: _round,
    UnaryOp.ROUND_EVEN: _to_integral("rni"),
    UnaryOp.SIGN: _sign,
    UnaryOp.IS_NAN: _is_nan,
    UnaryOp.IS_INF: _magnitude_test("eq"),
    UnaryOp.IS_FINITE: _magnitude_test("lt"),
    UnaryOp.INVERSE_SQRT: lambda w, a: _reciprocal(w, _sqrt(w, a)),
    UnaryOp.RECIPROCAL: _reciprocal,
}
