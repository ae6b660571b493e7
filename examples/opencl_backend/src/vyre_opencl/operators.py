"""The C of every operator, on operands that are names or constants."""

from __future__ import annotations

from typing import Final

from vyre.ir import BinaryOp, ScalarType, UnaryOp
from vyre_opencl.types import UNSIGNED, VALUE

_B, _U = BinaryOp, UnaryOp
_COMPARISONS: Final = {_B.EQ: "==", _B.NE: "!=", _B.LT: "<", _B.GT: ">", _B.LE: "<=", _B.GE: ">="}
_WRAPPING: Final = {_B.ADD: "+", _B.SUB: "-", _B.MUL: "*"}
_BITWISE: Final = {_B.BIT_AND: "&", _B.BIT_OR: "|", _B.BIT_XOR: "^", _B.AND: "&", _B.OR: "|"}
_FUNCTIONS: Final = {
    _B.MIN: "min",
    _B.MAX: "max",
    _B.SATURATING_ADD: "add_sat",
    _B.SATURATING_SUB: "sub_sat",
    _B.MUL_HIGH: "mul_hi",
}
_ROUNDINGS: Final = {
    _U.FLOOR: "floor",
    _U.CEIL: "ceil",
    _U.TRUNC: "trunc",
    _U.ROUND: "round",
    _U.ROUND_EVEN: "rint",
}
_TESTS: Final = {
    _U.IS_NAN: "isnan",
    _U.IS_INF: "isinf",
    _U.IS_FINITE: "isfinite",
}
OWN: Final = frozenset(
    {
        *(*_COMPARISONS, *_WRAPPING, *_BITWISE, *_FUNCTIONS, _B.DIV, _B.MOD, _B.SHL, _B.SHR),
        *(_B.ROTATE_LEFT, _B.ROTATE_RIGHT, _B.ABS_DIFF, _B.SATURATING_MUL),
    }
)
"""The binary operators that have C of their own; the others are made of these."""


def binary(op: BinaryOp, dtype: ScalarType, a: str, b: str) -> str:
    """Returns ``a op b``; ``dtype`` is the type of ``a``."""
    if op in _COMPARISONS:
        return f"({a} {_COMPARISONS[op]} {b})"
    if op in _BITWISE:
        return f"({a} {_BITWISE[op]} {b})"
    return _binary_float(op, dtype, a, b) if dtype.is_float else _binary_integer(op, dtype, a, b)


def _binary_float(op: BinaryOp, dtype: ScalarType, a: str, b: str) -> str:
    match op:
        case BinaryOp.MIN | BinaryOp.MAX:
            return f"vy_{_FUNCTIONS[op]}_{dtype.text}({a}, {b})"
        case BinaryOp.DIV:
            return _quotient(dtype, a, b)
        case _:
            return f"({a} {_WRAPPING[op]} {b})"


def _binary_integer(op: BinaryOp, dtype: ScalarType, a: str, b: str) -> str:
    signed, unsigned, width = VALUE[dtype], UNSIGNED[dtype], dtype.bits
    kind = "s" if dtype.is_signed else "u"
    count = f"((uint){b} & {width - 1}u)"
    match op:
        case BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL:
            return f"({signed})(({unsigned}){a} {_WRAPPING[op]} ({unsigned}){b})"
        case BinaryOp.DIV:
            return f"vy_{kind}div_{width}({a}, {b})"
        case BinaryOp.MOD:
            return f"vy_{kind}mod_{width}({a}, {b})"
        case BinaryOp.SHL:
            return f"({signed})(({unsigned}){a} << {count})"
        case BinaryOp.SHR:
            return f"({a} >> {count})"
        case BinaryOp.ROTATE_LEFT:
            return f"({signed})vy_rotl_{width}(({unsigned}){a}, {count})"
        case BinaryOp.ROTATE_RIGHT:
            return f"({signed})vy_rotr_{width}(({unsigned}){a}, {count})"
        case BinaryOp.ABS_DIFF:
            return f"({signed})({a} < {b} ? ({unsigned}){b} - ({unsigned}){a} : ({unsigned}){a} - ({unsigned}){b})"
        case BinaryOp.SATURATING_MUL:
            return f"vy_satmul_{dtype.text}({a}, {b})"
        case _:
            return f"{_FUNCTIONS[op]}({a}, {b})"


def unary(op: UnaryOp, dtype: ScalarType, a: str) -> str:
    """Returns ``op a`` for an operator that is no transcendental function."""
    if op is UnaryOp.LOGICAL_NOT:
        return f"(!{a})"
    return _unary_float(op, dtype, a) if dtype.is_float else _unary_integer(op, dtype, a)


def _unary_float(op: UnaryOp, dtype: ScalarType, a: str) -> str:
    word, suffix = ("uint", "u") if dtype is ScalarType.F32 else ("ulong", "ul")
    sign = f"{1 << (dtype.bits - 1):#x}{suffix}"
    kind = VALUE[dtype]
    match op:
        case UnaryOp.NEGATE:
            return f"as_{kind}(as_{word}({a}) ^ {sign})"
        case UnaryOp.ABS:
            return f"as_{kind}(as_{word}({a}) & ~{sign})"
        case UnaryOp.SIGN:
            return f"(isnan({a}) ? {a} : ({kind})(({a} > 0) - ({a} < 0)))"
        case UnaryOp.RECIPROCAL:
            return _quotient(dtype, "1.0f", a)
        case UnaryOp.INVERSE_SQRT:
            return _quotient(dtype, "1.0f", _root(dtype, a))
        case UnaryOp.SQRT:
            return _root(dtype, a)
        case _ if op in _ROUNDINGS:
            return f"vy_{_ROUNDINGS[op]}_{dtype.text}({a})"
        case _:
            return f"{_TESTS[op]}({a})"


def _quotient(dtype: ScalarType, a: str, b: str) -> str:
    return f"vy_div_f32({a}, {b})" if dtype is ScalarType.F32 else f"({a} / {b})"


def _root(dtype: ScalarType, a: str) -> str:
    return f"vy_sqrt_f32({a})" if dtype is ScalarType.F32 else f"sqrt({a})"


def fma(dtype: ScalarType, a: str, b: str, c: str) -> str:
    """Returns ``a * b + c``, rounded once."""
    return f"{'vy_fma_f32' if dtype is ScalarType.F32 else 'fma'}({a}, {b}, {c})"


def _unary_integer(op: UnaryOp, dtype: ScalarType, a: str) -> str:
    signed, unsigned, width = VALUE[dtype], UNSIGNED[dtype], dtype.bits
    word = f"({unsigned}){a}"
    match op:
        case UnaryOp.NEGATE:
            return f"({signed})(({unsigned})0 - {word})"
        case UnaryOp.ABS:
            return f"({signed})({a} < 0 ? ({unsigned})0 - {word} : {word})" if dtype.is_signed else a
        case UnaryOp.BIT_NOT:
            return f"(~{a})"
        case UnaryOp.POPCOUNT:
            return f"({signed})popcount({word})"
        case UnaryOp.CLZ:
            return f"({signed})clz({word})"
        case UnaryOp.CTZ:  # the bits below the lowest one; all of them for 0
            return f"({signed})popcount(~{word} & ({word} - 1))"
        case UnaryOp.REVERSE_BITS:
            return f"({signed})vy_reverse_{width}({word})"
        case _:
            raise AssertionError(f"{op} is not defined for {dtype.text}")


def cast(source: ScalarType, target: ScalarType, a: str) -> str:
    """Returns the value of ``a`` in another type."""
    if source is target:
        return a
    if target is ScalarType.BOOL:
        return f"({a} != 0)"
    if source.is_float and not target.is_float:
        return f"vy_sat_{target.text}({a})"
    return f"({VALUE[target]}){a}"


def bitcast(source: ScalarType, target: ScalarType, a: str) -> str:
    """Returns the bits of ``a`` as another type of the same width; a NaN has its one bit pattern."""
    bits = f"vy_bits_{source.text}({a})" if source.is_float else a
    if target.is_float:
        return f"as_{VALUE[target]}({bits})"
    return f"({VALUE[target]}){bits}"


def pack(target: ScalarType, a: str) -> str:
    """Returns, as a u32, the bits of a narrow element that holds ``a``."""
    if target.is_float:
        return f"vy_pack_{target.text}({a})"
    return f"((uint){a} & {(1 << target.bits) - 1:#x}u)"


def unpack(target: ScalarType, a: str) -> str:
    """Returns the value of a narrow element that holds the low bits of the u32 ``a``."""
    if target.is_float:
        return f"vy_unpack_{target.text}({a} & 0xffffu)"
    shift = 32 - target.bits
    return f"((int)({a} << {shift}) >> {shift})" if target.is_signed else f"({a} & {(1 << target.bits) - 1:#x}u)"
