"""The scalar rules, against facts stated by hand and against exact rational arithmetic."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from support.reference.bit_patterns import EDGES, f32_bits, f32_value, f64_bits, f64_value, patterns
from vyre.domain.ir.operators import AtomicOp, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType, TypeKind, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from vyre.domain.numerics import scalar

B, U = BinaryOp, UnaryOp
MIN32, MIN64 = 1 << 31, 1 << 63
ALL32, ALL64 = (1 << 32) - 1, (1 << 64) - 1
NAN32, NAN64, INF32 = 0x7FC0_0000, 0x7FF8_0000_0000_0000, 0x7F80_0000
NEG_ZERO32 = 1 << 31


@pytest.mark.parametrize(
    ("op", "dtype", "a", "b", "result"),
    [
        (B.ADD, u32, ALL32, 1, 0),
        (B.SUB, i32, MIN32, 1, 0x7FFF_FFFF),
        (B.MUL, i64, MIN64, ALL64, MIN64),
        (B.DIV, u32, 7, 0, ALL32),
        (B.DIV, u64, 0, 0, ALL64),
        (B.DIV, i32, 7, 0, 0),
        (B.DIV, i64, MIN64, ALL64, MIN64),
        (B.DIV, i32, -7 & ALL32, 2, -3 & ALL32),
        (B.MOD, u32, 7, 0, 0),
        (B.MOD, i32, -7 & ALL32, 2, -1 & ALL32),
        (B.MOD, i32, 7, -2 & ALL32, 1),
        (B.MOD, i64, MIN64, ALL64, 0),
        (B.SHL, u32, 1, 33, 2),
        (B.SHL, u64, 1, 65, 2),
        (B.SHR, i32, MIN32, 31, ALL32),
        (B.SHR, u32, MIN32, 31, 1),
        (B.SHR, i64, MIN64, 64, MIN64),
        (B.ROTATE_LEFT, u32, 0x8000_0001, 1, 3),
        (B.ROTATE_RIGHT, i32, 1, 1, MIN32),
        (B.ROTATE_LEFT, u64, 5, 64, 5),
        (B.ABS_DIFF, i32, MIN32, 0x7FFF_FFFF, ALL32),
        (B.ABS_DIFF, u32, 1, 3, 2),
        (B.MIN, i32, MIN32, 1, MIN32),
        (B.MIN, u32, MIN32, 1, 1),
        (B.SATURATING_ADD, u32, ALL32, 1, ALL32),
        (B.SATURATING_ADD, i32, 0x7FFF_FFFF, 1, 0x7FFF_FFFF),
        (B.SATURATING_SUB, u64, 0, 1, 0),
        (B.SATURATING_SUB, i64, MIN64, 1, MIN64),
        (B.SATURATING_MUL, i32, MIN32, ALL32, 0x7FFF_FFFF),
        (B.SATURATING_MUL, i64, MIN64, 2, MIN64),
        (B.MUL_HIGH, u32, ALL32, ALL32, ALL32 - 1),
        (B.MUL_HIGH, i32, ALL32, ALL32, 0),
        (B.MUL_HIGH, i64, MIN64, 2, ALL64),
        (B.AND, bool_, 1, 0, 0),
        (B.OR, bool_, 1, 0, 1),
        (B.NE, bool_, 1, 0, 1),
        (B.DIV, f32, f32_bits(1.0), NEG_ZERO32, INF32 | MIN32),
        (B.DIV, f32, 0, 0, NAN32),
        (B.DIV, f32, NAN32, 0, NAN32),
        (B.MIN, f32, 0, NEG_ZERO32, NEG_ZERO32),
        (B.MAX, f32, NEG_ZERO32, 0, 0),
        (B.MIN, f32, NAN32, f32_bits(2.0), f32_bits(2.0)),
        (B.MAX, f32, f32_bits(2.0), NAN32 | 1, f32_bits(2.0)),
        (B.MAX, f64, NAN64, NAN64, NAN64),
        (B.MUL, f32, 1, f32_bits(0.5), 0),  # half the least subnormal is a tie, and goes to even
        (B.MUL, f32, 3, f32_bits(0.5), 2),
        (B.ADD, f32, 0x0080_0000, 0x8000_0001, 0x007F_FFFF),  # gradual underflow
        (B.NE, f32, NAN32, NAN32, 1),
        (B.EQ, f32, 0, NEG_ZERO32, 1),
        (B.LE, f64, NAN64, NAN64, 0),
    ],
)
def test_binary(op: BinaryOp, dtype: ScalarType, a: int, b: int, result: int) -> None:
    assert scalar.binary(op, dtype, a, b) == result


@pytest.mark.parametrize(
    ("op", "dtype", "a", "result"),
    [
        (U.NEGATE, i32, MIN32, MIN32),
        (U.NEGATE, u32, 1, ALL32),
        (U.ABS, i32, MIN32, MIN32),
        (U.ABS, i64, ALL64, 1),
        (U.ABS, u32, ALL32, ALL32),
        (U.NEGATE, f32, NAN32, NAN32 | MIN32),  # the sign bit moves, even of a NaN
        (U.ABS, f32, NAN32 | MIN32 | 5, NAN32 | 5),
        (U.BIT_NOT, u64, 0, ALL64),
        (U.LOGICAL_NOT, bool_, 0, 1),
        (U.POPCOUNT, i32, ALL32, 32),
        (U.CLZ, u64, 0, 64),
        (U.CTZ, i32, 0, 32),
        (U.CTZ, u64, MIN64, 63),
        (U.REVERSE_BITS, u32, 1, MIN32),
        (U.SQRT, f32, f32_bits(-1.0), NAN32),
        (U.SQRT, f32, NEG_ZERO32, NEG_ZERO32),
        (U.CEIL, f32, f32_bits(-0.5), NEG_ZERO32),
        (U.FLOOR, f64, f64_bits(-0.5), f64_bits(-1.0)),
        (U.ROUND, f32, f32_bits(2.5), f32_bits(3.0)),
        (U.ROUND, f32, f32_bits(-0.5), f32_bits(-1.0)),
        (U.ROUND, f32, 0x3EFF_FFFF, 0),
        (U.ROUND_EVEN, f32, f32_bits(2.5), f32_bits(2.0)),
        (U.ROUND_EVEN, f32, f32_bits(3.5), f32_bits(4.0)),
        (U.ROUND_EVEN, f32, f32_bits(-0.5), NEG_ZERO32),
        (U.ROUND_EVEN, f32, 0x3F00_0001, f32_bits(1.0)),
        (U.ROUND_EVEN, f32, NEG_ZERO32, NEG_ZERO32),
        (U.ROUND_EVEN, f32, INF32, INF32),
        (U.ROUND_EVEN, f64, f64_bits(-1.5), f64_bits(-2.0)),
        (U.ROUND_EVEN, f64, f64_bits(2.0**52 + 1), f64_bits(2.0**52 + 1)),
        (U.ROUND, f64, f64_bits(0.49999999999999994), 0),
        (U.ROUND, f64, f64_bits(2.0**52 + 1), f64_bits(2.0**52 + 1)),
        (U.TRUNC, f32, INF32, INF32),
        (U.SIGN, f32, NEG_ZERO32, 0),
        (U.SIGN, f32, f32_bits(-3.0), f32_bits(-1.0)),
        (U.SIGN, f32, NAN32, NAN32),
        (U.IS_INF, f32, INF32 | MIN32, 1),
        (U.IS_FINITE, f32, 1, 1),
        (U.IS_NAN, f64, NAN64 | 1, 1),
        (U.RECIPROCAL, f32, NEG_ZERO32, INF32 | MIN32),
        (U.INVERSE_SQRT, f32, f32_bits(4.0), f32_bits(0.5)),
    ],
)
def test_unary(op: UnaryOp, dtype: ScalarType, a: int, result: int) -> None:
    assert scalar.unary(op, dtype, a) == result


def test_inverse_sqrt_rounds_twice() -> None:
    twice = [f32_bits(1.0 / f32_value(f32_bits(f32_value(x) ** 0.5))) for x in range(0x3F80_0000, 0x3F80_1000)]
    once = [f32_bits(1.0 / f32_value(x) ** 0.5) for x in range(0x3F80_0000, 0x3F80_1000)]
    assert [scalar.unary(U.INVERSE_SQRT, f32, x) for x in range(0x3F80_0000, 0x3F80_1000)] == twice != once


@pytest.mark.parametrize(
    ("source", "target", "a", "result"),
    [
        (i32, u64, ALL32, ALL64),
        (u32, i64, ALL32, ALL32),
        (u64, i32, 1 << 32 | MIN32, MIN32),
        (i32, bool_, MIN32, 1),
        (bool_, f32, 1, f32_bits(1.0)),
        (f32, u32, f32_bits(-0.9), 0),
        (f32, u32, f32_bits(-5.0), 0),
        (f32, u32, f32_bits(2.0**32), ALL32),
        (f32, i32, f32_bits(2.0**31), 0x7FFF_FFFF),
        (f32, i32, f32_bits(-(2.0**40)), MIN32),
        (f32, i64, INF32, MIN64 - 1),
        (f32, u64, NAN32, 0),
        (f64, i32, f64_bits(-1.999), ALL32),
        (f64, u64, f64_bits(2.0**63), MIN64),
        (f32, bool_, NAN32, 1),
        (f32, bool_, NEG_ZERO32, 0),
        (u64, f32, ALL64, f32_bits(2.0**64)),
        (u32, f32, 0x0100_0001, f32_bits(2.0**24)),  # ties to even
        (u32, f32, 0x0100_0003, f32_bits(2.0**24 + 4)),
        (i64, f64, MIN64, f64_bits(-(2.0**63))),
        (f64, f32, f64_bits(1e300), INF32),
        (f64, f32, f64_bits(1e-300), 0),
        (f32, f64, 1, f64_bits(2.0**-149)),
        (f32, f64, NAN32 | 3, NAN64),
    ],
)
def test_cast(source: ScalarType, target: ScalarType, a: int, result: int) -> None:
    assert scalar.cast(source, target, a) == result


@pytest.mark.parametrize("source", [u32, i32, u64, i64])
@pytest.mark.parametrize("target", [f32, f64])
def test_integers_become_floats_with_one_rounding(source: ScalarType, target: ScalarType) -> None:
    for bits in patterns(source, 300, seed=1):
        value = bits - (1 << source.bits) if source.is_signed and bits >> (source.bits - 1) else bits
        assert scalar.cast(source, target, bits) == nearest(target, Fraction(value))


def test_bitcast_shows_the_canonical_nan() -> None:
    assert scalar.bitcast(f32, u32, 0xFF80_0001) == NAN32
    assert scalar.bitcast(f64, i64, 0xFFF0_0000_0000_0001) == NAN64
    assert scalar.bitcast(u32, f32, 0xFF80_0001) == 0xFF80_0001  # an integer has no NaN to canonicalise


def nearest(dtype: ScalarType, value: Fraction) -> int:
    """Bits of the float nearest to a rational, by comparing distances; ties to even."""
    to_value, to_bits, infinity = (
        (f32_value, f32_bits, INF32) if dtype is f32 else (f64_value, f64_bits, 0x7FF0_0000_0000_0000)
    )
    if value == 0:
        return 0
    sign, value = (dtype.bits - 1, -value) if value < 0 else (None, value)
    try:
        guess = min(to_bits(float(value)), infinity - 1)
    except OverflowError:
        guess = infinity - 1

    def exact(bits: int) -> Fraction:
        # Beyond the largest number comes, for rounding, the one that an unbounded exponent would give.
        if bits < infinity:
            return Fraction(to_value(bits))
        return 2 * Fraction(to_value(infinity - 1)) - Fraction(to_value(infinity - 2))

    best = min((max(guess - 1, 0), guess, guess + 1), key=lambda bits: (abs(exact(bits) - value), bits & 1))
    return best | (1 << sign if sign is not None else 0)


@pytest.mark.parametrize("dtype", [f32, f64])
def test_fma_rounds_the_exact_value_once(dtype: ScalarType) -> None:
    to_value = f32_value if dtype is f32 else f64_value
    fraction_bits, top = (23, 0xFF) if dtype is f32 else (52, 0x7FF)
    rng = random.Random(7)

    def finite() -> int:
        return (
            rng.getrandbits(1) << (dtype.bits - 1)
            | rng.randrange(top) << fraction_bits
            | rng.getrandbits(fraction_bits)
        )

    for _ in range(4000):
        a, b, c = finite(), finite(), finite()
        if rng.random() < 0.7:  # an addend that nearly cancels the product, or ends half a place away from it
            product = scalar.binary(B.MUL, dtype, a, b) & ~(1 << (dtype.bits - 1))
            distance = rng.choice((0, 0, 1, fraction_bits, fraction_bits + 1, fraction_bits + 2))
            c = max(min(product + rng.choice((-1, 1)) * (distance << fraction_bits), (top << fraction_bits) - 1), 0)
            c |= rng.getrandbits(1) << (dtype.bits - 1)
        value = Fraction(to_value(a)) * Fraction(to_value(b)) + Fraction(to_value(c))
        if value:
            assert scalar.fma(dtype, a, b, c) == nearest(dtype, value), (hex(a), hex(b), hex(c))


@pytest.mark.parametrize(
    ("a", "b", "c", "result"),
    [
        (f32_bits(2.0), f32_bits(3.0), f32_bits(-6.0), 0),
        (0, f32_bits(-1.0), NEG_ZERO32, NEG_ZERO32),
        (0, f32_bits(1.0), NEG_ZERO32, 0),
        (INF32, 0, f32_bits(1.0), NAN32),
        (INF32, f32_bits(1.0), INF32 | MIN32, NAN32),
        (0x7F7F_FFFF, 0x7F7F_FFFF, INF32 | MIN32, INF32 | MIN32),  # a finite product, however large
        (1, 1, 0x3F80_0000, 0x3F80_0000),
        (1, f32_bits(1.0), NAN32 | 7, NAN32),
    ],
)
def test_fma_special(a: int, b: int, c: int, result: int) -> None:
    assert scalar.fma(f32, a, b, c) == result


@pytest.mark.parametrize(
    ("op", "dtype", "old", "expected", "value", "new"),
    [
        (AtomicOp.ADD, u32, ALL32, 0, 2, 1),
        (AtomicOp.OR, u64, MIN64, 0, 1, MIN64 | 1),
        (AtomicOp.AND, u32, 6, 0, 3, 2),
        (AtomicOp.XOR, u32, 6, 0, 3, 5),
        (AtomicOp.MIN, i32, 1, 0, ALL32, ALL32),
        (AtomicOp.MIN, u32, 1, 0, ALL32, 1),
        (AtomicOp.MAX, i32, 1, 0, ALL32, 1),
        (AtomicOp.EXCHANGE, u64, 1, 0, ALL64, ALL64),
        (AtomicOp.COMPARE_EXCHANGE, u32, 5, 5, 9, 9),
        (AtomicOp.COMPARE_EXCHANGE, u32, 5, 6, 9, 5),
        (AtomicOp.FETCH_NAND, u32, 6, 0, 3, ~2 & ALL32),
    ],
)
def test_atomic(op: AtomicOp, dtype: ScalarType, old: int, expected: int, value: int, new: int) -> None:
    assert scalar.atomic(op, dtype, old, expected, value) == new


@pytest.mark.parametrize(
    ("element", "raw", "bits"),
    [
        (u8, b"\xff", 0xFF),
        (i8, b"\xff", ALL32),
        (u16, b"\x01\x80", 0x8001),
        (i16, b"\x01\x80", 0xFFFF_8001),
        (u32, b"\x01\x02\x03\x04", 0x0403_0201),
        (bool_, b"\0\0\0\x80", 1),
        (f16, b"\0\x3c", f32_bits(1.0)),
        (f16, b"\x01\0", f32_bits(2.0**-24)),
        (bf16, b"\x80\x3f", f32_bits(1.0)),
        (i64, b"\xff" * 8, ALL64),
    ],
)
def test_load(element: ScalarType, raw: bytes, bits: int) -> None:
    assert scalar.load_element(element, raw) == bits


@pytest.mark.parametrize(
    ("element", "bits", "raw"),
    [
        (u8, 0x1FF, b"\xff"),
        (i16, 0xFFFF_8001, b"\x01\x80"),
        (bool_, 1, b"\x01\0\0\0"),
        (f32, 0xFF80_0001, b"\0\0\xc0\x7f"),
        (f64, NAN64 | 1, b"\0" * 6 + b"\xf8\x7f"),
        (f32, 0x8000_0001, b"\x01\0\0\x80"),
        (f16, NAN32 | MIN32, b"\0\x7e"),
        (f16, f32_bits(65519.0), b"\xff\x7b"),
        (f16, f32_bits(65520.0), b"\0\x7c"),
        (f16, f32_bits(-1e30), b"\0\xfc"),
        (f16, f32_bits(2.0**-25), b"\0\0"),
        (f16, f32_bits(1.5 * 2.0**-25), b"\x01\0"),
        (bf16, 0x7F80_0001, b"\xc0\x7f"),
        (bf16, 0x7F7F_FFFF, b"\x80\x7f"),
        (bf16, 0x3F80_8000, b"\x80\x3f"),
        (bf16, 0x3F81_8000, b"\x82\x3f"),
        (bf16, 0x0000_8001, b"\x01\0"),
    ],
)
def test_store(element: ScalarType, bits: int, raw: bytes) -> None:
    assert scalar.store_element(element, bits) == raw


@pytest.mark.parametrize("element", list(ScalarType))
def test_what_was_stored_loads_back(element: ScalarType) -> None:
    """Every pattern without a NaN survives load and store (truth values become 0 or 1)."""
    for word in EDGES[element.size] if element.size != 2 else range(1 << 16):
        raw = word.to_bytes(element.size, "little")
        again = scalar.store_element(element, scalar.load_element(element, raw))
        if element.kind is TypeKind.BOOL:
            assert again == int(word != 0).to_bytes(element.size, "little")
        elif element.is_float and is_nan(element, word):
            assert again == scalar.store_element(element, NAN64 if element is f64 else NAN32)
        else:
            assert again == raw


@pytest.mark.parametrize("dtype", [f32, f64])
def test_halves_round_to_even_and_nothing_else_does(dtype: ScalarType) -> None:
    value_of = f32_value if dtype is f32 else f64_value
    of_value = f32_bits if dtype is f32 else f64_bits
    halves = [of_value(sign * (n + 0.5)) for n in range(300) for sign in (1, -1)]
    beside = [bits + step for bits in halves for step in (-1, 1)]
    for bits in (*halves, *beside, *patterns(dtype, 2000, seed=13)):
        value, found = value_of(bits), scalar.unary(U.ROUND_EVEN, dtype, bits)
        if value - value != 0:  # infinite or NaN
            assert found == scalar.canonical(dtype, bits)
            continue
        exact = Fraction(value)
        below = exact.__floor__()
        rest = exact - below
        wanted = below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))
        assert Fraction(value_of(found)) == wanted
        assert found >> (dtype.bits - 1) == bits >> (dtype.bits - 1), "the sign is not kept"


def is_nan(element: ScalarType, word: int) -> bool:
    fractions: dict[ScalarType, int] = {f16: 10, bf16: 7, f32: 23, f64: 52}
    fraction = fractions[element]
    return word << 1 & ((1 << element.bits) - 1) > ((1 << (element.bits - 1)) - (1 << fraction)) << 1


def test_an_operator_that_a_type_lacks_is_refused() -> None:
    with pytest.raises(KeyError):
        scalar.binary(B.MOD, f32, 0, 0)
    with pytest.raises(KeyError):
        scalar.unary(U.SQRT, u32, 0)
    with pytest.raises(KeyError):
        scalar.binary(B.ADD, bool_, 0, 0)
