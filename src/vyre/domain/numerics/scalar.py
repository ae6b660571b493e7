"""The rules of every operator, one lane at a time, on bit patterns.

This module is the arbiter: plain Python integers and exact arithmetic, sharing nothing with the vectorised rules.  A
value of an executable type is its bit pattern, an ``int`` in ``0..2**width - 1`` (bool: 0 or 1).  Operands are
assumed to be well typed (see ``operators.binary_result`` and its siblings); an operator that the tables do not define
for a type raises ``KeyError``.

NaN.  A NaN is only ever observed in memory, so its payload is fixed in three places and nowhere else:
``store_element`` (which also narrows), ``bitcast``, and ``canonical`` on which both are built. Negate and Abs work on
the sign bit of a NaN, too; every other float operator that yields a NaN yields the canonical one, which is a
convenience of this module and no promise of the language.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.ir.operators import COUNTED, TRANSCENDENTALS, AtomicOp, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType, TypeKind

_S = ScalarType


class FloatFormat(NamedTuple):
    """A binary interchange format: stored fraction bits, exponent bits, and its names in ``struct``, if it has any."""

    fraction: int
    exponent: int
    float_code: str
    word_code: str

    @property
    def sign(self) -> int:
        return 1 << (self.fraction + self.exponent)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def quiet_nan(self) -> int:
        """Returns the canonical NaN: positive, only the quiet bit set."""
        return self.infinity | 1 << (self.fraction - 1)

    @property
    def least_exponent(self) -> int:
        """Returns the exponent of the last place of the subnormals: the least positive value is 2 to it."""
        return 2 - (1 << (self.exponent - 1)) - self.fraction


@dataclass(frozen=True, eq=False)
class ModelType:
    """A type that no program has, with the rules of this module at another width; laws are tried on all its values.

    ``exponent`` is the number of exponent bits of a float type.
    """

    text: str
    bits: int
    kind: TypeKind
    exponent: int = 0

    @property
    def is_signed(self) -> bool:
        """Whether it is a signed integer type."""
        return self.kind is TypeKind.SIGNED


ValueType: TypeAlias = ScalarType | ModelType
"""A type on which the rules of this module act."""

MINIFLOAT: Final = ModelType("minifloat", 8, TypeKind.FLOAT, 4)
"""A float of 8 bits with 4 exponent and 3 fraction bits, with subnormals, infinities and NaN."""
SMALL_MINIFLOAT: Final = ModelType("small minifloat", 6, TypeKind.FLOAT, 3)
"""A float of 6 bits with 3 exponent and 2 fraction bits, with subnormals, infinities and NaN."""
WIDE_MINIFLOAT: Final = ModelType("wide minifloat", 8, TypeKind.FLOAT, 5)
"""A float of 8 bits with 5 exponent and 2 fraction bits: every integer of 8 bits is in its range, as is every u64 in
that of f32.
"""
WIDE_HALF: Final = ModelType("wide half", 16, TypeKind.FLOAT, 8)
"""A float of 16 bits with 8 exponent and 7 fraction bits: every integer of 16 bits is in its range."""
MODEL_FLOATS: Final = (MINIFLOAT, SMALL_MINIFLOAT, WIDE_MINIFLOAT, WIDE_HALF)

_FORMATS: Final[dict[ValueType, FloatFormat]] = {
    _S.F16: FloatFormat(10, 5, "<e", "<H"),
    _S.F32: FloatFormat(23, 8, "<f", "<I"),
    _S.F64: FloatFormat(52, 11, "<d", "<Q"),
    **{t: FloatFormat(t.bits - 1 - t.exponent, t.exponent, "", "") for t in MODEL_FLOATS},
}
_BF16: Final = FloatFormat(7, 8, "", "<H")


# ------------------------------------------------------------------------------ bits and values


def _is_nan(form: FloatFormat, bits: int) -> bool:
    return bits & (form.sign - 1) > form.infinity


def _to_float(form: FloatFormat, bits: int) -> float:
    """Returns the value of a pattern; exact, because every format here is contained in binary64."""
    if not form.float_code:
        return _value_of_parts(form, bits)
    value: float = struct.unpack(form.float_code, struct.pack(form.word_code, bits))[0]
    return value


def _from_float(form: FloatFormat, value: float) -> int:
    """Returns the pattern nearest to a binary64 value, ties to even; overflow gives infinity, NaN the canonical one."""
    if value != value:
        return form.quiet_nan
    if not form.float_code:
        return _rounded_value(form, value)
    try:
        packed = struct.pack(form.float_code, value)
    except OverflowError:  # struct refuses a finite value that rounds beyond the format
        return form.infinity | (form.sign if value < 0 else 0)
    bits: int = struct.unpack(form.word_code, packed)[0]
    return bits


def _value_of_parts(form: FloatFormat, bits: int) -> float:
    if _is_nan(form, bits):
        return math.nan
    sign = -1.0 if bits & form.sign else 1.0
    if bits & (form.sign - 1) == form.infinity:
        return sign * math.inf
    significand, exponent = _exact_parts(form, bits & (form.sign - 1))
    return sign * math.ldexp(significand, exponent)


def _rounded_value(form: FloatFormat, value: float) -> int:
    negative = math.copysign(1.0, value) < 0
    if math.isinf(value):
        return form.infinity | (form.sign if negative else 0)
    significand, denominator = abs(value).as_integer_ratio()
    if not significand:
        return form.sign if negative else 0
    return _round_exact(form, significand, 1 - denominator.bit_length(), negative)


def float_format(dtype: ValueType) -> FloatFormat:
    """Returns the format of a float type; raises ``KeyError`` for other types."""
    return _FORMATS[dtype]


def is_nan(dtype: ValueType, bits: int) -> bool:
    """Returns whether a bit pattern is a NaN of a float type; False for all patterns of other types."""
    form = _FORMATS.get(dtype)
    return form is not None and _is_nan(form, bits)


def _to_int(dtype: ValueType, bits: int) -> int:
    return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits


def _wrap(dtype: ValueType, value: int) -> int:
    return value & ((1 << dtype.bits) - 1)


def _limits(dtype: ValueType) -> tuple[int, int]:
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def _clamp(dtype: ValueType, value: int) -> int:
    low, high = _limits(dtype)
    return max(low, min(high, value))


def canonical(dtype: ValueType, bits: int) -> int:
    """Returns ``bits``, with every NaN of a float type (f16 included) replaced by the canonical one."""
    form = _FORMATS.get(dtype)
    return form.quiet_nan if form is not None and _is_nan(form, bits) else bits


# ------------------------------------------------------------------------------ exact rounding


def _round_exact(form: FloatFormat, magnitude: int, exponent: int, sign: int) -> int:
    """Returns the pattern nearest to ``(-1)**sign * magnitude * 2**exponent``, ties to even; ``magnitude`` > 0."""
    # The last place of the result: fraction + 1 significant bits, but never below the subnormals' place.
    place = max(exponent + magnitude.bit_length() - form.fraction - 1, form.least_exponent)
    shift = place - exponent
    if shift <= 0:
        significand = magnitude << -shift
    else:
        significand, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        significand += rest > half or (rest == half and significand & 1)
    # Adding the significand lets a carry run into the exponent field, as it should; the hidden bit of a normal
    # number adds one to the field.
    biased = place - form.least_exponent
    bits = (biased << form.fraction) + significand
    return min(bits, form.infinity) | (form.sign if sign else 0)


def _exact_parts(form: FloatFormat, bits: int) -> tuple[int, int]:
    """Returns ``(significand, exponent)``, signed, with value ``significand * 2**exponent``; for finite patterns."""
    field, fraction = (bits & (form.sign - 1)) >> form.fraction, bits & ((1 << form.fraction) - 1)
    significand = fraction | (1 << form.fraction if field else 0)
    exponent = max(field, 1) - 1 + form.least_exponent
    return (-significand if bits & form.sign else significand), exponent


def fma(dtype: ValueType, a: int, b: int, c: int) -> int:
    """Returns ``a * b + c`` rounded once, for f32 and f64."""
    form = _FORMATS[dtype]
    x, y, z = (_to_float(form, bits) for bits in (a, b, c))
    if not (math.isfinite(x) and math.isfinite(y)):
        return _from_float(form, x * y + z)  # the product is infinite or NaN, and exact as such
    if not math.isfinite(z):
        return canonical(dtype, c)
    (m, e), (n, f), (k, g) = (_exact_parts(form, bits) for bits in (a, b, c))
    low = min(e + f, g)
    total = ((m * n) << (e + f - low)) + (k << (g - low))
    if total == 0:
        # Two zeros of one sign keep it; an exact cancellation, or zeros of both signs, give +0.
        negative = (a ^ b) & c & form.sign
        return negative if m * n == 0 and k == 0 else 0
    return _round_exact(form, abs(total), low, total < 0)


# ------------------------------------------------------------------------------ binary operators


def _quotient(a: int, b: int) -> int:
    """Returns a / b truncated toward zero, in unbounded integers."""
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _divide_integers(t: ValueType, a: int, b: int) -> int:
    if b == 0:
        return 0 if t.is_signed else -1
    return _quotient(a, b)


def _rotate_left(t: ValueType, a: int, count: int) -> int:
    bits = _wrap(t, a)
    return bits << count | bits >> (t.bits - count)


def _carry_less_product(a: int, b: int) -> int:
    product = 0
    for place in range(b.bit_length()):
        product ^= (a << place) * (b >> place & 1)
    return product


# Operands are mathematical integers, counts of shifts and rotations already masked; results wrap afterwards.
_INTEGER_BINARY: Final[dict[BinaryOp, Callable[[int, int], int]]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.MOD: lambda a, b: a - b * _quotient(a, b) if b else 0,
    BinaryOp.BIT_AND: operator.and_,
    BinaryOp.BIT_OR: operator.or_,
    BinaryOp.BIT_XOR: operator.xor,
    BinaryOp.SHL: operator.lshift,
    BinaryOp.SHR: operator.rshift,
    BinaryOp.ABS_DIFF: lambda a, b: abs(a - b),
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
    BinaryOp.CLMUL: _carry_less_product,
}
# Operators whose rules depend on the type.
_TYPED_BINARY: Final[dict[BinaryOp, Callable[[ValueType, int, int], int]]] = {
    BinaryOp.DIV: _divide_integers,
    BinaryOp.ROTATE_LEFT: _rotate_left,
    BinaryOp.ROTATE_RIGHT: lambda t, a, count: _rotate_left(t, a, t.bits - count),
    BinaryOp.SATURATING_ADD: lambda t, a, b: _clamp(t, a + b),
    BinaryOp.SATURATING_SUB: lambda t, a, b: _clamp(t, a - b),
    BinaryOp.SATURATING_MUL: lambda t, a, b: _clamp(t, a * b),
    BinaryOp.MUL_HIGH: lambda t, a, b: (a * b) >> t.bits,
}
_LEAVES_RANGE: Final = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.SHL, BinaryOp.CLMUL})
"""Operators whose results for unsigned integers may need to wrap."""


def _divide_floats(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _minimum_number(a: float, b: float) -> float:
    if a != a or b != b:
        return b if a != a else a
    if a == b:  # only zeros can be equal and differ
        return a if math.copysign(1.0, a) < 0 else b
    return a if a < b else b


# On binary64 values.  For f32 operands one more rounding to f32 is innocuous: the product is exact, and
# 53 >= 2 * 24 + 2 covers sums, quotients and roots, subnormal results included.
_FLOAT_BINARY: Final[dict[BinaryOp, Callable[[float, float], float]]] = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.DIV: _divide_floats,
    BinaryOp.MIN: _minimum_number,
    BinaryOp.MAX: lambda a, b: -_minimum_number(-a, -b),
}

_COMPARE: Final[dict[BinaryOp, Callable[[float, float], bool]]] = {
    BinaryOp.EQ: operator.eq,
    BinaryOp.NE: operator.ne,
    BinaryOp.LT: operator.lt,
    BinaryOp.GT: operator.gt,
    BinaryOp.LE: operator.le,
    BinaryOp.GE: operator.ge,
}
_BOOL_BINARY: Final[dict[BinaryOp, Callable[[int, int], int]]] = {
    BinaryOp.AND: lambda a, b: a & b,
    BinaryOp.OR: lambda a, b: a | b,
}


def binary(op: BinaryOp, dtype: ValueType, a: int, b: int) -> int:
    """Returns ``a op b``; ``dtype`` is the type of ``a`` (and of ``b``, except for counts, which may be any int).

    The result has type ``operators.binary_result(op, dtype, dtype)``.
    """
    form = _FORMATS.get(dtype)
    if op in _COMPARE:
        if form is not None:
            return int(_COMPARE[op](_to_float(form, a), _to_float(form, b)))
        return int(_COMPARE[op](_to_int(dtype, a), _to_int(dtype, b)))
    if form is not None:
        return _from_float(form, _FLOAT_BINARY[op](_to_float(form, a), _to_float(form, b)))
    if dtype.kind is TypeKind.BOOL:
        return _BOOL_BINARY[op](a, b)
    left, right = _to_int(dtype, a), b & (dtype.bits - 1) if op in COUNTED else _to_int(dtype, b)
    rule = _INTEGER_BINARY.get(op)
    return _wrap(dtype, _TYPED_BINARY[op](dtype, left, right) if rule is None else rule(left, right))


def unsigned_rule(op: BinaryOp, dtype: ValueType) -> Callable[[int, int], int]:
    """Returns ``binary`` for one operator and one unsigned type, prepared for many calls; a comparison returns a
    bool.

    Raises ``KeyError`` for an operator whose rule depends on the type.
    """
    if op in _COMPARE:
        return _COMPARE[op]
    rule, mask, counts = _INTEGER_BINARY[op], (1 << dtype.bits) - 1, dtype.bits - 1
    if op in COUNTED:
        if op in _LEAVES_RANGE:
            return lambda a, b: rule(a, b & counts) & mask
        return lambda a, b: rule(a, b & counts)
    return (lambda a, b: rule(a, b) & mask) if op in _LEAVES_RANGE else rule


# ------------------------------------------------------------------------------ unary operators

# On the unsigned bit pattern, because the counts and the mirror image are about bits; results wrap.
_INTEGER_UNARY: Final[dict[UnaryOp, Callable[[ValueType, int], int]]] = {
    UnaryOp.NEGATE: lambda t, bits: -bits,
    UnaryOp.ABS: lambda t, bits: abs(_to_int(t, bits)),
    UnaryOp.BIT_NOT: lambda t, bits: ~bits,
    UnaryOp.POPCOUNT: lambda t, bits: bits.bit_count(),
    UnaryOp.CLZ: lambda t, bits: t.bits - bits.bit_length(),
    UnaryOp.CTZ: lambda t, bits: (bits & -bits).bit_length() - 1 if bits else t.bits,
    UnaryOp.REVERSE_BITS: lambda t, bits: int(f"{bits:0{t.bits}b}"[::-1], 2),
}


def _square_root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _integral(rule: Callable[[float], int]) -> Callable[[float], float]:
    """Returns a rounding to integer that keeps NaN, infinities and the sign of zero."""

    def rounded(x: float) -> float:
        return math.copysign(float(rule(x)), x) if math.isfinite(x) else x

    return rounded


def _half_away(x: float) -> int:
    whole = math.trunc(x)
    return whole + (int(math.copysign(1.0, x)) if abs(x - whole) >= 0.5 else 0)


def _sign(x: float) -> float:
    return x if x != x else float((x > 0) - (x < 0))


_FLOAT_UNARY: Final[dict[UnaryOp, Callable[[float], float]]] = {
    UnaryOp.SQRT: _square_root,
    UnaryOp.FLOOR: _integral(math.floor),
    UnaryOp.CEIL: _integral(math.ceil),
    UnaryOp.TRUNC: _integral(math.trunc),
    UnaryOp.ROUND: _integral(_half_away),
    UnaryOp.ROUND_EVEN: _integral(round),
    UnaryOp.SIGN: _sign,
    UnaryOp.RECIPROCAL: lambda x: _divide_floats(1.0, x),
}
_CLASSIFY: Final[dict[UnaryOp, Callable[[float], bool]]] = {
    UnaryOp.IS_NAN: math.isnan,
    UnaryOp.IS_INF: math.isinf,
    UnaryOp.IS_FINITE: math.isfinite,
}


def _unary_float(op: UnaryOp, form: FloatFormat, a: int) -> int:
    if op is UnaryOp.NEGATE:
        return a ^ form.sign
    if op is UnaryOp.ABS:
        return a & ~form.sign
    if op in TRANSCENDENTALS:
        from vyre.domain.numerics.evaluate import evaluate_bits  # few programs have transcendental functions
        from vyre.domain.numerics.transcendentals import transcendental

        return evaluate_bits(transcendental(op), a)
    if op in _CLASSIFY:
        return int(_CLASSIFY[op](_to_float(form, a)))
    if op is UnaryOp.INVERSE_SQRT:  # two roundings, as written: 1 / sqrt(x)
        return _unary_float(UnaryOp.RECIPROCAL, form, _unary_float(UnaryOp.SQRT, form, a))
    return _from_float(form, _FLOAT_UNARY[op](_to_float(form, a)))


def unary(op: UnaryOp, dtype: ValueType, a: int) -> int:
    """Returns ``op a``; the result has type ``operators.unary_result(op, dtype)``."""
    form = _FORMATS.get(dtype)
    if form is not None:
        return _unary_float(op, form, a)
    if dtype.kind is TypeKind.BOOL:
        return {UnaryOp.LOGICAL_NOT: 1 - a}[op]
    return _wrap(dtype, _INTEGER_UNARY[op](dtype, a))


# ------------------------------------------------------------------------------ conversions


def cast(source: ValueType, target: ValueType, a: int) -> int:
    """Returns the value of ``a`` in another executable type.

    Integers are taken modulo 2^width, floats become integers by truncation and saturation (NaN: 0), numbers become
    floats by one rounding, and anything becomes bool by ``x != 0`` (NaN: true).
    """
    from_form, to_form = _FORMATS.get(source), _FORMATS.get(target)
    if from_form is None:
        value = _to_int(source, a)
        if to_form is not None:
            return _round_exact(to_form, abs(value), 0, value < 0) if value else 0
        return int(value != 0) if target.kind is TypeKind.BOOL else _wrap(target, value)
    number = _to_float(from_form, a)
    if to_form is not None:
        return a if source is target else _from_float(to_form, number)
    if target.kind is TypeKind.BOOL:
        return int(number != 0.0)
    if not math.isfinite(number):
        low, high = _limits(target)
        return 0 if number != number else _wrap(target, high if number > 0 else low)
    return _wrap(target, _clamp(target, math.trunc(number)))


def wrap_cast(source: ValueType, target: ValueType, a: int) -> int:
    """Returns a float (f32 or f64) as an integer: truncated toward zero, modulo 2^width; infinities and NaN give 0."""
    number = _to_float(_FORMATS[source], a)
    return _wrap(target, math.trunc(number)) if math.isfinite(number) else 0


def bitcast(source: ValueType, target: ValueType, a: int) -> int:
    """Returns the bits of ``a`` under another type of the same width; a NaN of the operand becomes canonical."""
    return canonical(source, a)


# ------------------------------------------------------------------------------ memory

_ATOMIC_BINARY: Final[dict[AtomicOp, BinaryOp]] = {
    AtomicOp.ADD: BinaryOp.ADD,
    AtomicOp.OR: BinaryOp.BIT_OR,
    AtomicOp.AND: BinaryOp.BIT_AND,
    AtomicOp.XOR: BinaryOp.BIT_XOR,
    AtomicOp.MIN: BinaryOp.MIN,
    AtomicOp.MAX: BinaryOp.MAX,
}


def atomic(op: AtomicOp, dtype: ScalarType, old: int, expected: int, value: int) -> int:
    """Returns the value that an atomic stores (its result is ``old``); ``expected`` matters to CompareExchange only."""
    if op is AtomicOp.COMPARE_EXCHANGE:
        return value if old == expected else old
    if op is AtomicOp.EXCHANGE:
        return value
    if op is AtomicOp.FETCH_NAND:
        return _wrap(dtype, ~(old & value))
    return binary(_ATOMIC_BINARY[op], dtype, old, value)


def load_element(element: ScalarType, raw: bytes) -> int:
    """Returns the value of one stored element (``element.size`` little-endian bytes) as bits of ``element.widened``."""
    word = int.from_bytes(raw, "little")
    return int(word != 0) if element.kind is TypeKind.BOOL else _widened(element, word)


def store_element(element: ScalarType, bits: int) -> bytes:
    """Returns the ``element.size`` little-endian bytes that a store of ``bits`` (of ``element.widened``) writes.

    Integers are truncated, floats narrowed to nearest even, NaN becomes canonical.
    """
    return _narrowed(element, bits).to_bytes(element.size, "little")


def _widened(element: ScalarType, word: int) -> int:
    if element is _S.F16:
        return _from_float(_FORMATS[_S.F32], _to_float(_FORMATS[_S.F16], word))
    if element is _S.BF16:
        return word << 16
    return _wrap(element.widened, _to_int(element, word))


def _narrowed(element: ScalarType, bits: int) -> int:
    if element is _S.F16:
        return _from_float(_FORMATS[_S.F16], _to_float(_FORMATS[_S.F32], bits))
    if element is _S.BF16:
        if _is_nan(_FORMATS[_S.F32], bits):
            return _BF16.quiet_nan
        # bf16 is the upper half of f32: round to even by adding just under half a place, or half if it is odd.
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return canonical(element, bits) if element.is_float else _wrap(element, bits)


# ------------------------------------------------------------------------------ narrow values


def pack(target: ScalarType, bits: int) -> int:
    """Returns as a u32 the bits that a store of ``bits`` (of ``target.widened``) into a ``target`` element writes.

    ``target`` is one of u8 u16 i8 i16 f16 bf16; the bits above its width are 0.
    """
    return _narrowed(target, bits)


def unpack(target: ScalarType, word: int) -> int:
    """Returns as bits of ``target.widened`` the value that a load of a ``target`` element with the low bits of the
    u32 ``word`` gives.

    ``target`` is one of u8 u16 i8 i16 f16 bf16; the bits of ``word`` above its width are ignored.
    """
    return _widened(target, _wrap(target, word))


def narrow(target: ScalarType, bits: int) -> int:
    """Returns the value, as bits of ``target.widened``, that a load gives after a store of ``bits`` into a ``target``
    element; ``target`` is one of u8 u16 i8 i16 f16 bf16.
    """
    return unpack(target, pack(target, bits))
