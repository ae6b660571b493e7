"""Zeroing of workgroup memory: what may go without, and that no random program reads there what nobody stored."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

import pytest

from support.kernels import BARRIER, GID, LID, UNIFORM, add, kernel, less, lit, loop, op, var, when
from support.programs import Case, Order
from support.running import run
from support.validation.watched_accesses import Access, WatchedEngine
from vyre.adapters.reference.scalar_state import Location, Workgroup
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.zeroing import needs_zeroing
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.expr import Atomic, Expr, IdKind, LaunchId, Load
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.program import Access as BufferAccess
from vyre.domain.ir.program import Buffer, Dim3, Program
from vyre.domain.ir.stmt import (
    Arm,
    Assign,
    AsyncStore,
    AsyncWait,
    Block,
    Body,
    Break,
    Continue,
    If,
    Let,
    Region,
    Return,
    Stmt,
    Store,
    Switch,
)
from vyre.domain.ir.types import u32
from vyre.domain.validation.validator import validate

B: Final = BinaryOp
OUT: Final = Buffer.make("out", 0, BufferAccess.READ_WRITE, u32)
S: Final = Buffer.make("s", 0, BufferAccess.WORKGROUP, u32, 64)
T: Final = Buffer.make("t", 0, BufferAccess.WORKGROUP, u32, 64)
BIG: Final = Buffer.make("big", 0, BufferAccess.WORKGROUP, u32, 256)
BUFFERS: Final = (OUT, S, T, BIG)


class Row(NamedTuple):
    name: str
    needs: set[str]
    body: Body
    workgroup: Dim3 = (64, 1, 1)


def local(axis: int) -> LaunchId:
    return LaunchId(IdKind.LOCAL, axis)


def put(index: Expr = LID, buffer: str = "s", value: Expr | None = None) -> Store:
    return Store(buffer, index, value or GID)


def use(index: Expr | None = None, buffer: str = "s") -> Store:
    """Reads an element that another lane may have stored."""
    return Store("out", GID, Load(buffer, index or op(B.SUB, lit(63), LID)))


def lanes_first(factor: int) -> Expr:
    return add(op(B.MUL, var("k"), lit(factor)), LID)


def at(base: Expr, offset: int) -> Expr:
    return add(base, lit(offset))


def switch(*bodies: Body) -> Switch:
    """The last body is the default."""
    *arms, default = bodies
    return Switch(LaunchId(IdKind.GROUP, 0), tuple(Arm((lit(n),), body) for n, body in enumerate(arms)), default)


ROW_MAJOR: Final = add(op(B.MUL, local(1), lit(8)), local(0))
COLUMN_MAJOR: Final = add(op(B.MUL, local(0), lit(8)), local(1))
GROUPS: Final = LaunchId(IdKind.NUM_GROUPS, 0)
BOUNDED: Final = less(LID, lit(3))

FILL: Final = loop("k", var("n"), put(lanes_first(64), "big"))

ROWS: Final = (
    Row("never touched", set(), ()),
    Row("never read", set(), (put(lit(3)),)),
    Row("own slot, barrier, read", set(), (put(), BARRIER, use())),
    Row("read first", {"s"}, (use(), put(), BARRIER)),
    Row("no barrier", {"s"}, (put(), use())),
    Row("only read", {"s"}, (use(),)),
    Row("the stored value reads the buffer", {"s"}, (put(value=Load("s", LID)), BARRIER, use())),
    Row("the stored index reads the buffer", {"s"}, (put(Load("s", LID)), put(), BARRIER, use())),
    Row("an atomic first", {"s"}, (
        Let("a", Atomic(AtomicOp.ADD, "s", LID, None, lit(1))), BARRIER, put(), BARRIER, use(),
    )),
    Row("an atomic afterwards", set(), (put(), BARRIER, Let("a", Atomic(AtomicOp.ADD, "s", LID, None, lit(1))))),
    Row("an asynchronous copy from it", {"s"}, (AsyncStore("s", "out", lit(0), lit(4), "c"), AsyncWait("c"))),
    Row("two buffers, one of them covered", {"t"}, (put(), BARRIER, use(), use(buffer="t"))),
    Row("two buffers, both covered", set(), (put(), put(buffer="t"), BARRIER, use(), use(buffer="t"))),
    Row("more elements than lanes", {"big"}, (put(buffer="big"), BARRIER, use(buffer="big"))),
    Row("more lanes than elements", set(), (put(), BARRIER, use()), (128, 1, 1)),
    Row("several stores cover it together", set(), (
        *(put(add(LID, lit(64 * k)), "big") for k in (2, 0, 3, 1)), BARRIER, use(buffer="big"),
    )),
    Row("with a gap between them", {"big"}, (
        *(put(add(LID, lit(k)), "big") for k in (0, 64, 129, 192)), BARRIER, use(buffer="big"),
    )),
    Row("an index by a name", set(), (Let("i", LID), put(var("i")), BARRIER, use())),
    Row("a name that changed", {"s"}, (Let("i", LID), Assign("i", lit(0)), put(var("i")), BARRIER, use())),
    Row("row-major", set(), (put(ROW_MAJOR), BARRIER, use(lit(1))), (8, 8, 1)),
    Row("column-major", set(), (put(COLUMN_MAJOR), BARRIER, use(lit(1))), (8, 8, 1)),
    Row("row-major with rows that overlap", {"s"}, (put(ROW_MAJOR), BARRIER, use(lit(1))), (7, 9, 1)),
    Row("one axis of two", {"s"}, (put(local(0)), BARRIER, use(lit(1))), (8, 8, 1)),
    Row("every other element", {"s"}, (put(op(B.MUL, LID, lit(2))), BARRIER, use())),
    Row("a global id", {"s"}, (put(GID), BARRIER, use())),
    Row("backwards is not looked at", {"s"}, (put(op(B.SUB, lit(63), LID)), BARRIER, use())),
    # control flow
    Row("in a block", set(), (Block((put(),)), Region("g", (BARRIER,)), use())),
    Row("stored in a branch", {"s"}, (when(BOUNDED, put()), BARRIER, use())),
    Row("stored in both branches, no barrier there", {"s"}, (
        when(UNIFORM, put(), otherwise=(put(),)), BARRIER, use(),
    )),
    Row("stored and waited for in both branches", set(), (
        when(UNIFORM, put(), BARRIER, otherwise=(put(), BARRIER)), use(),
    )),
    Row("stored and waited for in one branch", {"s"}, (when(UNIFORM, put(), BARRIER), use())),
    Row("stored and read in one branch", set(), (when(UNIFORM, put(), BARRIER, use()),)),
    Row("the other branch returns", set(), (when(UNIFORM, put(), BARRIER, otherwise=(Return(),)), use())),
    Row("stored and waited for in every arm", set(), (switch((put(), BARRIER), (put(), BARRIER)), use())),
    Row("stored and waited for in every arm but the default", {"s"}, (
        switch((put(), BARRIER), (put(), BARRIER), ()), use(),
    )),
    Row("an arm returns", set(), (switch((put(), BARRIER), (Return(),)), use())),
    Row("read in an arm", {"s"}, (switch((put(), BARRIER), (use(),)), put())),
    Row("read by a selector", {"s"}, (Switch(Load("s", LID), (), (put(),)),)),
    Row("stored before the switch with the barrier", set(), (put(), switch((BARRIER, use()), ()))),
    Row("stored and waited for in every link", set(), (
        when(UNIFORM, put(), BARRIER, otherwise=(when(less(GROUPS, lit(2)), put(), BARRIER, otherwise=(
            put(), BARRIER)),)), use(),
    )),
    Row("stored and waited for in two links of three", {"s"}, (
        when(UNIFORM, put(), BARRIER, otherwise=(when(less(GROUPS, lit(2)), put(), BARRIER),)), use(),
    )),
    Row("read by the condition of a link", {"s"}, (
        when(UNIFORM, put(), BARRIER, otherwise=(when(less(Load("s", LID), lit(2)), put()),)),
    )),
    Row("stored before the branch with the barrier", set(), (put(), when(UNIFORM, BARRIER, use()))),
    Row("and read behind it", {"s"}, (put(), when(UNIFORM, BARRIER), use())),
    Row("a tile in each round", set(), (loop("k", lit(4), put(), BARRIER, use(), BARRIER),)),
    Row("read before it in each round", {"s"}, (loop("k", lit(4), use(), BARRIER, put(), BARRIER),)),
    Row("read behind the loop, which may not run", {"s"}, (loop("k", GROUPS, put(), BARRIER), use())),
    Row("a break before the store", {"s"}, (loop("k", lit(4), when(UNIFORM, Break()), put(), BARRIER), use())),
    Row("a continue before the store", set(), (loop("k", lit(4), when(UNIFORM, Continue()), put(), BARRIER, use()),)),
    Row("behind a block that returns", set(), (Block((Return(),)), use())),
    Row("behind branches that return", set(), (when(UNIFORM, Return(), otherwise=(Return(),)), use())),
    Row("behind such branches in a block", set(), (
        Block((when(UNIFORM, Return(), otherwise=(Return(),)),)), use(),
    )),
    Row("behind a block in a block", set(), (Block((Block((Return(),)),)), use())),
    # loops that fill
    Row("a loop that may not run", {"s"}, (loop("k", GROUPS, put()), BARRIER, use())),
    Row("a loop of one round", set(), (loop("k", lit(1), put()), BARRIER, use())),
    Row("a loop of a step nobody knows", {"big"}, (
        loop("k", lit(4), put(lanes_first(64), "big"), step=GROUPS), BARRIER, use(buffer="big"),
    )),
    Row("a loop of one round that does not begin at 0", set(), (
        put(), loop("k", lit(64), put(var("k")), start=lit(63)), BARRIER, use(LID),
    ), (63, 1, 1)),
    Row("a loop of a step of which only a part is known", {"big"}, (
        loop("k", lit(4), put(lanes_first(64), "big"), step=at(GROUPS, 1)), BARRIER, use(buffer="big"),
    )),
    Row("loops of no step, which do not run", {"big"}, (
        Let("z", lit(0)), loop("k", lit(256), put(var("k"), "big"), start=LID, step=var("z")),
        loop("k", lit(4), put(lanes_first(64), "big"), step=var("z")), BARRIER, use(buffer="big"),
    )),
    Row("a loop with a name for the index", set(), (
        loop("k", lit(4), Let("i", lanes_first(64)), put(var("i"), "big")), BARRIER, use(buffer="big"),
    )),
    Row("a loop over slices", set(), (
        loop("k", lit(4), put(lanes_first(64), "big")), BARRIER, use(buffer="big"),
    )),
    Row("a loop over too few slices", {"big"}, (
        loop("k", lit(3), put(lanes_first(64), "big")), BARRIER, use(buffer="big"),
    )),
    Row("a loop over slices from the second", {"big"}, (
        loop("k", lit(4), put(lanes_first(64), "big"), start=lit(1)), BARRIER, use(buffer="big"),
    )),
    Row("a loop over slices that leave gaps", {"big"}, (
        loop("k", lit(4), put(lanes_first(65), "big")), BARRIER, use(buffer="big"),
    )),
    Row("a loop over every other slice", {"big"}, (
        loop("k", lit(4), put(lanes_first(64), "big"), step=lit(2)), BARRIER, use(buffer="big"),
    )),
    Row("each lane its own four", set(), (
        loop("k", lit(4), put(add(op(B.MUL, LID, lit(4)), var("k")), "big")), BARRIER, use(buffer="big"),
    )),
    Row("a strided loop", set(), (
        loop("k", lit(256), put(var("k"), "big"), start=LID, step=lit(64)), BARRIER, use(buffer="big"),
    )),
    Row("a strided loop that stops early", {"big"}, (
        loop("k", lit(255), put(var("k"), "big"), start=LID, step=lit(64)), BARRIER, use(buffer="big"),
    )),
    Row("strides wider than the workgroup", {"big"}, (
        loop("k", lit(256), put(var("k"), "big"), start=LID, step=lit(65)), BARRIER, use(buffer="big"),
    )),
    Row("a strided loop with a way out", {"big"}, (
        loop("k", lit(256), when(BOUNDED, Break()), put(var("k"), "big"), start=LID, step=lit(64)), BARRIER,
        use(buffer="big"),
    )),
    Row("a loop from the lane on", set(), (
        loop("k", lit(256), put(var("k"), "big"), start=LID), BARRIER, use(buffer="big"),
    )),
    Row("strides from the second slice, one slice further on", set(), (
        put(buffer="big"), loop("k", lit(192), put(at(var("k"), 64), "big"), start=LID, step=lit(64)), BARRIER,
        use(buffer="big"),
    )),
    Row("strides two slices further on", {"big"}, (
        loop("k", lit(128), put(at(var("k"), 128), "big"), start=LID, step=lit(64)), BARRIER, use(buffer="big"),
    )),
    Row("strides from the second slice that leave gaps", {"big"}, (
        put(buffer="big"), loop("k", lit(256), put(var("k"), "big"), start=at(LID, 64), step=lit(128)), BARRIER,
        use(buffer="big"),
    )),
    Row("strides that no lane takes", {"big"}, (
        *(put(at(LID, first), "big") for first in (0, 128, 192)),
        loop("k", lit(32), put(var("k"), "big"), start=at(LID, 64), step=lit(64)), BARRIER, use(buffer="big"),
    )),
    Row("all but the first element", {"big"}, (
        *(put(at(LID, first), "big") for first in (1, 65, 129, 192)), BARRIER, use(buffer="big"),
    )),
    Row("a loop of no rounds", {"s"}, (loop("k", lit(4), put(), start=lit(4)), BARRIER, use())),
    Row("stores to a binding count for nothing", set(), (put(LID, "out"), put(), BARRIER, use())),
    Row("slices in steps of their width", set(), (
        loop("k", lit(256), put(add(var("k"), LID), "big"), step=lit(64)), BARRIER, use(buffer="big"),
    )),
    Row("slices in steps of their width, but for the last", {"big"}, (
        loop("k", lit(192), put(add(var("k"), LID), "big"), step=lit(64)), BARRIER, use(buffer="big"),
    )),
    Row("slices from the second on, but for the last", {"big"}, (
        put(buffer="big"), loop("k", lit(192), put(add(var("k"), LID), "big"), start=lit(64), step=lit(64)), BARRIER,
        use(buffer="big"),
    )),
    Row("a loop that occurs twice, and fills the second time", {"big"}, (
        Let("n", lit(0)), FILL, BARRIER, use(buffer="big"), Assign("n", lit(4)), FILL, BARRIER,
    )),
    Row("every lane fills all", set(), (loop("k", lit(64), put(var("k"))), BARRIER, use())),
)  # fmt: skip


def program(row: Row) -> Program:
    made = kernel(*row.body, buffers=BUFFERS, workgroup=row.workgroup)
    errors = [error.code for error in validate(made).errors]
    assert not errors, validate(made).render()
    return made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows(row: Row) -> None:
    made = program(row)
    assert needs_zeroing(made, bounds_facts(made)) == row.needs


def test_without_workgroup_memory_there_is_nothing_to_zero() -> None:
    made = kernel(Store("out", GID, GID), buffers=(OUT,))
    assert needs_zeroing(made, bounds_facts(made)) == frozenset()


def test_the_workgroup_of_the_launch_counts() -> None:
    made = kernel(put(), BARRIER, use(), buffers=BUFFERS)
    assert needs_zeroing(made, bounds_facts(made)) == frozenset()
    assert needs_zeroing(made, bounds_facts(made, workgroup=(32, 1, 1))) == {"s"}


class _Guard:
    """Fails at a read of an element that no lane has stored, or another lane has since the last barrier."""

    reads = 0
    unwritten = 0

    def __init__(self, made: Program) -> None:
        self.tracer = self
        self._zeroed = needs_zeroing(made, bounds_facts(made))
        self._shared = {b.name for b in made.buffers if b.is_workgroup}
        self._written: dict[tuple[str, int], tuple[int, int | None]] = {}
        """By buffer and byte: the phase of the first store, and the lane that made it (None: several)."""
        self._phase = 0

    def access(self, node: Access, index: int, count: int, /) -> None: ...

    def workgroup(self, workgroup: Workgroup, /) -> None:
        self._written.clear()

    def barrier(self) -> None:
        self._phase += 1

    def load(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        if buffer not in self._shared:
            return
        for byte in range(start, start + nbytes):
            phase, by = self._written.get((buffer, byte), (self._phase, None))
            known = phase < self._phase or by == lane
            if buffer in self._zeroed:
                _Guard.unwritten += not known
            else:
                _Guard.reads += 1
                assert known, f"lane {lane} reads byte {byte} of {buffer}"

    def store(self, buffer: str, start: int, data: bytes, lane: int, loc: Location, /) -> None:
        for byte in range(start, start + len(data)):
            phase, by = self._written.setdefault((buffer, byte), (self._phase, lane))
            if phase == self._phase and by != lane:
                self._written[buffer, byte] = phase, None

    def atomic(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        self.load(buffer, start, nbytes, lane, loc)


@pytest.mark.thorough
def test_no_row_reads_what_nobody_stored() -> None:
    _Guard.reads = _Guard.unwritten = 0
    for row in ROWS:
        made = program(row)
        case = Case(made, {"out": bytes(4 * 256)}, DispatchConfig(grid=(3, 1, 1)), Order.RACY)
        run(WatchedEngine(_Guard), case)
    assert _Guard.reads > 1_000 and _Guard.unwritten > 1_000


def _random_body(random: Random, depth: int) -> Body:
    """Stores, reads and barriers in uniform flow, and stores and reads in divergent flow."""
    body: list[Stmt] = []
    for _ in range(random.randint(1, 5)):
        match random.choice(("own", "own", "own", "slot", "read", "barrier", "barrier", "if", "some", "loop")):
            case "own":
                body.append(put())
            case "slot":
                body.append(put(lit(random.randrange(64))))
            case "read":
                body.append(use(random.choice((LID, None, lit(random.randrange(64))))))
            case "barrier":
                body.append(BARRIER)
            case "some":
                body.append(when(BOUNDED, random.choice((put(), use()))))
            case "if" if depth:
                branches = _random_body(random, depth - 1), _random_body(random, depth - 1)
                body.append(If(random.choice((UNIFORM, less(GROUPS, lit(2)))), *branches))
            case "loop" if depth:
                way_out: Body = () if random.random() < 0.5 else (when(UNIFORM, random.choice((Break(), Continue()))),)
                inner = (*way_out, *_random_body(random, depth - 1))
                body.append(loop(f"k{depth}", random.choice((GROUPS, lit(2))), *inner))
    return tuple(body)


@pytest.mark.thorough
def test_random_programs_do_not_read_what_nobody_stored() -> None:
    _Guard.reads = _Guard.unwritten = 0
    for seed in range(300):
        made = kernel(*_random_body(Random(seed), 2), buffers=BUFFERS, workgroup=(64, 1, 1))
        case = Case(made, {"out": bytes(4 * 256)}, DispatchConfig(grid=(1 + seed % 3, 1, 1)), Order.RACY)
        run(WatchedEngine(_Guard), case)
    assert _Guard.reads > 5_000 and _Guard.unwritten > 10_000
