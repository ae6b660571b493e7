"""Binary64 programs as values: writing, digests, structure, and constants that derive again."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from support.reference.bit_patterns import f32_value, f64_bits
from vyre.domain.ir.operators import TRANSCENDENTALS, UnaryOp
from vyre.domain.numerics import tables
from vyre.domain.numerics.evaluate import evaluate_bits, evaluate_lanes
from vyre.domain.numerics.f64_program import Branch, F64Program, Kind, Op, Region, Table, Writer
from vyre.domain.numerics.transcendentals import transcendental

PROGRAMS = [
    pytest.param(transcendental(op), id=op.name.lower()) for op in sorted(TRANSCENDENTALS, key=lambda o: o.name)
]


def small_program(constant: float = 2.0, table: tuple[int, ...] = (3, 5)) -> F64Program:
    w = Writer()
    x = w.input.widen()
    word = w.lookup(Table(Kind.I32, table), w.input.bits() & 1)
    big = w.input.bits().below(0x3F80_0000).choose(x * constant, x + word.signed_to_f64())
    return w.finish("small", big.narrow())


def test_a_program_runs() -> None:
    x = np.array([0.5, 1.0, np.float32(1.0000001)], np.float32)
    expected = np.array([1.0, 4.0, np.float32(6.0000001)], np.float32)
    assert np.array_equal(evaluate_lanes(small_program(), x), expected)
    words = x.view(np.uint32).tolist()
    assert [evaluate_bits(small_program(), word) for word in words] == expected.view(np.uint32).tolist()


def test_identical_steps_are_shared_and_unused_ones_dropped() -> None:
    w = Writer()
    x = w.input.widen()
    unused = x / 3.0
    program = w.finish("twice", (x * x + x * x).narrow())
    assert [step.op for step in program.steps] == [Op.INPUT, Op.WIDEN, Op.MUL, Op.ADD, Op.NARROW]
    assert unused.kind is Kind.F64


def test_digest_covers_everything_but_the_name() -> None:
    program = small_program()
    assert program.digest == small_program().digest
    assert program.digest == F64Program("other", program.steps, program.tables).digest
    changed = [small_program(constant=2.5), small_program(table=(3, 6))]
    for index, step in enumerate(program.steps):
        for field in (
            step._replace(op=Op.IXOR if step.op is not Op.IXOR else Op.IOR),
            step._replace(kind=Kind.I64),
            step._replace(immediate=step.immediate + 1),
            step._replace(args=(*step.args, 0)),
        ):
            steps = (*program.steps[:index], field, *program.steps[index + 1 :])
            changed.append(F64Program("small", steps, program.tables))
    digests = {other.digest for other in changed}
    assert len(digests) == len(changed)
    assert program.digest not in digests


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_well_formed(program: F64Program) -> None:
    assert program.steps[0].op is Op.INPUT
    assert program.steps[-1].kind is Kind.F32
    used = {arg for step in program.steps for arg in step.args}
    assert used == set(range(len(program.steps) - 1))
    for index, step in enumerate(program.steps):
        assert all(arg < index for arg in step.args)
        kinds = [program.steps[arg].kind for arg in step.args]
        if step.op is Op.SELECT:
            assert kinds == [Kind.PREDICATE, step.kind, step.kind]
        elif step.op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.SQRT):
            assert set(kinds) == {Kind.F64} == {step.kind}
        elif step.op is Op.TABLE:
            assert kinds == [Kind.I32]
            assert step.kind is program.tables[step.immediate].kind


def walk(region: Region) -> Iterator[int]:
    for item in region:
        if isinstance(item, Branch):
            yield from walk(item.when_true)
            yield from walk(item.when_false)
            yield item.select
        else:
            yield item


@pytest.mark.parametrize("program", PROGRAMS)
def test_structure_holds_each_step_once_after_its_operands(program: F64Program) -> None:
    order = list(walk(program.structure))
    assert sorted(order) == list(range(len(program.steps)))
    position = {index: place for place, index in enumerate(order)}
    for index, step in enumerate(program.steps):
        assert all(position[arg] < position[index] for arg in step.args)


@pytest.mark.parametrize("program", PROGRAMS)
def test_steps_in_an_arm_are_used_in_that_arm_only(program: F64Program) -> None:
    def check(region: Region) -> None:
        for item in region:
            if not isinstance(item, Branch):
                continue
            for arm, position in ((item.when_true, 1), (item.when_false, 2)):
                inside = set(walk(arm))
                for index, step in enumerate(program.steps):
                    for place, arg in enumerate(step.args):
                        if arg in inside:
                            assert index in inside or (index, place) == (item.select, position)
                check(arm)

    check(program.structure)


def test_the_expensive_reduction_is_skipped_for_moderate_arguments() -> None:
    """The products of the Payne-Hanek reduction stand in an arm of a select, never outside."""
    sine = transcendental(UnaryOp.SIN)
    products = [index for index, step in enumerate(sine.steps) if step.op is Op.IMUL_WIDE]
    outside = [item for item in sine.structure if not isinstance(item, Branch)]
    assert len(products) == 5
    assert not set(products) & set(outside)


# ------------------------------------------------------------------------------ constants

CONTEXT = Context(prec=60)


def nearest_multiple(value: Decimal, bits: int) -> float:
    """``value`` rounded to a multiple of 2^-bits."""
    return float(Fraction(round(Fraction(value) * 2**bits), 2**bits))


def entries(table: Table) -> list[int]:
    assert table.kind is Kind.F64
    return list(table.entries)


def test_powers_of_two() -> None:
    with localcontext(CONTEXT):
        expected = [float(Decimal(2) ** (Decimal(j) / 32)) for j in range(32)]
    assert entries(tables.EXP2_THIRTY_SECONDS) == [f64_bits(value) for value in expected]


def test_logarithm_tables() -> None:
    reciprocal: list[float] = []
    highs: list[float] = []
    lows: list[float] = []
    highs2: list[float] = []
    lows2: list[float] = []
    with localcontext(CONTEXT):
        ln2 = Decimal(2).ln()
        for i in range(32):
            low, high = (Fraction(f32_value(tables.LOG_ORIGIN + (j << 18))) for j in (i, i + 1))
            inverse = 2 / (low + high)
            scale = 2**16 if inverse < 1 else 2**15  # a significand of 16 bits
            value = Fraction(1) if low <= 1 < high else Fraction(round(inverse * scale), scale)
            reciprocal.append(float(value))
            exact = -(Decimal(value.numerator) / Decimal(value.denominator)).ln()
            for target, upper, lower in ((exact, highs, lows), (exact / ln2, highs2, lows2)):
                upper.append(nearest_multiple(target, 44))
                lower.append(float(target - Decimal(upper[-1])))
    for table, expected in (
        (tables.RECIPROCAL, reciprocal),
        (tables.LOG_HIGH, highs),
        (tables.LOG_LOW, lows),
        (tables.LOG2_HIGH, highs2),
        (tables.LOG2_LOW, lows2),
    ):
        assert entries(table) == [f64_bits(value + 0.0) for value in expected]


def constants(op: UnaryOp) -> set[int]:
    return {step.immediate for step in transcendental(op).steps if step.op is Op.CONST and step.kind is Kind.F64}


def test_constants_of_exponential_and_logarithm() -> None:
    with localcontext(CONTEXT):
        ln2 = Decimal(2).ln()
        step_high = nearest_multiple(ln2 / 32, 45)
        exp = [float(32 / ln2), step_high, float(ln2 / 32 - Decimal(step_high))]
        ln2_high = nearest_multiple(ln2, 43)
        log = [ln2_high, float(ln2 - Decimal(ln2_high))]
        inverse_high = nearest_multiple(1 / ln2, 27)
        log2 = [inverse_high, float(1 / ln2 - Decimal(inverse_high)), float(1 / ln2)]
        exp2 = [float(ln2)]
    for op, values in ((UnaryOp.EXP, exp), (UnaryOp.LOG, log), (UnaryOp.LOG2, log2), (UnaryOp.EXP2, exp2)):
        assert {f64_bits(value) for value in values} <= constants(op)


def pi_to(bits: int) -> int:
    """floor(pi * 2**bits), by Machin's formula in integers with 64 guard bits."""

    def arctan_of_inverse(x: int) -> int:
        unit = 1 << (bits + 64)
        total, term, n, sign = 0, unit // x, 1, 1
        while term:
            total += sign * (term // n)
            term, n, sign = term // (x * x), n + 2, -sign
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)) >> 64


def test_constants_of_the_circle() -> None:
    half_pi = Fraction(pi_to(600), 2**601)
    first = Fraction(int(half_pi * 2**32), 2**32)
    second = Fraction(int((half_pi - first) * 2**66), 2**66)
    expected = [float(first), float(second), float(half_pi - first - second), float(1 / half_pi), float(half_pi)]
    assert {f64_bits(value) for value in expected} <= constants(UnaryOp.SIN)

    words = int(2**384 / half_pi)
    (table,) = transcendental(UnaryOp.SIN).tables
    digits = [words >> (384 - 32 * (i + 1)) & 0xFFFF_FFFF for i in range(12)]
    assert table.entries == (0, *digits)
