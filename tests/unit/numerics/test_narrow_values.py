"""``narrow``, ``pack``, ``unpack`` and ``wrap_cast``: one lane against exact arithmetic, lanes against one lane."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.reference.bit_patterns import f32_bits, f32_value, f64_bits, f64_value, lanes_of, observed, patterns
from support.reference.exact_floats import NARROW_FLOATS, NarrowFormat
from vyre.adapters import lanes
from vyre.adapters.lanes.types import UnaryRule
from vyre.domain.ir.types import ScalarType, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from vyre.domain.numerics import scalar

INTEGERS = (u8, u16, i8, i16)
NARROW = (*INTEGERS, f16, bf16)
FORMATS = tuple(NARROW_FLOATS.values())
WRAPPED = (u32, i32, u64, i64)
NAN_WORDS = (0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFF80_0001, 0xFFC0_0123, 0xFFFF_FFFF, 0x7FFF_E000, 0x7F80_2000)
Rules = tuple[Callable[[ScalarType], UnaryRule], Callable[[ScalarType, int], int]]
RULES: dict[str, Rules] = {
    "narrow": (lanes.narrow, scalar.narrow),
    "pack": (lanes.pack, scalar.pack),
    "unpack": (lanes.unpack, scalar.unpack),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def ids(case: object) -> str:
    return case.dtype.text if isinstance(case, NarrowFormat) else getattr(case, "text", str(case))


def signed(word: int, bits: int) -> int:
    return word - (1 << bits) if word >> (bits - 1) else word


@cache
def beside_midpoints(form: NarrowFormat) -> tuple[int, ...]:
    """Every midpoint between neighbours of a narrow format as an f32, and the f32 on either side, of either sign."""
    found: list[int] = []
    for pattern in range(form.infinity):
        middle = f32_bits(float((form.values[pattern] + form.values[pattern + 1]) / 2))
        found += (middle ^ sign for sign, middle in zip((0, 1 << 31, 0), (middle - 1, middle, middle + 1), strict=True))
    return tuple(found)


def rounded(form: NarrowFormat, bits: int) -> int:
    """The pattern that an f32 has in a narrow format, by the definition."""
    sign, magnitude = bits >> 16 & 0x8000, bits & 0x7FFF_FFFF
    if magnitude >= 0x7F80_0000:
        return form.nan if magnitude > 0x7F80_0000 else sign | form.infinity
    return sign | form.nearest(Fraction(f32_value(magnitude)))


# ------------------------------------------------------------------------------ one lane


@pytest.mark.parametrize("target", INTEGERS, ids=ids)
def test_integers_keep_their_low_bits(target: ScalarType) -> None:
    rng = random.Random(1)
    for low in range(1 << target.bits):
        word = rng.getrandbits(32 - target.bits) << target.bits | low
        value = signed(low, target.bits) if target.is_signed else low
        assert scalar.pack(target, word) == low
        assert scalar.unpack(target, word) == scalar.narrow(target, word) == value & 0xFFFF_FFFF


@pytest.mark.parametrize("form", FORMATS, ids=ids)
def test_every_narrow_float_is_unpacked_exactly_and_packed_again(form: NarrowFormat) -> None:
    rng = random.Random(2)
    for pattern in range(1 << 16):
        bits = scalar.unpack(form.dtype, rng.getrandbits(16) << 16 | pattern)
        magnitude = pattern & 0x7FFF
        if magnitude > form.infinity:
            assert bits & 0x7FFF_FFFF > 0x7F80_0000
            assert scalar.pack(form.dtype, bits) == form.nan
            assert scalar.narrow(form.dtype, bits) & 0x7FFF_FFFF > 0x7F80_0000
            continue
        if magnitude == form.infinity:
            assert bits & 0x7FFF_FFFF == 0x7F80_0000
        else:
            assert Fraction(f32_value(bits)) == form.value(pattern)
        assert bits >> 31 == pattern >> 15
        assert scalar.pack(form.dtype, bits) == pattern
        assert scalar.narrow(form.dtype, bits) == bits


@pytest.mark.parametrize("form", FORMATS, ids=ids)
def test_floats_are_rounded_as_the_definition_says(form: NarrowFormat) -> None:
    words = [*beside_midpoints(form), *patterns(f32, 5000, seed=3), *NAN_WORDS]
    for bits in words:
        wanted = rounded(form, bits)
        assert scalar.pack(form.dtype, bits) == wanted, f"{bits:#010x}"
        if wanted != form.nan:
            assert scalar.narrow(form.dtype, bits) == scalar.unpack(form.dtype, wanted), f"{bits:#010x}"
        else:
            assert scalar.narrow(form.dtype, bits) & 0x7FFF_FFFF > 0x7F80_0000, f"{bits:#010x}"


@pytest.mark.parametrize(
    ("value", "half", "bfloat"),
    [
        (1.0, 0x3C00, 0x3F80),
        (-0.0, 0x8000, 0x8000),
        (65504.0, 0x7BFF, 0x4780),
        (65519.99609375, 0x7BFF, 0x4780),
        (65520.0, 0x7C00, 0x4780),
        (2.0**-24, 0x0001, 0x3380),
        (2.0**-25, 0x0000, 0x3300),
        (-(2.0**-25) * (1 + 2.0**-23), 0x8001, 0xB300),
        (3 * 2.0**-25, 0x0002, 0x33C0),
        (1 + 2.0**-11, 0x3C00, 0x3F80),
        (1 + 3 * 2.0**-11, 0x3C02, 0x3F80),
        (1 + 2.0**-8, 0x3C04, 0x3F80),
        (1 + 3 * 2.0**-8, 0x3C0C, 0x3F82),
        (2.0**127 * (2 - 2.0**-8), 0x7C00, 0x7F80),
        (2.0**-133, 0x0000, 0x0001),
        (2.0**-134, 0x0000, 0x0000),
        (float("-inf"), 0xFC00, 0xFF80),
        (float("nan"), 0x7E00, 0x7FC0),
    ],
)
def test_known_patterns(value: float, half: int, bfloat: int) -> None:
    assert (scalar.pack(f16, f32_bits(value)), scalar.pack(bf16, f32_bits(value))) == (half, bfloat)
    lane = np.float32(value)
    assert (int(lanes.pack(f16)(lane)), int(lanes.pack(bf16)(lane))) == (half, bfloat)


@pytest.mark.parametrize("target", NARROW, ids=ids)
def test_narrow_is_a_store_and_a_load(target: ScalarType) -> None:
    for bits in patterns(target.widened, 2000, seed=4):
        raw = scalar.store_element(target, bits)
        assert scalar.pack(target, bits).to_bytes(target.size, "little") == raw
        assert scalar.narrow(target, bits) == scalar.load_element(target, raw)


# ------------------------------------------------------------------------------ lanes


def words_of(name: str, target: ScalarType) -> list[int]:
    """Operands of a rule: all patterns of the narrow type, edges, and for roundings every midpoint."""
    if name == "unpack":
        return [*range(1 << 16), *patterns(u32, 5000, seed=5)]
    if not target.is_float:
        return [*range(0, 1 << 16, 7), *patterns(target.widened, 5000, seed=6)]
    return [*beside_midpoints(NARROW_FLOATS[target]), *patterns(f32, 20_000, seed=7), *NAN_WORDS]


def result_type(name: str, target: ScalarType) -> ScalarType:
    return u32 if name == "pack" else target.widened


def operand_type(name: str, target: ScalarType) -> ScalarType:
    return u32 if name == "unpack" else target.widened


@pytest.mark.parametrize("target", NARROW, ids=ids)
@pytest.mark.parametrize("name", RULES)
def test_lanes_follow_the_rules_of_one_lane(name: str, target: ScalarType) -> None:
    of_lanes, of_one = RULES[name]
    words, result = words_of(name, target), result_type(name, target)
    expected = [scalar.canonical(result, of_one(target, bits)) for bits in words]
    operands = lanes_of(operand_type(name, target), words)
    before = operands.tobytes()
    assert observed(result, of_lanes(target)(operands)) == expected
    assert operands.tobytes() == before, "the operands changed"


@pytest.mark.parametrize("target", NARROW, ids=ids)
@pytest.mark.parametrize("name", RULES)
def test_lanes_may_have_any_layout(name: str, target: ScalarType) -> None:
    of_lanes, of_one = RULES[name]
    words = [*patterns(operand_type(name, target), 3, seed=8), 0x7FC0_0000, 0x3F80_0001, 0x8000_0000]
    words += words[: len(words) % 2]
    array, result = lanes_of(operand_type(name, target), words), result_type(name, target)
    expected = [scalar.canonical(result, of_one(target, bits)) for bits in words]
    layouts: list[tuple[Any, Sequence[int]]] = [
        (np.repeat(array, 3)[::3], expected),
        (array[::-1], expected[::-1]),
        (
            array.reshape(2, -1).T,
            [expected[row + column] for column in range(len(words) // 2) for row in (0, len(words) // 2)],
        ),
        (array[:0], []),
        *((array[k], expected[k : k + 1]) for k in range(len(words))),
        *((array[k : k + 1].reshape(()), expected[k : k + 1]) for k in range(len(words))),
    ]
    for view, wanted in layouts:
        got = of_lanes(target)(view)
        assert np.shape(got) == np.shape(view)
        assert observed(result, np.asarray(got)) == list(wanted)


def test_rules_are_quiet_under_errstate() -> None:
    """Overflow, underflow and NaN give values and no warnings, which are errors in this test run."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        for target in NARROW:
            for name, (of_lanes, _) in RULES.items():
                of_lanes(target)(lanes_of(operand_type(name, target), patterns(operand_type(name, target), 99, seed=9)))
        for source in (f32, f64):
            for integer in WRAPPED:
                lanes.wrap_cast(source, integer)(lanes_of(source, patterns(source, 99, seed=9)))


@pytest.mark.parametrize("target", NARROW, ids=ids)
@pytest.mark.parametrize("name", RULES)
def test_results_are_new_arrays(name: str, target: ScalarType) -> None:
    """An engine may write into the result of a rule that is no view."""
    operands = lanes_of(operand_type(name, target), [1, 2, 0x3F80_0000])
    assert not np.shares_memory(operands, np.asarray(RULES[name][0](target)(operands)))


# ------------------------------------------------------------------------------ casts that wrap


def wrap_words(source: ScalarType) -> list[int]:
    """Every exponent with a few significands of either sign, around the borders of integers too."""
    fraction, sign = (23, 1 << 31) if source is f32 else (52, 1 << 63)
    rng = random.Random(f"wrap {source.text}")
    words = patterns(source, 2000, seed=10)
    for exponent in range(1 << (source.bits - 1 - fraction)):
        for low in (0, 1, (1 << fraction) - 1, rng.getrandbits(fraction), rng.getrandbits(fraction)):
            words += [exponent << fraction | low, sign | exponent << fraction | low]
    return words


def value_of(source: ScalarType, bits: int) -> float:
    return f32_value(bits) if source is f32 else f64_value(bits)


@pytest.mark.parametrize("target", WRAPPED, ids=ids)
@pytest.mark.parametrize("source", [f32, f64], ids=ids)
def test_wrap_casts_are_exact(source: ScalarType, target: ScalarType) -> None:
    for bits in wrap_words(source):
        value, expected = value_of(source, bits), 0
        if value - value == 0:  # neither NaN nor infinite
            exact = Fraction(value)
            expected = (abs(exact).__floor__() * (-1 if exact < 0 else 1)) % (1 << target.bits)
        assert scalar.wrap_cast(source, target, bits) == expected, value


@pytest.mark.parametrize("target", WRAPPED, ids=ids)
@pytest.mark.parametrize("source", [f32, f64], ids=ids)
def test_lanes_wrap_as_one_lane_does(source: ScalarType, target: ScalarType) -> None:
    words, rule = wrap_words(source), lanes.wrap_cast(source, target)
    expected = [scalar.wrap_cast(source, target, bits) for bits in words]
    assert observed(target, rule(lanes_of(source, words))) == expected
    # Lanes that are all in the range of i64 take another way.
    inside = [k for k, bits in enumerate(words) if abs(value_of(source, bits)) < 2.0**63]
    got = rule(lanes_of(source, [words[k] for k in inside]))
    assert observed(target, got) == [expected[k] for k in inside]
    for k in (0, 5, len(words) // 3, len(words) // 2, -1, *inside[-3:]):
        lane = lanes_of(source, [words[k]])
        assert observed(target, np.asarray(rule(lane[0]))) == [expected[k]]
        assert observed(target, np.asarray(rule(lane.reshape(())))) == [expected[k]]
    strided: NDArray[Any] = np.repeat(lanes_of(source, words[-64:]), 2)[::2].reshape(8, 8).T
    assert observed(target, rule(strided)) == np.array(expected[-64:], np.uint64).reshape(8, 8).T.ravel().tolist()
    assert rule(lanes_of(source, [])).shape == (0,)


@pytest.mark.parametrize(
    ("source", "target", "value", "result"),
    [
        (f32, u32, 2.0**100, 0),
        (f32, u32, 4294967296.0 + 512.0, 512),
        (f32, u32, -1.5, 0xFFFF_FFFF),
        (f32, i32, 2.0**31, 0x8000_0000),
        (f32, i32, -0.75, 0),
        (f32, u64, 2.0**63, 1 << 63),
        (f32, i64, -(2.0**64) - 2.0**41, (1 << 64) - (1 << 41)),
        (f64, u64, 2.0**64 + 4096, 4096),
        (f64, u64, -1.0, (1 << 64) - 1),
        (f64, i64, 2.0**1023, 0),
        (f64, u32, 2.0**52 + 1, 1),
        (f64, u64, 5e-324, 0),
        (f64, u64, float("inf"), 0),
        (f32, i32, float("-inf"), 0),
        (f32, u32, float("nan"), 0),
    ],
)
def test_known_wrap_casts(source: ScalarType, target: ScalarType, value: float, result: int) -> None:
    bits = f32_bits(value) if source is f32 else f64_bits(value)
    assert scalar.wrap_cast(source, target, bits) == result
    assert observed(target, lanes.wrap_cast(source, target)(lanes_of(source, [bits, 0]))) == [result, 0]


def test_other_types_are_refused() -> None:
    for rule in (lanes.narrow, lanes.pack, lanes.unpack):
        with pytest.raises(KeyError):
            rule(u32)
