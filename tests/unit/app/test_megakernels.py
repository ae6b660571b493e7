"""Dependent waves as one kernel: bytes, launches, barrier arrivals, what stays apart, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pytest

import vyre
from support.llvm import NEEDS_LLVM
from vyre import Batch, Program, ProgramBuilder, Repeat, Session, Step, UnsupportedFeature, f32, u32
from vyre.adapters.cuda.machine.execution import KernelRun
from vyre.adapters.cuda.machine.options import KernelReport, RunOptions
from vyre.adapters.cuda.machine.presets import TINY
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.sequences.sequence import StepSequence
from vyre.domain.errors import InvalidConfig
from vyre.domain.fusion import waves
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.testing import cuda_machine

Schedule: TypeAlias = Literal["lockstep", "reverse", "shuffled"]
SCHEDULES: Final[tuple[Schedule, ...]] = ("lockstep", "reverse", "shuffled")
BACKENDS: Final = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
ONE: Final = {"megakernel": True}
TRAPPING: Final = Program.from_text("""
    workgroup_size 32, 1, 1
    buffer x @0 read_write f32[runtime]
    body { if gid.x == 3u and x[3u] != 0.0f { trap(1u, "four") } }
""")


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param, cache=False) as made:
        yield made


def reversal(workgroup: int = 32) -> Program:
    """Every element comes from the other end of the array: another workgroup's, except in the middle."""
    with ProgramBuilder("reversal", workgroup=workgroup) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[x.length - 1 - i] * 0.5 + 1.0
    return p.build()


def level() -> Program:
    """``n`` elements from ``first`` on, from those right before them, times ``k``."""
    with ProgramBuilder("level", workgroup=32) as p:
        x = p.inout("x", f32)
        first, n, k = p.param("first", u32), p.param("n", u32), p.param("k", f32)
        i = p.let(p.global_id())
        with p.if_(i < n):
            x[first + i] = x[first - 1 - i] * k + 1.0
    return p.build()


def halves(x: np.ndarray[Any, Any], waves: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The two arrays after so many waves of ``reversal`` there and back, by NumPy."""
    held = [x.copy(), np.zeros_like(x)]
    for wave in range(waves):
        held[1 - wave % 2] = held[wave % 2][::-1] * np.float32(0.5) + np.float32(1.0)
    return held[0], held[1]


def there_and_back(session: Session, content: np.ndarray[Any, Any], workgroup: int = 32) -> tuple[Any, Any, list[Step]]:
    a, b = session.resident(content), session.resident(np.zeros_like(content))
    program = reversal(workgroup)
    return a, b, [Step(program, {"x": a, "y": b}), Step(program, {"x": b, "y": a})]


def levels(array: Any, sizes: Sequence[int], first: int) -> list[Step]:
    program = level()
    steps = []
    for number, size in enumerate(sizes):
        inputs = {"x": array, "first": first, "n": size, "k": 0.25 + number % 5}
        steps.append(Step(program, inputs, grid=-(-size // 32)))
        first += size
    return steps


def of_levels(content: np.ndarray[Any, Any], sizes: Sequence[int], first: int) -> np.ndarray[Any, Any]:
    x = content.copy()
    for number, size in enumerate(sizes):
        before = x[first - size : first][::-1]
        x[first : first + size] = before * np.float32(0.25 + number % 5) + np.float32(1.0)
        first += size
    return x


def same(found: Any, wanted: np.ndarray[Any, Any]) -> bool:
    return bool(found.download().tobytes() == wanted.tobytes())


# ---------------------------------------------------------------- waves that repeat
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_repeated_waves_are_one_launch(session: Session, count: int) -> None:
    count = min(count, 7) if session.backend in ("cuda-machine", "reference-scalar") else count
    content = np.arange(150, dtype=np.float32)
    a, b, steps = there_and_back(session, content)
    c, d, split = there_and_back(session, content)
    run = session.sequence([Repeat(steps, count)], modes=ONE)()
    apart = session.sequence([Repeat(split, count)], modes={"fused": False})()
    assert (run.kernels, apart.kernels, len(run.plan.groups)) == (1, 2 * count, 1)
    one, other = halves(content, 2 * count)
    assert same(a, one) and same(b, other) and same(c, one) and same(d, other)
    for array in (a, b, c, d):
        array.close()


def test_listed_waves_are_a_loop_with_the_code_of_a_few(session: Session) -> None:
    content = np.arange(70, dtype=np.float32)
    a, b, steps = there_and_back(session, content)
    graph = session.sequence(steps * 10 + steps[:1], modes=ONE)  # the last round is cut
    assert graph(rounds=1).kernels == 1
    step = graph._structure.units[0].launch.step
    assert step.program.to_text().count("reversal") <= 1 and "for " in step.program.to_text()
    one, other = halves(content, 21)
    assert same(a, one) and same(b, other)
    graph.close()
    a.close()
    b.close()


def test_one_wave_after_the_other_of_one_step(session: Session) -> None:
    """A round of a single wave is held apart from the next as well; 11 is a number that nothing divides."""
    with session.resident(np.arange(96, dtype=np.float32)) as x:
        sizes = [32] * 11
        content = np.arange(32 * 12, dtype=np.float32)
        with session.resident(content) as y, session.sequence(levels(y, sizes, 32), modes=ONE) as graph:
            assert graph().kernels == 1
            assert same(y, of_levels(content, sizes, 32))
        doubled = Program.from_text("""
            workgroup_size 32, 1, 1
            buffer x @0 read_write f32[runtime]
            body { x[gid.x] = x[gid.x] + 1.0f }
        """)
        with session.sequence([Repeat([Step(doubled, {"x": x}, grid=3)], 13)], modes=ONE) as graph:
            assert graph().kernels == 1
            assert same(x, np.arange(96, dtype=np.float32) + 13)


def test_parameters_and_grids_may_differ_from_wave_to_wave(session: Session) -> None:
    """They are read from a table, so the program has the code of a few waves, whatever their number."""
    sizes = [40, 1, 77, 64, 33, 90, 5, 100, 31, 32, 12, 60]
    content = np.arange(100 + sum(sizes), dtype=np.float32)
    with session.resident(content) as x, session.sequence(levels(x, sizes, 100), modes=ONE) as graph:
        run = graph()
        assert (run.kernels, run.plan.groups[0].steps[-1]) == (1, "steps[11]")
        assert same(x, of_levels(content, sizes, 100))
        program = graph._structure.units[0].launch.step.program
        assert any("table" in buffer.name for buffer in program.buffers)
        assert len(program.to_text().splitlines()) < 70


def test_two_waves_that_are_no_round_have_a_barrier_between_them(session: Session) -> None:
    content = np.arange(70, dtype=np.float32)
    a, b, steps = there_and_back(session, content)
    other = Step(reversal(16), {"x": a, "y": b}, grid=5)
    with session.sequence(steps, modes=ONE) as graph:
        run = graph()
        assert run.kernels == 1 and "1 barriers of 3 workgroups" in run.plan.groups[0].why
    one, two = halves(content, 2)
    assert same(a, one) and same(b, two)
    # Steps with workgroups of another size are launches of their own.
    with pytest.raises(UnsupportedFeature, match="no two steps can be joined"):
        session.sequence([steps[1], other], modes=ONE)
    a.close()
    b.close()


def test_an_output_is_zeroed_in_every_wave(session: Session) -> None:
    partly = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer n @0 read_write u32[1]
        buffer y @1 write u32[9]
        body { if gid.x % 2u == n[0u] % 2u { y[gid.x] = n[0u] + 10u } }
    """)
    summed = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer y @0 read u32[9]
        buffer total @1 read_write u32[9]
        buffer n @2 read_write u32[1]
        body { if gid.x < 9u { total[gid.x] = total[gid.x] * 3u + y[gid.x] } if gid.x == 0u { n[0u] = n[0u] + 1u } }
    """)
    found = []
    for modes in ({"fused": False}, ONE):
        with (
            session.resident(np.zeros(1, np.uint32)) as n,
            session.resident(np.full(9, 7, np.uint32)) as y,
            session.resident(np.ones(9, np.uint32)) as total,
        ):
            steps = [Step(partly, {"n": n, "y": y}), Step(summed, {"y": y, "total": total, "n": n})]
            with session.sequence([Repeat(steps, 5)], modes=modes) as graph:
                assert graph().kernels == (10 if modes is not ONE else 1)
            found.append((y.download().tolist(), total.download().tolist(), n.download().tolist()))
    assert found[0] == found[1]


# ---------------------------------------------------------------- waves of several steps
def test_the_workgroups_are_divided_among_the_steps_of_a_wave(session: Session) -> None:
    """A fan of unequal steps, and one that takes all of their results: two waves, and as many workgroups as the wider
    has.
    """
    sizes = (33, 70, 200)
    content = [np.arange(size, dtype=np.float32) for size in sizes]
    sources = [session.resident(each) for each in content]
    targets = [session.resident(np.zeros_like(each)) for each in content]
    total = session.resident(np.zeros(33, np.float32))
    with ProgramBuilder("gather", workgroup=32) as p:
        u, v, w, into = p.input("u", f32), p.input("v", f32), p.input("w", f32), p.inout("into", f32)
        i = p.global_id()
        with p.if_(i < into.length):
            into[i] = u[into.length - 1 - i] + v[i + 33] + w[199 - i]
    gather = p.build()
    program = reversal()
    fan: list[Batch | Step | Repeat] = [
        Batch(program, [{"x": x, "y": y} for x, y in zip(sources, targets, strict=True)]),
        Step(gather, {"u": targets[0], "v": targets[1], "w": targets[2], "into": total}),
    ]
    with session.sequence(fan, modes=ONE) as graph:
        run = graph()
        assert run.kernels == 1 and "2 waves are one launch, with 1 barriers of 12 workgroups" in run.plan.groups[0].why
    results = [each[::-1] * np.float32(0.5) + np.float32(1.0) for each in content]
    assert all(same(found, wanted) for found, wanted in zip(targets, results, strict=True))
    assert same(total, results[0][::-1] + results[1][33:66] + results[2][199:166:-1])
    for array in (*sources, *targets, total):
        array.close()


def test_a_step_that_may_fail_stays_apart_and_in_its_place(session: Session) -> None:
    content = np.arange(70, dtype=np.float32)
    a, b, steps = there_and_back(session, content)
    graph = session.sequence([*steps, *steps, Step(TRAPPING, {"x": b}, grid=1), *steps, *steps], modes=ONE)
    assert [len(group.steps) for group in graph.plan().groups] == [4, 1, 4]
    with pytest.raises(vyre.TrapError):
        graph()
    one, other = halves(content, 4)
    assert same(a, one) and same(b, other)
    graph.close()
    a.close()
    b.close()


@NEEDS_LLVM
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_of_the_cpu_change_no_byte(threads: int) -> None:
    content = np.arange(20_000, dtype=np.float32)
    with vyre.open("cpu", threads=threads, cache=False) as session:
        a, b, steps = there_and_back(session, content, 64)
        assert session.sequence([Repeat(steps, 20)], modes=ONE)().kernels == 1
        one, other = halves(content, 40)
        assert same(a, one) and same(b, other)
        a.close()
        b.close()


# ---------------------------------------------------------------- on a device
def spent(session: Session, run: Any) -> dict[str, int]:
    """Returns the differences of the backend's counters that a run makes."""
    before = session.metrics()
    run()
    return {name: value - before[name] for name, value in session.metrics().items()}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[KernelReport]:
    """The reports of all kernels that have ended."""
    found: list[KernelReport] = []
    report = KernelRun.report

    def noted(run: KernelRun) -> KernelReport:
        found.append(report(run))
        return found[-1]

    monkeypatch.setattr(KernelRun, "report", noted)
    return found


@pytest.mark.parametrize("waves_listed", [2, 3, 8, 9])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_device_has_one_launch_and_the_planned_arrivals(
    waves_listed: int, schedule: Schedule, reports: list[KernelReport]
) -> None:
    """A workgroup arrives at a barrier by one atomic, and the kernel has no others."""
    content = np.arange(100, dtype=np.float32)
    options = RunOptions(schedule, seed=5, check_races=True)
    with cuda_machine(CudaOptions(graph_after=None), kernels=options).open() as session:
        a, b, steps = there_and_back(session, content)
        graph = session.sequence((steps * waves_listed)[:waves_listed], modes=ONE)
        graph()
        reports.clear()
        found = spent(session, graph)
        assert (found["kernel_launches"], found["graph_launches"], found["sync_points"]) == (1, 0, 1)
        barriers, groups = planned(graph)
        assert groups == 4
        assert [report.atomics for report in reports] == [barriers * groups]
        one, other = halves(content, waves_listed)
        if waves_listed % 2 == 0:
            one, other = halves(one, waves_listed)
            assert same(a, one) and same(b, other)


def planned(graph: StepSequence) -> tuple[int, int]:
    """The barriers and the workgroups of the only launch, as the plan tells them."""
    (group,) = graph.plan().groups
    words = group.why.split()
    return int(words[words.index("barriers") - 1]), int(words[words.index("workgroups") - 1])


def test_without_the_barriers_of_the_grid_bytes_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a workgroup reads what another one has not written yet, or has overwritten already."""
    content = np.arange(100, dtype=np.float32)
    wanted = halves(content, 6)
    found = []
    for removed in (False, True):
        with monkeypatch.context() as patch:
            if removed:
                patch.setattr(waves, "_with_barriers", lambda parts: tuple(s for p in parts for b in p for s in b))
            for schedule in SCHEDULES:
                with cuda_machine(kernels=RunOptions(schedule, seed=3, check_races=False)).open() as session:
                    a, b, steps = there_and_back(session, content)
                    session.sequence(steps * 3, modes=ONE)()
                    found.append((removed, same(a, wanted[0]) and same(b, wanted[1])))
    assert all(right for removed, right in found if not removed)
    assert not all(right for removed, right in found if removed)


def test_more_workgroups_than_the_device_holds_take_turns(reports: list[KernelReport]) -> None:
    with cuda_machine(preset=TINY).open() as session:
        content = np.arange(3_000, dtype=np.float32)
        a, b, steps = there_and_back(session, content)
        with session.sequence(steps * 2, modes=ONE) as graph:
            barriers, groups = planned(graph)
            assert 0 < groups < 3_000 // 32
            assert graph().kernels == 1
            assert reports[-1].atomics == barriers * groups
        one, other = halves(content, 4)
        assert same(a, one) and same(b, other)


def test_a_grid_above_the_capacity_is_refused_before_the_driver() -> None:
    """Workgroups with memory of their own take no turns, so the policy refuses a grid that is not resident."""
    with ProgramBuilder("turned", workgroup=32) as p:
        x = p.inout("x", f32)
        shared = p.workgroup("shared", f32, 32)
        shared[p.local_id()] = x[p.global_id()]
        p.barrier()
        x[p.global_id()] = shared[31 - p.local_id()]
    turned = p.build()
    machine = cuda_machine(preset=TINY)
    with machine.open() as session:
        with session.resident(np.arange(128, dtype=np.float32)) as small:
            assert session.sequence([Repeat([Step(turned, {"x": small}, grid=4)], 3)], modes=ONE)().kernels == 1
            assert same(small, np.arange(128, dtype=np.float32).reshape(4, 32)[:, ::-1].ravel())
        launched = machine.driver.calls["launch"]
        assert launched > 0
        with session.resident(np.arange(1 << 16, dtype=np.float32)) as large:
            steps = [Repeat([Step(turned, {"x": large}, grid=1 << 11)], 3)]
            with pytest.raises(UnsupportedFeature, match="forced mode megakernel"):
                session.sequence(steps, modes=ONE)
            assert machine.driver.calls["launch"] == launched
            assert session.sequence(steps)().kernels == 3


def test_a_device_without_native_barriers_refuses_the_mode() -> None:
    with cuda_machine(CudaOptions(grid_sync=GridSyncMode.SPLIT)).open() as session:
        a, b, steps = there_and_back(session, np.arange(64, dtype=np.float32))
        with pytest.raises(UnsupportedFeature, match="split kernels are asked for"):
            session.sequence(steps, modes=ONE)
        assert session.sequence(steps)().kernels == 2
        a.close()
        b.close()


# ---------------------------------------------------------------- modes
@pytest.mark.parametrize("other", ["plain", "fused", "persistent"])
def test_other_modes_exclude_it(other: str) -> None:
    with vyre.open("reference") as session, session.resident(np.zeros(4, np.float32)) as x:
        with pytest.raises(InvalidConfig, match=f"megakernel and {other}, which exclude each other"):
            session.sequence([Step(level(), {"x": x, "first": 0, "n": 0, "k": 1.0})], modes={**ONE, other: True})
        with pytest.raises(InvalidConfig, match="megakernel"):
            session.sequence([Step(level(), [x])], modes={"megakernels": True})


def chained() -> Program:
    with ProgramBuilder("chained", workgroup=64) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[x.length - 1 - i] * 0.5 + 1.0
    return p.build()


@pytest.mark.parametrize("waves", [4, 39])
def test_waves_on_parts_of_one_array_are_written_out_and_not_looped(waves: int) -> None:
    program, n = chained(), 64
    expected = np.arange(n * (waves + 1), dtype=np.float32)
    with vyre.open("reference", cache=False) as session, session.resident(expected) as r:
        steps = [Step(program, {"x": r[k * n : (k + 1) * n], "y": r[(k + 1) * n : (k + 2) * n]}) for k in range(waves)]
        run = session.sequence(steps, modes={"megakernel": True})()
        for k in range(waves):
            part = expected[k * n : (k + 1) * n][::-1] * np.float32(0.5) + np.float32(1.0)
            expected[(k + 1) * n : (k + 2) * n] = part
        assert r.download().tobytes() == expected.tobytes()
        assert run.kernels == -(-waves // 32), run.plan  # the code of 32 steps in a launch
        assert all("waves are one launch" in group.why for group in run.plan.groups)


def test_waves_on_parts_that_overlap_stay_launches_and_it_is_told_why() -> None:
    program, n = chained(), 64
    expected = np.arange(n * 8, dtype=np.float32)
    with vyre.open("reference", cache=False) as session, session.resident(expected) as r:
        steps = [Step(program, {"x": r[k * n : (k + 2) * n], "y": r[(k + 2) * n : (k + 4) * n]}) for k in range(4)]
        why = r"steps\[0\]: it uses a part of an array that overlaps with a part that another step uses"
        with pytest.raises(UnsupportedFeature, match=why):
            session.sequence(steps, modes={"megakernel": True})
        assert session.sequence(steps)().kernels == 4
        for k in range(4):
            part = expected[k * n : (k + 2) * n][::-1] * np.float32(0.5) + np.float32(1.0)
            expected[(k + 2) * n : (k + 4) * n] = part
        assert r.download().tobytes() == expected.tobytes()
