"""The lane rules equal the scalar rules, for every operator and type, in every shape a lane can have."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.reference.bit_patterns import EDGES, lanes_of, observed, patterns
from vyre.adapters import lanes
from vyre.domain.ir.operators import BINARY as BINARY_ROWS
from vyre.domain.ir.operators import (
    BinaryOp,
    RightOperand,
    UnaryOp,
    binary_result,
    bitcast_is_legal,
    unary_result,
)
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool8, bool_, f32, f64, i32, u32, u64
from vyre.domain.numerics import scalar

BINARY_CASES = [
    (op, dtype, result)
    for op in BinaryOp
    for dtype in EXECUTABLE_TYPES
    if (result := binary_result(op, dtype, dtype)) is not None
]
UNARY_CASES = [
    (op, dtype, result)
    for op in UnaryOp
    for dtype in EXECUTABLE_TYPES
    if (result := unary_result(op, dtype)) is not None
]
COUNTED = [op for op, row in BINARY_ROWS.items() if row.right is RightOperand.SHIFT]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def ids(case: object) -> str:
    return case.name.lower() if isinstance(case, BinaryOp | UnaryOp) else getattr(case, "text", str(case))


@pytest.mark.parametrize(("op", "dtype", "result"), BINARY_CASES, ids=ids)
def test_binary(op: BinaryOp, dtype: ScalarType, result: ScalarType) -> None:
    grid = patterns(dtype, 12, seed=2)
    a, b = [x for x in grid for _ in grid], grid * len(grid)
    expected = [scalar.canonical(result, scalar.binary(op, dtype, x, y)) for x, y in zip(a, b, strict=True)]
    assert observed(result, lanes.binary(op, dtype)(lanes_of(dtype, a), lanes_of(dtype, b))) == expected


@pytest.mark.parametrize(("op", "dtype", "result"), UNARY_CASES, ids=ids)
def test_unary(op: UnaryOp, dtype: ScalarType, result: ScalarType) -> None:
    a = patterns(dtype, 150, seed=3)
    expected = [scalar.canonical(result, scalar.unary(op, dtype, x)) for x in a]
    assert observed(result, lanes.unary(op, dtype)(lanes_of(dtype, a))) == expected


@pytest.mark.parametrize("op", COUNTED, ids=ids)
@pytest.mark.parametrize("dtype", [t for t in EXECUTABLE_TYPES if t.is_integer], ids=ids)
def test_counts_may_be_u32_for_every_left_type(op: BinaryOp, dtype: ScalarType) -> None:
    values, counts = patterns(dtype, 10, seed=4), [*range(70), 0xFFFF_FFFF, 0x8000_0020]
    a, b = [x for x in values for _ in counts], counts * len(values)
    expected = [scalar.binary(op, dtype, x, y) for x, y in zip(a, b, strict=True)]
    assert observed(dtype, lanes.binary(op, dtype)(lanes_of(dtype, a), lanes_of(u32, b))) == expected


@pytest.mark.parametrize("source", EXECUTABLE_TYPES, ids=ids)
@pytest.mark.parametrize("target", EXECUTABLE_TYPES, ids=ids)
def test_cast_and_bitcast(source: ScalarType, target: ScalarType) -> None:
    a = patterns(source, 1000, seed=5)
    expected = [scalar.canonical(target, scalar.cast(source, target, x)) for x in a]
    assert observed(target, lanes.cast(source, target)(lanes_of(source, a))) == expected
    if bitcast_is_legal(source, target):
        got = lanes.bitcast(source, target)(lanes_of(source, a))
        assert got.view(f"u{target.size}").tolist() == [scalar.bitcast(source, target, x) for x in a]


@pytest.mark.parametrize("element", list(ScalarType), ids=ids)
def test_elements_in_memory(element: ScalarType) -> None:
    words = list(range(1 << element.bits)) if element.size <= 2 else patterns(element, 2000, seed=6)
    if element is bool_:
        words = [0, 1, 2, 0x8000_0000, 0xFFFF_FFFF]
    raw = np.array(words, dtype=f"u{element.size}").view(element.numpy_name)
    loaded = [scalar.load_element(element, word.to_bytes(element.size, "little")) for word in words]
    expected = [scalar.canonical(element.widened, bits) for bits in loaded]
    assert observed(element.widened, lanes.load_convert(element)(raw)) == expected

    values = patterns(element.widened, 3000, seed=7)
    stored = lanes.store_convert(element)(lanes_of(element.widened, values))
    assert stored.dtype == np.dtype(element.numpy_name)
    assert stored.tobytes() == b"".join(scalar.store_element(element, bits) for bits in values)


def fma_operands(dtype: ScalarType, count: int) -> Iterator[tuple[int, int, int]]:
    """Random patterns, edges, and addends that nearly cancel the product or sit half a place beside it."""
    rng = random.Random(8)
    shift, low, high = (23, 0x30, 0x50) if dtype is f32 else (52, 0x200, 0x600)
    sign = 1 << (dtype.bits - 1)

    def any_pattern() -> int:
        return rng.choice(EDGES[dtype.size]) if rng.random() < 0.25 else rng.getrandbits(dtype.bits)

    for number in range(count):
        if number % 2:
            yield any_pattern(), any_pattern(), any_pattern()
            continue
        a, b = (rng.randrange(low << shift, high << shift) for _ in "ab")
        product = scalar.binary(BinaryOp.MUL, dtype, a, b)
        distance = rng.choice((0, 0, 0, shift - 1, shift, shift + 1, shift + 2, 2 * shift + 1))
        c = product + rng.choice((-1, 1)) * (distance << shift) + rng.choice((-1, 0, 0, 1))
        c = c & ~((1 << (shift - 2)) - 1) if rng.random() < 0.3 else c
        yield a, b, (c ^ sign if rng.random() < 0.7 else c) & (2 * sign - 1)


@pytest.mark.parametrize("dtype", [f32, f64], ids=ids)
def test_fma(dtype: ScalarType) -> None:
    a, b, c = zip(*fma_operands(dtype, 40_000), strict=True)
    expected = [scalar.fma(dtype, *lane) for lane in zip(a, b, c, strict=True)]
    got = lanes.fma(dtype)(lanes_of(dtype, a), lanes_of(dtype, b), lanes_of(dtype, c))
    assert observed(dtype, got) == expected


@pytest.mark.parametrize("dtype", [f32, f64], ids=ids)
def test_fma_on_every_triple_of_edges(dtype: ScalarType) -> None:
    edges = EDGES[dtype.size][::2]
    triples = [(a, b, c) for a in edges for b in edges for c in edges]
    a, b, c = zip(*triples, strict=True)
    expected = [scalar.fma(dtype, *lane) for lane in triples]
    got = lanes.fma(dtype)(lanes_of(dtype, a), lanes_of(dtype, b), lanes_of(dtype, c))
    assert observed(dtype, got) == expected


def shapes(array: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any, list[int]]]:
    """The same lanes as a strided view, reversed, in two dimensions and one by one, with the indices they hold."""
    index = list(range(array.size))
    yield "strided", np.repeat(array, 3)[::3], index
    yield "reversed", array[::-1], index[::-1]
    yield (
        "2-D",
        array[: array.size // 2 * 2].reshape(2, -1).T,
        [i for pair in zip(index[: array.size // 2], index[array.size // 2 :], strict=False) for i in pair],
    )
    yield "0-d", array[3:4].reshape(()), [3]
    yield "scalar", array[4], [4]


@pytest.mark.parametrize(("op", "dtype", "result"), UNARY_CASES, ids=ids)
def test_unary_takes_lanes_of_any_layout(op: UnaryOp, dtype: ScalarType, result: ScalarType) -> None:
    a = patterns(dtype, 3, seed=9) * 4
    expected = [scalar.canonical(result, scalar.unary(op, dtype, x)) for x in a]
    for name, view, index in shapes(lanes_of(dtype, a)):
        got = lanes.unary(op, dtype)(view)
        assert np.shape(got) == np.shape(view), name
        assert observed(result, np.asarray(got)) == [expected[i] for i in index], name


@pytest.mark.parametrize(("op", "dtype", "result"), BINARY_CASES, ids=ids)
def test_binary_mixes_scalars_and_arrays(op: BinaryOp, dtype: ScalarType, result: ScalarType) -> None:
    a = patterns(dtype, 3, seed=10) * 3
    array, rule = lanes_of(dtype, a), lanes.binary(op, dtype)
    for name, view, index in shapes(array):
        for left, right, left_bits, right_bits in (
            (view, array[2], [a[i] for i in index], [a[2]] * len(index)),
            (array[2:3].reshape(()), view, [a[2]] * len(index), [a[i] for i in index]),
        ):
            expected = [
                scalar.canonical(result, scalar.binary(op, dtype, x, y))
                for x, y in zip(left_bits, right_bits, strict=True)
            ]
            assert observed(result, np.asarray(rule(left, right))) == expected, name


@pytest.mark.parametrize("dtype", [f32, f64], ids=ids)
def test_fma_mixes_scalars_and_arrays(dtype: ScalarType) -> None:
    a = patterns(dtype, 20, seed=11)
    array, fixed = lanes_of(dtype, a), a[20]
    expected = [scalar.fma(dtype, fixed, x, a[5]) for x in a[::2]]
    got = lanes.fma(dtype)(lanes_of(dtype, [fixed])[0], array[::2], array[5:6].reshape(()))
    assert observed(dtype, got) == expected


@pytest.mark.parametrize("dtype", [f32, f64, u32, i32, u64], ids=ids)
def test_conversions_take_scalars(dtype: ScalarType) -> None:
    for bits in patterns(dtype, 5, seed=12):
        value = lanes_of(dtype, [bits])[0]
        for target in EXECUTABLE_TYPES:
            expected = scalar.canonical(target, scalar.cast(dtype, target, bits))
            assert observed(target, np.asarray(lanes.cast(dtype, target)(value))) == [expected]
        stored = np.asarray(lanes.store_convert(dtype)(value)).tobytes()
        assert stored == scalar.store_element(dtype, bits)


def test_empty_lanes() -> None:
    empty = np.empty(0, np.float32)
    assert lanes.unary(UnaryOp.SIN, f32)(empty).shape == (0,)
    assert lanes.fma(f64)(*[np.empty(0)] * 3).shape == (0,)
    assert lanes.binary(BinaryOp.MIN, f32)(empty, empty).shape == (0,)


def test_bytes_other_than_0_are_true() -> None:
    """Also those that NumPy's bool does not have, which it would copy as they are."""
    raw = np.array([0, 1, 2, 128, 255], np.uint8).view(np.bool_)
    for elements in (raw, np.repeat(raw, 2)[::2]):
        loaded = np.asarray(lanes.load_convert(bool8)(elements))
        assert loaded.view(np.uint8).tolist() == [0, 1, 1, 1, 1]
    assert np.asarray(lanes.load_convert(bool8)(raw[3])).view(np.uint8) == 1


def test_stores_without_a_nan_do_not_copy() -> None:
    x = np.arange(8, dtype=np.float32)
    assert lanes.store_convert(f32)(x) is x
    truths = x > 3
    assert lanes.store_convert(bool8)(truths) is truths


def test_rules_are_quiet_under_errstate() -> None:
    """Warnings are errors in this test run; the worst operands must not warn."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        for op, dtype, _ in BINARY_CASES:
            for x in lanes_of(dtype, patterns(dtype, 0, seed=0)):
                lanes.binary(op, dtype)(x, x)
        for unary, dtype, _ in UNARY_CASES:
            for x in lanes_of(dtype, patterns(dtype, 0, seed=0)):
                lanes.unary(unary, dtype)(x)


@pytest.mark.parametrize(("op", "dtype"), [(BinaryOp.MOD, f32), (BinaryOp.ADD, bool_), (BinaryOp.AND, u32)], ids=ids)
def test_an_operator_that_a_type_lacks_is_refused(op: BinaryOp, dtype: ScalarType) -> None:
    with pytest.raises(KeyError):
        lanes.binary(op, dtype)


def test_a_transcendental_of_f64_is_refused() -> None:
    with pytest.raises(KeyError):
        lanes.unary(UnaryOp.SIN, f64)
