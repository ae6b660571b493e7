"""The operators of the language as terms of z3: bit vectors, bools and IEEE floats.

A float variable is a float of the theory, which has one NaN: nothing observes other NaN bits, since ``Bitcast`` makes
them canonical.  Equality of the theory is what laws mean: NaN equals NaN, and zeros of different signs differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final

from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.expr import Bitcast, Cast, Narrow, Pack, Unpack, WrapCast
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType

_S: Final = ScalarType
_FRACTION: Final = {_S.F16: (5, 11), _S.BF16: (8, 8), _S.F32: (8, 24), _S.F64: (11, 53)}
"""Exponent bits and precision, the hidden bit included, of each float type."""


class Unprovable(Exception):
    """An operator has no term; the argument is its name."""


@cache
def z3() -> ModuleType:
    """Returns the module of z3, imported now; raises ``UnsupportedFeature`` if it is not installed."""
    try:
        import z3 as found
    except ImportError as missing:
        raise UnsupportedFeature(
            feature="proofs of laws", backend="z3", fix="install the extra: pip install 'vyre[prove]'."
        ) from missing
    module: ModuleType = found
    return module


def sort(dtype: ScalarType) -> Any:
    """Returns the sort of the values of a type."""
    if dtype is _S.BOOL:
        return z3().BoolSort()
    return z3().FPSort(*_FRACTION[dtype]) if dtype.is_float else z3().BitVecSort(dtype.bits)


class TermAlgebra:
    """Terms instead of values.  Raises ``Unprovable`` for transcendental functions, ``WrapCast`` and operators
    that lower to others, which would be proved with themselves."""

    def variable(self, name: str, dtype: ScalarType) -> Any:
        """Returns a term for any value of a type."""
        return z3().Const(name, sort(dtype))

    def literal(self, dtype: ScalarType, bits: int) -> Any:
        """Returns the term of a literal."""
        if dtype is _S.BOOL:
            return z3().BoolVal(bool(bits))
        word = z3().BitVecVal(bits, dtype.bits)
        return z3().fpBVToFP(word, sort(dtype)) if dtype.is_float else word

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: Any, right: Any) -> Any:
        """Returns ``left op right``."""
        if dtype is _S.BOOL:
            return _BOOLS[op](left, right)
        if dtype.is_float:
            return _FLOATS[op](left, right)
        if op in _COUNTED:
            return _COUNTED[op](dtype.is_signed, left, _counted(dtype, count, right))
        if op in _COMMON:
            return _COMMON[op](left, right)
        if op not in _BY_SIGN:
            raise Unprovable(op.name.lower())
        return _BY_SIGN[op](dtype.is_signed, left, right)

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: Any) -> Any:
        """Returns ``op operand``."""
        if dtype is _S.BOOL:
            return z3().Not(operand)
        if dtype.is_float:
            if op not in _FLOAT_UNARY:
                raise Unprovable(op.name.lower())
            return _FLOAT_UNARY[op](operand)
        if op is UnaryOp.ABS:
            return z3().If(operand < 0, -operand, operand) if dtype.is_signed else operand
        return _INTEGER_UNARY[op](operand)

    def select(self, dtype: ScalarType, condition: Any, on_true: Any, on_false: Any) -> Any:
        """Returns one of two terms."""
        return z3().If(condition, on_true, on_false)

    def convert(self, node: type[Node], source: ScalarType, target: ScalarType, operand: Any) -> Any:
        """Returns the converted term."""
        return _CONVERSIONS[node](source, target, operand)

    def fma(self, dtype: ScalarType, a: Any, b: Any, c: Any) -> Any:
        """Returns ``a * b + c``, rounded once."""
        return z3().fpFMA(_nearest(), a, b, c)


# ------------------------------------------------------------------------------ integers


def _extended(signed: bool, term: Any, bits: int) -> Any:
    return z3().SignExt(bits, term) if signed else z3().ZeroExt(bits, term)


def _compare(unsigned: str, signed: Callable[[Any, Any], Any]) -> Callable[[bool, Any, Any], Any]:
    return lambda is_signed, a, b: signed(a, b) if is_signed else getattr(z3(), unsigned)(a, b)


def _less(signed: bool, a: Any, b: Any) -> Any:
    return a < b if signed else z3().ULT(a, b)


def _divided(signed: bool, a: Any, b: Any) -> Any:
    # The theory divides by zero as unsigned types do, and MIN / -1 is MIN in it.
    return z3().If(b == 0, z3().BitVecVal(0, a.size()), a / b) if signed else z3().UDiv(a, b)


def _remainder(signed: bool, a: Any, b: Any) -> Any:
    return z3().If(b == 0, z3().BitVecVal(0, a.size()), z3().SRem(a, b) if signed else z3().URem(a, b))


def _clamped(signed: bool, term: Any, width: int) -> Any:
    """Returns a wide signed term clamped to a type of ``width`` bits."""
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    least, greatest = (z3().BitVecVal(bound, term.size()) for bound in (low, high))
    clamped = z3().If(term < least, least, z3().If(term > greatest, greatest, term))
    return z3().Extract(width - 1, 0, clamped)


def _saturated(rule: Callable[[Any, Any], Any]) -> Callable[[bool, Any, Any], Any]:
    """Returns a sum or difference, exact in two more bits, clamped."""

    def clamped(signed: bool, a: Any, b: Any) -> Any:
        return _clamped(signed, rule(_extended(signed, a, 2), _extended(signed, b, 2)), a.size())

    return clamped


def _wide_product(signed: bool, a: Any, b: Any, bits: int) -> Any:
    return _extended(signed, a, bits) * _extended(signed, b, bits)


def _counted(dtype: ScalarType, count: ScalarType, term: Any) -> Any:
    """Returns a count as a term of the width of what is shifted, masked."""
    if count.bits > dtype.bits:
        term = z3().Extract(dtype.bits - 1, 0, term)
    elif count.bits < dtype.bits:
        term = z3().ZeroExt(dtype.bits - count.bits, term)
    return term & (dtype.bits - 1)


def _rotated_left(a: Any, n: Any) -> Any:
    # By shifts, which z3 decides faster than its own rotation by a variable.
    return a << n | z3().LShR(a, -n & (a.size() - 1))


def _ones(term: Any) -> Any:
    """Returns the number of one bits, by adding neighbours, each time with one bit more."""
    width = term.size()
    parts = [z3().Extract(i, i, term) for i in range(width)]
    while len(parts) > 1:
        wider = [z3().ZeroExt(1, part) for part in parts]
        parts = [wider[i] + wider[i + 1] for i in range(0, len(wider), 2)]
    return z3().ZeroExt(width - parts[0].size(), parts[0])


def _leading(term: Any) -> Any:
    width = term.size()
    count = z3().BitVecVal(width, width)
    for place in range(width):
        count = z3().If(z3().Extract(place, place, term) == 1, z3().BitVecVal(width - 1 - place, width), count)
    return count


def _reversed(term: Any) -> Any:
    return z3().Concat(*[z3().Extract(i, i, term) for i in range(term.size())])


_INTEGER_UNARY: Final[dict[UnaryOp, Callable[[Any], Any]]] = {
    UnaryOp.NEGATE: lambda x: -x,
    UnaryOp.BIT_NOT: lambda x: ~x,
    UnaryOp.POPCOUNT: _ones,
    UnaryOp.CLZ: _leading,
    UnaryOp.CTZ: lambda x: _leading(_reversed(x)),
    UnaryOp.REVERSE_BITS: _reversed,
}
_COMMON: Final[dict[BinaryOp, Callable[[Any, Any], Any]]] = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.BIT_AND: lambda a, b: a & b,
    BinaryOp.BIT_OR: lambda a, b: a | b,
    BinaryOp.BIT_XOR: lambda a, b: a ^ b,
    BinaryOp.EQ: lambda a, b: a == b,
    BinaryOp.NE: lambda a, b: a != b,
}
_COUNTED: Final[dict[BinaryOp, Callable[[bool, Any, Any], Any]]] = {
    BinaryOp.SHL: lambda signed, a, n: a << n,
    BinaryOp.SHR: lambda signed, a, n: a >> n if signed else z3().LShR(a, n),
    BinaryOp.ROTATE_LEFT: lambda signed, a, n: _rotated_left(a, n),
    BinaryOp.ROTATE_RIGHT: lambda signed, a, n: _rotated_left(a, -n & (a.size() - 1)),
}
_BY_SIGN: Final[dict[BinaryOp, Callable[[bool, Any, Any], Any]]] = {
    BinaryOp.DIV: _divided,
    BinaryOp.MOD: _remainder,
    BinaryOp.LT: _less,
    BinaryOp.GT: lambda signed, a, b: _less(signed, b, a),
    BinaryOp.LE: _compare("ULE", lambda a, b: a <= b),
    BinaryOp.GE: _compare("UGE", lambda a, b: a >= b),
    BinaryOp.MIN: lambda signed, a, b: z3().If(_less(signed, b, a), b, a),
    BinaryOp.MAX: lambda signed, a, b: z3().If(_less(signed, a, b), b, a),
    BinaryOp.ABS_DIFF: lambda signed, a, b: z3().If(_less(signed, a, b), b - a, a - b),
    BinaryOp.SATURATING_ADD: _saturated(lambda a, b: a + b),
    BinaryOp.SATURATING_SUB: _saturated(lambda a, b: a - b),
    BinaryOp.SATURATING_MUL: lambda signed, a, b: _clamped(signed, _wide_product(signed, a, b, a.size() + 1), a.size()),
    BinaryOp.MUL_HIGH: lambda signed, a, b: z3().Extract(
        2 * a.size() - 1, a.size(), _wide_product(signed, a, b, a.size())
    ),
}
_BOOLS: Final[dict[BinaryOp, Callable[[Any, Any], Any]]] = {
    BinaryOp.AND: lambda a, b: z3().And(a, b),
    BinaryOp.OR: lambda a, b: z3().Or(a, b),
    BinaryOp.EQ: lambda a, b: a == b,
    BinaryOp.NE: lambda a, b: a != b,
}


# ------------------------------------------------------------------------------ floats


def _nearest() -> Any:
    return z3().RoundNearestTiesToEven()


def _smaller(a: Any, b: Any) -> Any:
    """Returns IEEE's minimumNumber, with -0 below +0."""
    m = z3()
    of_equal = m.If(m.fpIsNegative(a), a, b)
    of_numbers = m.If(m.fpEQ(a, b), of_equal, m.If(m.fpLT(a, b), a, b))
    return m.If(m.fpIsNaN(a), b, m.If(m.fpIsNaN(b), a, of_numbers))


def _value(like: Any, number: float) -> Any:
    return z3().FPVal(number, like.sort())


def _sign(x: Any) -> Any:
    m = z3()
    of_number = m.If(m.fpIsZero(x), _value(x, 0.0), m.If(m.fpIsNegative(x), _value(x, -1.0), _value(x, 1.0)))
    return m.If(m.fpIsNaN(x), x, of_number)


def _to_integral(mode: str) -> Callable[[Any], Any]:
    return lambda x: z3().fpRoundToIntegral(getattr(z3(), mode)(), x)


def _inverse(x: Any) -> Any:
    return z3().fpDiv(_nearest(), _value(x, 1.0), x)


_FLOATS: Final[dict[BinaryOp, Callable[[Any, Any], Any]]] = {
    BinaryOp.ADD: lambda a, b: z3().fpAdd(_nearest(), a, b),
    BinaryOp.SUB: lambda a, b: z3().fpSub(_nearest(), a, b),
    BinaryOp.MUL: lambda a, b: z3().fpMul(_nearest(), a, b),
    BinaryOp.DIV: lambda a, b: z3().fpDiv(_nearest(), a, b),
    BinaryOp.MIN: _smaller,
    BinaryOp.MAX: lambda a, b: z3().fpNeg(_smaller(z3().fpNeg(a), z3().fpNeg(b))),
    BinaryOp.EQ: lambda a, b: z3().fpEQ(a, b),
    BinaryOp.NE: lambda a, b: z3().Not(z3().fpEQ(a, b)),
    BinaryOp.LT: lambda a, b: z3().fpLT(a, b),
    BinaryOp.GT: lambda a, b: z3().fpGT(a, b),
    BinaryOp.LE: lambda a, b: z3().fpLEQ(a, b),
    BinaryOp.GE: lambda a, b: z3().fpGEQ(a, b),
}
_FLOAT_UNARY: Final[dict[UnaryOp, Callable[[Any], Any]]] = {
    UnaryOp.NEGATE: lambda x: z3().fpNeg(x),
    UnaryOp.ABS: lambda x: z3().fpAbs(x),
    UnaryOp.SQRT: lambda x: z3().fpSqrt(_nearest(), x),
    UnaryOp.FLOOR: _to_integral("RoundTowardNegative"),
    UnaryOp.CEIL: _to_integral("RoundTowardPositive"),
    UnaryOp.TRUNC: _to_integral("RoundTowardZero"),
    UnaryOp.ROUND: _to_integral("RoundNearestTiesToAway"),
    UnaryOp.ROUND_EVEN: _to_integral("RoundNearestTiesToEven"),
    UnaryOp.SIGN: _sign,
    UnaryOp.IS_NAN: lambda x: z3().fpIsNaN(x),
    UnaryOp.IS_INF: lambda x: z3().fpIsInf(x),
    UnaryOp.IS_FINITE: lambda x: z3().Not(z3().Or(z3().fpIsNaN(x), z3().fpIsInf(x))),
    UnaryOp.RECIPROCAL: _inverse,
    UnaryOp.INVERSE_SQRT: lambda x: _inverse(z3().fpSqrt(_nearest(), x)),
}


# ------------------------------------------------------------------------------ conversions


def _cast(source: ScalarType, target: ScalarType, x: Any) -> Any:
    m = z3()
    if source is target:
        return x
    if source is _S.BOOL:
        one, zero = (m.FPVal(n, sort(target)) if target.is_float else m.BitVecVal(n, target.bits) for n in (1, 0))
        return m.If(x, one, zero)
    if target is _S.BOOL:
        return m.Not(m.fpIsZero(x)) if source.is_float else x != 0
    if source.is_float:
        return m.fpFPToFP(_nearest(), x, sort(target)) if target.is_float else _saturating_cast(target, x)
    if target.is_float:
        make = m.fpSignedToFP if source.is_signed else m.fpUnsignedToFP
        return make(_nearest(), x, sort(target))
    return _resized(source.is_signed, x, target.bits)


def _resized(signed: bool, x: Any, bits: int) -> Any:
    return z3().Extract(bits - 1, 0, x) if bits <= x.size() else _extended(signed, x, bits - x.size())


def _saturating_cast(target: ScalarType, x: Any) -> Any:
    """Returns a float as an integer; the term for it is left to a solver out of range, and is not asked for there."""
    m, width = z3(), target.bits
    low, high = (-(1 << (width - 1)), 1 << (width - 1)) if target.is_signed else (0, 1 << width)
    least, greatest = m.BitVecVal(low, width), m.BitVecVal(high - 1, width)
    toward_zero = m.RoundTowardZero()
    inside = (m.fpToSBV if target.is_signed else m.fpToUBV)(toward_zero, x, sort(target))
    of_number = m.If(m.fpLEQ(x, _value(x, low)), least, m.If(m.fpGEQ(x, _value(x, high)), greatest, inside))
    return m.If(m.fpIsNaN(x), m.BitVecVal(0, width), of_number)


def _bits(source: ScalarType, x: Any) -> Any:
    """Returns the bits of a float, those of NaN canonical."""
    exponent, precision = _FRACTION[source]
    quiet = ((1 << (exponent + 1)) - 1) << (precision - 2)
    return z3().If(z3().fpIsNaN(x), z3().BitVecVal(quiet, source.bits), z3().fpToIEEEBV(x))


def _bitcast(source: ScalarType, target: ScalarType, x: Any) -> Any:
    if source.is_float and target.is_float:
        return x
    if source.is_float:
        return _bits(source, x)
    return z3().fpBVToFP(x, sort(target)) if target.is_float else x


def _pack(source: ScalarType, target: ScalarType, x: Any) -> Any:
    if target.is_float:
        return z3().ZeroExt(16, _bits(target, z3().fpFPToFP(_nearest(), x, sort(target))))
    return z3().ZeroExt(32 - target.bits, z3().Extract(target.bits - 1, 0, x))


def _unpack(source: ScalarType, target: ScalarType, x: Any) -> Any:
    low = z3().Extract(target.bits - 1, 0, x)
    if target.is_float:
        return z3().fpFPToFP(_nearest(), z3().fpBVToFP(low, sort(target)), sort(_S.F32))
    return _extended(target.is_signed, low, 32 - target.bits)


def _wrapped(source: ScalarType, target: ScalarType, x: Any) -> Any:
    raise Unprovable("wrap_cast")


_CONVERSIONS: Final[dict[type[Node], Callable[[ScalarType, ScalarType, Any], Any]]] = {
    Cast: _cast,
    Bitcast: _bitcast,
    Narrow: lambda source, target, x: _unpack(source, target, _pack(source, target, x)),
    Pack: _pack,
    Unpack: _unpack,
    WrapCast: _wrapped,
}
