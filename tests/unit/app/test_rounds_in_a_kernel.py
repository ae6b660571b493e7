"""Fixed points whose rounds one kernel runs: what is joined, what it costs, when it is chosen, and why it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.fixed_points import LABELS, TAKE_OVER, Graph, bound, keep_resident_arrays
from support.launch_costs import launch_costs
from support.llvm import NEEDS_LLVM
from vyre import DispatchConfig, FixpointExecutor, PlanError, Program, ProgramBuilder, Session, Step, u32
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.calibration.service import CalibrationService
from vyre.domain.errors import DispatchTimeout
from vyre.domain.fusion import joining
from vyre.domain.fusion.stages import StageBarrier
from vyre.domain.launch_costs import LaunchCosts
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.testing import cuda_machine

BACKENDS: Final = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
ONE_KERNEL: Final = FixpointExecutor.COOPERATIVE
TRAPPING: Final = Program.from_text("""
    workgroup_size 1, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if x[gid.x] == 5u { trap(1u, "five") } x[gid.x] = x[gid.x] + 1u }
""")
COUNTED: Final = Program.from_text("""
    workgroup_size 1, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if gid.x < len(x) { x[gid.x] = x[gid.x] + 1u } }
""")
GATHER: Final = Program.from_text("""
    workgroup_size 1, 1, 1
    buffer x @0 read_write u32[runtime]
    buffer y @1 read_write u32[runtime]
    body { let old = atomic_add(x, 0u, 1u) if old < len(y) { y[old] = gid.x } }
""")
READS_FLAG: Final = Program.from_text("""
    workgroup_size 1, 1, 1
    buffer changed @0 read_write u32[1]
    buffer x @1 read_write u32[runtime]
    body { x[gid.x] = changed[0u] }
""")
FOREVER: Final = Program.from_text("""
    workgroup_size 1, 1, 1
    buffer changed @0 read_write u32[1]
    body { changed[0u] = 1u }
""")


def turned(lanes: int) -> Program:
    """Turns the elements of each workgroup round, through workgroup memory."""
    with ProgramBuilder("turned", workgroup=lanes) as p:
        x = p.inout("x", u32)
        shared = p.workgroup("shared", u32, lanes)
        shared[p.local_id()] = x[p.global_id()]
        p.barrier()
        x[p.global_id()] = shared[lanes - 1 - p.local_id()]
    return p.build()


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_resident_arrays(monkeypatch)


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param) as made:
        yield made


def words(session: Session, *values: int) -> Any:
    return session.resident(np.array(values, np.uint32))


# ---------------------------------------------------------------- what is joined
def test_an_output_is_zeroed_in_every_round(session: Session) -> None:
    """A launch zeroes its output, so the elements that a round leaves out hold zeros, not those of the round before."""
    every_other = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer n @0 read u32[1]
        buffer y @1 write u32[7]
        body { if gid.x % 2u == n[0u] % 2u { y[gid.x] = n[0u] + 10u } }
    """)
    summed = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer y @0 read u32[7]
        buffer total @1 read_write u32[7]
        buffer n @2 read_write u32[1]
        buffer changed @3 read_write u32[1]
        body {
          if gid.x < 7u { total[gid.x] = total[gid.x] * 3u + y[gid.x] }
          if gid.x == 0u { n[0u] = n[0u] + 1u if n[0u] < 5u { changed[0u] = 1u } }
        }
    """)
    found = []
    for executor in (FixpointExecutor.POLLED, ONE_KERNEL):
        n, y, total, changed = words(session, 0), words(session, *[9] * 7), words(session, *[1] * 7), words(session, 0)
        run = session.fixpoint(
            [
                Step(every_other, {"n": n, "y": y}),
                Step(summed, {"y": y, "total": total, "n": n, "changed": changed}),
            ],
            changed=changed,
            limit=20,
            executor=executor,
        )
        result = run()
        found.append((result.iterations, result.converged, total.download().tolist(), y.download().tolist()))
    assert found[0] == found[1]
    assert found[0][0] == 5


def test_a_flag_that_no_step_uses_ends_after_one_round(session: Session) -> None:
    x, changed = words(session, 0, 0), words(session, 7)
    run = session.fixpoint([Step(COUNTED, {"x": x})], changed=changed, limit=9, executor=ONE_KERNEL)
    result = run()
    assert (result.iterations, result.converged, result.executor) == (1, True, ONE_KERNEL)
    assert (x.download().tolist(), changed.download().tolist()) == ([1, 1], [0])


def test_the_rest_of_a_longer_flag_stays(session: Session) -> None:
    changed = words(session, 5, 6, 7)
    run = session.fixpoint([Step(FOREVER, {"changed": changed})], changed=changed, limit=3, executor=ONE_KERNEL)
    assert (run().iterations, changed.download().tolist()) == (3, [1, 6, 7])


def test_parts_of_one_array_are_joined_where_they_are_apart(session: Session) -> None:
    """The flag may be a part of an array too; one that overlaps with what a step uses is refused."""
    whole = words(session, *range(8))
    steps = [Step(COUNTED, {"x": whole[1:4]}), Step(COUNTED, {"x": whole[4:]}), Step(FOREVER, {"changed": whole[:1]})]
    assert session.fixpoint(steps, changed=whole[:1], limit=3, executor=ONE_KERNEL)().iterations == 3
    assert whole.download().tolist() == [1, 4, 5, 6, 7, 8, 9, 10]
    with pytest.raises(PlanError, match="overlaps"):
        session.fixpoint(steps[:1], changed=whole[:2], limit=3, executor=ONE_KERNEL)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("trap", "it may trap"),
        ("bound", "its config bounds the bytes of its outputs"),
        ("order", "its result depends on the order of atomics"),
        ("flag", r"V222.*reads or copies its flag"),
        ("groups", "it has barriers and other workgroups than the stages before"),
        ("many", "more than 16 launches"),
        ("loop", "GridLoop"),
        ("part", "it uses a part of an array that overlaps with a part that another step uses"),
    ],
)
def test_steps_that_cannot_be_joined_say_why(session: Session, case: str, why: str) -> None:
    loop = Program.from_text("""
        workgroup_size 1, 1, 1
        buffer x @0 read_write u32[1]
        body { let n = grid_loop(3u, x) { x[0u] = 1u } }
    """)
    x, y, changed = words(session, *range(8)), words(session, *[0] * 8), words(session, 0)
    steps = {
        "trap": [Step(TRAPPING, {"x": x})],
        "bound": [Step(COUNTED, {"x": x}, DispatchConfig(max_output_bytes=99))],
        "order": [Step(GATHER, {"x": x, "y": y})],
        "flag": [Step(READS_FLAG, {"changed": changed, "x": x})],
        "groups": [Step(turned(4), {"x": x}), Step(turned(8), {"x": x})],
        "many": [Step(COUNTED, {"x": x}, DispatchConfig(fixpoint_iterations=17))],
        "part": [Step(COUNTED, {"x": x[2:6]}), Step(COUNTED, {"x": x[:3]})],
        "loop": [Step(loop, {"x": words(session, 0)})],
    }[case]
    with pytest.raises(PlanError, match=rf"executor unavailable: executor = cooperative, why = .*{why}") as error:
        session.fixpoint(steps, changed=changed, limit=3, executor=ONE_KERNEL)
    assert "polled" in str(error.value)
    session.fixpoint(steps, changed=changed, limit=1, executor="polled")


# ---------------------------------------------------------------- what it costs, and what it needs
def spent(session: Session, run: Any) -> dict[str, int]:
    """Returns the differences of the backend's counters that a run makes."""
    before = session.metrics()
    run()
    return {name: value - before[name] for name, value in session.metrics().items()}


def test_on_a_device_a_run_is_one_launch_and_one_wait_whatever_the_rounds() -> None:
    with cuda_machine(CudaOptions(graph_after=None)).open() as session:
        for nodes in (4, 30):
            one = bound(session, Graph.chain(nodes), LABELS, 1000, executor=ONE_KERNEL)
            one.run()
            found = spent(session, one.run)
            assert (found["kernel_launches"], found["graph_launches"], found["sync_points"]) == (1, 0, 1)
            assert one.run().timing.launches == 1
            # The control: the host polls.
            polled = bound(session, Graph.chain(nodes), LABELS, 1000, executor="polled")
            found = spent(session, polled.run)
            assert (found["kernel_launches"], found["sync_points"]) == (3 * nodes, nodes)


@NEEDS_LLVM
def test_on_the_cpu_a_run_is_one_list_whatever_the_rounds() -> None:
    with vyre.open("cpu") as session:
        for nodes in (4, 30):
            found = spent(session, bound(session, Graph.chain(nodes), LABELS, 1000, executor=ONE_KERNEL).run)
            assert (found["resident_runs"], found["caller_runs"] + found["worker_runs"]) == (1, 1)


def test_without_the_barriers_of_the_grid_bytes_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: lanes of other workgroups overwrite what this one has not read yet."""
    graph = Graph.chain(96)
    wanted, rounds, _ = graph.answer(LABELS, 100)
    wrong = []
    for removed in (False, True):
        with monkeypatch.context() as patch:
            if removed:
                patch.setitem(joining._BARRIERS, StageBarrier.GRID, ())
            for schedule in ("lockstep", "reverse", "shuffled"):
                with cuda_machine(kernels=RunOptions(schedule, seed=3, check_races=False)).open() as session:
                    found = bound(session, graph, LABELS, 100, executor=ONE_KERNEL)
                    result = found.run()
                    right = result.iterations == rounds and np.array_equal(found.content(), wanted)
                    wrong.append((removed, right))
    assert all(right for removed, right in wrong if not removed)
    assert not all(right for removed, right in wrong if removed)


def test_a_grid_that_is_not_resident_is_refused_with_its_size() -> None:
    with cuda_machine().open() as session:
        nodes = 1 << 21
        graph = Graph(nodes, np.zeros(nodes + 1, np.uint32), np.zeros(1, np.uint32))
        with pytest.raises(PlanError, match=r"why = 65537 workgroups do not fit \d+ multiprocessors"):
            bound(session, graph, LABELS, 5, executor=ONE_KERNEL)
        assert bound(session, graph, LABELS, 5).run.plan.executor is FixpointExecutor.WHILE_GRAPH
    with (
        cuda_machine(CudaOptions(grid_sync=GridSyncMode.SPLIT)).open() as session,
        pytest.raises(PlanError, match="why = split kernels are asked for"),
    ):
        bound(session, Graph.chain(4), LABELS, 5, executor=ONE_KERNEL)


@NEEDS_LLVM
def test_a_timeout_ends_the_kernel() -> None:
    with vyre.open("cpu") as session:
        changed = words(session, 0)
        steps = [Step(FOREVER, {"changed": changed}, DispatchConfig(timeout_s=0.02))]
        run = session.fixpoint(steps, changed=changed, limit=2**32 - 1, executor=ONE_KERNEL)
        with pytest.raises(DispatchTimeout):
            run()


# ---------------------------------------------------------------- when it is chosen
@pytest.mark.parametrize(
    ("costs", "executor"),
    [
        (launch_costs(graph_gap=9_000), ONE_KERNEL),  # 3 gaps against 2 barriers, 100 000 times
        (launch_costs(graph_gap=900), FixpointExecutor.WHILE_GRAPH),  # 2.7 us against 3 us
        (launch_costs(graph_gap=1), FixpointExecutor.WHILE_GRAPH),  # not even tried
        (launch_costs(graph_gap=900, grid_barrier=300), ONE_KERNEL),  # the same against 0.6 us
        (launch_costs(graph_gap=9_000, grid_barrier=14_000), FixpointExecutor.WHILE_GRAPH),
        (launch_costs(graph_gap=9_000, build=10**10), FixpointExecutor.WHILE_GRAPH),  # not even tried
        (launch_costs(graph_gap=None), FixpointExecutor.WHILE_GRAPH),
    ],
)
def test_measured_costs_choose(costs: LaunchCosts, executor: FixpointExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CalibrationService, "planning_costs", lambda _: costs)
    with cuda_machine().open() as session:
        plan = bound(session, Graph.chain(40), LABELS, 1_000_000).run.plan
        assert plan.executor is executor, plan.why
        assert bound(session, Graph.chain(9), LABELS, 10).run.plan.executor is FixpointExecutor.WHILE_GRAPH, (
            "ten rounds do not pay for building a kernel"
        )


@pytest.mark.parametrize(
    ("costs", "provenance"),
    [
        (launch_costs(graph_gap=9_000), "assumed"),
        (launch_costs(graph_gap=9_000, grid_barrier=300), "assumed"),
        (launch_costs(graph_gap=9_000, grid_barrier=300, build=10_000_000), "measured"),
    ],
)
def test_the_reason_tells_whether_costs_were_measured(
    costs: LaunchCosts, provenance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CalibrationService, "planning_costs", lambda _: costs)
    with cuda_machine().open() as session:
        plan = bound(session, Graph.chain(40), LABELS, 1_000_000).run.plan
    assert str(plan.why).endswith(f"ns to build, by {provenance} costs")


def test_steps_in_the_text_of_the_kernel() -> None:
    """The kernel is an ordinary program: the steps with a barrier between them, in a grid loop."""
    with vyre.open("reference") as session:
        found = bound(session, Graph.chain(40), LABELS, 50, executor=ONE_KERNEL)
        step = found.run._joined
        assert step is not None
        text = step.program.to_text()
        assert step.program.name == f"{LABELS.name}+{TAKE_OVER.name}"
        assert text.index("grid_loop(") < text.index("barrier(grid_sync)") < text.index("rounds_run[0u] = rounds")
