"""Lints: what is noted about valid programs, and what is not; that they are right, and cost a dispatch nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre
from support.kernels import BARRIER, GID, LID, kernel, lit, op
from support.kernels import load as load_of
from support.profiles import examples
from support.programs import Case, Order, cases, generate
from support.running import run
from support.validation.watched_accesses import Access, WatchedEngine
from vyre import Program, ProgramBuilder, max_, u32
from vyre.domain.analysis.index_flow import survey
from vyre.domain.diagnostics import Diagnostic, Severity
from vyre.domain.ir.bits import integer_range
from vyre.domain.ir.expr import Expr, Literal
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Assign, If, Let, Return, Stmt, Store
from vyre.domain.ir.types import ScalarType as T
from vyre.domain.lints.catalogue import LINTS
from vyre.domain.numerics import scalar
from vyre.domain.validation.rules import RULES
from vyre.domain.validation.validator import check_rules, validate
from vyre.gallery.registry import MODULES, load
from vyre.testing.races import races

_HEAD = """
workgroup_size {size}
param n @0 u32
param a @6 i32
param q @7 u64
param h @8 f32
buffer x @1 read u32[runtime]
buffer tiny @2 read u8[runtime]
buffer y @3 read_write u32[runtime]
buffer four @4 read_write u32[4]
buffer out @5 write u32[runtime] like y
buffer tile @- workgroup u32[64]
buffer own @- private u32[64]
body {{
let i = gid.x
let l = lid.x
"""
_FIRST_LINE = _HEAD.count("\n") + 1


def program(body: str, size: str = "64, 1, 1") -> Program:
    """``body`` begins on line ``_FIRST_LINE`` of the text."""
    return Program.from_text(_HEAD.format(size=size) + body + "\nout[i] = 1u\n}")


class Row(NamedTuple):
    """A body with the one lint that it has, and a body close to it that has none."""

    code: str
    noted: str
    message: str
    silent: str


ROWS = (
    Row("L001", "if n < 0u { y[i] = 1u }", "`<` with 0 is always false for u32", "if n < 1u { y[i] = 1u }"),
    Row("L001", "if n >= 0u { y[i] = 1u }", "`>=` with 0 is always true for u32", "if n > 0u { y[i] = 1u }"),
    Row("L001", "if 0u > n { y[i] = 1u }", "`>` with 0 is always false for u32", "if 1u > n { y[i] = 1u }"),
    Row("L001", "if n > 0xffffffffu { y[i] = 1u }", "`>` with 4294967295 is always false for u32",
        "if n < 0xffffffffu { y[i] = 1u }"),
    Row("L001", "if n <= 0xffffffffu { y[i] = 1u }", "`<=` with 4294967295 is always true for u32",
        "if n >= 0xffffffffu { y[i] = 1u }"),
    Row("L001", "if a >= -2147483648i { y[i] = 1u }", "`>=` with -2147483648 is always true for i32",
        "if a >= 0i { y[i] = 1u }"),
    Row("L001", "if q < 0u64 { y[i] = 1u }", "`<` with 0 is always false for u64", "if q > 0u64 { y[i] = 1u }"),
    Row("L001", "if tiny[i] < 256u { y[i] = 1u }", "`<` with 256 is always true for u8",
        "if tiny[i] < 255u { y[i] = 1u }"),
    Row("L001", "if tiny[i] == 300u { y[i] = 1u }", "`==` with 300 is always false for u8",
        "if tiny[i] == 255u { y[i] = 1u }"),
    Row("L001", "if tiny[i] != 300u { y[i] = 1u }", "`!=` with 300 is always true for u8",
        "if x[i] != 300u { y[i] = 1u }"),
    Row("L001", "if h == f32(0x7fc00000) { y[i] = 1u }", "`==` with NaN is always false; `is_nan` asks for NaN",
        "if h == 0.0f { y[i] = 1u }"),
    Row("L002", "y[i] = max(x[i], 0u)", "`max` with 0 is always the other operand for u32", "y[i] = max(x[i], 1u)"),
    Row("L002", "y[i] = max(0u, n - 5u)", "`max` with 0 is always the other operand for u32",
        "y[i] = cast<u32>(max(0i, a - 5i))"),
    Row("L002", "y[i] = min(n, 0u)", "`min` with 0 is always 0 for u32", "y[i] = min(n, 1u)"),
    Row("L002", "y[i] = min(tiny[i], 255u)", "`min` with 255 is always the other operand for u8",
        "y[i] = min(x[i], 255u)"),
    Row("L002", "y[i] = max(tiny[i], 255u)", "`max` with 255 is always 255 for u8", "y[i] = max(x[i], 255u)"),
    Row("L002", "y[i] = abs(n)", "`abs` is always the other operand for u32".replace("other operand", "operand itself"),
        "y[i] = cast<u32>(abs(a))"),
    Row("L003", "y[0u] = i", "lanes that differ along x store their own values to one element of `y`", "y[i] = i"),
    Row("L003", "y[0u] = x[i]", "lanes that differ along x store their own values to one element of `y`", "y[0u] = n"),
    Row("L003", "y[wid.x] = l", "lanes that differ along x store their own values to one element of `y`",
        "if l == 0u { y[wid.x] = l }"),
    Row("L003", "if i < n { y[n] = i }", "lanes that differ along x store their own values to one element of `y`",
        "if i < 1u { y[n] = i }"),
    Row("L003", "if n < 9u { y[n] = i }", "lanes that differ along x store their own values to one element of `y`",
        "if x[i] == 7u { y[n] = i }"),
    Row("L003", "if i >= n { return } y[1u] = i",
        "lanes that differ along x store their own values to one element of `y`", "if i > 0u { return } y[1u] = i"),
    Row("L003", "if i != 0u { y[n] = i }", "lanes that differ along x store their own values to one element of `y`",
        "if i == 0u { y[n] = i }"),
    Row("L003", "for k in 0u .. n { y[k] = i }",
        "lanes that differ along x store their own values to one element of `y`",
        "for k in i .. n { y[k] = 1u }"),
    Row("L003", "y[i] = y[i + 1u]",
        "a lane stores to the element of `y` that the lane 1 before it along x loads", "y[i] = y[i] + x[i + 1u]"),
    Row("L003", "let t = y[i + 1u] y[i] = t",
        "a lane stores to the element of `y` that the lane 1 before it along x loads",
        "let t = y[2u * i + 1u] y[2u * i] = t"),
    Row("L003", "tile[l] = x[i] y[i] = tile[l + 1u]",
        "a lane stores to the element of `tile` that the lane 1 before it along x loads",
        "tile[l] = x[i] barrier(acq_rel) y[i] = tile[l + 1u]"),
    Row("L003", "if l < 32u { tile[l] = tile[l + 31u] }",
        "a lane stores to the element of `tile` that the lane 31 before it along x loads",
        "if l < 32u { tile[l] = tile[l + 32u] }"),
    Row("L003", "y[2u * i] = x[i] y[2u * i + 2u] = x[i]",
        "a lane stores to the element of `y` that the lane 1 further on along x stores to",
        "y[2u * i] = x[i] y[2u * i + 1u] = x[i]"),
    Row("L005", "y[i] = x[0xffffffffu]", "a load beyond the last element of `x`, whatever its length is, gives 0",
        "y[i] = x[0xfffffffeu]"),
    Row("L005", "y[i] = x[len(x)]", "a load beyond the last element of `x`, whatever its length is, gives 0",
        "y[i] = x[len(x) - 1u]"),
    Row("L005", "y[i] = x[0u - 1u]", "a load beyond the last element of `x`, whatever its length is, gives 0",
        "y[i] = x[0u - n]"),
    Row("L005", "y[i] = four[4u]", "a load beyond the last element of `four`, which has 4, gives 0",
        "y[i] = four[3u]"),
    Row("L005", "y[i] = tile[l + 64u]", "a load beyond the last element of `tile`, which has 64, gives 0",
        "y[i] = tile[l + 63u]"),
    Row("L005", "four[l + 4u] = 1u", "a store beyond the last element of `four`, which has 4, never happens",
        "four[l + 3u] = 1u"),
    Row("L005", "let o = atomic_add(four, l + 4u, 1u)",
        "an atomic beyond the last element of `four`, which has 4, changes nothing",
        "let o = atomic_add(four, l, 1u)"),
    Row("L005", "if i >= len(x) { y[i] = x[i] }",
        "a load beyond the last element of `x`, whatever its length is, gives 0", "if i < len(x) { y[i] = x[i] }"),
    Row("L006", "if i < n { }", "this `if` has no statement", "if i < n { } else { y[i] = 1u }"),
    Row("L006", "for k in 0u .. n { }", "the loop over `k` has no statement", "for k in 0u .. n { y[i] = k }"),
    Row("L007", "y[i] = n << 32u", "`<<` by 32 shifts by 0 for u32", "y[i] = n << 31u"),
    Row("L007", "y[i] = cast<u32>(a >> 33u)", "`>>` by 33 shifts by 1 for i32", "y[i] = cast<u32>(a >> n)"),
    Row("L007", "y[i] = cast<u32>(q >> 64u)", "`>>` by 64 shifts by 0 for u64", "y[i] = cast<u32>(q >> 32u)"),
    Row("L008", "if true { y[i] = 1u }", "the condition of this `if` is true", "if spec(c, true) { y[i] = 1u }"),
    Row("L008", "y[i] = select(false, n, 1u)", "the condition of this `select` is false",
        "y[i] = select(spec(c, false), n, 1u)"),
    Row("L009", "let v = n v := v y[i] = v", "`v` is assigned to itself", "let v = n v := v + 1u y[i] = v"),
    Row("L010", "y[i] = cast<u32>(h / 0.0f)", "every quotient by 0.0 is infinite or NaN",
        "y[i] = cast<u32>(h / 1.0f)"),
    Row("L010", "y[i] = cast<u32>(h / -0.0f)", "every quotient by -0.0 is infinite or NaN",
        "y[i] = cast<u32>(-0.0f / h)"),
    Row("L011", "for k in 4u .. 4u { y[i] = k }", "the loop over `k` from 4 to 4 never runs",
        "for k in 4u .. 5u { y[i] = k }"),
    Row("L011", "for k in 4i .. 2i step 1i { y[i] = 1u }", "the loop over `k` from 4 to 2 never runs",
        "for k in 4i .. 2i step -1i { y[i] = 1u }"),
    Row("L011", "for k in -2i .. 2i step -1i { y[i] = 1u }", "the loop over `k` from -2 to 2 by -1 never runs",
        "for k in -2i .. 2i step 1i { y[i] = 1u }"),
    Row("L011", "for k in 7u64 .. 7u64 step q { y[i] = 1u }", "the loop over `k` from 7 to 7 never runs",
        "for k in 7i64 .. 6i64 step cast<i64>(q) { y[i] = 1u }"),
    Row("L001", "switch tiny[i] { case 255u, 256u { y[i] = 1u } }", "the label 256 never matches a value of u8",
        "switch x[i] { case 255u, 256u { y[i] = 1u } }"),
    Row("L003", "switch n { case 5u { y[n] = i } }",
        "lanes that differ along x store their own values to one element of `y`",
        "switch x[i] { case 5u { y[n] = i } }"),
    Row("L003", "switch n { case 1u { return } case 2u { y[i + 9u] = 1u } } y[n] = i",
        "lanes that differ along x store their own values to one element of `y`",
        "switch i { case 0u { } else { return } } y[n] = i"),
    Row("L003", "if i < 1u { return } else if n < 8u { y[n] = i }",
        "lanes that differ along x store their own values to one element of `y`",
        "if i >= 1u { return } else if n < 8u { y[n] = i }"),
    Row("L006", "switch n { case 1u { } }", "this `switch` has no statement", "switch n { case 1u { y[i] = 1u } }"),
    Row("L006", "if n < 1u { y[i] = 1u } else if n < 2u { }", "this `if` has no statement",
        "if n < 1u { y[i] = 1u } else if n < 2u { y[i] = 2u }"),
    Row("L008", "switch 1u { case 1u { y[i] = 1u } }", "the selector of this `switch` is 1",
        "switch spec(c, 1u) { case 1u { y[i] = 1u } }"),
    Row("L008", "if n < 1u { y[i] = 1u } else if true { y[i] = 2u }", "the condition of this `if` is true",
        "if n < 1u { y[i] = 1u } else { y[i] = 2u }"),
    Row("L013", "y[i] = n / 0u", "the divisor of `/` is the literal 0", "y[i] = n / spec(c, 0u)"),
    Row("L013", "y[i] = n % cast<u32>(0i)", "the divisor of `%` is the literal 0",
        "y[i] = n % cast<u32>(0.0f)"),
    Row("L013", "y[i] = cast<u32>(q / 0u64)", "the divisor of `/` is the literal 0", "y[i] = cast<u32>(q / 1u64)"),
)  # fmt: skip
_ROWS = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.code} {row.noted}")


@_ROWS
def test_a_lint_is_noted_at_its_line_and_its_near_twin_is_not(row: Row) -> None:
    report = validate(program(row.noted))
    (lint,) = report.lints
    assert (lint.code, lint.message, lint.severity) == (row.code, row.message, Severity.NOTE)
    assert lint.fix == LINTS[row.code].fix
    assert lint.loc is not None and lint.loc.line == _FIRST_LINE
    assert validate(program(row.silent)).lints == ()


@_ROWS
def test_a_lint_makes_no_program_invalid_and_is_no_part_of_the_rules(row: Row) -> None:
    made = program(row.noted)
    report = validate(made)
    assert report.ok and report.lints[0] in report.diagnostics
    assert report.render().count(f"note[{row.code}]") == 1
    assert report.to_json()["lints"] == [report.lints[0].to_json()]
    rules = check_rules(made)
    assert rules.lints == () and rules.notes == report.notes and rules.warnings == report.warnings
    report.raise_if_invalid()


def test_an_output_that_is_never_written_is_noted() -> None:
    def output(store: str) -> tuple[Diagnostic, ...]:
        text = "workgroup_size 8, 1, 1\nbuffer y @0 write u32[8]\nbuffer z @1 write u32[8]\n"
        return validate(Program.from_text(f"{text}body {{ y[gid.x] = 1u {store} }}")).lints

    (lint,) = output("")
    assert (lint.code, lint.message) == ("L012", "nothing stores to the output `z`")
    assert lint.loc is not None and lint.loc.line == 3
    assert output("z[gid.x] = 1u") == ()
    assert validate(Program.from_text("workgroup_size 8, 1, 1\nbuffer z @1 write u32[8]\nbody { }")).lints == ()
    with ProgramBuilder("counted", workgroup=8) as p:
        p.output("z", u32, 1).atomic_add(0, 1)
    assert validate(p.build()).lints == ()


def test_every_lint_has_a_row_and_a_place_in_the_catalogue() -> None:
    assert {row.code for row in ROWS} | {"L012"} == set(LINTS)
    assert not set(LINTS) & set(RULES)
    page = (Path(__file__).parents[3] / "docs" / "validation.md").read_text("utf-8")
    for code, lint in LINTS.items():
        assert f"## {code}: {lint.title}\n" in page
        assert lint.checks in page and f"**Fix:** {lint.fix}\n" in page


def test_only_valid_programs_are_looked_at_for_lints() -> None:
    made = program("y[i] = max(n, 0u) y[i] = missing")
    report = validate(made)
    assert [found.code for found in report.errors] == ["V107"]
    assert report.lints == ()


def test_lints_come_in_program_order_and_each_once() -> None:
    made = program("y[0u] = max(i, 0u)\nfor k in 0u .. 3u {\ny[i] = max(k, 0u)\ny[i] = max(k, 0u) }\nif n < 0u { }")
    found = [(lint.code, lint.loc.line - _FIRST_LINE) for lint in validate(made).lints if lint.loc is not None]
    assert found == [("L002", 0), ("L003", 0), ("L002", 2), ("L002", 3), ("L001", 4), ("L006", 4)]


def test_the_builder_s_user_is_shown_their_line() -> None:
    with ProgramBuilder("clamped", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like="x")
        i = p.global_id()
        line = sys._getframe().f_lineno + 1
        y[i] = max_(x[i] - 1, 0)
    (lint,) = vyre.validate(p.build()).lints
    assert lint.code == "L002" and lint.loc is not None
    assert (lint.loc.file, lint.loc.line) == (__file__, line)
    assert f"{__file__}:{line}" in str(lint)


# ---------------------------------------------------------------- they are right
def test_the_gallery_has_only_the_lints_it_is_about() -> None:
    found = {module: [lint.code for lint in validate(load(module).program()).lints] for module in MODULES}
    assert {module: codes for module, codes in found.items() if codes} == {
        "basics.p26_scopes": ["L011", "L011"]  # loops without rounds are among what it shows
    }


@pytest.mark.parametrize("order", [Order.INDEPENDENT, Order.ATOMIC])
def test_no_race_is_noted_where_there_is_none(order: Order) -> None:
    for seed in range(60):
        assert "L003" not in codes_of(generate(seed, order=order).program), seed


@pytest.mark.thorough
@examples(150)
@given(case=cases())
def test_no_race_is_noted_in_a_program_without_any(case: Case) -> None:
    assert "L003" not in codes_of(case.program)


@pytest.mark.parametrize("row", [row for row in ROWS if row.code == "L003"], ids=lambda row: row.noted)
def test_what_is_noted_as_a_race_is_one(row: Row) -> None:
    """A run of many lanes meets it, on the buffer that the note names; the near twin's run meets none."""
    words = np.arange(64, dtype=np.uint32)
    inputs: dict[str, Any] = {"n": 5, "a": 1, "q": 1, "h": 1.0, "x": words, "tiny": words.astype(np.uint8)}
    for body, is_race in ((row.noted, True), (row.silent, False)):
        made = program(body)
        named = {buffer.name for buffer in made.buffers if f"`{buffer.name}`" in row.message}
        report = races(made, {**inputs, "y": np.zeros(200, np.uint32), "four": np.zeros(4, np.uint32)})
        assert bool({race.buffer for race in report.races} & named) is is_race


@pytest.mark.parametrize("body", ["own[0u] = i", "own[l] = own[l + 1u]", "own[n] = 1u own[n + 1u] = 2u"])
def test_private_memory_never_races(body: str) -> None:
    assert validate(program(f"{body} y[i] = own[n]")).lints == ()


@pytest.mark.parametrize(
    ("size", "body", "axes"),
    [
        ("8, 8, 1", "y[i] = lid.y", ["y"]),
        ("8, 8, 1", "y[gid.y * n + i] = lid.y + l", []),
        ("8, 8, 1", "y[gid.y * n + i] = y[gid.y * n + i + 1u]", ["x"]),
        ("8, 8, 1", "y[gid.y * 8u + i] = y[gid.y * 8u + i + 8u]", ["y"]),
        ("1, 8, 1", "y[i] = lid.y", ["y"]),
        ("1, 1, 8", "y[i] = lid.z", ["z"]),
        ("1, 1, 1", "y[i] = l", []),
        ("1, 1, 1", "y[0u] = l", []),
        ("8, 8, 1", "if lid.y == 0u { y[gid.x] = lid.y }", []),
    ],
)
def test_races_are_seen_along_every_axis(size: str, body: str, axes: list[str]) -> None:
    found = [
        lint.message for lint in validate(program(body, size)).lints if lint.code == "L003" and "`y`" in lint.message
    ]
    assert [message.split(" along ")[1][0] for message in found] == axes


def test_a_store_that_occurs_at_two_places_is_not_noted_for_the_wrong_one() -> None:
    shared = Store("sh", LID, load_of("sh", op(BinaryOp.ADD, LID, lit(32))))
    narrow = If(op(BinaryOp.LT, LID, lit(32)), (shared,))
    assert codes_of(kernel(narrow, BARRIER, narrow, BARRIER)) == set()
    assert codes_of(kernel(shared)) == {"L003"}
    assert codes_of(kernel(narrow, BARRIER, If(op(BinaryOp.EQ, LID, lit(9)), (Return(),)), shared)) == set()


class _Outside:
    """Fails where an access that is noted as out of range touches an element."""

    tracer = None
    noted = 0

    def __init__(self, made: Program) -> None:
        self._absent = survey(made).absent
        self._program = made  # no other object is taken for one of its nodes as long as it exists

    def access(self, node: Access, index: int, count: int, /) -> None:
        if self._absent.get(id(node), False):
            _Outside.noted += 1
            assert not 0 <= index < count, f"{node!r} touches element {index} of {count}"


def test_accesses_noted_as_out_of_range_touch_nothing() -> None:
    _Outside.noted = 0
    for seed in range(60):
        run(WatchedEngine(_Outside), generate(seed, order=Order.RACY))
    assert _Outside.noted > 100


_INTEGERS = (T.U32, T.I32, T.U64, T.I64)
_COMPARISONS = (BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE, BinaryOp.EQ, BinaryOp.NE)


@st.composite
def _with_literal(draw: st.DrawFn) -> tuple[T, int]:
    dtype = draw(st.sampled_from(_INTEGERS))
    low, high = integer_range(dtype)
    return dtype, draw(st.sampled_from([low, low + 1, 0, 1, high - 1, high]) | st.integers(low, high))


@examples(100)
@given(
    operand=_with_literal(), operator=st.sampled_from((*_COMPARISONS, BinaryOp.MIN, BinaryOp.MAX)), left=st.booleans()
)
def test_an_operator_is_noted_exactly_if_its_operand_cannot_matter(
    operand: tuple[T, int], operator: BinaryOp, left: bool
) -> None:
    """Told by the values at the ends of the type and around the literal, between which nothing else happens."""
    dtype, number = operand
    low, high = integer_range(dtype)
    literal = Literal.of(dtype, number)
    others = [Literal.of(dtype, n) for n in {low, high, number - 1, number, number + 1} if low <= n <= high]
    results = [
        scalar.binary(operator, dtype, *((literal.bits, x.bits) if left else (x.bits, literal.bits))) for x in others
    ]
    never_matters = len(set(results)) == 1
    has_no_effect = operator not in _COMPARISONS and results == [other.bits for other in others]
    source = {T.U32: "n", T.I32: "a", T.U64: "q", T.I64: "cast<i64>(a)"}[dtype]
    text = {T.U32: f"{number}u", T.I32: f"{number}i", T.U64: f"{number}u64", T.I64: f"{number}i64"}[dtype]
    word = {BinaryOp.MIN: "min", BinaryOp.MAX: "max"}.get(operator)
    infix = {
        BinaryOp.LT: "<",
        BinaryOp.LE: "<=",
        BinaryOp.GT: ">",
        BinaryOp.GE: ">=",
        BinaryOp.EQ: "==",
        BinaryOp.NE: "!=",
    }
    first, second = (text, source) if left else (source, text)
    written = f"{word}({first}, {second})" if word else f"{first} {infix[operator]} {second}"
    codes = codes_of(program(f"let v = {written} y[i] = cast<u32>(v)"))
    assert bool(codes & {"L001", "L002"}) is (never_matters or has_no_effect)


def codes_of(made: Program) -> set[str]:
    return {lint.code for lint in validate(made).lints}


# ---------------------------------------------------------------- they cost a dispatch nothing
def test_a_session_never_looks_for_lints(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Program] = []

    def watched(made: Program) -> tuple[Diagnostic, ...]:
        asked.append(made)
        return ()

    monkeypatch.setattr("vyre.domain.lints.checker.find_lints", watched)
    with ProgramBuilder("doubled", workgroup=8) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = max_(y[p.global_id()], 0)
    made = p.build()
    with vyre.open("cuda-machine") as session:
        session.dispatch(made, {"y": np.zeros(8, np.uint32)})
        assert asked == []
        session.validate(made)
        assert asked == [made]


def test_deep_and_shared_expressions_and_long_runs_of_accesses_are_walked_through() -> None:
    value: Expr = GID
    for _ in range(100):
        value = op(BinaryOp.ADD, value, op(BinaryOp.MAX, GID, lit(0)))
    body: list[Stmt] = [Let("v", lit(0)), *(Assign("v", op(BinaryOp.ADD, value, lit(k))) for k in range(200))]
    assert {lint.code for lint in validate(kernel(*body)).lints} == {"L002"}
    assert validate(program("".join(f"y[i * 4000u + {k}u] = x[i]\n" for k in range(4000)))).lints == ()


def test_no_fix_that_authors_of_kernels_in_python_get_speaks_of_the_builder() -> None:
    kernels_can_get = [*LINTS.values(), RULES["V019"], RULES["V033"]]
    assert [rule.code for rule in kernels_can_get if re.search(r"`let`|\bp\.", rule.fix)] == []
