"""Fixed points of a session: rounds end when nothing changes, and the result says how they ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vyre
from support.fixed_points import DISTANCES, LABELS, Graph, bound, keep_resident_arrays
from support.llvm import NEEDS_LLVM
from vyre import FixpointExecutor, InvalidConfig, InvalidInput, PlanError, Program, Session, Step
from vyre.domain.errors import InvalidResource, TrapError
from vyre.testing import cuda_machine

BACKENDS = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
EXECUTORS = [None, *FixpointExecutor]


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_resident_arrays(monkeypatch)


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param) as made:
        yield made


def works(session: Session, executor: FixpointExecutor | None) -> bool:
    """Returns whether the backend can repeat these steps so."""
    try:
        bound(session, Graph.chain(2), LABELS, 1, executor=executor)
    except PlanError as error:
        assert error.kind == "ExecutorUnavailable"
        return False
    return True


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("program", [LABELS, DISTANCES], ids=["labels", "distances"])
def test_every_executor_has_the_same_rounds_and_bytes(
    session: Session, program: Program, executor: FixpointExecutor | None
) -> None:
    if not works(session, executor):
        return
    for graph, limits in ((Graph.chain(9), (1, 7, 8, 9, 50)), (Graph.star(40), (1, 2, 50)), (Graph.of(3, []), (1, 5))):
        for limit in limits:
            found = bound(session, graph, program, limit, executor=executor)
            values, rounds, converged = graph.answer(program, limit)
            result = found.run()
            assert (result.iterations, result.converged) == (rounds, converged)
            np.testing.assert_array_equal(found.content(), values)
            assert executor in (None, result.executor)
            assert (result.timing.rounds, result.timing.converged) == (rounds, converged)


def test_each_backend_works_by_its_own_executors() -> None:
    own: dict[str, Any] = {}
    for backend in ("reference", "cuda-machine"):
        with vyre.open(backend=backend) as session:
            own[backend] = {each for each in FixpointExecutor if works(session, each)}
    everywhere = {FixpointExecutor.UNROLLED_GRAPH, FixpointExecutor.POLLED}
    assert own["reference"] == {FixpointExecutor.COMMAND_LIST, FixpointExecutor.COOPERATIVE} | everywhere
    assert own["cuda-machine"] >= everywhere | {FixpointExecutor.COOPERATIVE}


def test_a_chain_needs_its_diameter_and_a_star_two_rounds(session: Session) -> None:
    """Node 0 has the least label: it reaches the end of a chain of 30 nodes in 29 rounds, and one more changes none."""
    assert bound(session, Graph.chain(30), LABELS, 100).run().iterations == 30
    assert bound(session, Graph.star(30), LABELS, 100).run().iterations == 2
    short = bound(session, Graph.chain(30), LABELS, 29).run()
    assert (short.iterations, short.converged) == (29, False)
    assert "NOT converged after 29" in repr(short)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_it_runs_again_from_where_it_is(session: Session, executor: FixpointExecutor | None) -> None:
    if not works(session, executor):
        return
    found = bound(session, Graph.chain(10), LABELS, 4, executor=executor)
    ends = [found.run() for _ in range(4)]
    assert [(end.iterations, end.converged) for end in ends] == [(4, False), (4, False), (2, True), (1, True)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_first_runs_once(session: Session, executor: FixpointExecutor | None) -> None:
    if not works(session, executor):
        return
    add = Program.from_text("""
        workgroup_size 1, 1, 1
        param a @0 u32
        buffer x @1 read_write u32[1]
        body { if gid.x == 0u { x[0u] = x[0u] + a } }
    """)
    down = Program.from_text("""
        workgroup_size 1, 1, 1
        buffer x @0 read_write u32[1]
        buffer changed @1 read_write u32[1]
        body { if gid.x == 0u { if x[0u] > 3u { x[0u] = x[0u] - 1u changed[0u] = 1u } } }
    """)
    x, changed = session.resident(np.array([0], np.uint32)), session.resident(np.zeros(1, np.uint32))
    run = session.fixpoint(
        [Step(down, {"x": x, "changed": changed})],
        first=[Step(add, {"a": 8, "x": x})],
        changed=changed,
        limit=100,
        executor=executor,
    )
    assert [run().iterations for _ in range(2)] == [6, 9]
    assert x.download() == [3]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_without_early_exit_all_rounds_run(session: Session, executor: FixpointExecutor | None) -> None:
    if not works(session, executor):
        return
    for limit in (3, 20):
        found = bound(session, Graph.chain(5), LABELS, limit, executor=executor, early_exit=False)
        result = found.run()
        assert (result.iterations, result.converged) == (limit, limit > 4)
        np.testing.assert_array_equal(found.content(), Graph.chain(5).answer(LABELS, limit)[0])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_steps_with_outputs_and_their_own_iterations(session: Session, executor: FixpointExecutor | None) -> None:
    """An output that starts as zeros cannot be left alone by a step that returns at once: it is not unrolled."""
    half = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer x @0 read u32[runtime]
        buffer y @1 write u32[runtime] like x
        body { if x[gid.x] > 1u { y[gid.x] = x[gid.x] / 2u } }
    """)
    back = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer y @0 read u32[runtime]
        buffer x @1 read_write u32[runtime]
        buffer changed @2 read_write u32[1]
        body { if gid.x < len(x) {
          if x[gid.x] != y[gid.x] { let old = atomic_or(changed, 0u, 1u) }
          x[gid.x] = y[gid.x]
        } }
    """)
    x, y = session.resident(np.array([100, 7, 0], np.uint32)), session.resident(np.ones(3, np.uint32))
    changed = session.resident(np.zeros(1, np.uint32))
    steps = [
        Step(half, {"x": x, "y": y}, vyre.DispatchConfig(fixpoint_iterations=3)),
        Step(back, {"y": y, "x": x, "changed": changed}),
    ]
    try:
        run = session.fixpoint(steps, changed=changed, limit=50, executor=executor)
    except PlanError as error:
        assert error.kind == "ExecutorUnavailable"
        return
    assert executor is not FixpointExecutor.UNROLLED_GRAPH
    result = run()
    assert (result.iterations, x.download().tolist()) == (8, [0, 0, 0])


def test_a_trap_says_which_fixed_point(session: Session) -> None:
    trap = Program.from_text("""
        program careful
        workgroup_size 1, 1, 1
        buffer x @0 read_write u32[1]
        body { if x[0u] == 5u { trap(1u, "five") } x[0u] = x[0u] + 1u }
    """)
    x = session.resident(np.zeros(1, np.uint32))
    run = session.fixpoint([Step(trap, {"x": x})], changed=x, limit=50)
    assert run().iterations == 50
    changed = session.resident(np.zeros(1, np.uint32))
    on = Program.from_text("""
        workgroup_size 1, 1, 1
        buffer changed @0 read_write u32[1]
        body { changed[0u] = 1u }
    """)
    x.upload(np.zeros(1, np.uint32))
    run = session.fixpoint([Step(trap, {"x": x}), Step(on, {"changed": changed})], changed=changed, limit=50)
    with pytest.raises(TrapError) as error:
        run()
    assert error.value.tag == "five"
    assert any("fixed point=<FixedPoint careful" in note for note in error.value.__notes__)
    assert x.download() == [5]


def test_threads_take_turns(session: Session) -> None:
    graph = Graph.chain(40)
    found = bound(session, graph, LABELS, 5)
    ends: list[Any] = []
    threads = [threading.Thread(target=lambda: ends.append(found.run())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [end.iterations for end in ends] == [5] * 8
    np.testing.assert_array_equal(found.content(), graph.answer(LABELS, 100)[0])


# ---------------------------------------------------------------- misuse
def test_wrong_arguments(session: Session) -> None:
    flag = session.resident(np.zeros(1, np.uint32))
    x = session.resident(np.zeros(4, np.uint32))
    copy = Program.from_text("workgroup_size 1, 1, 1 buffer x @0 read_write u32[runtime] body { x[gid.x] = 1u }")
    steps = [Step(copy, {"x": x})]
    with pytest.raises(InvalidInput, match="without steps"):
        session.fixpoint([], changed=flag, limit=3)
    with pytest.raises(InvalidInput, match="changed is <ResidentArray float32"):
        session.fixpoint(steps, changed=session.resident(np.zeros(1, np.float32)), limit=3)
    with pytest.raises(InvalidInput, match="changed="):
        session.fixpoint(steps, changed=np.zeros(1, np.uint32), limit=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match="limit=0"):
        session.fixpoint(steps, changed=flag, limit=0)
    with pytest.raises(InvalidConfig, match="limit=-1"):
        session.fixpoint(steps, changed=flag, limit=-1)
    with pytest.raises(InvalidConfig, match="limit=4294967296"):
        session.fixpoint(steps, changed=flag, limit=2**32)
    with pytest.raises(InvalidConfig, match="executor='fast'"):
        session.fixpoint(steps, changed=flag, limit=3, executor="fast")
    careful = Program.from_text('workgroup_size 1, 1, 1 buffer x @0 read_write u32[4] body { trap(x[0u], "no") }')
    with pytest.raises(PlanError, match="cooperative"):
        session.fixpoint([Step(careful, {"x": x})], changed=flag, limit=3, executor="cooperative")
    with pytest.raises(InvalidInput) as error:
        session.fixpoint([*steps, Step(copy, {"x": np.zeros(4, np.uint32)})], changed=flag, limit=3)
    assert "steps[1]" in error.value.__notes__


def test_a_closed_flag_is_refused(session: Session) -> None:
    found = bound(session, Graph.chain(3), LABELS, 5)
    flag = session.resident(np.zeros(1, np.uint32))
    x = session.resident(np.zeros(4, np.uint32))
    copy = Program.from_text("workgroup_size 1, 1, 1 buffer x @0 read_write u32[runtime] body { x[gid.x] = 1u }")
    run = session.fixpoint([Step(copy, {"x": x})], changed=flag, limit=3)
    flag.close()
    with pytest.raises(InvalidResource, match="after close"):
        run()
    assert found.run().converged


def test_a_closed_session_is_refused() -> None:
    with vyre.open(backend="reference") as session:
        found = bound(session, Graph.chain(3), LABELS, 5)
    with pytest.raises(InvalidResource, match="the session is closed"):
        found.run()


def test_the_choice_is_in_the_journal() -> None:
    with vyre.open(backend="reference", journal=vyre.DecisionJournal()) as session:
        bound(session, Graph.chain(3), LABELS, 5)
        assert session.journal is not None
        names = [decision.name for decision in session.journal.decisions]
    assert "choose_executor" in names


@pytest.mark.parametrize("executor", EXECUTORS)
def test_temporary_arrays_repeated_parts_and_batches(session: Session, executor: FixpointExecutor | None) -> None:
    """A temporary array holds zeros when a run begins, and keeps its content from round to round."""
    count = Program.from_text("""
        workgroup_size 1, 1, 1
        buffer x @0 read_write u32[1]
        body { if gid.x == 0u { x[0u] = x[0u] + 1u } }
    """)
    until = Program.from_text("""
        workgroup_size 1, 1, 1
        param most @0 u32
        buffer x @1 read u32[1]
        buffer y @2 read_write u32[1]
        buffer changed @3 read_write u32[1]
        body { if gid.x == 0u { y[0u] = x[0u] if x[0u] < most { changed[0u] = 1u } } }
    """)
    if not works(session, executor):
        return
    x = session.temporary(vyre.u32, 1)
    y, changed = session.resident(np.zeros(1, np.uint32)), session.resident(np.zeros(1, np.uint32))
    run = session.fixpoint(
        [
            vyre.Repeat([vyre.Batch(count, [{"x": x}, {"x": x}]), Step(count, {"x": x})], 2),
            Step(until, {"most": 30, "x": x, "y": y, "changed": changed}),
        ],
        changed=changed,
        limit=100,
        executor=executor,
    )
    for _ in range(3):
        assert (run().iterations, y.download()[0]) == (5, 30)
    with pytest.raises(InvalidInput, match="without steps"):
        session.fixpoint([vyre.Repeat([Step(count, {"x": y})], 0)], changed=changed, limit=3)
    with pytest.raises(InvalidInput, match="4097 launches"):
        session.fixpoint([vyre.Repeat([Step(count, {"x": y})], 4097)], changed=changed, limit=3)


# ---------------------------------------------------------------- counts, and what happens without early exit
@NEEDS_LLVM
def test_on_the_cpu_a_run_is_one_list_whatever_the_limit() -> None:
    def spent(run: Any) -> dict[str, int]:
        source = opened._lease.backend.metric_source
        assert source is not None
        metrics = source.metrics
        before = metrics()
        result = run()
        found = {name: value - before[name] for name, value in metrics().items()}
        assert result.timing.launches == found["list_kernels"]
        return found

    with vyre.open(backend="cpu") as opened:
        graph = Graph.chain(6)
        for limit in (10, 1000, 2**32 - 1):
            found = spent(bound(opened, graph, LABELS, limit).run)
            assert (found["resident_runs"], found["list_kernels"]) == (1, 12)
            assert found["caller_runs"] + found["worker_runs"] == 1
        # The controls: without leaving early launches grow with the limit, and so do runs where the host polls.
        for limit in (10, 1000):
            found = spent(bound(opened, graph, LABELS, limit, early_exit=False).run)
            assert (found["resident_runs"], found["list_kernels"]) == (1, 3 * limit)
            unrolled = spent(bound(opened, graph, LABELS, limit, executor="unrolled_graph").run)
            assert unrolled["resident_runs"] == 1
            assert unrolled["list_kernels"] >= 3 * limit
        polled = spent(bound(opened, graph, LABELS, 1000, executor="polled").run)
        assert (polled["resident_runs"], polled["list_kernels"]) == (6, 18)


def test_a_guard_that_is_always_open_goes_on_changing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of unrolled steps: without guards the rounds behind the last one would still run."""
    from vyre.domain import guarding

    forever = Program.from_text("""
        workgroup_size 1, 1, 1
        buffer x @0 read_write u32[1]
        buffer changed @1 read_write u32[1]
        body { if gid.x == 0u { x[0u] = x[0u] + 1u if x[0u] < 4u { changed[0u] = 1u } } }
    """)

    def value(session: Session) -> int:
        x, changed = session.resident(np.zeros(1, np.uint32)), session.resident(np.zeros(1, np.uint32))
        step = Step(forever, {"x": x, "changed": changed})
        result = session.fixpoint([step], changed=changed, limit=9, executor="unrolled_graph")()
        assert result.iterations == 4
        return int(x.download()[0])

    with vyre.open(backend="reference") as session:
        assert value(session) == 4
        made = guarding.guarded(forever)
        assert made is not None
        unguarded = replace(made, body=forever.body)
        monkeypatch.setattr(guarding, "guarded", lambda program: unguarded)
        assert value(session) == 9


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_timeout_ends_rounds_without_an_end(session: Session, executor: FixpointExecutor | None) -> None:
    """The timeout of a step bounds the whole run; on the emulated device no time passes within a launch of a graph."""
    if not works(session, executor) or (session.backend == "cuda-machine" and executor is not FixpointExecutor.POLLED):
        return
    on = Program.from_text("""
        workgroup_size 1, 1, 1
        buffer changed @0 read_write u32[1]
        body { changed[0u] = 1u }
    """)
    changed = session.resident(np.zeros(1, np.uint32))
    steps = [Step(on, {"changed": changed}, vyre.DispatchConfig(timeout_s=0.02))]
    limit = 2**32 - 1 if executor is not FixpointExecutor.UNROLLED_GRAPH or session.backend == "cpu" else 1
    run = session.fixpoint(steps, changed=changed, limit=limit, executor=executor)
    if limit == 1:
        assert not run().converged
        return
    with pytest.raises(vyre.DispatchTimeout):
        run()


@pytest.mark.parametrize("executor", [each for each in EXECUTORS if each is not FixpointExecutor.COMMAND_LIST])
def test_no_executor_has_a_race_on_a_device(executor: FixpointExecutor | None) -> None:
    """The machine looks for races: the word that ends a round is read by the lane that writes it alone."""
    machine = cuda_machine()
    with machine.open() as session:
        for graph in (Graph.chain(40), Graph.star(70)):
            found = bound(session, graph, LABELS, 50, executor=executor)
            values, rounds, _ = graph.answer(LABELS, 50)
            assert found.run().iterations == rounds
            np.testing.assert_array_equal(found.content(), values)
    assert not machine.driver.kernel_faults
