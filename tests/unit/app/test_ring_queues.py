"""Work queues as rings: every item exactly once in any order, rounds without waiting, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.fixed_points import FAR, keep_resident_arrays
from support.llvm import BACKENDS, NEEDS_LLVM
from support.work_queues import (
    BUSHY,
    DEEP,
    ROLES,
    WIDE,
    Tree,
    distances,
    handle_task,
    reach_node,
    reach_queue,
    tree_queue,
    visit_node,
    web,
)
from vyre import (
    InvalidConfig,
    InvalidInput,
    InvalidProgram,
    PlanError,
    Program,
    QueueDiscipline,
    Session,
    WorkQueueOverflow,
)
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.work_queues import ring
from vyre.testing import cuda_machine

RING: Final[dict[str, Any]] = {"discipline": "ring"}


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_resident_arrays(monkeypatch)


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param) as made:
        yield made


# ---------------------------------------------------------------- exactly once
@pytest.mark.parametrize("tree", [BUSHY, WIDE, DEEP, Tree.of([])], ids=["bushy", "wide", "deep", "alone"])
def test_every_task_is_processed_exactly_once(session: Session, tree: Tree) -> None:
    found = tree_queue(session, tree, 256, **RING)
    for calls in (1, 2, 3):
        result = found.queue(found.start)
        assert found.hits.download().tolist() == [calls] * tree.tasks
        assert (result.processed, result.pushed, result.launches) == (tree.tasks, tree.tasks, 1)


def test_a_chain_of_items_needs_no_barrier_between_them(session: Session) -> None:
    """One round processes the chain, since the lanes that push an item come again; another one finds nothing."""
    found = tree_queue(session, DEEP, 32, **RING)
    assert found.queue(found.start).phases == 2
    phased = tree_queue(session, DEEP, 32)
    assert phased.queue(phased.start).phases == len(DEEP.widths) == 61


@pytest.mark.parametrize("lanes", [8, 32, 64, 96])
def test_subgroups_of_one_workgroup_claim_different_items(session: Session, lanes: int) -> None:
    found = tree_queue(session, BUSHY, 256, step=replace(handle_task.program, workgroup_size=(lanes, 1, 1)), **RING)
    assert found.queue(found.start).processed == 200
    assert found.hits.download().tolist() == [1] * 200


def test_a_claim_that_does_not_compare_takes_items_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: two subgroups look at the same slots, and both take them."""
    claim = "if atomic_compare_exchange.relaxed({places}, {head_word}u, {first}, {first} + {claimed}) == {first} {{"
    assert claim in ring._TEXT
    always = "let {tail} = atomic_exchange.relaxed({places}, {head_word}u, {first} + {claimed}) if true {{"
    monkeypatch.setattr(ring, "_TEXT", ring._TEXT.replace(claim, always))
    with vyre.open("reference") as session:
        found = tree_queue(session, WIDE, 256, step=replace(handle_task.program, workgroup_size=(64, 1, 1)), **RING)
        found.queue(found.start)
        assert found.hits.download().max() > 1


def test_a_search_reaches_what_a_queue_in_phases_reaches(session: Session) -> None:
    graph = web()
    wanted = (distances(graph) != FAR).astype(np.uint32)
    for discipline in QueueDiscipline:
        found = reach_queue(session, graph, 128, discipline=discipline)
        result = found.queue(found.start)
        assert found.hits.download().tobytes() == wanted.tobytes()
        assert result.processed == result.pushed == wanted.sum() < graph.nodes


def test_no_initial_items_are_no_work(session: Session) -> None:
    found = tree_queue(session, BUSHY, 8, **RING)
    result = found.queue(np.zeros(0, np.uint32))
    assert (result.processed, result.pushed, result.launches) == (0, 0, 1)
    assert not found.hits.download().any()


def test_the_slots_are_used_again_and_again(session: Session) -> None:
    """Two slots serve a chain of 61 tasks, in every call."""
    found = tree_queue(session, DEEP, 2, **RING)
    for calls in (1, 2):
        assert found.queue(found.start).processed == 61
        assert found.hits.download().tolist() == [calls] * 61


def test_places_may_be_compared_with_the_room(session: Session) -> None:
    program = step("""
    let i = items[gid.x]
    let old = atomic_add(x, i, 1u)
    if i < 9u {
      let place = atomic_add(count, 0u, 1u)
      if place < len(pushed) { pushed[place] = i + 1u }
    }""")
    x = session.resident(np.zeros(10, np.uint32))
    queue = session.work_queue(program, {"x": x}, **ROLES, capacity=4, **RING)
    assert queue(np.zeros(1, np.uint32)).processed == 10
    assert x.download().tolist() == [1] * 10


# ---------------------------------------------------------------- bounded launches
@pytest.mark.parametrize("most", [1, 7, 64, 199, 200, 500])
def test_the_launches_are_the_chunks(session: Session, most: int) -> None:
    found = tree_queue(session, BUSHY, 256, items_per_launch=most, total_items=200, **RING)
    result = found.queue(found.start)
    assert result.launches == -(-200 // most) == result.plan.chunks
    assert result.processed == result.pushed == 200
    assert found.hits.download().tolist() == [1] * 200
    graph = web()
    reached = reach_queue(session, graph, 128, items_per_launch=most, **RING)
    again = reached.queue(reached.start)
    assert again.launches == -(-again.processed // most)
    np.testing.assert_array_equal(reached.hits.download(), distances(graph) != FAR)


def test_too_small_a_total_is_told(session: Session) -> None:
    found = tree_queue(session, BUSHY, 256, items_per_launch=10, total_items=50, **RING)
    with pytest.raises(InvalidInput, match=r"50 items were processed, \d+ are left, and total_items is 50"):
        found.queue(found.start)
    found = tree_queue(session, BUSHY, 256, items_per_launch=10, **RING)
    assert found.queue(found.start).launches == 20


def test_places_without_an_item_are_told(session: Session) -> None:
    """Nobody can take what lies behind such a place, and launches do not follow each other without end."""
    program = step("""
    let i = items[gid.x]
    let old = atomic_add(x, 0u, 1u)
    if i == 0u { let place = atomic_add(count, 0u, 2u) pushed[place + 1u] = 5u }""")
    for most in (None, 1):
        x = session.resident(np.zeros(1, np.uint32))
        queue = session.work_queue(program, {"x": x}, **ROLES, capacity=4, items_per_launch=most, **RING)
        with pytest.raises(InvalidProgram, match=r"2 item\(s\) are left: lanes reserved places"):
            queue(np.zeros(1, np.uint32))
        assert x.download().tolist() == [1]
        assert queue(np.ones(3, np.uint32)).processed == 3


# ---------------------------------------------------------------- overflow
@pytest.mark.parametrize("most", [None, 1])
def test_one_slot_too_few_overflows(session: Session, most: int | None) -> None:
    """A subgroup alone: the root is taken when it pushes its children, which wait all at once."""
    enough = tree_queue(session, Tree.of([0] * 32), 32, items_per_launch=most, **RING)
    assert enough.queue.grid.groups == 1
    assert enough.queue(enough.start).processed == 33
    tree = Tree.of([0] * 33)
    short = tree_queue(session, tree, 32, items_per_launch=most, total_items=most and tree.tasks, **RING)
    for calls in (1, 2):
        with pytest.raises(WorkQueueOverflow) as error:
            short.queue(short.start)
        assert (error.value.capacity, error.value.lost) == (32, 1)
        assert short.hits.download().max() <= calls, "no task twice beside an overflow"
    larger = tree_queue(session, tree, 64, items_per_launch=most, **RING)
    assert larger.queue(larger.start).processed == 34
    short.queue(np.array([5], np.uint32))  # what a drain has left behind does not matter


# ---------------------------------------------------------------- refusals
def step(body: str) -> Program:
    """Returns a step program on x."""
    return Program.from_text(f"""
    workgroup_size 32, 1, 1
    buffer items @0 read u32[runtime]
    buffer pushed @1 read_write u32[runtime]
    buffer count @2 read_write u32[1]
    buffer x @3 read_write u32[runtime]
    body {{ if gid.x < len(items) {{ {body} }} }}
    """)


@pytest.mark.parametrize("capacity", [1, 3, 100])
def test_other_numbers_of_slots_are_refused(capacity: int) -> None:
    with vyre.open("reference") as session, pytest.raises(PlanError, match="a power of two from 2 on"):
        tree_queue(session, BUSHY, capacity, **RING)


def test_wrong_disciplines_are_refused() -> None:
    with vyre.open("reference") as session:
        for wrong in ("rings", 3):
            with pytest.raises(InvalidConfig, match="one of 'phased', 'ring'"):
                tree_queue(session, BUSHY, 4, discipline=wrong)


def test_a_program_that_loads_what_it_writes_needs_phases() -> None:
    """Levels are those of the phases; in a ring a node may be reached by a longer way first."""
    with pytest.raises(InvalidInput, match="it loads `levels`, which it also writes") as error:
        vyre.drain_program(visit_node, **ROLES, **RING)
    assert 'Fix: give the item what it needs, or use the queue in phases (discipline="phased")' in str(error.value)
    vyre.drain_program(visit_node, **ROLES)
    with pytest.raises(InvalidInput, match="depends on the place of an item"):
        vyre.drain_program(step("x[items[gid.x]] = gid.x"), **ROLES, **RING)


# ---------------------------------------------------------------- one dispatch, threads, schedules
@pytest.mark.parametrize("grid", [1, 3])
def test_one_dispatch_drains_the_queue(session: Session, grid: int) -> None:
    drain = vyre.drain_program(handle_task, **ROLES, **RING)
    queue = drain.inputs(np.zeros(1, np.uint32), 256)
    assert drain.names == queue.keys()
    inputs: dict[str, Any] = {"first": BUSHY.first, "children": BUSHY.children, "hits": np.zeros(200, np.uint32)}
    found = session.dispatch(drain.program, inputs | queue, grid=grid)
    assert found["hits"].tolist() == [1] * 200
    totals = drain.totals(found)
    assert (totals["processed"], totals["pushed"]) == (200, 200)
    with pytest.raises(WorkQueueOverflow):
        drain.totals(session.dispatch(drain.program, inputs | drain.inputs(np.zeros(1, np.uint32), 2), grid=1))
    with pytest.raises(PlanError, match="a power of two from 2 on"):
        drain.inputs(np.zeros(1, np.uint32), 100)


@NEEDS_LLVM
def test_threads_do_not_matter() -> None:
    graph = web(900)
    wanted = (distances(graph) != FAR).astype(np.uint32)
    for threads in (1, 2, 8):
        with vyre.open("cpu", cache=False, threads=threads) as session:
            found = reach_queue(session, graph, 1024, **RING)
            found.queue(found.start)
            assert found.hits.download().tobytes() == wanted.tobytes(), threads


@pytest.mark.parametrize("options", [RunOptions("lockstep"), RunOptions("reverse"), RunOptions("shuffled", seed=5)])
def test_schedules_do_not_matter(options: RunOptions) -> None:
    """The machine also looks for races."""
    graph = web()
    for most in (None, 11):
        with cuda_machine(kernels=options).open() as session:
            found = reach_queue(session, graph, 128, items_per_launch=most, **RING)
            result = found.queue(found.start)
            assert found.queue.grid.groups > 1
            assert result.processed == (distances(graph) != FAR).sum()
            np.testing.assert_array_equal(found.hits.download(), distances(graph) != FAR)


def test_on_a_device_a_drain_is_one_launch_and_one_wait() -> None:
    with cuda_machine(CudaOptions(graph_after=None)).open() as session:
        for tree in (WIDE, DEEP):
            found = tree_queue(session, tree, 128, **RING)
            found.queue(found.start)
            before = session.metrics()
            found.queue(found.start)
            counted = {name: value - before[name] for name, value in session.metrics().items()}
            assert (counted["kernel_launches"], counted["sync_points"]) == (1, 1)


def test_lanes_reserve_places_together_on_a_device() -> None:
    """One addition for the lanes of a warp that push an item each, and one claim for all lanes of a warp."""
    text = vyre.emit(vyre.drain_program(reach_node, **ROLES, **RING).program, target="sm_90").text
    assert "activemask" in text
    assert text.count(".global.cas.b32") == 1


def test_decisions_are_in_the_journal() -> None:
    with vyre.open("reference", journal=vyre.DecisionJournal()) as session:
        found = tree_queue(session, BUSHY, 256, items_per_launch=8, total_items=200, **RING)
        plan = found.queue.plan(1)
        assert (plan.chunks, plan.queue.queue_capacity, plan.queue.queue_bytes) == (25, 256, 2048)
        assert ", ring, " in repr(found.queue)
        assert session.journal is not None
        assert "plan_backpressure" in {decision.name for decision in session.journal.decisions}
