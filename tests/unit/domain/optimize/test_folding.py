"""Constant folding: the values come from the rules of one lane, and identities that are no laws of floats are left."""

from __future__ import annotations

from collections import Counter

import pytest

from support.optimizer.pass_texts import after, is_kept, lines, program_of
from vyre.domain.ir.expr import Binary, Expr, Literal, SpecConst, Unary
from vyre.domain.ir.operators import BINARY, UNARY, BinaryOp, RightOperand, UnaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.optimize.folding import FOLDING

X = "data[gid.x]"
R = "reals[gid.x]"


def folded(expr: str, to: str = "out") -> str:
    """What an expression that is stored becomes."""
    return after(f"{to}[gid.x] = {expr}", FOLDING).removeprefix(f"{to}[gid.x] = ")


@pytest.mark.parametrize(
    ("expr", "made"),
    [
        ("3u + 4294967295u", "2u"),
        ("7u / 0u", "0xffffffffu"),
        ("select(1u < 2u, 5u, data[0u])", "5u"),
        ("cast<u32>(3.75f)", "3u"),
        ("bitcast<u32>(1.0f)", "0x3f800000u"),
        ("pack<f16>(65520.0f)", "31744u"),
        ("narrow<u8>(511u)", "255u"),
        ("bitcast<u32>(unpack<bf16>(16256u))", "0x3f800000u"),
        ("wrap_cast<u32>(-1.0f)", "0xffffffffu"),
        ("cast<u32>(fma(2.0f, 3.0f, 4.0f))", "10u"),
        ("popcount(255u) + clz(1u)", "39u"),
        ("cast<u32>(sin(0.0f))", "0u"),
        ("len(input) + len(shared)", "20u"),
        ("len(any)", "len(any)"),
        ("subgroup_size() + 1u", "33u"),
    ],
)
def test_operators_on_literals(expr: str, made: str) -> None:
    assert folded(expr) == made


@pytest.mark.parametrize(
    ("expr", "made"),
    [
        (f"{X} + 0u", X),
        (f"0u + {X}", X),
        (f"mulhi(0u, {X})", "0u"),
        (f"0u - {X}", f"0u - {X}"),
        (f"1u * {X}", X),
        (f"{X} / 1u", X),
        (f"1u / {X}", f"1u / {X}"),
        (f"{X} << 32u", X),
        (f"rotl({X}, 64u)", X),
        (f"{X} << 33u", f"{X} << 33u"),
        (f"{X} & 4294967295u", X),
        (f"{X} & 0u", "0u"),
        (f"{X} | 4294967295u", "0xffffffffu"),
        (f"{X} % 1u", "0u"),
        (f"min({X}, 4294967295u)", X),
        (f"min({X}, 0u)", "0u"),
        (f"max({X}, 4294967295u)", "0xffffffffu"),
        (f"sat_mul({X}, 1u)", X),
        (f"sat_sub(0u, {X})", f"sat_sub(0u, {X})"),
        (f"cast<u32>({X} < 3u and true)", f"cast<u32>({X} < 3u)"),
        (f"cast<u32>({X} < 3u or true)", "1u"),
        (f"cast<u32>(({X} < 3u) != true)", f"cast<u32>(not({X} < 3u))"),
        (f"cast<u32>(not(not({X} < 3u)))", f"cast<u32>({X} < 3u)"),
        (f"select({X} < 3u, gid.x, gid.x)", f"select({X} < 3u, gid.x, gid.x)"),
        (f"select({X} < 3u, 7u, 7u)", "7u"),
        (f"cast<u32>(cast<i32>({X}))", X),
        (f"cast<u32>(cast<u64>(cast<i32>({X})))", X),
        (f"cast<u32>(cast<f32>({X}))", f"cast<u32>(cast<f32>({X}))"),
        (f"bitcast<u32>({X})", X),
    ],
)
def test_identities(expr: str, made: str) -> None:
    assert folded(expr) == made


@pytest.mark.parametrize(
    ("expr", "made"),
    [
        (f"{R} + 0.0f", f"{R} + 0.0f"),
        (f"{R} + -0.0f", R),
        (f"{R} - 0.0f", R),
        (f"{R} - -0.0f", f"{R} - -0.0f"),
        (f"{R} * 1.0f", R),
        (f"{R} * 0.0f", f"{R} * 0.0f"),
        (f"min({R}, 0.0f)", f"min({R}, 0.0f)"),
        ("0.1f + 0.2f", "0.3f"),
        ("1.0f / 0.0f", "f32(0x7f800000)"),
    ],
)
def test_floats(expr: str, made: str) -> None:
    assert folded(expr, "reals") == made


def test_operands_with_effects_stay() -> None:
    assert is_kept("out[0u] = atomic_add(count, 0u, 1u) * 0u", [FOLDING])
    assert is_kept("let a = (subgroup_add(lid.x) & 0u) + lid.x", [FOLDING])
    assert is_kept("let a = select(true, 1u, atomic_add(count, 0u, 1u))", [FOLDING])
    assert after("let a = atomic_add(count, 0u, 1u) + (2u * 3u)", FOLDING) == "let a = atomic_add(count, 0u, 1u) + 6u"


def test_a_literal_that_breaks_a_rule_is_not_written() -> None:
    assert is_kept("out[8u + 8u] = 1u", [FOLDING])
    assert is_kept("for i in 0u .. 4u step 1u - 1u {\n  out[i] = 1u\n}", [FOLDING])
    assert after("out[8u + 7u] = 1u", FOLDING) == "out[15u] = 1u"


def test_conditions_and_bounds_are_folded() -> None:
    made = after(
        "if 1u < 2u {\n  out[0u] = 1u\n} else if 1u == 2u {\n  out[1u] = 1u\n}\n"
        "for i in 0u + 1u .. 2u * 2u {\n  out[i] = i + 0u\n}\n"
        "switch 1u + 1u {\n  case 2u {\n    out[5u] = 2u - 1u\n  }\n}",
        FOLDING,
    )
    assert made == lines(
        "if true {",
        "out[0u] = 1u",
        "} else if false {",
        "out[1u] = 1u",
        "}",
        "for i in 1u .. 4u {",
        "out[i] = i",
        "}",
        "switch 2u {",
        "case 2u {",
        "out[5u] = 1u",
        "}",
        "}",
    )


def test_what_was_done_is_counted_and_places_are_kept() -> None:
    program = program_of("out[0u] = (1u + 2u) + 0u\nout[1u] = gid.x + 0u")
    counts: Counter[str] = Counter()
    made = FOLDING.run(program, counts)
    assert counts == {"folded": 2, "simplified": 1}
    (store, _), (old, _) = made.body, program.body
    assert isinstance(store, Store) and isinstance(old, Store)
    assert store.loc == old.loc is not None
    assert store.value.loc == old.value.loc is not None


BITS = (0, 1, 2, 31, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x7F80_0001, 0x3F80_0000, 0x7FFF_FFFF_FFFF_FFFF, 1 << 63)


def written(value: Expr, dtype: ScalarType) -> Expr:
    """The value of a store after folding."""
    buffer = Buffer.make("y", 0, Access.WRITE_ONLY, dtype, 1)
    made = FOLDING.run(Program((buffer,), (1, 1, 1), (Store("y", Literal.of(ScalarType.U32, 0), value),)), Counter())
    (store,) = made.body
    assert isinstance(store, Store)
    return store.value


@pytest.mark.parametrize("op", BinaryOp)
def test_every_binary_operator_is_what_the_rules_of_a_lane_say(op: BinaryOp) -> None:
    row = BINARY[op]
    for dtype in row.operands:
        for a in BITS:
            for b in BITS:
                left, right = (Literal(dtype, bits & _mask(dtype)) for bits in (a, b))
                right = Literal(ScalarType.U32, b & 31) if row.right is RightOperand.SHIFT and a & 1 else right
                found = written(Binary(op, left, right), dtype)
                assert isinstance(found, Literal)
                assert found.bits == scalar.binary(op, dtype, left.bits, right.bits)


@pytest.mark.parametrize("op", UnaryOp)
def test_every_unary_operator_is_what_the_rules_of_a_lane_say(op: UnaryOp) -> None:
    for dtype in UNARY[op].operands:
        for bits in BITS:
            operand = Literal(dtype, bits & _mask(dtype))
            found = written(Unary(op, operand), dtype)
            assert isinstance(found, Literal) and found.bits == scalar.unary(op, dtype, operand.bits)


def _mask(dtype: ScalarType) -> int:
    return 1 if dtype is ScalarType.BOOL else (1 << dtype.bits) - 1


@pytest.mark.parametrize("op", BinaryOp)
def test_operators_with_one_literal_operand_keep_their_value(op: BinaryOp) -> None:
    """Whatever identity is used for ``x op c`` or ``c op x``, it holds for boundary values of x."""
    row = BINARY[op]
    for dtype in row.operands:
        constants = {0, 1, _mask(dtype), _mask(dtype) >> 1, (_mask(dtype) >> 1) + 1, 0x3F80_0000, 0x3FF << 52}
        for bits in constants:
            literal = Literal(dtype, bits & _mask(dtype))
            for value in BITS:
                hidden = Literal(dtype, value & _mask(dtype))
                for left in (True, False):
                    _check_identity(op, dtype, literal, hidden, left=left)


def _check_identity(op: BinaryOp, dtype: ScalarType, literal: Literal, hidden: Literal, *, left: bool) -> None:
    unknown = SpecConst("x", hidden)
    made = written(Binary(op, *((literal, unknown) if left else (unknown, literal))), dtype)
    pair = (literal.bits, hidden.bits) if left else (hidden.bits, literal.bits)
    expected = scalar.binary(op, dtype, *pair)
    if isinstance(made, Literal):
        assert made.bits == expected
    elif made is unknown:
        assert scalar.canonical(dtype, hidden.bits) == scalar.canonical(dtype, expected)
    elif isinstance(made, Unary):
        assert made.operand is unknown and scalar.unary(made.op, dtype, hidden.bits) == expected
