"""Wide accesses: which are grouped, which must not be, and that groups of random programs may move together."""

from __future__ import annotations

import gc
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

import pytest

from support.kernels import BARRIER, GID, LID, add, equal, kernel, less, lit, loop, op, var, when
from support.programs import Case, Order, generate
from support.running import oracle, run
from support.validation.watched_accesses import Access, WatchedEngine
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.wide_access import WideFacts, WideGroup, wide_facts
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.expr import Atomic, Binary, BufferLength, Expr, Load
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.program import Access as BufferAccess
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import Assign, Body, Let, Return, Stmt, Store, walk_statements
from vyre.domain.ir.types import bool_, f32, f64, u8, u32, u64
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.validation.validator import validate

B: Final = BinaryOp
READ_ONLY, READ_WRITE, WORKGROUP = BufferAccess.READ_ONLY, BufferAccess.READ_WRITE, BufferAccess.WORKGROUP
BUFFERS: Final = (
    Buffer.make("a", 0, READ_ONLY, u32, 4096),
    Buffer.make("b", 1, READ_WRITE, u32, 4096),
    Buffer.make("x", 2, READ_ONLY, f32),
    Buffer.make("flags", 3, READ_ONLY, bool_, 4096),
    Buffer.make("long", 4, READ_ONLY, u64, 4096),
    Buffer.make("double", 5, READ_WRITE, f64, 4096),
    Buffer.make("bytes", 6, READ_ONLY, u8, 4096),
    Buffer.make("odd", 7, READ_ONLY, u32, 4095),
    Buffer.make("sh", 0, WORKGROUP, u32, 256),
)


def mul(expr: Expr, factor: int) -> Expr:
    return op(B.MUL, expr, lit(factor))


def at(base: Expr, offset: int) -> Expr:
    return add(base, lit(offset))


SAFE: Final = op(B.BIT_AND, GID, lit(1023))
QUAD: Final = mul(SAFE, 4)
EIGHT: Final = mul(op(B.BIT_AND, GID, lit(255)), 8)


def loads(buffer: str, base: Expr, *offsets: int) -> Body:
    return tuple(Let(f"{buffer}{offset}_{k}", Load(buffer, at(base, offset))) for k, offset in enumerate(offsets))


def stores(buffer: str, base: Expr, *offsets: int, value: Expr | None = None) -> Body:
    return tuple(Store(buffer, at(base, offset), value or lit(offset)) for offset in offsets)


def program(*body: Stmt) -> Program:
    made = kernel(*body, buffers=BUFFERS)
    assert validate(made).ok, validate(made).render()
    return made


def accesses(made: Program) -> list[Load | Store]:
    found: list[Load | Store] = [s for s in walk_statements(made.body) if isinstance(s, Store)]
    return found + [e for e in unique_expressions(made) if isinstance(e, Load)]


def facts_of(made: Program, *, aligned16: bool = True, noalias: bool = True) -> WideFacts:
    return wide_facts(made, bounds_facts(made), aligned16=aligned16, noalias=noalias)


def widths(made: Program, *, aligned16: bool = True, noalias: bool = True) -> dict[str, list[int]]:
    """Widths of the groups of each buffer, ascending."""
    facts = facts_of(made, aligned16=aligned16, noalias=noalias)
    groups: dict[WideGroup, None] = {}
    for access in accesses(made):
        member = facts.of(access)
        if member is not None:
            assert member.group.buffer == access.buffer and 0 <= member.lane < member.group.width
            groups[member.group] = None
    found: dict[str, list[int]] = {}
    for group in groups:
        found.setdefault(group.buffer, []).append(group.width)
    return {name: sorted(sizes) for name, sizes in found.items()}


class Row(NamedTuple):
    name: str
    expected: dict[str, list[int]]
    body: Body


A0: Final = Let("a0", Load("a", QUAD))
LENGTH: Final = BufferLength("x")

ROWS: Final = (
    Row("four loads", {"a": [4]}, loads("a", QUAD, 0, 1, 2, 3)),
    Row("four loads in another order", {"a": [4]}, loads("a", QUAD, 2, 0, 3, 1)),
    Row("four loads in one expression", {"a": [4]}, (
        Let("s", add(add(Load("a", QUAD), Load("a", at(QUAD, 3))),
                     add(Load("a", at(QUAD, 1)), Load("a", at(QUAD, 2))))),
    )),
    Row("one of them twice", {"a": [4]}, loads("a", QUAD, 0, 1, 1, 2, 3)),
    Row("eight loads", {"a": [4, 4]}, loads("a", mul(op(B.BIT_AND, GID, lit(255)), 16), *range(4), *range(8, 12))),
    Row("two loads", {"a": [2]}, loads("a", QUAD, 0, 1)),
    Row("the upper two", {"a": [2]}, loads("a", QUAD, 2, 3)),
    Row("three loads", {"a": [2]}, loads("a", QUAD, 0, 1, 2)),
    Row("the middle two are not aligned", {}, loads("a", QUAD, 1, 2)),
    Row("a multiple of two", {"a": [2, 2]}, loads("a", mul(op(B.BIT_AND, GID, lit(511)), 2), 0, 1, 2, 3)),
    Row("a multiple of six", {"a": [2, 2]}, loads("a", mul(op(B.BIT_AND, GID, lit(511)), 6), 0, 1, 2, 3)),
    Row("a multiple of three", {}, loads("a", mul(op(B.BIT_AND, GID, lit(511)), 3), 0, 1, 2, 3)),
    Row("a shift", {"a": [4]}, loads("a", op(B.SHL, SAFE, lit(2)), 0, 1, 2, 3)),
    Row("a mask", {"a": [4]}, loads("a", op(B.BIT_AND, GID, lit(0xFFC)), 0, 1, 2, 3)),
    Row("alternatives to a sum", {"a": [4]}, tuple(
        Let(f"v{k}", Load("a", op(operator, QUAD, lit(k))))
        for k, operator in enumerate((B.BIT_OR, B.BIT_OR, B.BIT_XOR, B.ADD))
    )),
    Row("literals", {"a": [2, 4]}, loads("a", lit(4), 0, 1, 2, 3, 6, 7, 9, 10)),
    Row("the last is out of range", {"odd": [2]}, loads("odd", lit(4092), 0, 1, 2, 3)),
    Row("not certainly in range", {}, loads("a", mul(GID, 4), 0, 1, 2, 3)),
    Row("in range by a condition", {"x": [4]}, (
        when(less(at(mul(GID, 4), 3), LENGTH), *loads("x", mul(GID, 4), 0, 1, 2, 3)),
    )),
    Row("in range by a condition on the quotient", {"x": [4]}, (
        when(less(GID, op(B.DIV, LENGTH, lit(4))), *loads("x", mul(GID, 4), 0, 1, 2, 3)),
    )),
    Row("the condition is about the first", {}, (
        when(less(mul(GID, 4), LENGTH), *loads("x", mul(GID, 4), 0, 1, 2, 3)),
    )),
    Row("a loop in steps of four", {"x": [4]}, (
        loop("k", op(B.BIT_AND, LENGTH, lit(0xFFFF_FFFC)), *loads("x", var("k"), 0, 1, 2, 3), step=lit(4)),
    )),
    Row("a loop in steps of two", {"x": [2]}, (
        loop("k", op(B.BIT_AND, LENGTH, lit(0xFFFF_FFFE)), *loads("x", var("k"), 0, 1, 2, 3), step=lit(2)),
    )),
    Row("bools, and elements of 8 bytes", {"flags": [4], "long": [2, 2]}, (
        *loads("flags", QUAD, 0, 1, 2, 3), *loads("long", QUAD, 0, 1, 2, 3),
    )),
    Row("bytes", {}, loads("bytes", QUAD, 0, 1, 2, 3)),
    Row("two buffers interleaved", {"a": [2], "odd": [2]}, (
        *loads("a", lit(0), 0), *loads("odd", lit(0), 0), *loads("a", lit(0), 1), *loads("odd", lit(0), 1),
    )),
    Row("an assignment between loads", {"a": [2]}, (
        Let("m", lit(0)), A0, Assign("m", var("a0")), Let("a1", Load("a", at(QUAD, 1))),
    )),
    Row("an index that changes between loads", {}, (
        Let("m", QUAD), Let("p", Load("a", var("m"))), Assign("m", LID), Let("q", Load("a", at(var("m"), 1))),
    )),
    Row("a branch between loads", {}, (A0, when(less(LID, lit(3)), Return()), Let("a1", Load("a", at(QUAD, 1))))),
    Row("a barrier between loads", {}, (A0, BARRIER, Let("a1", Load("a", at(QUAD, 1))))),
    Row("an atomic between loads", {}, (
        A0, Let("old", Atomic(AtomicOp.ADD, "sh", lit(0), None, lit(1))), Let("a1", Load("a", at(QUAD, 1))),
    )),
    Row("a store to the same buffer between loads", {}, (
        Let("p", Load("b", QUAD)), *stores("b", LID, 0), Let("q", Load("b", at(QUAD, 1))),
    )),
    Row("workgroup memory", {"sh": [4]}, loads("sh", mul(LID, 4), 0, 1, 2, 3)),
    # stores
    Row("four stores", {"b": [4]}, stores("b", QUAD, 0, 1, 2, 3)),
    Row("four stores in another order", {"b": [4]}, stores("b", QUAD, 3, 1, 0, 2)),
    Row("six stores", {"b": [2, 4]}, stores("b", mul(op(B.BIT_AND, GID, lit(255)), 8), 0, 1, 2, 3, 4, 5)),
    Row("stores of 8 bytes", {"double": [2, 2]}, stores("double", QUAD, 0, 1, 2, 3, value=lit(1.0, f64))),
    Row("one of them twice", {"b": [2]}, stores("b", QUAD, 0, 0, 1)),
    Row("one of them again before the last", {"b": [2]}, stores("b", EIGHT, 4, 5, 6, 4, 7)),
    Row("twice before the second", {}, stores("b", QUAD, 1, 1, 3)),
    Row("an assignment between stores", {}, (
        Let("m", lit(0)), *stores("b", QUAD, 0, value=var("m")), Assign("m", lit(1)),
        *stores("b", QUAD, 1, value=var("m")),
    )),
    Row("a load of the same buffer between stores", {}, (
        *stores("b", QUAD, 0), *stores("b", QUAD, 1, value=Load("b", LID)),
    )),
    Row("a store somewhere in the same buffer between stores", {}, (
        *stores("b", QUAD, 0), *stores("b", LID, 0), *stores("b", QUAD, 1),
    )),
    Row("a barrier between stores", {}, (*stores("b", QUAD, 0), BARRIER, *stores("b", QUAD, 1))),
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows(row: Row) -> None:
    assert widths(program(*row.body)) == row.expected


COPY: Final = tuple(Store("b", at(QUAD, k), Load("a", at(QUAD, k))) for k in range(4))
SHARED_COPY: Final = tuple(Store("b", at(QUAD, k), Load("sh", lit(k))) for k in range(4))


@pytest.mark.parametrize(
    ("body", "aligned16", "noalias", "expected"),
    [
        (COPY, True, True, {"a": [4], "b": [4]}),
        (COPY, True, False, {}),
        (COPY, False, True, {}),
        (SHARED_COPY, True, False, {"b": [4], "sh": [4]}),
        (SHARED_COPY, False, False, {"sh": [4]}),
        ((*loads("a", QUAD, 0, 1, 2, 3), *stores("b", QUAD, 0, 1, 2, 3)), True, False, {"a": [4], "b": [4]}),
    ],
)
def test_what_may_be_assumed(body: Body, aligned16: bool, noalias: bool, expected: dict[str, list[int]]) -> None:
    assert widths(program(*body), aligned16=aligned16, noalias=noalias) == expected


def test_facts_keep_the_program_whose_nodes_they_know() -> None:
    made = program(*stores("b", QUAD, 0, 1, 2, 3))
    assert any(held is made for held in gc.get_referents(facts_of(made)))


def test_members_say_which_element_they_are_and_which_is_last() -> None:
    made = program(*stores("b", QUAD, 3, 1, 0, 2))
    facts = facts_of(made)
    members = [facts.of(stmt) for stmt in made.body if isinstance(stmt, Store)]
    assert [member and (member.lane, member.last) for member in members] == [
        (3, False),
        (1, False),
        (0, False),
        (2, True),
    ]
    assert len({member.group for member in members if member}) == 1


def test_a_store_to_an_element_again_begins_another_group() -> None:
    made = program(*stores("b", QUAD, 0, 1, 0, 1, 2, 2, 3))
    facts = facts_of(made)
    first, second, third, fourth, alone, *pair = (facts.of(stmt) for stmt in made.body if isinstance(stmt, Store))
    assert first and second and third and fourth and alone is None
    assert first.group is second.group is not third.group is fourth.group
    assert [member and (member.lane, member.last) for member in pair] == [(0, False), (1, True)]


def test_a_node_that_occurs_twice_is_in_no_group() -> None:
    shared = Load("a", QUAD)
    assert widths(program(Let("p", shared), Let("q", Load("a", at(QUAD, 1))), Let("r", shared))) == {}
    again = program(Let("p", shared), Let("q", Load("a", at(QUAD, 1))), when(equal(LID, lit(0)), Let("r", shared)))
    assert widths(again) == {}


class _Mover:
    """A program with its groups carried out: loads at the first member, stores at the last."""

    def __init__(self, made: Program, facts: WideFacts) -> None:
        self._facts = facts
        self._first: dict[WideGroup, Expr] = {}
        self._names: dict[WideGroup, str] = {}
        self.loads = self.stores = 0
        self.program = replace(made, body=self._body(made.body))

    def _body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Let(_, value) | Assign(_, value):
                    out.append(replace(stmt, value=self._expr(value, out)))
                case Store(_, index, value):
                    moved = replace(stmt, index=self._expr(index, out), value=self._expr(value, out))
                    self._store(stmt, moved, out)
                case _:
                    out.append(stmt)
        return tuple(out)

    def _name(self, group: WideGroup) -> str:
        return self._names.setdefault(group, f"wide{len(self._names)}")

    def _expr(self, expr: Expr, out: list[Stmt]) -> Expr:
        match expr:
            case Binary(_, left, right):
                return replace(expr, left=self._expr(left, out), right=self._expr(right, out))
            case Load(buffer, index):
                member = self._facts.of(expr)
                if member is None:
                    return replace(expr, index=self._expr(index, out))
                if member.group not in self._names:
                    self.loads += 1
                    for lane in range(member.group.width):
                        there = Load(buffer, at(index, (lane - member.lane) & 0xFFFF_FFFF))
                        out.append(Let(f"{self._name(member.group)}_{lane}", there))
                return var(f"{self._name(member.group)}_{member.lane}")
        return expr

    def _store(self, stmt: Store, moved: Store, out: list[Stmt]) -> None:
        member = self._facts.of(stmt)
        if member is None:
            out.append(moved)
            return
        name = self._name(member.group)
        out.append(Let(f"{name}_{member.lane}", moved.value))
        if member.last:
            self.stores += 1
            for lane in range(member.group.width):
                there = at(moved.index, (lane - member.lane) & 0xFFFF_FFFF)
                out.append(Store(stmt.buffer, there, var(f"{name}_{lane}")))


LANES: Final = 8
MEMORY: Final = (
    Buffer.make("p", 0, READ_WRITE, u32, 4 * LANES),
    Buffer.make("q", 1, READ_WRITE, u32, 4 * LANES),
    Buffer.make("sh", 0, WORKGROUP, u32, 4 * LANES),
)


def straight_line(seed: int) -> Program:
    """Loads, stores and assignments, each lane in elements of its own; some at an offset that nobody knows."""
    random = Random(seed)
    slots = mul(LID, 4)
    body: list[Stmt] = [
        Let("d", op(B.BIT_AND, Load("p", slots), lit(3))),
        Let("m", lit(0)),
    ]
    known: list[Expr] = [var("d"), lit(5)]
    for number in range(random.randint(4, 24)):
        buffer, offset = random.choice("pq" * 2 + "s").replace("s", "sh"), random.randrange(4)
        index = at(slots, offset)
        if random.random() < 0.15:
            index = op(B.BIT_OR, slots, op(B.BIT_AND, add(var("d"), lit(offset)), lit(3)))
        choice = random.random()
        if choice < 0.4:
            body.append(Let(f"v{number}", Load(buffer, index)))
            known.append(var(f"v{number}"))
        elif choice < 0.5:
            body.append(Assign("m", random.choice(known)))
            known.append(var("m"))
        else:
            value = random.choice(known)
            if random.random() < 0.3:
                value = add(value, Load(random.choice("pq"), at(slots, random.randrange(4))))
            body.append(Store(buffer, index, value))
    made = Program(MEMORY, (LANES, 1, 1), tuple(body))
    assert validate(made).ok, validate(made).render()
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("noalias", [False, True])
def test_groups_can_move_together(noalias: bool) -> None:
    loads_moved = stores_moved = 0
    inputs = {"p": bytes(range(4 * 4 * LANES)), "q": bytes(reversed(range(4 * 4 * LANES)))}
    for seed in range(150):
        made = straight_line(seed)
        mover = _Mover(made, facts_of(made, noalias=noalias))
        assert validate(mover.program).ok, validate(mover.program).render()
        case = Case(made, inputs, DispatchConfig(grid=(1, 1, 1)), Order.INDEPENDENT)
        assert oracle(replace(case, program=mover.program)) == oracle(case), f"seed {seed}"
        loads_moved, stores_moved = loads_moved + mover.loads, stores_moved + mover.stores
    assert loads_moved > 50 and stores_moved > 20


class _Guard:
    """Fails at a member of a group that is not where it should be."""

    tracer = None

    def __init__(self, program: Program) -> None:
        self._facts = facts_of(program)

    def access(self, node: Access, index: int, count: int, /) -> None:
        member = None if isinstance(node, Atomic) else self._facts.of(node)
        if member is not None:
            first, width = index - member.lane, member.group.width
            assert first >= 0 and first % width == 0 and first + width <= count, node


@pytest.mark.thorough
def test_groups_of_random_programs_are_aligned_and_in_range() -> None:
    for seed in range(60):
        run(WatchedEngine(_Guard), generate(seed, work=10_000))
