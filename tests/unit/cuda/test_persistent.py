"""Persistent engines of the CUDA backends: launches and leases, errors of single jobs, lost devices, and the end."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.cpu.backends import ADD, ENDLESS
from support.cuda.ptxas import TARGETS, assemble_all
from support.limits import LIMIT_S
from vyre.adapters.cuda.code_tools import assemblers
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.adapters.cuda.machine.presets import H200
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.engine import CudaEngine
from vyre.adapters.cuda.runtime.launch import MOST_RESIDENT, resident_blocks
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import (
    DeviceLost,
    DispatchFailed,
    DispatchTimeout,
    InvalidInput,
    InvalidResource,
    TrapError,
    UnsupportedFeature,
)
from vyre.domain.ir.program import Program
from vyre.ports.requests import DispatchRequest
from vyre.testing import CudaMachine, cuda_machine
from vyre.testing.backend_contract.bench import parsed
from vyre.testing.backend_contract.persistent import EngineJobs

TRAPS = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body {
      if x[gid.x] == 13u { trap(gid.x + 7u, "unlucky") }
      x[gid.x] = x[gid.x] + 1u
    }
    """)
PERHAPS = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body {
      if x[gid.x] == 99u { for k in 0u..4294967295u { for l in 0u..4294967295u { x[gid.x] = x[gid.x] * 3u + k } } }
      x[gid.x] = x[gid.x] + 1u
    }
    """)
GATHERS = parsed("""
    workgroup_size 48, 1, 1
    param a @0 u64
    buffer x @1 read f32[runtime]
    buffer y @2 write f32[500] output
    buffer s @3 workgroup f32[48]
    body {
      s[lid.x] = x[gid.x]
      for k in 0u..3u {
        barrier(acq_rel)
        s[lid.x] = s[lid.x] + subgroup_add(x[gid.x])
      }
      y[gid.x] = s[lid.x]
      if a == 5u64 { trap(gid.x, "five") }
    }
    """)

LARGE = parsed("""
    workgroup_size 64, 1, 1
    buffer x @0 read_write u32[runtime]
    buffer s @1 workgroup u32[16000]
    body {
      s[lid.x] = x[gid.x]
      barrier(acq_rel)
      x[gid.x] = s[63u - lid.x] + s[15999u]
    }
    """)


def opened(
    machine: CudaMachine, program: Program = ADD, capacity: int = 4, nbytes: int = 16, **config: Any
) -> EngineJobs:
    assert machine.backend.persistent is not None
    made = machine.backend.persistent.open(program, DispatchConfig(**config), (nbytes,), capacity)
    assert isinstance(made, CudaEngine)
    return EngineJobs(made)


def words(*values: int) -> list[memoryview]:
    return [memoryview(np.array(values, np.uint32).tobytes())]


def submitted(engine: EngineJobs, *values: int) -> int:
    ticket = engine.submit(words(*values))
    assert ticket is not None
    return ticket


def collected(engine: EngineJobs, ticket: int, timeout: float = LIMIT_S) -> list[int]:
    arena = OutputArena()
    engine.wait(ticket, arena, timeout=timeout)
    found: list[int] = np.frombuffer(arena[0], np.uint32).tolist()
    return found


def until(holds: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if holds():
            return
    raise AssertionError("it never came to hold")


# ---------------------------------------------------------------- launches
def test_one_launch_serves_all_jobs() -> None:
    machine = cuda_machine()
    engine = opened(machine)
    launches = machine.driver.calls["launch"]
    for value in range(100):
        assert collected(engine, submitted(engine, value, 1, 2, 3)) == [value + 1, 2, 3, 4]
    assert machine.driver.calls["launch"] == launches == 1
    counts = engine.counters()
    assert (counts["launches"], counts["jobs"], counts["submissions"], counts["full"]) == (1, 100, 100, 0)
    engine.close()
    metrics = machine.backend.metric_source.metrics()  # type: ignore[union-attr]
    assert (metrics["persistent_launches"], metrics["persistent_jobs"], metrics["kernel_launches"]) == (1, 100, 0)


def test_a_kernel_without_jobs_leaves_and_is_launched_again() -> None:
    machine = cuda_machine()
    engine = opened(machine)
    for launches in (1, 2, 3):
        assert collected(engine, submitted(engine, launches, 0, 0, 0)) == [launches + 1, 1, 1, 1]
        assert engine.counters()["launches"] == launches
        machine.backend.lifecycle.flush()  # it waits for all of the device
    engine.close()
    assert not machine.driver.kernel_faults


def test_a_kernel_that_leaves_while_a_job_comes_takes_it() -> None:
    """Whatever a launch is about to do when a job is published, the job is served."""
    machine = cuda_machine()
    for looks in range(0, 260, 13):
        engine = opened(machine)
        for _ in range(looks):
            machine.driver.stream_ready(engine.lease.stream)
        ticket = submitted(engine, looks, 0, 0, 0)
        assert collected(engine, ticket) == [looks + 1, 1, 1, 1]
        assert engine.counters()["launches"] <= 2
        engine.close()


def test_other_work_of_the_backend_goes_on() -> None:
    machine = cuda_machine()
    engine, arena = opened(machine, PERHAPS, 8), OutputArena()
    slow = submitted(engine, *[99] * 4)
    for value in range(5):
        machine.backend.executor.execute(DispatchRequest(ADD, tuple(words(value, 0, 0, 0))), arena)
        assert np.frombuffer(arena[0], np.uint32).tolist() == [value + 1, 1, 1, 1]
        assert collected(engine, submitted(engine, 0, value, 0, 0)) == [1, value + 1, 1, 1]
        assert not engine.done(slow)
    engine.close()


def test_workgroups_of_a_job_run_one_after_the_other_and_again() -> None:
    machine = cuda_machine()
    engine = opened(machine, nbytes=4 * 1000, fixpoint_iterations=3)
    x = np.arange(1000, dtype=np.uint32)
    ticket = engine.submit([memoryview(x.tobytes())])
    assert ticket is not None
    assert collected(engine, ticket) == (x + 3).tolist()
    engine.close()


@pytest.mark.parametrize("program", [GATHERS, LARGE], ids=["gathers", "large"])
def test_workgroups_share_memory_as_in_a_dispatch(program: Program) -> None:
    machine = cuda_machine()
    chance, arena = np.random.default_rng(3), OutputArena()
    given = chance.integers(0, 9, 500).astype(np.float32 if program is GATHERS else np.uint32)
    inputs = [memoryview(given.tobytes())]
    if program is GATHERS:
        inputs.insert(0, memoryview(np.uint64(4).tobytes()))
    machine.backend.executor.execute(DispatchRequest(program, tuple(inputs)), arena)
    want = arena.to_bytes()
    assert machine.backend.persistent is not None
    lengths = tuple(view.nbytes for view in inputs)
    engine = EngineJobs(machine.backend.persistent.open(program, DispatchConfig(), lengths, 4))
    for _ in range(3):
        ticket = engine.submit(inputs)
        assert ticket is not None
        engine.wait(ticket, arena, timeout=LIMIT_S)
        assert arena.to_bytes() == want
    if program is GATHERS:
        ticket = engine.submit([memoryview(np.uint64(5).tobytes()), inputs[1]])
        assert ticket is not None
        with pytest.raises(TrapError, match="five"):
            engine.wait(ticket, arena, timeout=LIMIT_S)
    engine.close()


# ---------------------------------------------------------------- errors of single jobs
def test_a_trap_is_that_of_its_job() -> None:
    machine = cuda_machine()
    engine = opened(machine, TRAPS, 8, fixpoint_iterations=2)
    tickets = [submitted(engine, 1, value, 2, 3) for value in (12, 13, 14)]
    for index in (0, 1):
        with pytest.raises(TrapError) as caught:
            engine.wait(tickets[index], None, timeout=LIMIT_S)
        assert (caught.value.tag, caught.value.address, caught.value.global_id) == ("unlucky", 8, (1, 0, 0))
    assert collected(engine, tickets[2]) == [3, 16, 4, 5]
    engine.close()
    assert machine.backend.metric_source.metrics()["traps"] == 2  # type: ignore[union-attr]


def test_a_late_job_is_stopped_and_the_others_are_not() -> None:
    machine = cuda_machine()
    engine = opened(machine, PERHAPS, 8, timeout_s=1e-4)
    tickets = [submitted(engine, value, 5, 5, 5) for value in (0, 99, 2)]
    with pytest.raises(DispatchTimeout, match=r"did not finish on backend `cuda-machine` within 0\.0001 s"):
        engine.wait(tickets[1], None, timeout=LIMIT_S)
    assert [collected(engine, ticket) for ticket in (tickets[0], tickets[2])] == [[1, 6, 6, 6], [3, 6, 6, 6]]
    assert collected(engine, submitted(engine, 7, 7, 7, 7)) == [8, 8, 8, 8]
    engine.close()
    assert not machine.driver.kernel_faults


# ---------------------------------------------------------------- results
def test_memory_of_rows_is_used_again() -> None:
    machine = cuda_machine()
    engine = opened(machine, capacity=2)
    for value in range(30):
        ticket = submitted(engine, value, 0, 0, 0)
        assert collected(engine, ticket)[0] == value + 1
        engine.forget(ticket)
        with pytest.raises(InvalidResource, match="was forgotten"):
            collected(engine, ticket)
    into = bytearray(3 * 16)
    for _ in range(5):
        first = engine.submit_many(words(*range(12)), 3, [memoryview(into)])
        assert first is not None
        engine.wait_many(first, 3, timeout=LIMIT_S)
        engine.forget(first)
    assert np.frombuffer(into, np.uint32).tolist() == list(range(1, 13))
    assert machine.driver.calls["host_alloc"] <= 3  # the mailbox, rows of single jobs, rows of batches
    engine.close()


def test_results_that_wait_for_their_readers_take_no_mapped_memory() -> None:
    machine = cuda_machine()
    engine, tickets = opened(machine, capacity=4), list[int]()
    for value in range(60):
        assert engine.wait_room(LIMIT_S)
        tickets.append(submitted(engine, value, 0, 0, 0))
    assert machine.driver.calls["host_alloc"] <= 3
    assert [collected(engine, ticket)[0] for ticket in reversed(tickets)] == list(range(60, 0, -1))
    for ticket in tickets:
        engine.forget(ticket)
    assert not engine._entries
    engine.close()


def test_results_of_a_closed_engine_remain() -> None:
    machine = cuda_machine()
    engine = opened(machine, PERHAPS, 8)
    right, stuck, into = submitted(engine, 4, 4, 4, 4), submitted(engine, *[99] * 4), bytearray(32)
    batch = engine.submit_many(words(6, 6, 6, 6, 99, 99, 99, 99), 2, [memoryview(into)])
    assert batch is not None
    until(lambda: engine.done(right) and engine.done(batch))
    engine.close()
    engine.close()
    assert collected(engine, right) == [5, 5, 5, 5]
    with pytest.raises(DispatchFailed, match="persistent engine was closed"):
        engine.wait(stuck, None)
    assert engine.wait_many(batch, 2).failed == (batch + 1,)
    assert np.frombuffer(into[:16], np.uint32).tolist() == [7] * 4
    with pytest.raises(InvalidResource, match="is closed"):
        engine.submit(words(1, 2, 3, 4))
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())
    with pytest.raises(DispatchFailed, match="is closed"):
        engine.submit(words(1, 2, 3, 4))


def test_closing_the_backend_ends_engines() -> None:
    machine = cuda_machine()
    engine = opened(machine, ENDLESS)
    ticket = submitted(engine, 1, 1, 1, 1)
    machine.backend.lifecycle.close()
    with pytest.raises(DispatchFailed):
        engine.wait(ticket, None)
    assert not any(machine.driver.live().values()) and not machine.driver.violations
    engine.close()


# ---------------------------------------------------------------- lost devices
@pytest.mark.parametrize("recovers", [True, False])
@pytest.mark.parametrize("looks", [0, 7, 40])
def test_a_device_lost_between_jobs_loses_no_result(looks: int, recovers: bool) -> None:
    machine = cuda_machine()
    engine = opened(machine, PERHAPS, 8)
    right = submitted(engine, 4, 4, 4, 4)
    engine.wait(right, None, timeout=LIMIT_S)
    stuck = [submitted(engine, *[99] * 4) for _ in range(3)]
    for _ in range(looks):
        assert not engine.done(stuck[0])
    machine.driver.inject(FaultPlan(calls=(Fault(code=700, method="stream_ready"),)))
    for ticket in stuck:
        for _ in range(2):
            with pytest.raises(DeviceLost):
                engine.wait(ticket, None, timeout=LIMIT_S)
        assert engine.done(ticket)
    assert collected(engine, right) == [5, 5, 5, 5]
    with pytest.raises(DeviceLost):
        engine.submit(words(1, 2, 3, 4))
    assert engine.counters()["jobs"] == 4
    engine.close()
    if recovers:
        machine.backend.lifecycle.recover()
        fresh = opened(machine)
        assert collected(fresh, submitted(fresh, 1, 2, 3, 4)) == [2, 3, 4, 5]
        fresh.close()
    machine.backend.lifecycle.close()
    gc.collect()
    assert not recovers or not any(machine.driver.live().values())


def test_recovering_ends_engines_that_did_not_know() -> None:
    machine = cuda_machine()
    engine = opened(machine, ENDLESS)
    ticket = submitted(engine, 1, 1, 1, 1)
    machine.driver.inject(FaultPlan(calls=(Fault(code=700, method="memory_info"),)))
    assert machine.backend.lifecycle.device_lost()
    machine.backend.lifecycle.recover()
    with pytest.raises(DeviceLost):
        engine.wait(ticket, None, timeout=LIMIT_S)
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


# ---------------------------------------------------------------- refusals
def test_what_engines_do_not_serve() -> None:
    grid = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[runtime]
        body { x[gid.x] = 1u  barrier(grid_sync)  x[gid.x] = 2u }
        """)
    machine = cuda_machine()
    for program, config, what in (
        (grid, {}, "grid loop"),
        (ADD, {"race_check": True}, "race_check"),
        (ADD, {"step_budget": 5}, "step_budget"),
    ):
        with pytest.raises(UnsupportedFeature, match=what):
            opened(machine, program, **config)
    for capacity in (1, 0, (1 << 20) + 1):
        with pytest.raises(InvalidResource, match="capacity"):
            opened(machine, capacity=capacity)
    with pytest.raises(UnsupportedFeature, match="grid"):
        emit(grid, EmitOptions(mailbox=True))
    engine = opened(machine)
    for jobs in (0, 1 << 16):
        with pytest.raises(InvalidInput, match="jobs in one submission"):
            engine.submit_many(words(1, 2, 3, 4), jobs, [])
    engine.close()


def test_a_device_that_limits_the_time_of_kernels_has_none() -> None:
    machine = cuda_machine(preset=replace(H200, limits_kernels=True))
    with pytest.raises(UnsupportedFeature, match="limits the time of kernels"):
        opened(machine)


# ---------------------------------------------------------------- decisions and code
@pytest.mark.parametrize(
    ("fitting", "arena", "memory", "blocks"),
    [
        (0, 256, 1 << 30, 1),
        (3, 256, 1 << 30, 1),
        (8, 256, 1 << 30, 2),
        (10_000, 256, 1 << 30, MOST_RESIDENT),
        (64, 1 << 26, 1 << 30, 2),
    ],
)
def test_resident_blocks_leave_room(fitting: int, arena: int, memory: int, blocks: int) -> None:
    assert resident_blocks(fitting, arena, memory) == blocks


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_that_stay_assemble_for_every_target(target: int) -> None:
    found = assemblers()
    if not found:
        pytest.skip("no ptxas: install the dependency group `ptxas`")
    modules = [emit(each, EmitOptions(target=target, mailbox=True)) for each in (ADD, TRAPS, PERHAPS, GATHERS, LARGE)]
    report = assemble_all(found[0], [(target, modules)], workers=1)
    assert not report.refused and len(report.resources) == len(modules)
    plain = {module.kernels[0].entry for module in modules[:-1]}  # ptxas is sparing where a block takes much memory
    assert not any(needs.spills for (_, entry), needs in report.resources.items() if entry in plain)
