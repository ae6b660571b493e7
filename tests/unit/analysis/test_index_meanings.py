"""What expressions mean as index values, and what follows from conditions."""

from __future__ import annotations

from typing import Final

import pytest

from support.kernels import add, less, lit, op, var
from vyre.domain.analysis import index_meanings
from vyre.domain.analysis.index_meanings import Meanings, Version
from vyre.domain.analysis.index_proofs import Fact
from vyre.domain.analysis.index_values import SELECT, U32_MAX, Value
from vyre.domain.ir.buffers import MemoryKind
from vyre.domain.ir.expr import (
    Atomic,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Load,
    Select,
    SpecConst,
    SubgroupBallot,
    SubgroupLane,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
)
from vyre.domain.ir.operators import AtomicOp, BinaryOp, SubgroupOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, Dim3
from vyre.domain.ir.types import ScalarType, bool_, f32, i32, u8, u16, u32, u64

B: Final = BinaryOp
LEVELS: Final = 40
"""Operators that a value is followed through."""
TERMS: Final = 64
"""Parts of a condition that are looked at."""
BUFFERS: Final = {
    buffer.name: buffer
    for buffer in (
        Buffer.make("words", 0, Access.READ_WRITE, u32),
        Buffer.make("bytes", 1, Access.READ_ONLY, u8),
        Buffer.make("halves", 2, Access.READ_ONLY, u16),
        Buffer.make("signed", 3, Access.READ_WRITE, i32),
        Buffer.make("floats", 4, Access.READ_ONLY, f32),
        Buffer.make("flags", 5, Access.READ_ONLY, bool_),
        Buffer.make("long", 6, Access.READ_ONLY, u64),
        Buffer.make("like", 7, Access.READ_WRITE, u32, is_output=True, like="words"),
        Buffer("n", 0, Access.UNIFORM, u32, 1, kind=MemoryKind.PUSH),
        Buffer("m", 1, Access.UNIFORM, u32, 1, kind=MemoryKind.PUSH),
    )
}
C: Final = SpecConst("c", lit(5))
X: Final = var("x")
Y: Final = var("y")


def meanings(size: Dim3 = (64, 1, 1), *, same_length: bool = False) -> Meanings:
    """With two unknown locals."""
    made = Meanings(BUFFERS, size, same_length)
    for name in ("x", "y"):
        made.env[name] = Version(None, None, u32, made.values.fresh())
    return made


def known(version: Version) -> Value:
    assert version.value is not None
    return version.value


def limits(value: Value) -> tuple[int, int]:
    return value.low, value.high


def negated(condition: Expr) -> Unary:
    return Unary(UnaryOp.LOGICAL_NOT, condition)


# ---- ids
@pytest.mark.parametrize(
    ("kind", "size", "low", "high"),
    [
        (IdKind.LOCAL, 1, 0, 0),
        (IdKind.LOCAL, 2, 0, 1),
        (IdKind.LOCAL, 64, 0, 63),
        (IdKind.GROUP, 1, 0, U32_MAX),
        (IdKind.GROUP, 2, 0, 2**31 - 1),
        (IdKind.GROUP, 64, 0, 2**26 - 1),
        (IdKind.GROUP, 96, 0, 2**32 // 96 - 1),
        (IdKind.GLOBAL, 1, 0, U32_MAX),
        (IdKind.GLOBAL, 2, 0, U32_MAX),
        (IdKind.GLOBAL, 96, 0, 2**32 // 96 * 96 - 1),
        (IdKind.NUM_GROUPS, 1, 1, U32_MAX),
        (IdKind.NUM_GROUPS, 2, 1, 2**31),
        (IdKind.NUM_GROUPS, 64, 1, 2**26),
    ],
)
def test_ids_of_a_grid_of_at_most_all_u32_lanes(kind: IdKind, size: int, low: int, high: int) -> None:
    for axis in range(3):
        sizes = [7, 7, 7]
        sizes[axis] = size
        made = meanings((sizes[0], sizes[1], sizes[2]))
        assert limits(made.value(LaunchId(kind, axis))) == (low, high)
        assert made.value(LaunchId(kind, axis)) is made.launch_id(kind, axis)


@pytest.mark.parametrize("size", [1, 2, 3, 64])
@pytest.mark.parametrize("first", [IdKind.GROUP, IdKind.LOCAL, IdKind.GLOBAL])
def test_a_global_id_is_made_of_group_and_local_id(size: int, first: IdKind) -> None:
    made = meanings((1, size, 1))
    made.launch_id(first, 1)
    group, local = made.launch_id(IdKind.GROUP, 1), made.launch_id(IdKind.LOCAL, 1)
    assert made.values.add(made.values.scaled(group, size), local) is made.launch_id(IdKind.GLOBAL, 1)
    assert made.launch_id(IdKind.GLOBAL, 0) is not made.launch_id(IdKind.GLOBAL, 1)
    assert made.local_ids() == {1: local}


def test_lanes_of_a_subgroup() -> None:
    made = meanings()
    lane, again, size = SubgroupLane(), SubgroupLane(), SubgroupSize()
    assert limits(made.value(lane)) == (0, 31)
    assert made.value(lane) is made.value(again)
    assert made.value(size) is made.values.constant(32)


# ---- sources
@pytest.mark.parametrize(
    ("buffer", "high"), [("bytes", 2**8 - 1), ("halves", 2**16 - 1), ("words", U32_MAX), ("n", U32_MAX)]
)
def test_a_load_has_the_range_of_its_elements(buffer: str, high: int) -> None:
    assert limits(meanings().value(Load(buffer, lit(0)))) == (0, high)


def test_what_is_the_same_in_the_whole_program() -> None:
    made = meanings()

    made.memo = None  # in several statements
    sources: list[Expr] = [Load("n", lit(0)), Load("m", lit(0)), C, SpecConst("d", lit(5))]
    sources += [BufferLength("words"), BufferLength("like")]
    values = [made.value(source) for source in sources]
    assert [made.value(source) for source in sources] == values
    assert len(set(values)) == len(values)
    word = Load("words", lit(0))
    assert made.value(word) is not made.value(word)


def test_lengths() -> None:
    made = meanings(same_length=True)
    length = BufferLength("like")
    assert made.length("like") is made.length("words") is made.value(length)
    assert limits(made.length("words")) == (0, U32_MAX)
    assert made.length("n") is made.values.constant(1)
    assert meanings().length("like") is not meanings().length("words")


# ---- operators
def test_an_object_is_evaluated_once_in_a_statement() -> None:
    """2**24 paths lead to its leaves."""
    made = meanings()
    total: Expr = Load("words", lit(0))
    for _ in range(24):
        total = add(total, total)
    value = made.value(total)
    ((_, factor),) = value.form.terms
    assert factor == 2**24
    made.env["s"] = Version(total, None)
    assert [factor for _, factor in made.value(var("s")).form.terms] == [2**24]


def test_an_object_is_the_same_value_below_every_operator() -> None:
    made = meanings()
    word = Load("words", lit(0))
    same = made.value(word)
    complement, cast = Unary(UnaryOp.BIT_NOT, word), Cast(u32, word)
    choices = Select(less(X, Y), word, lit(7)), Select(less(X, Y), lit(7), word)
    assert made.value(complement) is made.values.unary(UnaryOp.BIT_NOT, same)
    assert made.value(cast) is same
    first, second = (made.value(choice).atom for choice in choices)
    assert first is not None and first.left is same
    assert second is not None and second.right is same
    one_more = add(word, lit(1))
    assert made.facts(less(word, one_more), True) == [Fact(same, made.values.plus(same, 1), 1)]


def test_an_object_is_evaluated_each_time_where_an_atomic_may_change_it() -> None:
    made = meanings()
    word = Load("words", lit(0))
    difference = op(B.SUB, word, word)
    assert made.value(difference) is made.values.constant(0)
    made.memo = None
    assert limits(made.value(difference)) == (0, U32_MAX)
    for has_atomic in (False, True):
        made.env["d"] = Version(difference, None, has_atomic=has_atomic)
        assert limits(made.value(var("d"))) == ((0, U32_MAX) if has_atomic else (0, 0))
        made.env["ok"] = Version(less(X, difference), None, has_atomic=has_atomic)
        ((_, upper, _),) = made.facts(var("ok"), True)
        assert limits(upper) == ((0, U32_MAX) if has_atomic else (0, 0))


@pytest.mark.parametrize("named", [False, True])
def test_a_value_is_followed_through_so_many_operators(named: bool) -> None:
    """Nested complements: those of an even number are what they began with."""
    made = meanings()
    expr: Expr = X
    for level in range(1, LEVELS + 2):
        expr = Unary(UnaryOp.BIT_NOT, expr)
        if named and level == LEVELS // 2:
            made.env["half"] = Version(expr, None)
            expr = var("half")
        if level == LEVELS:
            made.memo = {}
            made.env["it"] = Version(expr, None)
            assert made.value(var("it")) is known(made.env["x"])
    made.env["it"] = Version(expr, None)
    half = made.env.get("half")
    if half is not None:
        half.value = None
    value = made.value(var("it"))
    assert [atom.value is known(made.env["x"]) for atom, _ in value.form.terms] == [False]


def test_so_many_operators_are_evaluated_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_meanings, "_EVALUATIONS", 3)
    made = meanings()
    sums = [add(X, lit(k)) for k in range(5)]
    found = [made.value(expr) for expr in sums]
    expected = [made.values.plus(known(made.env["x"]), k) for k in range(5)]
    assert [a is b for a, b in zip(found, expected, strict=True)] == [True, True, True, False, False]
    assert limits(found[4]) == (0, U32_MAX)
    assert made.value(lit(7)) is made.values.constant(7)


@pytest.mark.parametrize(
    "expr",
    [
        op(B.SUB, X, lit(3)),
        op(B.SUB, lit(3), X),
        Unary(UnaryOp.NEGATE, X),
        Select(less(Y, lit(1)), X, lit(7)),
        Select(less(Y, lit(1)), lit(7), X),
        Cast(u32, X),
        add(op(B.MUL, lit(4), X), X),
    ],
)
def test_a_local_means_what_it_meant_where_it_was_read(expr: Expr) -> None:
    """``z = f(x)``, then x changes, then z is used."""

    def parts(value: Value) -> list[object]:
        atom = value.atom
        if atom is None or atom.op is not SELECT:
            return [value.form, value.constant]
        return [atom.op, atom.left, atom.right]

    made = meanings()
    before, after = made.env["x"], Version(None, None, u32, made.values.fresh())
    expected = parts(made.value(expr))
    made.env["z"] = Version(expr, {"x": before})
    made.env["x"] = after
    made.memo = {}
    assert parts(made.value(var("z"))) == expected
    assert parts(made.value(expr)) != expected
    made.env["w"] = Version(add(var("z"), X), {"z": made.env["z"]})
    assert made.value(var("w")) is made.values.add(made.value(var("z")), known(after))


@pytest.mark.parametrize(
    ("expr", "high"),
    [
        (less(X, lit(1)), 1),
        (Load("flags", lit(0)), 1),
        (Load("signed", lit(0)), U32_MAX),
        (Load("floats", lit(0)), U32_MAX),
        (Load("bytes", lit(0)), 255),
    ],
)
def test_casts(expr: Expr, high: int) -> None:
    assert limits(meanings().value(Cast(u32, expr))) == (0, high)


# ---- types
FLOAT: Final = Load("floats", lit(0))
INT: Final = Load("signed", lit(0))


@pytest.mark.parametrize(
    ("expr", "dtype"),
    [
        (lit(1), u32),
        (lit(1, i32), i32),
        (lit(1.0, f32), f32),
        (Cast(i32, X), i32),
        (Bitcast(f32, X), f32),
        (C, u32),
        (SpecConst("f", lit(1.0, f32)), f32),
        (add(X, Y), u32),
        (add(INT, INT), i32),
        (op(B.SHL, INT, X), i32),
        (less(X, Y), bool_),
        (op(B.EQ, FLOAT, FLOAT), bool_),
        (op(B.AND, less(X, Y), less(Y, X)), bool_),
        (Unary(UnaryOp.NEGATE, INT), i32),
        (Unary(UnaryOp.IS_NAN, FLOAT), bool_),
        (negated(less(X, Y)), bool_),
        (Select(less(X, Y), INT, INT), i32),
        (Fma(FLOAT, FLOAT, FLOAT), f32),
        (SubgroupReduce(SubgroupOp.ADD, INT), i32),
        (SubgroupShuffle(FLOAT, X), f32),
        (SubgroupBallot(less(X, Y)), u32),
        (SubgroupLane(), u32),
        (SubgroupSize(), u32),
        (BufferLength("floats"), u32),
        (LaunchId(IdKind.LOCAL, 0), u32),
        (Load("words", lit(0)), u32),
        (Load("bytes", lit(0)), u32),
        (Load("halves", lit(0)), u32),
        (Load("long", lit(0)), u64),
        (Load("flags", lit(0)), bool_),
        (Atomic(AtomicOp.ADD, "signed", lit(0), None, lit(1, i32)), i32),
        (X, u32),
    ],
)
def test_types(expr: Expr, dtype: ScalarType) -> None:
    made = meanings()
    assert made.dtype(expr, None) is dtype
    made.env["a"] = Version(expr, None)
    made.env["b"] = Version(Select(less(X, Y), var("a"), var("a")), None)
    for _ in range(2):
        assert made.dtype(var("b"), None) is made.dtype(var("a"), None) is dtype


def test_the_type_of_a_local_is_that_of_what_was_read() -> None:
    made = meanings()
    made.env["a"] = Version(INT, None)
    made.env["b"] = Version(var("a"), {"a": made.env["a"]})
    before = {"b": made.env["b"]}
    made.env["a"] = made.env["b"] = Version(FLOAT, None)
    assert made.dtype(var("b"), before) is i32
    assert made.dtype(var("b"), None) is f32
    made.env["c"] = Version(Cast(u32, var("f")), {"f": Version(less(X, Y), None)})
    assert limits(made.value(var("c"))) == (0, 1)


# ---- conditions
def facts(made: Meanings, condition: Expr, holds: bool = True) -> set[tuple[str, str, int]]:
    """Facts about the locals by name; each is there once."""
    names = {id(version.value): name for name, version in made.env.items() if version.value is not None}
    found = made.facts(condition, holds)
    named = {(names[id(fact.lower)], names[id(fact.upper)], fact.gap) for fact in found}
    assert len(named) == len(found)
    return named


LESS, NOT_ABOVE, GREATER, NOT_BELOW = ("x", "y", 1), ("x", "y", 0), ("y", "x", 1), ("y", "x", 0)


@pytest.mark.parametrize(
    ("operator", "if_so", "if_not"),
    [
        (B.LT, {LESS}, {NOT_BELOW}),
        (B.LE, {NOT_ABOVE}, {GREATER}),
        (B.GT, {GREATER}, {NOT_ABOVE}),
        (B.GE, {NOT_BELOW}, {LESS}),
        (B.EQ, {NOT_ABOVE, NOT_BELOW}, set()),
        (B.NE, set(), {NOT_ABOVE, NOT_BELOW}),
    ],
)
def test_comparisons(operator: BinaryOp, if_so: set[tuple[str, str, int]], if_not: set[tuple[str, str, int]]) -> None:
    made = meanings()
    condition = op(operator, X, Y)
    made.env["ok"] = Version(condition, None)
    for expr in (condition, negated(negated(condition)), var("ok")):
        assert facts(made, expr) == if_so
        assert facts(made, expr, False) == if_not
        assert facts(made, negated(expr)) == if_not


def test_different_from_the_least_or_greatest_number() -> None:
    made = meanings()
    x, zero, most = known(made.env["x"]), made.values.constant(0), made.values.constant(U32_MAX)
    for condition in (op(B.NE, X, lit(0)), op(B.NE, lit(0), X)):
        assert made.facts(condition, True) == [Fact(zero, x, 1)]
    assert made.facts(op(B.EQ, X, lit(U32_MAX)), False) == [Fact(x, most, 1)]
    assert made.facts(op(B.NE, X, lit(1)), True) == []


@pytest.mark.parametrize(
    "condition",
    [
        lit(True, bool_),
        Load("flags", lit(0)),
        Select(less(X, Y), lit(True, bool_), lit(False, bool_)),
        Cast(bool_, X),
        less(FLOAT, lit(1.0, f32)),
        Unary(UnaryOp.IS_NAN, FLOAT),
        op(B.BIT_XOR, less(X, Y), less(Y, X)),
    ],
)
def test_conditions_that_say_nothing_about_indices(condition: Expr) -> None:
    made = meanings()
    for holds in (True, False):
        assert made.facts(condition, holds) == []
        assert facts(made, op(B.AND, condition, less(X, Y))) == {LESS}


def test_conjunctions_and_disjunctions() -> None:
    made = meanings()
    less_, most = less(X, Y), op(B.LE, Y, X)
    assert facts(made, op(B.AND, less_, most)) == {LESS, NOT_BELOW}
    assert facts(made, op(B.AND, less_, most), False) == set()
    assert facts(made, op(B.OR, less_, most)) == set()
    assert facts(made, op(B.OR, less_, most), False) == {NOT_BELOW, LESS}
    assert facts(made, op(B.AND, negated(op(B.OR, less_, most)), op(B.GT, X, Y))) == {NOT_BELOW, LESS, GREATER}


def test_a_term_that_occurs_twice_counts_once() -> None:
    made = meanings()
    term = less(X, Y)
    assert len(made.facts(op(B.AND, op(B.AND, term, term), term), True)) == 1
    assert len(made.facts(op(B.AND, term, negated(term)), True)) == 2
    shared: Expr = term
    for _ in range(40):
        shared = op(B.AND, shared, shared)
    assert len(made.facts(shared, True)) == 1


def test_so_many_terms_of_a_condition_are_looked_at() -> None:
    """The operators between them count, the last term comes first."""
    for count, found in ((TERMS // 2, TERMS // 2), (TERMS // 2 + 1, TERMS // 2)):
        made = meanings()
        condition: Expr = less(X, lit(100))
        for number in range(1, count):
            condition = op(B.AND, condition, less(X, lit(100 + number)))
        assert [fact.upper.constant - 100 for fact in made.facts(condition, True)] == list(
            range(count - 1, count - found - 1, -1)
        )


def test_a_condition_means_what_it_meant_where_it_was_read() -> None:
    made = meanings()
    x, y = made.env["x"], made.env["y"]
    made.env["ok"] = Version(op(B.AND, less(X, Y), less(Y, X)), {"x": x, "y": y})
    made.env["not"] = Version(negated(op(B.OR, var("ok"), less(X, lit(5)))), {"x": x, "ok": Version(less(Y, X), None)})
    made.env["x"], made.env["y"] = (Version(FLOAT, None) for _ in range(2))
    assert made.facts(var("ok"), True) == [Fact(known(y), known(x), 1), Fact(known(x), known(y), 1)]


def test_literals_are_their_numbers() -> None:
    made = meanings()
    assert made.value(lit(9)) is made.values.constant(9)
