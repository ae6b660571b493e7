"""The walk over a program: which accesses, runs, loops and names it finds."""

from __future__ import annotations

from typing import Final

import pytest

from support.kernels import LID, add, kernel, less, lit, loop, op, var, when
from vyre.domain.analysis.index_flow import Event, IndexFlow, Step, index_flow
from vyre.domain.analysis.index_values import U32_MAX
from vyre.domain.ir.buffers import MemoryKind
from vyre.domain.ir.expr import Atomic, BufferLength, Expr, Load
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Arm, Assign, Block, Body, If, Let, Return, Stmt, Store, Switch, walk_statements
from vyre.domain.ir.types import u32
from vyre.domain.validation.validator import validate

B: Final = BinaryOp
BUFFERS: Final = (
    Buffer.make("inp", 0, Access.READ_ONLY, u32),
    Buffer.make("out", 1, Access.READ_WRITE, u32),
    Buffer.make("like", 2, Access.READ_WRITE, u32, is_output=True, like="inp"),
    Buffer.make("table", 3, Access.READ_ONLY, u32, 100),
    Buffer.make("count", 4, Access.READ_WRITE, u32, 1),
    Buffer("n", 5, Access.UNIFORM, u32, 1, kind=MemoryKind.PUSH),
)
TICKET: Final = Atomic(AtomicOp.ADD, "count", lit(0), None, lit(1))
SMALL: Final = 64
"""Operators up to which an expression is walked without looking for shared ones."""


def program(*body: Stmt) -> Program:
    made = kernel(*body, buffers=BUFFERS)
    assert validate(made).ok, validate(made).render()
    return made


def flow_of(*body: Stmt) -> IndexFlow:
    return index_flow(program(*body))


def load(index: int = 0, buffer: str = "table") -> Load:
    return Load(buffer, lit(index))


def store(value: Expr, index: Expr = LID) -> Store:
    return Store("out", index, value)


def test_it_is_kept_for_the_last_parameters() -> None:
    made = program(store(load()))
    first = index_flow(made)
    assert index_flow(made) is first
    assert index_flow(made, workgroup=(64, 1, 1)) is first
    for other in (
        index_flow(made, workgroup=(32, 1, 1)),
        index_flow(made, in_range=("out",)),
        index_flow(made, same_length=True),
    ):
        assert other is not first
    assert index_flow(made, same_length=True) is other
    assert index_flow(made) is not first


def test_lengths_are_alike_only_if_the_caller_says_so() -> None:
    access = Store("like", LID, lit(1))
    made = program(when(less(LID, BufferLength("inp")), access))
    assert not index_flow(made).proven[id(access)]
    assert index_flow(made, same_length=True).proven[id(access)]


# ---- what is inside expressions
def test_accesses_of_an_expression() -> None:
    inner = load(3)
    outer = Load("inp", inner)
    plain, atomic, names = add(outer, lit(1)), add(TICKET, lit(1)), add(var("x"), load(4))
    flow = flow_of(Let("x", lit(1)), Assign("x", lit(2)), store(plain), Let("t", atomic), store(names))
    assert flow.scans[id(plain)] == ((outer, inner), (), False)
    assert flow.scans[id(atomic)] == ((TICKET,), (), True)
    assert flow.scans[id(names)] == ((names.right,), ("x",), False)


def large(*ends: Expr) -> Expr:
    """An expression of more than a small number of operators, and then these."""
    total: Expr = LID
    for number in range(SMALL + 2):
        total = add(total, lit(number))
    for end in ends:
        total = add(total, end)
    return total


def test_a_large_expression_is_looked_at_to_its_end() -> None:
    loads = [load(number) for number in range(40)]
    flow = flow_of(store(large(*loads)))
    assert all(flow.proven[id(access)] for access in loads)
    shared, last = add(load(1), lit(1)), load(2)
    flow = flow_of(Let("x", lit(1)), Assign("x", lit(3)), store(large(shared, shared, var("x"), shared, last)))
    assert flow.proven[id(shared.left)] and flow.proven[id(last)]


def test_shared_nodes_are_not_walked_again_in_a_large_expression() -> None:
    """2**16 paths lead to its leaf."""
    total: Expr = load(1)
    leaf = total
    for _ in range(16):
        total = add(total, total)
    flow = flow_of(store(total))
    assert flow.proven[id(leaf)]
    assert 1 <= len(flow.scans[id(total)][0]) <= SMALL


def test_all_expressions_of_a_statement_are_looked_at() -> None:
    late = load(5)
    body = (Let("x", lit(1)), Assign("x", lit(2)))
    for first in (LID, var("x"), add(LID, lit(1)), add(var("x"), lit(1)), load(7)):
        assert flow_of(*body, Store("out", first, late)).proven[id(late)]


def test_a_scalar_parameter_is_always_there() -> None:
    parameter = Load("n", lit(0))
    flow = flow_of(store(parameter))
    assert flow.proven[id(parameter)] is True
    assert id(parameter) not in flow.indices


# ---- nodes that occur several times
def test_a_node_that_occurs_twice_in_a_statement_is_read_once() -> None:
    shared = load(1)
    write = store(op(B.MUL, shared, shared))
    flow = flow_of(write)
    index = flow.indices[id(shared)]
    assert index is not None and index.constant == 1
    ((first, second),) = flow.runs
    assert first == Event(Step.LOAD, shared, index, True)
    assert (second.step, second.node) == (Step.STORE, write)


def test_a_node_that_occurs_in_two_statements_is_proven_if_it_is_each_time() -> None:
    shared = Load("table", var("i"))
    good, bad = Let("i", lit(99)), Let("i", lit(100))
    for first, second, proven in ((good, good, True), (good, bad, False), (bad, good, False), (bad, bad, False)):
        flow = flow_of(Block((first, store(shared))), Block((second, store(shared))))
        assert flow.proven[id(shared)] is proven
        assert flow.indices[id(shared)] is None


def test_a_loop_that_occurs_twice_has_no_bounds() -> None:
    once, twice = loop("k", lit(4), store(lit(1))), loop("k", lit(5), store(lit(2)))
    flow = flow_of(once, twice, twice)
    bounds = flow.loops[id(once)]
    assert bounds is not None and bounds.stop.constant == 4
    assert flow.loops[id(twice)] is None


# ---- runs
def steps(flow: IndexFlow) -> list[list[Step]]:
    return [[event.step for event in run] for run in flow.runs]


def test_one_access_is_no_run() -> None:
    assert flow_of(store(lit(1))).runs == []
    assert flow_of(Let("a", load()), when(less(LID, lit(3)), store(lit(1)))).runs == []
    assert steps(flow_of(store(lit(1)), store(lit(2)))) == [[Step.STORE, Step.STORE]]


def test_an_assignment_between_accesses_is_an_event() -> None:
    change = Assign("x", lit(2))
    flow = flow_of(Let("x", lit(1)), change, Let("a", load()), change, change, Let("b", load(1)), change)
    ((_, event, _, last),) = flow.runs
    assert event == last == Event(Step.ASSIGN, change, None, False)
    assert event.proven is False and event.node is change


def test_an_atomic_ends_a_run_and_keeps_the_loads_of_its_statement_out() -> None:
    beside, index = load(2), load(0)
    flow = flow_of(
        *(Let(f"a{k}", load(k)) for k in range(2)),
        Let("t", add(TICKET, beside)),
        Let("u", Atomic(AtomicOp.ADD, "count", index, None, lit(1))),
        *(Let(f"b{k}", load(k)) for k in range(2)),
    )
    assert steps(flow) == [[Step.LOAD, Step.LOAD], [Step.LOAD, Step.LOAD]]
    assert flow.proven[id(beside)] and flow.proven[id(index)]
    assert not any(event.node is node for run in flow.runs for event in run for node in (beside, index))


# ---- names and branches
def test_names_that_end_with_their_scope() -> None:
    inner = Block((Let("x", lit(1)), Assign("x", lit(200)), Assign("x", load())))
    read = Load("table", var("x"))
    flow = flow_of(inner, Let("x", lit(7)), store(read))
    assert flow.proven[id(read)]
    flow = flow_of(Let("y", lit(7)), when(less(LID, lit(9)), *inner.body), Let("x", var("y")), store(read))
    assert flow.proven[id(read)]


@pytest.mark.parametrize("inside", [Let("a", lit(1)), store(lit(1)), loop("k", lit(3)), Assign("y", lit(1)), Block(())])
def test_a_branch_that_comes_back_says_nothing_behind_it(inside: Stmt) -> None:
    read = Load("table", var("x"))
    locals_ = Let("x", load(0, "inp")), Let("y", lit(0))
    outside = op(B.GE, var("x"), lit(100))
    assert not flow_of(*locals_, when(outside, inside), store(read)).proven[id(read)]
    assert flow_of(*locals_, when(outside, inside, Return()), store(read)).proven[id(read)]
    inside_range = less(var("x"), lit(100))
    assert not flow_of(*locals_, when(inside_range, inside), store(read)).proven[id(read)]


def _chain(*links: tuple[Expr, Stmt], otherwise: Body = ()) -> If:
    for condition, stmt in reversed(links):
        otherwise = (when(condition, stmt, otherwise=otherwise),)
    (first,) = otherwise
    assert isinstance(first, If)
    return first


def test_a_link_knows_its_condition_and_that_those_before_it_failed() -> None:
    middle, last = Load("table", var("x")), Load("table", op(B.SUB, var("x"), lit(300)))
    x = Let("x", load(0, "inp"))
    far, near = op(B.GE, var("x"), lit(400)), less(var("x"), lit(300))
    made = _chain((far, store(lit(1))), (near, store(middle)), otherwise=(store(last),))
    flow = flow_of(x, made)
    assert flow.proven[id(last)] and not flow.proven[id(middle)]
    flow = flow_of(x, _chain((op(B.GE, var("x"), lit(100)), store(lit(1))), (near, store(middle))))
    assert flow.proven[id(middle)]
    read = Load("table", var("x"))
    assert not flow_of(x, made, store(read)).proven[id(read)]


@pytest.mark.parametrize("ends", range(4))
def test_behind_a_chain_holds_what_all_links_that_come_back_know(ends: int) -> None:
    """``x`` is below 100 behind it if the first link ends; below 50 if the second one does, too."""
    small, smaller = Load("table", var("x")), Load("table", op(B.ADD, var("x"), lit(50)))
    over, half = op(B.GE, var("x"), lit(100)), op(B.GE, var("x"), lit(50))
    first = Return() if ends & 1 else store(lit(1))
    second = Return() if ends & 2 else store(lit(2))
    flow = flow_of(Let("x", load(0, "inp")), _chain((over, first), (half, second)), store(small), store(smaller))
    assert flow.proven[id(small)] is (ends in (1, 3))
    assert flow.proven[id(smaller)] is (ends == 3)


def test_only_the_link_that_comes_back_is_known_behind_a_chain() -> None:
    read = Load("table", var("x"))
    in_range, x = less(var("x"), lit(100)), Let("x", load(0, "inp"))
    other = less(load(1, "inp"), lit(3))
    assert flow_of(x, _chain((other, Return()), (in_range, store(lit(1))), otherwise=(Return(),)), store(read)).proven[
        id(read)
    ]
    kept = _chain((other, store(lit(1))), (in_range, store(lit(1))), otherwise=(Return(),))
    assert not flow_of(x, kept, store(read)).proven[id(read)]


def _switch(*bodies: Body, default: Body = ()) -> Switch:
    return Switch(load(0, "inp"), tuple(Arm((lit(n),), body) for n, body in enumerate(bodies)), default)


def test_accesses_in_all_bodies_of_a_switch_are_found_and_the_selector_s() -> None:
    reads = [load(n) for n in (0, 99)]
    made = _switch((store(reads[0]),), default=(store(reads[1]),))
    flow = flow_of(made)
    assert all(flow.proven[id(access)] for access in reads)
    assert id(made.selector) in flow.indices


def test_what_an_arm_assigns_is_unknown_behind_a_switch() -> None:
    read = Load("table", var("x"))
    far: Body = (Assign("x", lit(200)),)
    for made, proven in (
        (_switch(far), False),
        (_switch((), far), False),
        (_switch(default=far), False),
        (_switch((*far, Return())), True),
        (_switch((Let("y", lit(1)), Assign("y", lit(200)))), True),
    ):
        assert flow_of(Let("x", lit(5)), made, store(read)).proven[id(read)] is proven
        again = loop("k", lit(2), store(read), made)
        assert flow_of(Let("x", lit(5)), again).proven[id(read)] is not any(
            isinstance(s, Assign) and s.name == "x" for s in walk_statements((made,))
        )


def test_what_an_arm_assigned_is_known_in_it_and_not_in_the_next_one() -> None:
    first, second = Load("table", var("x")), Load("table", var("x"))
    made = _switch((Assign("x", lit(7)), store(first)), (store(second),))
    flow = flow_of(Let("x", lit(200)), made)
    assert flow.proven[id(first)] and not flow.proven[id(second)]


# ---- loops
@pytest.mark.parametrize(
    ("start", "stop", "step", "low", "high", "align"),
    [
        (3, 10, 1, 3, 9, 0),
        (4, 16, 1, 4, 15, 0),
        (0, 16, 4, 0, 12, 2),
        (0, 17, 4, 0, 16, 2),
        (2, 16, 4, 2, 14, 1),
        (2, 15, 4, 2, 14, 1),
        (2, 14, 4, 2, 10, 1),
        (8, 30, 6, 8, 26, 1),
        (8, 8, 1, 8, 8, 3),  # no iteration
        (9, 3, 2, 9, 9, 0),
    ],
)
def test_values_of_a_loop_of_literal_bounds(start: int, stop: int, step: int, low: int, high: int, align: int) -> None:
    made = loop("k", lit(stop), store(var("k")), start=lit(start), step=lit(step))
    bounds = flow_of(made).loops[id(made)]
    assert bounds is not None
    counter = bounds.counter
    assert (bounds.start.constant, bounds.stop.constant, bounds.step.constant) == (start, stop, step)
    assert (counter.low, counter.high, counter.align) == (low, high, align)
    assert step > 1 or low == high or counter.atom is not None


def test_values_of_a_loop_of_other_bounds() -> None:
    quads = op(B.BIT_AND, load(0, "inp"), lit(0xFFFC))
    pairs = op(B.BIT_AND, load(1, "inp"), lit(0xE))
    for start, stop, step, low, high, align in (
        (quads, lit(40), lit(2), 0, 38, 1),
        (quads, lit(40), lit(8), 0, 36, 2),
        (quads, load(2, "inp"), pairs, 0, U32_MAX - 1, 1),
        (lit(4), lit(40), pairs, 4, 38, 1),
        (lit(4), load(2, "inp"), lit(4), 4, U32_MAX - 3, 2),
    ):
        made = loop("k", stop, store(var("k")), start=start, step=step)
        bounds = flow_of(made).loops[id(made)]
        assert bounds is not None
        counter = bounds.counter
        assert (counter.low, counter.high, counter.align) == (low, high, align)
