"""Dispatch on the CUDA backend over the emulated driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from vyre import DispatchConfig, ProgramBuilder, f32, f64, u32
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.fault_plan import FOREVER, Fault, FaultPlan, SlowKernel
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.machine.presets import H200
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.adapters.cuda.runtime.device import MIB, CudaOptions
from vyre.domain.dispatch import OutputArena, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import (
    DeviceLimitExceeded,
    DeviceLost,
    DeviceOutOfMemory,
    DispatchTimeout,
    InvalidInput,
    KernelCompileFailed,
    TrapError,
    UnsupportedFeature,
)
from vyre.domain.ir.program import Program
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.testing import CudaMachine, cuda_machine
from vyre.testing.execution import execute

XS = np.arange(1000, dtype=np.float32)
WORDS = np.arange(64, dtype=np.uint32)


def saxpy() -> Program:
    with ProgramBuilder("saxpy", workgroup=256) as p:
        a, x, y = p.param("a", f32), p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = a * x[i] + y[i]
    return p.build()


def counting(name: str = "counting") -> Program:
    """Adds 1 to every element of ``y``."""
    with ProgramBuilder(name, workgroup=64) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        y[i] = y[i] + 1
    return p.build()


def mirror(groups: int) -> Program:
    """``y`` reversed through ``x``, across a grid barrier."""
    with ProgramBuilder("mirror", workgroup=4) as p:
        x, y = p.inout("x", u32), p.inout("y", u32)
        i = p.global_id()
        x[i] = y[i] * 3
        p.grid_sync()
        y[i] = x[4 * groups - 1 - i]
    return p.build()


def calls_of(machine: CudaMachine, work: Callable[[], object]) -> dict[str, int]:
    """Driver calls that ``work`` makes, but queries."""
    before = machine.driver.calls.copy()
    work()
    made = machine.driver.calls - before
    del made["event_ready"], made["event_synchronize"]
    return dict(made)


def metric(machine: CudaMachine, name: str) -> int:
    assert machine.backend.metric_source is not None
    return machine.backend.metric_source.metrics()[name]


# ---------------------------------------------------------------- results
def test_the_bytes_are_those_of_the_reference() -> None:
    inputs: dict[str, float | npt.NDArray[np.float32]] = {"a": 2.5, "x": XS, "y": XS[::-1].copy()}
    machine = cuda_machine()
    with machine.open() as session, vyre.open("reference") as reference:
        expected = reference.dispatch(saxpy(), inputs)["y"]
        for _ in range(3):
            assert session.dispatch(saxpy(), inputs)["y"].tobytes() == expected.tobytes()
    assert not machine.driver.violations
    assert not any(machine.driver.live().values())


def test_lengths_may_differ_between_calls() -> None:
    with cuda_machine().open() as session:
        pipeline = session.compile(counting())
        for n in (64, 1, 0, 200, 64):
            found = pipeline({"y": np.full(n, 7, np.uint32)})["y"]
            assert found.tolist() == [8] * n


def test_timing_has_every_part() -> None:
    with cuda_machine().open() as session:
        timing = session.dispatch(counting(), [WORDS]).timing
    assert timing.device_ns is not None
    assert timing.enqueue_ns is not None
    assert timing.wait_ns is not None
    assert timing.device_ns > 0
    assert timing.wall_ns == timing.enqueue_ns + timing.wait_ns


def test_outputs_that_the_backend_allocates_start_as_zeros() -> None:
    with ProgramBuilder("sparse", workgroup=8) as p:
        y = p.output("y", u32, 16)
        with p.if_(p.global_id() == 3):
            y[3] = 9
    with cuda_machine().open() as session:
        for _ in range(2):  # also when the memory was used before
            assert session.dispatch(p.build())["y"].tolist() == [0, 0, 0, 9] + 12 * [0]


def test_a_range_of_an_output_is_all_that_is_read_back() -> None:
    with ProgramBuilder("ranged", workgroup=64) as p:
        p.output("y", u32, 4096)[p.global_id()] = p.global_id()
    whole = p.build()
    ranged = replace(whole, buffers=tuple(replace(b, output_range=(400, 408)) for b in whole.buffers))
    machine = cuda_machine()
    assert execute(machine.backend, ranged, {}) == {"y": np.array([100, 101], np.uint32).tobytes()}
    assert metric(machine, "downloaded_bytes") == 8
    machine.backend.lifecycle.close()


def test_large_arenas_go_through_chunks() -> None:
    n = 9 * MIB // 4
    with ProgramBuilder("large", workgroup=64) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        i = p.global_id() * (n // 64)
        y[i] = x[i] + 1
    xs = np.arange(n, dtype=np.uint32)
    machine = cuda_machine()
    with machine.open() as session:
        for _ in range(2):
            found = session.dispatch(p.build(), [xs, xs * 2], grid=1)["y"]
            expected = xs * 2
            expected[:: n // 64] = xs[:: n // 64] + 1
            assert np.array_equal(found, expected)
    assert metric(machine, "uploads") == 2 * 2 * 3
    assert not machine.driver.violations
    assert not any(machine.driver.live().values())


def test_many_bindings_come_in_a_table() -> None:
    """350 pointers and counts take 4200 bytes of parameters; drivers before 12.1 have 4096."""
    with ProgramBuilder("many", workgroup=1) as p:
        inputs = [p.input(f"x{i}", u32) for i in range(350)]
        y = p.output("y", u32, 350)
        for i, x in enumerate(inputs):
            y[i] = x[i % 2] + x.length
    machine = cuda_machine(driver_version=12_000)
    with machine.open() as session:
        found = session.dispatch(p.build(), [np.arange(i, i + 2, dtype=np.uint32) for i in range(350)], grid=1)
    assert found["y"].tolist() == [i + i % 2 + 2 for i in range(350)]


@pytest.mark.parametrize(("driver_version", "verdict"), [(12_000, "PointerTable"), (12_010, "Parameters")])
def test_what_the_driver_allows_decides_about_a_table(driver_version: int, verdict: str) -> None:
    with ProgramBuilder("many", workgroup=1) as p:
        inputs = [p.input(f"x{i}", u32) for i in range(350)]
        y = p.output("y", u32, 350)
        for i, x in enumerate(inputs):
            y[i] = x[0]
    assert verdicts(p.build(), driver_version, "plan_resource_table") == {verdict}


def test_a_table_that_is_refused_is_needed() -> None:
    with ProgramBuilder("many", workgroup=1) as p:
        inputs = [p.input(f"x{i}", u32) for i in range(350)]
        y = p.output("y", u32, 350)
        for i, x in enumerate(inputs):
            y[i] = x[0]
    ones = [np.ones(1, np.uint32) for _ in inputs]
    with (
        cuda_machine(driver_version=12_000).open() as session,
        pytest.raises(UnsupportedFeature, match=r"without a table of pointers for 351 buffers .* Fix: bind fewer"),
    ):
        session.dispatch(p.build(), ones, DispatchConfig(grid=(1, 1, 1), profile="no-pointer-table"))


@pytest.mark.parametrize(("driver_version", "expected"), [(12_000, {"Inline", "UniformBuffer"}), (12_010, {"Inline"})])
def test_uniform_buffers_travel_as_parameters_as_far_as_the_driver_takes_them(
    driver_version: int, expected: set[str]
) -> None:
    """Twenty times 256 bytes are more than the 4096 that drivers before 12.1 take."""
    with ProgramBuilder("uniforms", workgroup=1) as p:
        inputs = [p.uniform(f"x{i}", u32, 64) for i in range(20)]
        y = p.output("y", u32, 20)
        for i, x in enumerate(inputs):
            y[i] = x[i]
    assert verdicts(p.build(), driver_version, "decide_param_inlining") == expected


def verdicts(program: Program, driver_version: int, policy: str) -> set[str]:
    """Runs a program whose inputs count up from their number, and returns the verdicts of a policy about it."""
    inputs = [b for b in program.abi_buffers if not b.is_output]
    arrays = [np.arange(i, i + (b.count or 1), dtype=np.uint32) for i, b in enumerate(inputs)]
    with cuda_machine(driver_version=driver_version).open() as session:
        found = session.dispatch(program, arrays, grid=1)["y"]
        decisions = session.explain(program, inputs=arrays, grid=1).decisions
    assert found.tolist() == [int(array[i % len(array)]) for i, array in enumerate(arrays)]
    return {type(each.verdict).__name__ for each in decisions if each.name == policy}


def test_another_workgroup_size_covers_the_same_lanes() -> None:
    with cuda_machine().open() as session:
        found = session.dispatch(counting(), [WORDS], DispatchConfig(workgroup=(16, 1, 1)))
    assert found["y"].tolist() == list(range(1, 65))


def test_fixpoint_iterations_run_back_to_back() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        found = session.dispatch(counting(), [WORDS], DispatchConfig(fixpoint_iterations=300))
    assert found["y"].tolist() == [i + 300 for i in range(64)]
    assert metric(machine, "kernel_launches") == 300


def test_wide_scalars_and_specialization_values_reach_the_kernel() -> None:
    with ProgramBuilder("wide", workgroup=1) as p:
        a, b, n = p.param("a", f64), p.param("b", u32), p.spec("n", 5)
        y, z = p.output("y", f64, 1), p.output("z", u32, 1)
        y[0], z[0] = a + a, b + n
    with cuda_machine().open() as session:
        pipeline = session.compile(p.build(), spec={"n": 9})
        for scale in (1.0, 2.0):
            found = pipeline({"a": 0.1 * scale, "b": 3})
            assert (found["y"].tolist(), found["z"].tolist()) == ([0.1 * scale + 0.1 * scale], [12])


# ---------------------------------------------------------------- grid barriers
@pytest.mark.parametrize("mode", [None, *GridSyncMode])
def test_grid_barriers_give_the_same_bytes_in_every_mode(mode: GridSyncMode | None) -> None:
    machine = cuda_machine(CudaOptions(grid_sync=mode))
    with machine.open() as session:
        found = session.dispatch(mirror(16), [WORDS, WORDS])
    assert found["y"].tolist() == [3 * i for i in reversed(range(64))]
    assert metric(machine, "kernel_launches") == (2 if mode is GridSyncMode.SPLIT else 1)


def test_a_grid_that_does_not_fit_at_once_is_split() -> None:
    small = replace(H200, multiprocessors=1)
    groups = 100
    words = np.arange(4 * groups, dtype=np.uint32)
    machine = cuda_machine(preset=small)
    with machine.open() as session:
        found = session.dispatch(mirror(groups), [words, words])
        assert found["y"].tolist() == [3 * i for i in reversed(range(4 * groups))]
        assert metric(machine, "kernel_launches") == 2
        with pytest.raises(DeviceLimitExceeded, match="cooperative_residency=blocked"):
            session.dispatch(mirror(groups), [words, words], DispatchConfig(cooperative=True))


def test_without_cooperative_launches_barriers_are_split_and_asking_is_refused() -> None:
    machine = cuda_machine(preset=replace(H200, cooperative=False))
    with machine.open() as session:
        assert not machine.backend.profile.supports_grid_sync
        assert session.dispatch(mirror(16), [WORDS, WORDS])["y"].tolist() == [3 * i for i in reversed(range(64))]
        with pytest.raises(UnsupportedFeature, match="cooperative launches"):
            session.dispatch(counting(), [WORDS], DispatchConfig(cooperative=True))


def test_a_cooperative_launch_without_barriers_is_just_one() -> None:
    with cuda_machine().open() as session:
        assert session.dispatch(counting(), [WORDS], DispatchConfig(cooperative=True))["y"].tolist()[:2] == [1, 2]


# ---------------------------------------------------------------- traps
def trapping() -> Program:
    """Adds 1 to ``y``, then traps in the lane whose element has reached 300, if any."""
    with ProgramBuilder("trapping", workgroup=64) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        y[i] = y[i] + 1
        with p.if_(y[i] == 300):
            p.trap(i, "reached")
    return p.build()


@pytest.mark.parametrize(("start", "lane"), [(5, 5), (63, 63)])
def test_the_first_launch_that_traps_is_reported(start: int, lane: int) -> None:
    """Elements count down with the lane, so later launches would trap in lower lanes."""
    values = np.array([200 - start + i for i in range(64)], np.uint32)  # lane 63 is the first to get there
    values[lane] = 299 - 10
    values[:lane] = 250
    with cuda_machine().open() as session:
        with pytest.raises(TrapError) as caught:
            session.dispatch(trapping(), [values], DispatchConfig(fixpoint_iterations=700))
        assert (caught.value.tag, caught.value.global_id) == ("reached", (lane, 0, 0))
        assert session.dispatch(trapping(), [WORDS])["y"].tolist() == list(range(1, 65))


def test_a_trap_in_the_last_launch_is_found() -> None:
    with cuda_machine().open() as session:
        zeros = np.zeros(64, np.uint32)
        config = DispatchConfig(fixpoint_iterations=299)
        assert session.dispatch(trapping(), [zeros], config)["y"].tolist() == [299] * 64
        with pytest.raises(TrapError):
            session.dispatch(trapping(), [zeros], DispatchConfig(fixpoint_iterations=300))


@pytest.mark.parametrize("size", [64, 9 * MIB // 4], ids=["mirrored", "in chunks"])
def test_nothing_runs_behind_a_trap(size: int) -> None:
    """A launch that traps leaves ``x[0]`` at 1, and one that finds it so never ends."""
    with ProgramBuilder("guarded", workgroup=1) as p:
        x = p.inout("x", u32)
        with p.while_(x[0] == 1):
            x[2] = x[2] + 1
        x[0] = 1
        with p.if_(x[1] == 7):
            p.trap(3, "seven")
        x[0] = 0
    program, config = p.build(), DispatchConfig(fixpoint_iterations=3, grid=(1, 1, 1))
    values = np.zeros(size, np.uint32)
    with cuda_machine(kernels=RunOptions(step_limit=100_000)).open() as session:
        assert session.dispatch(program, [values], config)["x"][:3].tolist() == [0, 0, 0]
        values[1] = 7
        with pytest.raises(TrapError, match="seven"):
            session.dispatch(program, [values], config)


def test_a_trap_leaves_no_outputs_and_keeps_the_lane() -> None:
    machine = cuda_machine()
    arena = OutputArena()
    with machine.open() as session:
        with pytest.raises(TrapError):
            session.dispatch(trapping(), [np.full(64, 299, np.uint32)], outputs=arena)
        assert len(arena) == 0
        assert metric(machine, "traps") == 1
        assert "stream_create" not in calls_of(machine, lambda: session.dispatch(trapping(), [WORDS]))


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "config",
    [
        DispatchConfig(step_budget=5),
        DispatchConfig(chunk_workgroups=2),
        DispatchConfig(speculation=SpeculationMode.FORCE),
        DispatchConfig(persistent_thread=PersistentThreadMode.FORCE),
        DispatchConfig(profile="fast"),
    ],
)
def test_what_cannot_be_honoured_is_refused(config: DispatchConfig) -> None:
    with cuda_machine().open() as session, pytest.raises(UnsupportedFeature):
        session.dispatch(counting(), [WORDS], config)


@pytest.mark.parametrize(
    "config",
    [
        DispatchConfig(speculation=SpeculationMode.DISABLE, persistent_thread=PersistentThreadMode.AUTO),
        DispatchConfig(ulp_budget=4, label="a", max_output_bytes=256, timeout_s=30.0),
    ],
)
def test_what_changes_nothing_is_accepted(config: DispatchConfig) -> None:
    with cuda_machine().open() as session:
        assert session.dispatch(counting(), [WORDS], config)["y"].tolist() == list(range(1, 65))


def test_inputs_are_checked() -> None:
    machine = cuda_machine()
    with pytest.raises(InvalidInput):
        execute(machine.backend, counting(), {"y": bytes(7)})
    machine.backend.lifecycle.close()


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (DispatchConfig(workgroup=(2048, 1, 1)), "lanes in a workgroup is 2048"),
        (DispatchConfig(workgroup=(1, 1, 65)), "workgroup size along z is 65"),
    ],
)
def test_limits_of_the_device_are_named(config: DispatchConfig, what: str) -> None:
    with cuda_machine().open() as session, pytest.raises(DeviceLimitExceeded, match=what):
        session.dispatch(counting(), [WORDS], config)


def test_a_driver_that_rejects_the_code_gives_its_log() -> None:
    machine = cuda_machine()
    machine.driver.inject(FaultPlan(calls=(Fault(code=Result.INVALID_PTX, method="library_load"),)))
    with machine.open() as session:
        with pytest.raises(KernelCompileFailed) as caught:
            session.dispatch(counting(), [WORDS])
        assert caught.value.compiler_log == "made to order"
        assert session.dispatch(counting(), [WORDS])["y"].tolist()[:2] == [1, 2]


# ---------------------------------------------------------------- the warm path
def test_a_warm_dispatch_makes_only_the_calls_it_needs() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        session.dispatch(saxpy(), {"a": 1.0, "x": XS, "y": XS})
        made = calls_of(machine, lambda: session.dispatch(saxpy(), {"a": 2.0, "x": XS, "y": XS}))
    assert made == {
        "copy_to_device": 1,
        "event_record": 3,
        "launch": 1,
        "copy_to_host": 1,
        "event_elapsed_ms": 1,
    }


def test_programs_that_are_equal_share_a_module() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        session.dispatch(counting("one"), [WORDS])
        session.dispatch(counting("two"), [WORDS], DispatchConfig(timeout_s=10.0))
    assert metric(machine, "jit_count") == 1


@pytest.mark.parametrize("schedule", StreamSchedule)
@pytest.mark.parametrize("seed", range(3))
def test_threads_get_lanes_of_their_own(schedule: StreamSchedule, seed: int) -> None:
    """Few and small caches, so that lanes, memory and streams change hands all the time."""
    options = CudaOptions(slots=3, cached_device_bytes=8192, cached_host_bytes=4096)
    machine = cuda_machine(options, schedule=schedule, seed=seed)
    wrong: list[int] = []
    with machine.open() as session:
        program = counting()

        def work(first: int) -> None:
            for round_ in range(8):
                values = np.full((1, 64, 200)[(first + round_) % 3], first + round_, np.uint32)
                if session.dispatch(program, [values])["y"].tolist() != [first + round_ + 1] * len(values):
                    wrong.append(first)

        threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert metric(machine, "jit_count") == 1
    assert wrong == []
    assert not machine.driver.violations
    assert not any(machine.driver.live().values())


def test_idle_lanes_are_given_up_for_others() -> None:
    machine = cuda_machine(CudaOptions(slots=2))
    with machine.open() as session:
        for n in range(1, 9):
            assert session.dispatch(counting(), [np.zeros(n, np.uint32)])["y"].tolist() == [1] * n
        assert machine.driver.live()["device_memory"] <= 3
    assert not any(machine.driver.live().values())


def test_a_full_device_takes_back_idle_lanes() -> None:
    machine = cuda_machine(memory_bytes=8 * MIB)
    with machine.open() as session:
        for mib in (5, 6, 5):
            found = session.dispatch(counting(), [np.zeros(mib * MIB // 4, np.uint32)], grid=1)["y"]
            assert found[:65].tolist() == [1] * 64 + [0]
        with session.resident(np.uint32, 4 * MIB // 4), pytest.raises(DeviceOutOfMemory) as caught:
            session.dispatch(counting(), [np.zeros(6 * MIB // 4, np.uint32)], grid=1)
        assert caught.value.requested >= 6 * MIB
        assert session.dispatch(counting(), [WORDS])["y"].tolist()[:2] == [1, 2]
    assert not any(machine.driver.live().values())


# ---------------------------------------------------------------- deadlines
def test_a_dispatch_that_takes_too_long_is_named_and_set_aside() -> None:
    machine = cuda_machine(faults=FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
    config = DispatchConfig(timeout_s=0.02, label="long one")
    with machine.open() as session:
        with pytest.raises(DispatchTimeout, match=r"`long one` .* within 0\.02 s"):
            session.dispatch(counting(), [WORDS], config)
        assert metric(machine, "timeouts") == metric(machine, "quarantined_leases") == 1
        held = machine.driver.live()["device_memory"]
        session.flush()  # does not wait for what was given up
        assert session.dispatch(counting(), [WORDS])["y"].tolist()[:2] == [1, 2]
        assert machine.driver.live()["device_memory"] == held + 1
        machine.driver.end_slow_kernels()
        machine.driver.context_synchronize()
        session.dispatch(counting(), [np.zeros(5, np.uint32)])  # a new lane looks after the quarantine
        assert machine.driver.live()["device_memory"] == held + 1
    assert not any(machine.driver.live().values())


def test_closing_over_a_kernel_that_does_not_end_warns_once() -> None:
    machine = cuda_machine(CudaOptions(close_timeout_s=0.02), faults=FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
    session = machine.open()
    with pytest.raises(DispatchTimeout):
        session.dispatch(counting(), [WORDS], DispatchConfig(timeout_s=0.01))
    with pytest.warns(RuntimeWarning, match="abandoned") as caught:
        session.close()
    assert len(caught) == 1
    session.close()


# ---------------------------------------------------------------- loss
def test_a_lost_device_refuses_work_until_it_is_recovered() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        session.dispatch(counting(), [WORDS])
        machine.driver.inject(FaultPlan(runs=(Fault(code=Result.ILLEGAL_ADDRESS, method="launch"),)))
        with pytest.raises(DeviceLost, match="ILLEGAL_ADDRESS"):
            session.dispatch(counting(), [WORDS])
        before = sum(machine.driver.calls.values())
        with pytest.raises(DeviceLost, match="has lost its device"):
            session.dispatch(counting(), [WORDS])
        assert machine.backend.lifecycle.device_lost()
        assert sum(machine.driver.calls.values()) == before
        machine.backend.lifecycle.recover()
        assert machine.backend.lifecycle.epoch == 1
        assert session.dispatch(counting(), [WORDS])["y"].tolist()[:2] == [1, 2]
    assert not any(machine.driver.live().values())
