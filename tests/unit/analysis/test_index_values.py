"""What is known about index arithmetic, against every result it can have."""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Final

import pytest

from vyre.domain.analysis.index_values import SELECT, U32_MAX, Atom, Value, Values
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

B: Final = BinaryOp
U32: Final = ScalarType.U32
OPERATIONS: Final = (
    B.ADD, B.SUB, B.MUL, B.DIV, B.MOD, B.BIT_AND, B.BIT_OR, B.BIT_XOR, B.SHL, B.SHR, B.MIN, B.MAX, B.ABS_DIFF,
    B.SATURATING_ADD, B.SATURATING_SUB, B.SATURATING_MUL, B.MUL_HIGH, B.ROTATE_LEFT,
)  # fmt: skip
RANGES: Final = (
    (0, 0), (1, 1), (2, 2), (3, 3), (7, 7), (8, 8), (12, 12), (32, 32), (33, 33), (U32_MAX, U32_MAX),
    (0, 1), (0, 3), (1, 2), (2, 5), (3, 4), (7, 9), (30, 33), (31, 32), (2**16 - 1, 2**16 + 1),
    (2**31 - 1, 2**31), (U32_MAX - 2, U32_MAX),
)  # fmt: skip
"""All numbers of a range are tried."""
MONOTONE: Final = {B.DIV, B.SHR, B.MIN, B.MAX, B.SATURATING_ADD, B.SATURATING_MUL, B.SATURATING_SUB, B.MUL_HIGH}
"""Operations whose results end where those of the ends of their operands do."""

Assignment = dict[Atom, int]


def number(value: Value, atoms: Assignment) -> int:
    """What a value is, given its sources."""
    total = value.constant
    for atom, coefficient in value.form.terms:
        if atom not in atoms:
            assert isinstance(atom.op, BinaryOp) and atom.left is not None and atom.right is not None
            of = scalar.binary(atom.op, U32, number(atom.left, atoms), number(atom.right, atoms))
            assert atom.low <= of <= atom.high and of % (1 << atom.align) == 0
            total += coefficient * of
        else:
            total += coefficient * atoms[atom]
    return total & U32_MAX


def source(values: Values, low: int, high: int) -> tuple[Value, list[Assignment]]:
    value = values.fresh(low, high)
    return value, [{} if value.atom is None else {value.atom: n} for n in range(low, high + 1)]


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_result_is_in_the_range(op: BinaryOp) -> None:
    for left, right in product(RANGES, RANGES):
        values = Values()
        (a, all_of_a), (b, all_of_b) = source(values, *left), source(values, *right)
        found = values.binary(op, a, b)
        results = []
        for x, y in product(all_of_a, all_of_b):
            results.append(scalar.binary(op, U32, number(a, x), number(b, y)))
            if op is not B.ROTATE_LEFT or found.is_constant:
                assert number(found, x | y) == results[-1], (left, right)
        assert found.low <= min(results) and max(results) <= found.high, (left, right)
        assert all(result % (1 << found.align) == 0 for result in results), (left, right)
        if op in MONOTONE and right[0] and (op is not B.SHR or right[1] < 32):
            assert (found.low, found.high) == (min(results), max(results)), (left, right)


A, Z = (1, 6), (2, 40)
FULL = (0, U32_MAX)


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        (B.MUL, (2, 3), (5, 7), (10, 21)),
        (B.MUL, (2, 2**16), (5, 2**16), FULL),
        (B.MUL, (2, 2**16 - 1), (3, 2**16 + 1), (6, U32_MAX)),
        (B.DIV, (8, 9), (0, 2), FULL),
        (B.MOD, (8, 9), (1, 7), (0, 6)),
        (B.MOD, (3, 9), (0, 20), (0, 9)),
        (B.MOD, (3, 9), (0, 4), (0, 3)),
        (B.MOD, (3, 9), (0, 1), (0, 0)),
        (B.MOD, (3, 9), (5, 5), (0, 4)),
        (B.MOD, (3, 9), (8, 8), (0, 7)),
        (B.BIT_AND, A, Z, (0, 6)),
        (B.BIT_AND, (1, 6), (5, 5), (0, 5)),
        (B.BIT_OR, A, Z, (2, 63)),
        (B.BIT_OR, (9, 17), (3, 6), (9, 31)),
        (B.BIT_XOR, A, Z, (0, 63)),
        (B.SHL, (1, 3), (2, 4), (4, 48)),
        (B.SHL, (1, 3), (2, 31), (0, U32_MAX - 3)),
        (B.SHL, (1, 3), (2, 32), FULL),
        (B.SHR, (64, 90), (2, 32), (0, 90)),
        (B.SHR, (64, 90), (2, 31), (0, 22)),
        (B.ABS_DIFF, A, Z, (0, 39)),
        (B.ABS_DIFF, Z, A, (0, 39)),
        (B.ABS_DIFF, (10, 12), (10, 12), (0, 2)),
        (B.SATURATING_ADD, (3, U32_MAX), (4, 9), (7, U32_MAX)),
        (B.SATURATING_SUB, (3, 20), (4, 9), (0, 16)),
        (B.SATURATING_MUL, (3, U32_MAX), (4, 9), (12, U32_MAX)),
        (B.ROTATE_LEFT, A, Z, FULL),
    ],
)
def test_ranges(op: BinaryOp, left: tuple[int, int], right: tuple[int, int], expected: tuple[int, int]) -> None:
    values = Values()
    found = values.binary(op, values.fresh(*left), values.fresh(*right))
    assert (found.low, found.high) == expected


@pytest.mark.parametrize(
    ("op", "left", "right", "align"),
    [
        (B.ADD, 3, 2, 2),
        (B.SUB, 2, 3, 2),
        (B.MUL, 3, 2, 5),
        (B.DIV, 3, 2, 0),
        (B.MOD, 3, 2, 0),
        (B.BIT_AND, 3, 2, 3),
        (B.BIT_OR, 3, 2, 2),
        (B.BIT_XOR, 2, 3, 2),
        (B.SHL, 3, 2, 3),
        (B.MIN, 3, 2, 2),
        (B.MAX, 2, 3, 2),
        (B.ABS_DIFF, 3, 2, 0),
    ],
)
def test_alignments(op: BinaryOp, left: int, right: int, align: int) -> None:
    values = Values()
    a, b = values.fresh(0, 2**20, left), values.fresh(0, 2**20, right)
    assert values.binary(op, a, b).align == align


def test_alignments_by_constants() -> None:
    values = Values()
    a = values.fresh(0, 2**20, 3)
    assert values.binary(B.MOD, a, values.constant(12)).align == 2
    assert values.binary(B.SHL, a, values.constant(2)).align == 5
    assert values.binary(B.SHL, a, values.fresh(2, 4)).align == 5
    assert values.binary(B.BIT_AND, values.plus(a, 5), values.constant(7)) is values.constant(5)
    assert values.plus(a, 4).align == 2
    assert values.constant(0).align == 32
    wraps = values.plus(values.scaled(values.fresh(), 4), 3)
    assert (wraps.low, wraps.high) == (3, U32_MAX)
    wraps = values.plus(values.scaled(values.fresh(), 4), 1)
    assert (wraps.low, wraps.high) == (1, U32_MAX - 2)


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op is not B.ROTATE_LEFT])
def test_the_same_operation_has_the_same_value(op: BinaryOp) -> None:
    values = Values()
    a, b = values.fresh(0, 2**30), values.fresh(1, 2**31)
    found = values.binary(op, a, b)
    assert values.binary(op, a, b) is found
    swapped = scalar.binary(op, U32, 9, 2) == scalar.binary(op, U32, 2, 9)
    assert (values.binary(op, b, a) is found) is swapped
    assert values.binary(op, b, values.fresh(0, 2**30)) is not found


def test_operands_that_decide() -> None:
    values = Values()
    a, b = values.fresh(0, 9), values.fresh(9, 20)
    assert values.binary(B.MIN, a, b) is values.binary(B.MIN, b, a) is a
    assert values.binary(B.MAX, a, b) is values.binary(B.MAX, b, a) is b
    for op in (B.MIN, B.MAX):
        assert values.binary(op, a, a) is a
    ten = values.fresh(10, 20)
    assert values.binary(B.MOD, a, ten) is a
    assert values.binary(B.MOD, a, b) is not a
    assert values.binary(B.DIV, a, values.constant(1)) is a
    assert values.binary(B.DIV, a, values.constant(0)) is values.constant(U32_MAX)
    assert values.binary(B.MOD, a, values.constant(0)).high == 0
    assert values.binary(B.SHR, a, values.constant(32)) is a
    assert values.binary(B.BIT_AND, a, values.constant(15)) is values.binary(B.BIT_AND, values.constant(15), a) is a
    assert values.binary(B.BIT_AND, a, values.constant(7)) is not a
    seven = values.fresh(1, 7)
    assert values.binary(B.BIT_AND, seven, values.constant(7)) is seven
    assert values.binary(B.SATURATING_ADD, a, b) is values.binary(B.ADD, a, b)
    assert values.binary(B.SATURATING_SUB, b, a) is values.binary(B.SUB, b, a)
    assert values.binary(B.SATURATING_MUL, a, b) is values.binary(B.MUL, a, b)
    most, rest = values.fresh(0, U32_MAX - 5), values.fresh(0, 5)
    assert values.binary(B.SATURATING_ADD, most, rest) is values.binary(B.ADD, most, rest)
    wide, wider = values.fresh(0, 65_535), values.fresh(0, 65_537)
    assert values.binary(B.SATURATING_MUL, wide, wider) is values.binary(B.MUL, wide, wider)
    assert values.binary(B.MOD, wide, values.constant(8)) is values.binary(B.BIT_AND, wide, values.constant(7))
    high = values.fresh(0, 2**20, 4)
    for op in (B.BIT_OR, B.BIT_XOR):
        assert values.binary(op, high, a) is values.binary(op, a, high) is values.binary(B.ADD, a, high)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (UnaryOp.NEGATE, (U32_MAX - 8, U32_MAX - 2)),
        (UnaryOp.BIT_NOT, (U32_MAX - 9, U32_MAX - 3)),
        (UnaryOp.POPCOUNT, (0, 32)),
        (UnaryOp.CLZ, (0, 32)),
        (UnaryOp.CTZ, (0, 32)),
        (UnaryOp.REVERSE_BITS, FULL),
    ],
)
def test_unary_operations(op: UnaryOp, expected: tuple[int, int]) -> None:
    values = Values()
    found = values.unary(op, values.fresh(3, 9))
    assert (found.low, found.high) == expected
    if op in (UnaryOp.NEGATE, UnaryOp.BIT_NOT):
        assert values.unary(op, values.constant(7)) is values.constant(scalar.unary(op, U32, 7))


def test_selects() -> None:
    values = Values()
    a, b = values.fresh(3, 9, 0), values.fresh(1, 20, 0)
    found = values.select(a, b)
    assert (found.low, found.high, found.align) == (1, 20, 0)
    assert found.atom is not None
    assert (found.atom.op, found.atom.left, found.atom.right) == (SELECT, a, b)
    assert values.select(a, b) is not found
    assert values.select(a, a) is a
    assert values.select(values.fresh(0, 64, 3), values.fresh(0, 64, 2)).align == 2


def test_linear_forms_are_one_value() -> None:
    values = Values()
    a, b = values.fresh(0, 2**20), values.fresh(0, 2**20)
    three = values.add(values.add(a, b), values.add(a, a))
    assert three is values.add(values.scaled(a, 3), b)
    assert values.subtract(three, values.scaled(a, 3)) is b
    assert values.subtract(a, a) is values.constant(0)
    assert values.plus(values.plus(a, 5), U32_MAX - 4) is a
    assert values.add(a, values.constant(7)) is values.add(values.constant(7), a) is values.plus(a, 7)
    assert values.scaled(values.plus(a, 3), 5) is values.plus(values.scaled(a, 5), 15)
    assert values.scaled(a, 0) is values.constant(0)
    assert (three.low, three.high) == (0, 4 * 2**20)
    assert values.add(values.plus(a, 3), values.plus(b, 5)) is values.plus(values.add(a, b), 8)
    c = values.fresh(0, 2**20)
    assert values.add(b, c) is values.add(c, b)
    assert values.add(values.add(c, b), a) is values.add(values.add(a, b), c)


def test_a_product_that_is_known_as_one_value() -> None:
    values = Values()
    group, local, lane = values.fresh(0, 2**20), values.fresh(0, 63), values.fresh(0, 2**26)
    values.identify(group, 64, local, lane)
    assert values.add(values.scaled(group, 64), local) is lane
    assert values.add(local, values.scaled(group, 64)) is lane
    assert values.add(values.scaled(group, 192), values.scaled(local, 3)) is values.scaled(lane, 3)
    assert values.add(values.add(values.scaled(group, 64), lane), local) is values.scaled(lane, 2)
    other = values.add(values.scaled(group, 32), local)
    assert [atom for atom, _ in other.form.terms] == [group.atom, local.atom]


def test_sums_of_many_terms_are_known_by_their_range() -> None:
    values = Values()
    total = values.constant(0)
    for count in range(1, 10):
        total = values.add(total, values.fresh(0, 3, 1))
        assert len(total.form.terms) == (count if count <= 8 else 1)
    assert (total.low, total.high, total.align) == (0, 26, 1)  # of 0, 2 and 3 times eight, and of 0 and 2
    rest, one = reduce(values.add, (values.fresh() for _ in range(8))), values.fresh()
    found = values.add(rest, one).atom
    assert found is not None and (found.op, found.left, found.right) == (B.ADD, rest, one)


def test_names() -> None:
    values = Values()
    found = values.named("n", 1, 5)
    assert values.named("n") is found
    assert values.named("m") is not found
    assert (found.low, found.high, values.named("m").high) == (1, 5, U32_MAX)
    assert values.fresh(4, 4) is values.constant(4)
    assert values.fresh().low == 0
