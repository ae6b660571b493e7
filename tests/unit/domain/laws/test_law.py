"""``Law``: texts become expressions of one type, and malformed ones are refused with what and a fix."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.law import Law
from vyre.domain.errors import InvalidField, MalformedText
from vyre.domain.ir.expr import Binary, Expr, Literal, Var, walk
from vyre.domain.ir.operators import ANY_TYPE, BINARY, FLOATS, INTEGERS, UNARY, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType

U32, I32, U64, I64, F32, F64 = (
    *(ScalarType.U32, ScalarType.I32, ScalarType.U64),
    *(ScalarType.I64, ScalarType.F32, ScalarType.F64),
)


def law(before: str, after: str, types: frozenset[ScalarType] = INTEGERS, **fields: Any) -> Law:
    return Law("a.law", before, after, types, **fields)


@pytest.mark.parametrize("dtype", [U32, I32, U64, I64])
def test_a_number_without_suffix_takes_the_type_of_the_law_modulo_its_width(dtype: ScalarType) -> None:
    before, after = law("x + -1", "x - 1").at(dtype)
    assert before == Binary(BinaryOp.ADD, Var("x"), Literal(dtype, (1 << dtype.bits) - 1))
    assert after == Binary(BinaryOp.SUB, Var("x"), Literal(dtype, 1))


def test_numbers_of_floats_have_a_point() -> None:
    for dtype in FLOATS:
        assert law("x * -0.5", "x", FLOATS).at(dtype)[0] == Binary(BinaryOp.MUL, Var("x"), Literal.of(dtype, -0.5))
    with pytest.raises(MalformedText, match="floats with a point"):
        law("x * 1", "x", FLOATS).at(F32)
    with pytest.raises(MalformedText, match="whole numbers"):
        law("x * 1.0", "x").at(U32)


def test_constant_parts_are_one_literal() -> None:
    before, after = law("x >> WIDTH - 1", "x << WIDTH_U32 - 1u").at(U64)
    assert before == Binary(BinaryOp.SHR, Var("x"), Literal(U64, 63))
    assert after == Binary(BinaryOp.SHL, Var("x"), Literal(U32, 63))


def test_named_constants_are_those_of_the_type() -> None:
    made = law("min(x, MIN) + MAX", "x")
    found = {dtype: [n.bits for n in walk(made.at(dtype)[0]) if isinstance(n, Literal)] for dtype in (I32, U32)}
    assert found == {I32: [1 << 31, (1 << 31) - 1], U32: [0, (1 << 32) - 1]}


def test_related_types_have_the_width_of_the_law() -> None:
    made = law("bitcast<T>(bitcast<U>(x))", "x", frozenset({I64, F32}))
    assert "u64" in repr(made.at(I64)[0])
    assert "u32" in repr(made.at(F32)[0])


def test_holes_have_the_type_of_the_law_or_their_own() -> None:
    made = law("x << n", "x", holes={"n": U32})
    assert made.hole_types(I64) == {"x": I64, "n": U32}
    assert law("bitcast<T>(y) + x", "x", holes={"y": "U"}).hole_types(I64) == {"y": U64, "x": I64}


def test_conditions_are_about_constant_holes() -> None:
    made = law("x * c", "x << ctz(c)", where="popcount(c) == 1")
    assert made.constant_holes == {"c"}
    assert [made.holds_for(I32, {"c": c}) for c in (0, 1, 3, 8, 1 << 31)] == [False, True, False, True, True]
    assert law("x", "x").holds_for(I32, {})


@pytest.mark.parametrize(
    ("before", "after", "dropped", "copied", "repeated", "reordered"),
    [
        ("x + 0", "x", "", "", "", ""),
        ("x + y", "y + x", "", "", "", "xy"),
        ("(x + y) + z", "x + (y + z)", "", "", "", ""),
        ("x * 0", "0", "x", "", "", ""),
        ("x & x", "x", "x", "", "x", ""),
        ("x * 2", "x + x", "", "x", "", ""),
        ("x * (y + z)", "x * y + x * z", "", "x", "", ""),
    ],
)
def test_what_a_law_does_with_its_operands(
    before: str, after: str, dropped: str, copied: str, repeated: str, reordered: str
) -> None:
    use = law(before, after).use
    assert use == tuple(map(frozenset, (dropped, copied, repeated, reordered)))


@pytest.mark.parametrize(
    ("before", "after", "fields", "problem"),
    [
        ("x +", "x", {}, "expected an expression"),
        ("x x", "x", {}, "expected the end of the expression"),
        ("x + 1.5f", "x", {}, "operands do not fit for u32"),
        ("x < y", "x", {}, "u32, where `before` is bool"),
        ("x", "x + y", {}, "`y` is no hole"),
        ("x + y", "x", {"both_ways": True}, "does not bind every hole"),
        ("x * c", "x", {"where": "c + 1"}, "the condition is u32, not bool"),
        ("x * c", "x", {"where": "d == 1"}, "`d` is no hole"),
        ("x + GREATEST", "x", {}, "unknown constant `GREATEST`"),
        ("data[x]", "x", {}, "no operator on values"),
        ("atomic_add(data, 0u, x)", "x", {}, "no operator on values"),
        ("x + $", "x", {}, "character"),
    ],
)
def test_malformed_texts_are_refused(before: str, after: str, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(MalformedText) as caught:
        law(before, after, frozenset({U32}), **fields).validate()
    assert problem in str(caught.value)
    assert "Fix: " in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "Add"},
        {"before": 1},
        {"types": frozenset()},
        {"types": frozenset({ScalarType.U8})},
        {"holes": {"N": U32}},
        {"holes": {"n": "V"}},
        {"where": 1},
    ],
)
def test_malformed_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="Fix: pass"):
        Law(**({"name": "a.law", "before": "x", "after": "x", "types": INTEGERS} | fields))


def test_a_law_is_asked_for_its_own_types_only() -> None:
    with pytest.raises(InvalidField, match="a type of the law"):
        law("x", "x").at(F32)


# ---------------------------------------------------------------- the catalogue


def test_every_law_of_the_catalogue_can_be_read() -> None:
    for found in LAWS:
        found.validate()
    assert [name for name, count in Counter(found.name for found in LAWS).items() if count > 1] == []
    assert len(LAWS) > 900


def test_every_operator_has_a_law_for_every_type() -> None:
    seen: set[tuple[object, ScalarType]] = set()
    for found in LAWS:
        for dtype in found.types:
            seen |= {(node.op, dtype) for node in _nodes(found, dtype) if hasattr(node, "op")}
    wanted: set[tuple[object, ScalarType]] = {(op, t) for op, row in BINARY.items() for t in row.operands}
    wanted |= {(op, t) for op, row in UNARY.items() for t in row.operands if op not in WITHOUT_LAWS}
    assert wanted - seen == set()
    assert {dtype for _, dtype in seen} == ANY_TYPE


WITHOUT_LAWS = {UnaryOp.ACOS, UnaryOp.EXP, UnaryOp.EXP2, UnaryOp.LOG, UnaryOp.LOG2}
"""Functions of which no law holds to the bit."""


def _nodes(found: Law, dtype: ScalarType) -> list[Expr]:
    return [node for side in found.at(dtype) for node in walk(side)]
