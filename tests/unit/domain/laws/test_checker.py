"""The checker of laws: it accepts what holds, and refuses each trap with operands that show why."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from support.profiles import SOAK
from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.checker import Verdict, check, check_all
from vyre.domain.dialects.laws.evaluation import SCALARS, evaluated
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.laws.model import TableAlgebra, all_values, model_types
from vyre.domain.ir.operators import BINARY, FLOATS, INTEGERS, UNARY
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.numerics.scalar import MINIFLOAT, MODEL_FLOATS, ModelType, ValueType

U32, I32, U64, I64, F32, F64, BOOL = (
    *(ScalarType.U32, ScalarType.I32, ScalarType.U64, ScalarType.I64),
    *(ScalarType.F32, ScalarType.F64, ScalarType.BOOL),
)
SIGNED: Final = frozenset({I32, I64})
UNSIGNED: Final = frozenset({U32, U64})


def verdicts(before: str, after: str, types: frozenset[ScalarType], **fields: Any) -> tuple[Verdict, ...]:
    return check_all(Law("a.law", before, after, types, **fields))


COUNTS: Final = {"holes": {"a": U32, "b": U32}}
TRAPS: Final[list[tuple[str, str, frozenset[ScalarType], dict[str, Any]]]] = [
    ("x + 0.0", "x", FLOATS, {}),
    ("x - x", "0.0", FLOATS, {}),
    ("0.0 - x", "neg(x)", FLOATS, {}),
    ("neg(x - y)", "y - x", FLOATS, {}),
    ("x / x", "1", INTEGERS, {}),
    ("x / x", "1.0", FLOATS, {}),
    ("(x / y) * y + x % y", "x", INTEGERS, {}),
    ("(x << a) << b", "x << (a + b)", INTEGERS, COUNTS),
    ("0 / x", "0", UNSIGNED, {}),
    ("sat_add(sat_add(x, y), z)", "sat_add(x, sat_add(y, z))", SIGNED, {}),
    ("sat_mul(sat_mul(x, y), z)", "sat_mul(x, sat_mul(y, z))", SIGNED, {}),
    ("min(x, max(x, y))", "x", FLOATS, {}),
    ("max(x, min(x, y))", "x", FLOATS, {}),
    ("min(x, max(y, z))", "max(min(x, y), min(x, z))", FLOATS, {}),
    ("max(x, min(y, z))", "min(max(x, y), max(x, z))", FLOATS, {}),
    ("min(x, INF)", "x", FLOATS, {}),
    ("max(x, neg(INF))", "x", FLOATS, {}),
    ("(x + y) + z", "x + (y + z)", FLOATS, {}),
    ("x * 0.0", "0.0", FLOATS, {}),
    ("not(x < y)", "x >= y", FLOATS, {}),
    ("x == x", "true", FLOATS, {}),
    ("select(x == y, x, y)", "y", FLOATS, {}),
    ("fma(x, y, z)", "x * y + z", FLOATS, {}),
    ("sign(neg(x))", "neg(sign(x))", FLOATS, {}),
    ("bitcast<U>(neg(x))", "bitcast<U>(x) ^ SIGN_BIT", FLOATS, {}),
    ("bitcast<U>(bitcast<T>(y))", "y", FLOATS, {"holes": {"y": "U"}}),
    ("x / 2", "x >> 1", SIGNED, {}),
    ("abs(x) < 0", "false", SIGNED, {}),
    ("neg(min(x, y))", "max(neg(x), neg(y))", INTEGERS, {}),
    ("abs(x - y)", "absdiff(x, y)", SIGNED, {}),
    ("cast<S>(cast<F>(x))", "x", frozenset({I32}), {}),
    ("x << n | x >> n", "rotl(x, n)", UNSIGNED, {"holes": {"n": U32}}),
]


@pytest.mark.parametrize(("before", "after", "types", "fields"), TRAPS, ids=[f"{b} = {a}" for b, a, _, _ in TRAPS])
def test_a_trap_is_refused_with_operands_that_show_it(
    before: str, after: str, types: frozenset[ScalarType], fields: dict[str, Any]
) -> None:
    for verdict in verdicts(before, after, types, **fields):
        found = verdict.counterexample
        assert found is not None, verdict
        assert not verdict.is_accepted
        assert "refuted" in str(verdict)
        assert found.types[""].bits in (32, 64), "a counterexample at a real width"
        shown = evaluate_counterexample(verdict)
        assert shown == (found.before, found.after)
        assert shown[0] != shown[1]


def evaluate_counterexample(verdict: Verdict) -> tuple[int, ...]:
    found = verdict.counterexample
    assert found is not None
    types = verdict.law.hole_types(verdict.dtype)
    return tuple(evaluated(side, types, found.values, SCALARS) for side in verdict.law.at(verdict.dtype))


TRUE: Final[list[tuple[str, str, frozenset[ScalarType], dict[str, Any]]]] = [
    ("0 / x", "0", SIGNED, {}),
    ("sat_add(sat_add(x, y), z)", "sat_add(x, sat_add(y, z))", UNSIGNED, {}),
    ("min(x, max(x, y))", "x", INTEGERS, {}),
    ("min(x, NAN)", "x", FLOATS, {}),
    ("x - 0.0", "x", FLOATS, {}),
    ("(x << a) << b", "x << (a + b)", INTEGERS, {**COUNTS, "where": "a < 4u and b < 4u"}),
    ("x / c", "x >> ctz(c)", UNSIGNED, {"where": "popcount(c) == 1"}),
]


@pytest.mark.parametrize(("before", "after", "types", "fields"), TRUE, ids=[f"{b} = {a}" for b, a, _, _ in TRUE])
def test_what_holds_is_accepted_and_tells_what_was_tried(
    before: str, after: str, types: frozenset[ScalarType], fields: dict[str, Any]
) -> None:
    for verdict in verdicts(before, after, types, **fields):
        assert verdict.is_accepted, verdict
        assert any(trial.is_exhaustive and trial.cases > 100 for trial in verdict.trials), verdict
        assert "holds for" in str(verdict)


def test_a_condition_that_nothing_satisfies_is_no_proof() -> None:
    (verdict,) = verdicts("x * c", "x", frozenset({U32}), where="c < 0")
    assert not verdict.is_refuted
    assert not verdict.is_accepted
    assert "no operands satisfy" in str(verdict)


def test_more_than_three_holes_are_sampled_and_said_to_be() -> None:
    (verdict,) = verdicts("(x + y) + (z + w)", "(x + z) + (y + w)", frozenset({U32}))
    model = verdict.trials[-1]
    assert verdict.is_accepted
    assert not model.is_exhaustive
    assert "random" in model.what


def test_what_differs_at_few_operands_only_is_found() -> None:
    """Each pair of these sides differs at one of 2^16 operands of the model, and rarely at the real width."""
    wrong = "select(x == 37 and y == 91, 0, x)"
    (verdict,) = verdicts(wrong, "x + y - y", frozenset({U32}))
    assert verdict.counterexample is not None
    assert verdict.counterexample.values == {"x": 37, "y": 91}
    (verdict,) = verdicts("select(x == y * z and x == 77, 1, x)", "x | 0 & y & z", frozenset({I32}))
    assert verdict.counterexample is not None


def test_the_checker_tells_which_operands_have_to_be_pure() -> None:
    (verdict,) = verdicts("x * 0 + y", "y", frozenset({U32}))
    assert verdict.use.pure == {"x"}
    (verdict,) = verdicts("x + y", "y + x", frozenset({U32}))
    assert verdict.use.reordered == {"x", "y"}


# ---------------------------------------------------------------- the model


def test_a_law_with_literals_of_many_bits_has_no_model() -> None:
    assert model_types(Law("a.law", "x & 1000", "1000 & x", frozenset({U32})), U32) is None
    assert model_types(Law("a.law", "x & -2", "-2 & x", frozenset({U32})), U32) is not None


@pytest.mark.parametrize("dtype", [U32, I32, F32], ids=lambda t: t.text)
def test_tables_hold_what_the_scalar_rules_give(dtype: ScalarType) -> None:
    models: dict[ScalarType, ValueType] = {U32: ScalarType.U8, I32: ScalarType.I8, F32: MINIFLOAT}
    small = models[dtype]
    algebra, source = TableAlgebra({dtype: small}), random.Random(5)
    values = all_values(small)
    for op, row in BINARY.items():
        if dtype in row.operands:
            made = algebra.binary(op, dtype, dtype, values.reshape(-1, 1), values)
            for _ in range(50):
                a, b = source.randrange(256), source.randrange(256)
                assert made[a, b] == scalar.binary(op, small, a, b), (op, a, b)
    for unary, unary_row in UNARY.items():
        if dtype in unary_row.operands and (dtype.is_integer or F64 in unary_row.operands):
            made = algebra.unary(unary, dtype, values)
            assert made.tolist() == [scalar.unary(unary, small, a) for a in range(256)]


def test_the_model_has_the_rules_of_real_widths() -> None:
    """An operand extended to a real width, or shifted to its high end, gives the extended or shifted result."""
    for wide, narrow in ((U32, ScalarType.U8), (I32, ScalarType.I8), (U64, ScalarType.U16), (I64, ScalarType.I16)):
        room, source = wide.bits - narrow.bits, random.Random(3)
        for op, row in BINARY.items():
            if wide not in row.operands or op.name not in HIGH:
                continue
            for _ in range(200):
                a, b = source.getrandbits(narrow.bits), source.getrandbits(narrow.bits)
                small, large = scalar.binary(op, narrow, a, b), scalar.binary(op, wide, a << room, b << room)
                assert large >> (0 if op.name in COMPARES else room) == small, (op, a, b)


COMPARES: Final = {"EQ", "NE", "LT", "GT", "LE", "GE"}
HIGH: Final = COMPARES | {
    *("ADD", "SUB", "BIT_AND", "BIT_OR", "BIT_XOR", "MIN", "MAX", "ABS_DIFF", "MOD"),
    "SATURATING_SUB",
}
"""Operators on integers that do the same at the high end of a wider type."""


@pytest.mark.parametrize("small", MODEL_FLOATS, ids=lambda t: t.text)
def test_small_floats_are_rounded_like_f32(small: ModelType) -> None:
    """The nearest small float is found by distance among all of them, ties to the even pattern."""
    form = scalar.float_format(small)
    finite = {bits: scalar._to_float(form, bits) for bits in range(form.infinity)}
    step = max(1, len(finite) // 100)
    for bits in list(finite)[:-1:step]:
        low, high = finite[bits], finite[bits + 1]
        even = bits if bits % 2 == 0 else bits + 1
        for number, nearest in ((low, bits), (high, bits + 1), ((low + high) / 2, even)):
            assert scalar._from_float(form, number) == nearest
            assert scalar._from_float(form, -number) == nearest | form.sign
        assert scalar._from_float(form, low + (high - low) * 0.49) == bits
    greatest = finite[form.infinity - 1]
    last_place = greatest - finite[form.infinity - 2]
    assert scalar._from_float(form, greatest + last_place * 0.49) == form.infinity - 1
    assert scalar._from_float(form, greatest + last_place * 0.5) == form.infinity
    assert scalar._from_float(form, float("nan")) == form.quiet_nan


# ---------------------------------------------------------------- the catalogue


@pytest.mark.parametrize("part", range(4))
def test_laws_of_the_catalogue_hold(part: int) -> None:
    """A part of the laws at one of their types; the test below has all of them at all types."""
    for law in LAWS[part::40]:
        dtype = sorted(law.types, key=lambda t: t.value)[part % len(law.types)]
        verdict = check(law, dtype)
        assert verdict.is_accepted, verdict


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_every_law_of_the_catalogue_holds_at_every_type(part: int) -> None:
    """A soak tries each law, other runs one in twelve; dialect-laws.json of the results tells what came of all."""
    for law in LAWS[part :: 20 if SOAK else 240]:
        for verdict in check_all(law):
            assert verdict.is_accepted, verdict
