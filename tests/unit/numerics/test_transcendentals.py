"""The thirteen functions: special values, symmetry, patched inputs, and two evaluators that agree."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.reference.bit_patterns import EDGES, f32_bits, f32_value
from vyre.adapters import lanes
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.domain.ir.types import f32
from vyre.domain.numerics import scalar
from vyre.domain.numerics.evaluate import BLOCK, evaluate_bits, evaluate_lanes
from vyre.domain.numerics.transcendentals import patched_inputs, transcendental

U = UnaryOp
FUNCTIONS = sorted(TRANSCENDENTALS, key=lambda op: op.name)
ODD = [U.SIN, U.TAN, U.ASIN, U.ATAN, U.SINH, U.TANH]
EVEN = [U.COS, U.COSH]
NAN, INF, SIGN = 0x7FC0_0000, 0x7F80_0000, 0x8000_0000
ONE, HALF_PI, PI = f32_bits(1.0), 0x3FC9_0FDB, 0x4049_0FDB
LIBM: dict[UnaryOp, Callable[[Any], Any]] = {
    U.SIN: np.sin,
    U.COS: np.cos,
    U.TAN: np.tan,
    U.ASIN: np.arcsin,
    U.ACOS: np.arccos,
    U.ATAN: np.arctan,
    U.SINH: np.sinh,
    U.COSH: np.cosh,
    U.TANH: np.tanh,
    U.EXP: np.exp,
    U.EXP2: np.exp2,
    U.LOG: np.log,
    U.LOG2: np.log2,
}


def inputs(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Edges of both signs, random patterns, and as many of a magnitude between 2^-30 and 2^30."""
    rng = np.random.default_rng(seed)
    edges = np.array(EDGES[4], dtype=np.uint32)
    any_bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    moderate = (rng.integers(97, 157, count, dtype=np.uint32) << np.uint32(23)) | (any_bits & np.uint32(0x807F_FFFF))
    return np.concatenate([edges, edges ^ np.uint32(SIGN), any_bits, moderate])


def by_lanes(op: UnaryOp, words: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    with np.errstate(all="ignore"):
        result: np.ndarray[Any, np.dtype[np.uint32]] = evaluate_lanes(transcendental(op), words.view(np.float32)).view(
            np.uint32
        )
    return result


@pytest.mark.parametrize(
    ("op", "x", "result"),
    [
        *((op, NAN | payload, NAN) for op in FUNCTIONS for payload in (0, 1, SIGN | 5)),
        *((op, 0x7F80_0001, NAN) for op in FUNCTIONS),
        *((op, zero, zero) for op in ODD for zero in (0, SIGN)),
        *((op, tiny, tiny) for op in ODD for tiny in (1, SIGN | 1, 0x0080_0000, 0x007F_FFFF)),
        *((op, x, ONE) for op in (*EVEN, U.EXP, U.EXP2) for x in (0, SIGN, 1, SIGN | 1)),
        *((op, x, NAN) for op in (U.SIN, U.COS, U.TAN, U.ASIN, U.ACOS) for x in (INF, INF | SIGN)),
        *((op, x, NAN) for op in (U.ASIN, U.ACOS) for x in (ONE + 1, SIGN | ONE + 1)),
        *((op, x, NAN) for op in (U.LOG, U.LOG2) for x in (SIGN | 1, SIGN | ONE, SIGN | INF)),
        *((op, x, SIGN | INF) for op in (U.LOG, U.LOG2) for x in (0, SIGN)),
        *((op, INF, INF) for op in (U.LOG, U.LOG2, U.EXP, U.EXP2, U.SINH, U.COSH)),
        *((op, SIGN | INF, 0) for op in (U.EXP, U.EXP2)),
        (U.SINH, SIGN | INF, SIGN | INF),
        (U.COSH, SIGN | INF, INF),
        (U.TANH, INF, ONE),
        (U.TANH, SIGN | INF, SIGN | ONE),
        (U.ATAN, INF, HALF_PI),
        (U.ATAN, SIGN | INF, SIGN | HALF_PI),
        (U.ASIN, ONE, HALF_PI),
        (U.ACOS, ONE, 0),
        (U.ACOS, SIGN | ONE, PI),
        (U.ACOS, 0, HALF_PI),
        (U.LOG, ONE, 0),
        (U.LOG2, 1, f32_bits(-149.0)),
        (U.EXP2, f32_bits(-149.0), 1),
        (U.EXP2, f32_bits(-150.0), 0),  # a tie, to even
        (U.EXP2, f32_bits(-149.99998), 1),
        (U.EXP2, f32_bits(127.0), f32_bits(2.0**127)),
        (U.EXP2, f32_bits(128.0), INF),
        (U.EXP, 0x42B1_7217, 0x7F7F_FF84),  # the largest finite result
        (U.EXP, 0x42B1_7218, INF),
        (U.EXP, f32_bits(-103.97208), 1),
        (U.EXP, f32_bits(-103.97209), 0),
        (U.SIN, 0x7F7F_FFFF, 0xBF05_99B3),
        (U.COS, 0x7F7F_FFFF, 0x3F5A_5F96),
        (U.SIN, PI, 0xB3BB_BD2E),
    ],
)
def test_special_values(op: UnaryOp, x: int, result: int) -> None:
    assert scalar.unary(op, f32, x) == result
    assert by_lanes(op, np.array([x], np.uint32)).tolist() == [result]


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name.lower())
def test_both_evaluators_agree(op: UnaryOp) -> None:
    words = np.concatenate([inputs(1200, seed=1), np.array(patched_inputs(op), dtype=np.uint32)])
    assert by_lanes(op, words).tolist() == [evaluate_bits(transcendental(op), word) for word in words.tolist()]


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name.lower())
def test_results_round_as_the_double_precision_libm_says(op: UnaryOp) -> None:
    """Where a binary64 result, even if wrong by 2^-46, can only round to one f32, that is ours."""
    words = inputs(200_000, seed=2)
    ours = by_lanes(op, words)
    with np.errstate(all="ignore"):
        value = LIBM[op](words.view(np.float32).astype(np.float64))
        low, high = ((value * (1 + e)).astype(np.float32).view(np.uint32) for e in (-(2.0**-46), 2.0**-46))
    low, high = np.where(np.isnan(value), NAN, low), np.where(np.isnan(value), NAN, high)
    decided = low == high
    assert np.count_nonzero(~decided) < 20
    assert np.array_equal(ours[decided], low[decided])


@pytest.mark.parametrize("op", [op for op in FUNCTIONS if patched_inputs(op)], ids=lambda op: op.name.lower())
def test_patched_inputs_differ_by_one_from_the_other_neighbour(op: UnaryOp) -> None:
    """At a patched input the exact result lies next to the middle of two floats, one of which is ours."""
    words = np.array(patched_inputs(op), dtype=np.uint32)
    value = LIBM[op](words.view(np.float32).astype(np.float64))
    ours = by_lanes(op, words).view(np.float32).astype(np.float64)
    half_place = np.abs(np.spacing(ours.astype(np.float32)).astype(np.float64)) / 2
    assert np.all(np.abs(np.abs(value - ours) - half_place) < half_place * 2.0**-20)


def test_there_are_fourteen_patched_inputs_but_for_symmetry() -> None:
    both_signs = {op: patched_inputs(op) for op in ODD + EVEN}
    assert sum(len(patched_inputs(op)) for op in FUNCTIONS if op not in both_signs) == 9
    assert sum(len(found) for found in both_signs.values()) == 2 * 5
    assert all(set(found) == {x ^ SIGN for x in found} for found in both_signs.values())
    assert scalar.unary(U.EXP2, f32, 0x3B42_9D37) == 0x3F80_4385
    assert scalar.unary(U.EXP2, f32, 0xBCF3_A937) == 0x3F7A_C6B1


@pytest.mark.parametrize("op", ODD + EVEN, ids=lambda op: op.name.lower())
def test_symmetry_is_exact(op: UnaryOp) -> None:
    words = inputs(20_000, seed=3)
    words = words[~np.isnan(words.view(np.float32))]
    mirrored = by_lanes(op, words ^ np.uint32(SIGN))
    straight = by_lanes(op, words)
    if op in ODD:
        straight = np.where(np.isnan(straight.view(np.float32)), straight, straight ^ np.uint32(SIGN))
    assert np.array_equal(mirrored, straight)


@pytest.mark.parametrize(
    ("op", "low", "high", "rising"),
    [
        (U.EXP, -105.0, 90.0, True),
        (U.EXP2, -151.0, 129.0, True),
        (U.LOG, 0.0, 3e38, True),
        (U.LOG2, 0.0, 3e38, True),
        (U.SINH, -90.5, 90.5, True),
        (U.TANH, -10.0, 10.0, True),
        (U.ATAN, -1e9, 1e9, True),
        (U.ASIN, -1.0, 1.0, True),
        (U.ACOS, -1.0, 1.0, False),
        (U.COSH, 0.0, 90.5, True),
        (U.SIN, -1.5707963, 1.5707963, True),
        (U.TAN, -1.5707963, 1.5707963, True),
        (U.COS, 0.0, 3.1415925, False),
    ],
)
def test_monotonic_where_the_function_is(op: UnaryOp, low: float, high: float, rising: bool) -> None:
    """On runs of adjacent floats from random places: this crosses the borders of tables and branches."""
    rng = random.Random(op.name)
    places = [f32_bits(edge) for edge in (0.4375, 0.5, 0.625, 0.6875, 1.0, 1.1875, 2.4375, 9.5, 0.69921875)]
    for start in (*(place - 50 for place in places), *(f32_bits(rng.uniform(low, high)) for _ in range(60))):
        x = (np.uint32(start) + np.arange(100, dtype=np.uint32)).view(np.float32)
        x = x[(x >= low) & (x <= high)]
        y = by_lanes(op, x.view(np.uint32)).view(np.float32)
        y = y[np.argsort(x, kind="stable")]
        assert np.all(y[1:] >= y[:-1]) if rising else np.all(y[1:] <= y[:-1])


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_blocks_do_not_matter(size: int) -> None:
    words = np.resize(inputs(500, seed=4), size)
    whole = by_lanes(U.SIN, words)
    assert np.array_equal(whole, np.concatenate([by_lanes(U.SIN, part) for part in np.array_split(words, 5)]))


def test_any_layout() -> None:
    x = inputs(50, seed=5).view(np.float32)[:60]
    with np.errstate(all="ignore"):
        rule = lanes.unary(U.TAN, f32)
        straight = np.asarray(rule(x))
        for got, want in (
            (rule(np.repeat(x, 2)[::2]), straight),
            (rule(x.reshape(6, 10).T), straight.reshape(6, 10).T),
            (rule(x[3]), straight[3]),
        ):
            assert np.shape(got) == np.shape(want)
            assert np.array_equal(np.asarray(got).view(np.uint32), np.asarray(want).view(np.uint32))


def test_the_argument_is_left_alone() -> None:
    x = np.linspace(-5, 5, 100, dtype=np.float32)
    before = x.copy()
    for op in FUNCTIONS:
        by_lanes(op, x.view(np.uint32))
    assert np.array_equal(x, before)


def test_values_of_the_sine_at_every_octave() -> None:
    """Both range reductions, against the libm, one input for each binary exponent."""
    words = (np.arange(1, 255, dtype=np.uint32) << np.uint32(23)) | np.uint32(0x2A_BCDE)
    value = np.sin(words.view(np.float32).astype(np.float64)).astype(np.float32)
    assert by_lanes(U.SIN, words).tolist() == value.view(np.uint32).tolist()
    assert f32_value(int(words[-1])) > 1e38
