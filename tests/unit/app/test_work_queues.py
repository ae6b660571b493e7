"""Work queues: every item exactly once, the bytes of every backend, launches and waits, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
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
    Drained,
    Tree,
    distances,
    handle_task,
    search_queue,
    tree_queue,
    web,
)
from vyre import (
    InvalidConfig,
    InvalidInput,
    InvalidProgram,
    InvalidResource,
    PlanError,
    Program,
    Session,
    WorkQueueOverflow,
)
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.work_queues import phased
from vyre.testing import cuda_machine


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_resident_arrays(monkeypatch)


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param) as made:
        yield made


def spent(session: Session, drained: Drained) -> dict[str, int]:
    """Returns the differences of the backend's counters that a drain makes."""
    before = session.metrics()
    drained.queue(drained.start)
    return {name: value - before[name] for name, value in session.metrics().items()}


# ---------------------------------------------------------------- exactly once
@pytest.mark.parametrize("tree", [BUSHY, WIDE, DEEP, Tree.of([])], ids=["bushy", "wide", "deep", "alone"])
def test_every_task_is_processed_exactly_once(session: Session, tree: Tree) -> None:
    found = tree_queue(session, tree, tree.need)
    result = found.queue(found.start)
    assert found.hits.download().tolist() == [1] * tree.tasks
    assert (result.processed, result.pushed, result.launches) == (tree.tasks, tree.tasks, 1)
    assert result.phases == len(tree.widths)


def test_the_count_of_a_task_tells_a_second_time(session: Session) -> None:
    """The control: a task that two others push is processed twice, and its count says so."""
    tree = Tree(4, np.array([0, 2, 3, 4, 4], np.uint32), np.array([1, 2, 3, 3], np.uint32))
    found = tree_queue(session, tree, 8)
    result = found.queue(found.start)
    assert found.hits.download().tolist() == [1, 1, 1, 2]
    assert (result.processed, result.pushed) == (5, 5)


def test_a_search_reaches_every_node_at_its_level(session: Session) -> None:
    graph = web()
    found = search_queue(session, graph, graph.nodes)
    result = found.queue(found.start)
    wanted = distances(graph)
    np.testing.assert_array_equal(found.levels.download(), wanted)
    reached = wanted != FAR
    np.testing.assert_array_equal(found.hits.download(), reached)
    assert result.processed == result.pushed == reached.sum() < graph.nodes
    assert result.phases == wanted[reached].max() + 1


def test_no_initial_items_are_no_work(session: Session) -> None:
    found = tree_queue(session, BUSHY, 5)
    result = found.queue(np.zeros(0, np.uint32))
    assert (result.processed, result.pushed, result.phases, result.launches) == (0, 0, 0, 1)
    assert not found.hits.download().any()


def test_many_initial_items_and_a_second_call(session: Session) -> None:
    """All tasks are given at the start, beside being pushed: a leaf counts as often as it has ancestors, and itself."""
    tree = Tree.of([0, 1, 2])
    found = tree_queue(session, tree, 8)
    for calls in (1, 2):
        result = found.queue(np.arange(4, dtype=np.uint32))
        assert (result.processed, found.hits.download().tolist()) == (10, [calls * k for k in (1, 2, 3, 4)])


def test_the_ring_is_used_again_and_again(session: Session) -> None:
    """Two slots serve a chain of 61 tasks: one is processed, one is pushed."""
    found = tree_queue(session, DEEP, 2)
    assert found.queue(found.start).phases == 61
    assert found.hits.download().tolist() == [1] * 61


# ---------------------------------------------------------------- bounded launches
@pytest.mark.parametrize("most", [1, 7, 64, 199, 200, 500])
def test_the_launches_are_the_chunks(session: Session, most: int) -> None:
    """Also a launch that ends in the middle of a level leaves the levels of a search what they are."""
    found = tree_queue(session, BUSHY, BUSHY.need, items_per_launch=most, total_items=200)
    result = found.queue(found.start)
    assert result.launches == -(-200 // most) == result.plan.chunks
    assert result.processed == result.pushed == 200
    assert found.hits.download().tolist() == [1] * 200
    graph = web()
    searched = search_queue(session, graph, graph.nodes, items_per_launch=most)
    again = searched.queue(searched.start)
    assert again.launches == -(-again.processed // most)
    np.testing.assert_array_equal(searched.levels.download(), distances(graph))


def test_too_small_a_total_is_told(session: Session) -> None:
    found = tree_queue(session, BUSHY, BUSHY.need, items_per_launch=10, total_items=50)
    with pytest.raises(InvalidInput, match=r"50 items were processed, \d+ are left, and total_items is 50"):
        found.queue(found.start)


# ---------------------------------------------------------------- overflow
@pytest.mark.parametrize(
    ("tree", "most"),
    [(BUSHY, None), (WIDE, None), (WIDE, 5), (Tree.of([0]), None)],
    ids=["bushy", "wide", "wide, in chunks", "two"],
)
def test_one_slot_too_few_overflows(session: Session, tree: Tree, most: int | None) -> None:
    enough = tree_queue(session, tree, tree.need, items_per_launch=most)
    assert enough.queue(enough.start).processed == tree.tasks
    short = tree_queue(session, tree, tree.need - 1, items_per_launch=most)
    with pytest.raises(WorkQueueOverflow) as error:
        short.queue(short.start)
    assert error.value.capacity == tree.need - 1
    assert error.value.lost >= 1
    assert "work queue" in error.value.__notes__[0]
    assert max(short.hits.download()) == 1


def test_an_overflow_leaves_the_queue_usable(session: Session) -> None:
    found = tree_queue(session, WIDE, 50)
    with pytest.raises(WorkQueueOverflow):
        found.queue(found.start)
    assert found.queue(np.arange(1, 51, dtype=np.uint32)).processed == 50


def test_a_place_without_an_item_is_told(session: Session) -> None:
    """The item in phase 3 reserves a place and stores nothing there, so that something is pending and nothing runs."""
    program = step("""
        let i = items[gid.x]
        let unused = atomic_add(x, 0u, 1u)
        let place = atomic_add(count, 0u, 1u)
        if i != 2u { pushed[place] = i + 1u }
    """)
    x = session.resident(np.zeros(1, np.uint32))
    queue = session.work_queue(program, {"x": x}, **ROLES, capacity=4)
    with pytest.raises(InvalidProgram, match="lanes reserved places in the queue and stored nothing there"):
        queue(np.zeros(1, np.uint32))
    assert x.download().tolist() == [3]


# ---------------------------------------------------------------- memory
def test_a_closed_queue_is_refused(session: Session) -> None:
    with tree_queue(session, BUSHY, BUSHY.need).queue as queue:
        assert queue(np.zeros(1, np.uint32)).processed == 200
    with pytest.raises(InvalidResource):
        queue(np.zeros(1, np.uint32))


def test_a_queue_of_a_closed_session_is_refused() -> None:
    with vyre.open("reference") as session:
        found = tree_queue(session, BUSHY, BUSHY.need)
    with pytest.raises(InvalidResource, match="the session is closed"):
        found.queue(found.start)


@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        ({"capacity": 0}, InvalidConfig, "capacity=0"),
        ({"capacity": 2**31}, InvalidConfig, "capacity=2147483648"),
        ({"items_per_launch": 0}, InvalidConfig, "items_per_launch=0"),
        ({"total_items": -1}, InvalidConfig, "total_items=-1"),
        ({"items": "none"}, InvalidInput, "it has no buffer `none`"),
        ({"pushed": "hits"}, InvalidInput, "`hits` is not only stored to"),
        ({"items": "count"}, InvalidInput, "are not three buffers"),
    ],
)
def test_wrong_queues(wrong: dict[str, Any], error: type[Exception], why: str) -> None:
    with vyre.open("reference") as session, pytest.raises(error, match=why):
        hits = session.resident(np.zeros(4, np.uint32))
        inputs = {"first": np.zeros(5, np.uint32), "children": np.zeros(1, np.uint32), "hits": hits}
        session.work_queue(handle_task, inputs, **{**ROLES, "capacity": 4, **wrong})


def test_wrong_items() -> None:
    with vyre.open("reference") as session:
        found = tree_queue(session, BUSHY, 3, total_items=3)
        for items in (np.zeros(1, np.int32), np.zeros((1, 1), np.uint32), b"\0\0\0\0"):
            with pytest.raises(InvalidInput, match="pass a NumPy array of uint32 with one axis"):
                found.queue(items)
        with pytest.raises(InvalidInput, match="the initial items are a resident array"):
            found.queue(found.hits)
        with pytest.raises(PlanError, match="initial items exceed capacity: initial_items = 4, queue_capacity = 3"):
            found.queue(np.zeros(4, np.uint32))


# ---------------------------------------------------------------- the same bytes
def test_threads_do_not_matter() -> None:
    graph = web(900)
    wanted = distances(graph)
    for threads in (1, 2, 8):
        with vyre.open("cpu", cache=False, threads=threads) as session:
            found = search_queue(session, graph, graph.nodes)
            found.queue(found.start)
            assert found.levels.download().tobytes() == wanted.tobytes(), threads


test_threads_do_not_matter = NEEDS_LLVM(test_threads_do_not_matter)


@pytest.mark.parametrize("options", [RunOptions("lockstep"), RunOptions("reverse"), RunOptions("shuffled", seed=5)])
def test_schedules_do_not_matter(options: RunOptions) -> None:
    """The machine also looks for races."""
    graph = web()
    for most in (None, 11):
        with cuda_machine(kernels=options).open() as session:
            found = search_queue(session, graph, graph.nodes, items_per_launch=most)
            result = found.queue(found.start)
            assert found.queue.grid.groups > 1
            assert result.processed == (distances(graph) != FAR).sum()
            np.testing.assert_array_equal(found.levels.download(), distances(graph))


def test_without_the_barriers_between_phases_there_is_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: lanes would read the counter of a phase that others still add to."""
    monkeypatch.setattr(phased, "_BARRIER", " ")
    with vyre.open("reference") as session, pytest.raises(InvalidProgram, match="V123"):
        tree_queue(session, BUSHY, BUSHY.need)


# ---------------------------------------------------------------- launches and waits
def test_on_a_device_a_drain_is_one_launch_and_one_wait() -> None:
    with cuda_machine(CudaOptions(graph_after=None)).open() as session:
        for tree in (WIDE, DEEP):
            found = tree_queue(session, tree, tree.need)
            spent(session, found)
            counted = spent(session, found)
            assert (counted["kernel_launches"], counted["sync_points"]) == (1, 1)
        # The controls: a launch for each item, after each of which the host looks unless it knows how many there are.
        for total, waits in ((61, 1), (None, 61)):
            found = tree_queue(session, DEEP, 2, items_per_launch=1, total_items=total)
            spent(session, found)
            counted = spent(session, found)
            assert (counted["kernel_launches"], counted["sync_points"]) == (61, waits)


def test_launches_beyond_the_last_item_do_nothing(session: Session) -> None:
    found = tree_queue(session, DEEP, 2, items_per_launch=10, total_items=100)
    result = found.queue(found.start)
    assert (result.processed, found.hits.download().tolist()) == (61, [1] * 61)
    assert result.launches == (10 if session.backend == "cuda-machine" else 7)


@NEEDS_LLVM
def test_on_the_cpu_a_drain_is_one_list() -> None:
    with vyre.open("cpu") as session:
        for tree, most in ((WIDE, None), (DEEP, None), (DEEP, 1)):
            found = tree_queue(session, tree, tree.need, items_per_launch=most)
            counted = spent(session, found)
            assert (counted["resident_runs"], counted["caller_runs"] + counted["worker_runs"]) == (1, 1)


def test_the_grid_is_what_the_device_holds() -> None:
    with cuda_machine().open() as session:
        small, large = tree_queue(session, BUSHY, 100), tree_queue(session, BUSHY, 2**27)
        assert small.queue.grid.groups == 4
        assert "resident at once" in str(large.queue.grid.why)
    with vyre.open("reference") as session:
        assert tree_queue(session, BUSHY, 2**20).queue.grid.groups == 1


def test_decisions_are_in_the_journal() -> None:
    with vyre.open("reference", journal=vyre.DecisionJournal()) as session:
        found = tree_queue(session, BUSHY, BUSHY.need, items_per_launch=8, total_items=200)
        plan = found.queue.plan(1)
        assert (plan.chunks, plan.queue.queue_capacity) == (25, BUSHY.need)
        assert "8 a launch" in str(plan.why)
        assert session.journal is not None
        names = [decision.name for decision in session.journal.decisions]
    assert {"plan_backpressure", "plan_queue_grid"} <= set(names)


# ---------------------------------------------------------------- refusals
def step(body: str, buffers: str = "", size: str = "32, 1, 1") -> Program:
    """Returns a step program on x, one element for each item."""
    return Program.from_text(f"""
    workgroup_size {size}
    buffer items @0 read u32[runtime]
    buffer pushed @1 read_write u32[runtime]
    buffer count @2 read_write u32[1]
    buffer x @3 read_write u32[runtime]
    {buffers}
    body {{ {body} }}
    """)


REFUSED: Final = {
    "place": ("x[items[gid.x]] = gid.x", "a store to `x` depends on the place of an item"),
    "index": ("x[gid.x] = items[gid.x]", "a store to `x` depends on the place of an item"),
    "slot": ("let s = atomic_add(count, 0u, 1u) x[0u] = s", "a store to `x` depends on the place of an item"),
    "number": ("let n = len(items) x[0u] = n", "a store to `x` depends on the place of an item"),
    "condition": ("if gid.x == 3u { x[0u] = 1u }", "a condition depends on the place of an item"),
    "pushed place": ("pushed[atomic_add(count, 0u, 1u)] = gid.x", "a store to `pushed` depends on the place"),
    "atomic": ("let a = atomic_add(x, 0u, gid.x)", "an atomic on `x` depends on the place of an item"),
    "kept old value": ("let o = atomic_min(x, 0u, 1u) y[0u] = o + 1u", "a store to `y` depends on the old value"),
    "old value pushed": (
        "let o = atomic_min(x, 0u, 1u) pushed[atomic_add(count, 0u, 1u)] = o",
        "a store to `pushed` depends on the old value",
    ),
    "winner": (
        "let i = items[gid.x] let t = i / 2u let o = atomic_exchange(x, t, 1u) if o == 0u { y[t] = i }",
        "the item that comes first stores itself to `y`",
    ),
    "last": ("let o = atomic_exchange(x, 0u, items[gid.x])", "an atomic on `x` leaves what came last"),
    "loaded items": ("x[items[0u]] = 1u", "it loads other elements of `items`"),
    "barrier": ("barrier(seq_cst)", "it has barriers"),
    "subgroup": ("x[0u] = subgroup_add(1u)", "it has subgroup operations"),
    "group": ("x[0u] = wid.x", "it uses the place of a lane in the grid"),
    "row": ("x[gid.y] = 1u", "it uses the place of a lane in the grid"),
    "trap": ('trap(1u, "t")', "it has a statement of the kind Trap"),
    "read pushed": ("x[0u] = pushed[0u]", "`pushed` is not only stored to"),
    "plain count": ("count[0u] = 1u", "`count` is not only updated by atomics"),
    "other atomic": ("let s = atomic_max(count, 0u, 1u)", "`count` is updated otherwise than by adding"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_programs_that_are_refused(case: str) -> None:
    body, why = REFUSED[case]
    program = step(body, "buffer y @4 read_write u32[runtime]")
    with vyre.open("reference") as session, pytest.raises(InvalidInput, match="cannot drain a work queue") as error:
        x, y = session.resident(np.zeros(4, np.uint32)), session.resident(np.zeros(4, np.uint32))
        session.work_queue(program, {"x": x, "y": y}, **ROLES, capacity=4)
    assert why in str(error.value)
    assert "Fix: " in str(error.value)
