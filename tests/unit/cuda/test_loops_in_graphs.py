"""Rounds that a graph repeats by itself: one launch, one wait, and a way out where the driver has no such graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from support.cuda.ptxas import TARGETS
from support.cuda.scenarios import COUNT_DOWN
from vyre.adapters.cuda.code_tools import assemble, newest_assembler
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine import work
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.adapters.cuda.machine.faults import PtxError
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.runtime.conditions import END_ROUND, ROUNDS_BYTES
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError, TrapError
from vyre.domain.ir.program import Program
from vyre.policies.frontiers.fixpoint import FixpointExecutor
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep, Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing import CudaMachine, cuda_machine

N: Final = 96
TRAPPING: Final = Program.from_text("""
    workgroup_size 32, 1, 1
    param first @0 u32
    buffer x @1 read_write u32[runtime]
    buffer changed @2 read_write u32[1]
    body {
      if x[gid.x] == 2u { trap(gid.x, "two") }
      if x[gid.x] > first { x[gid.x] = x[gid.x] - 1u let old = atomic_or(changed, 0u, 1u) }
    }
""")


class Bench(NamedTuple):
    """A count-down on a machine."""

    machine: CudaMachine
    x: ResidentBuffer
    flag: ResidentBuffer

    def steps(self, first: int = 0, program: Program = COUNT_DOWN) -> tuple[ResidentStep, ...]:
        return (ResidentStep(program, (memoryview(np.uint32(first).tobytes()), self.x, self.flag)),)

    def run(
        self, limit: int, *, start: int = 9, first: int = 0, program: Program = COUNT_DOWN
    ) -> tuple[DispatchTiming, int]:
        """Counts down from ``start``; returns the timing and element 0."""
        self.machine.backend.require_memory().upload(
            [Upload(self.x, memoryview(np.full(N, start, np.uint32).tobytes()))]
        )
        into = bytearray(4)
        timing = self.machine.backend.require_resident_executor().run(
            ResidentSequence(
                repeated=self.steps(first, program),
                repeat_count=limit,
                reads=(Readback(self.x, memoryview(into)),),
                flag=self.flag,
            )
        )
        return timing, int.from_bytes(into, "little")

    def spent(self, limit: int, **options: Any) -> dict[str, int]:
        """The metrics that a run adds to."""
        source = self.machine.backend.metric_source
        assert source is not None
        before = dict(source.metrics())
        self.run(limit, **options)
        return {name: value - before[name] for name, value in source.metrics().items() if value != before[name]}

    def executors(self, program: Program = COUNT_DOWN) -> frozenset[FixpointExecutor]:
        loops = self.machine.backend.loops
        assert loops is not None
        return loops.loop_executors(self.steps(program=program))


def bench_of(machine: CudaMachine) -> Bench:
    machine.backend.lifecycle.prepare()
    memory = machine.backend.require_memory()
    return Bench(machine, memory.allocate(4 * N), memory.allocate(4))


def close(bench: Bench) -> None:
    bench.x.close()
    bench.flag.close()
    bench.machine.backend.lifecycle.close()
    assert not any(bench.machine.driver.live().values())
    assert not bench.machine.driver.violations


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = bench_of(cuda_machine())
    yield made
    close(made)


WHILE: Final = frozenset({FixpointExecutor.WHILE_GRAPH})


def test_one_launch_and_one_wait_whatever_the_rounds(bench: Bench) -> None:
    assert bench.executors() == WHILE
    bench.run(500)
    few, many = bench.spent(500, start=3), bench.spent(500, start=300)
    for found, rounds in ((few, 4), (many, 301)):
        assert found["graph_launches"] == 1
        assert found["graph_kernels"] == 2 * rounds
        assert found["downloaded_bytes"] == ROUNDS_BYTES + 4
        assert "kernel_launches" not in found
    assert few["sync_points"] == many["sync_points"]


def test_polling_waits_in_every_round(bench: Bench) -> None:
    """The control: where the loop must be polled, waits and bytes grow with the rounds."""
    few, many = (bench.spent(500, start=start, program=TRAPPING, first=5) for start in (8, 20))
    assert (many["sync_points"] - few["sync_points"]) >= 12
    assert many["downloaded_bytes"] - few["downloaded_bytes"] >= 4 * 12
    assert many["kernel_launches"] - few["kernel_launches"] == 12


def test_the_same_loop_is_recorded_once(bench: Bench) -> None:
    recorded = [
        bench.spent(limit, first=first).get("graph_recordings", 0)
        for limit, first in ((50, 0), (50, 0), (7, 0), (50, 0), (50, 3), (50, 3))
    ]
    assert recorded == [1, 0, 1, 0, 1, 0]
    for first in (0, 3, 5):
        timing, value = bench.run(50, first=first)
        assert (timing.rounds, value) == (10 - first, first)


def test_more_loops_than_are_kept(bench: Bench) -> None:
    for limit in (*range(1, 13), *range(1, 13)):
        timing, value = bench.run(limit, start=20)
        assert (timing.rounds, timing.converged, value) == (limit, False, 20 - limit)


def test_a_limit_beyond_32_bits_is_polled(bench: Bench) -> None:
    timing, value = bench.run(2**40, start=4)
    assert (timing.rounds, timing.converged, value) == (5, True, 0)
    assert "graph_launches" not in bench.spent(2**40, start=4)


def test_what_traps_is_polled(bench: Bench) -> None:
    assert bench.executors(TRAPPING) == frozenset()
    with pytest.raises(TrapError, match="two"):
        bench.run(50, program=TRAPPING)
    timing, value = bench.run(50, program=TRAPPING, first=5)
    assert (timing.rounds, value) == (5, 5)


@pytest.mark.parametrize(
    "options",
    [
        {"driver_version": 12_030},
        {"faults": FaultPlan(calls=(Fault(code=Result.NOT_SUPPORTED, method="graph_condition"),))},
        {"faults": FaultPlan(calls=(Fault(code=Result.NOT_SUPPORTED, method="graph_add_while"),))},
        {"faults": FaultPlan(calls=(Fault(code=Result.NOT_SUPPORTED, method="graph_instantiate"),))},
    ],
    ids=["old driver", "no conditions", "no nodes", "no executables"],
)
def test_a_driver_without_loops_is_asked_once_and_polled(options: dict[str, Any]) -> None:
    bench = bench_of(cuda_machine(**options))
    assert bench.executors() == frozenset()
    asked = bench.machine.driver.calls["graph_condition"]
    for _ in range(3):
        timing, value = bench.run(50)
        assert (timing.rounds, timing.converged, value) == (10, True, 0)
    assert bench.machine.driver.calls["graph_condition"] == asked <= 1
    close(bench)


def test_no_loops_where_graphs_are_off() -> None:
    bench = bench_of(cuda_machine(CudaOptions(graph_after=None)))
    assert bench.executors() == frozenset()
    assert bench.run(50)[0].rounds == 10
    assert not bench.machine.driver.calls["graph_create"]
    close(bench)


def test_an_endless_loop_is_a_timeout_of_the_machine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run(2)
    monkeypatch.setattr(work, "MOST_ROUNDS", 100)
    with pytest.raises(BackendError):
        bench.run(1000, start=500)
    assert bench.machine.backend.lifecycle.device_lost()
    bench.machine.backend.lifecycle.recover()
    memory = bench.machine.backend.require_memory()
    again = Bench(bench.machine, memory.allocate(4 * N), memory.allocate(4))
    assert again.run(50)[0].rounds == 10
    again.x.close()
    again.flag.close()


# ---------------------------------------------------------------- the kernel that ends a round
@pytest.mark.parametrize("target", TARGETS)
def test_the_kernel_assembles_for_every_target(target: int) -> None:
    found = newest_assembler()
    if found is None:
        pytest.skip("no ptxas: install the dependency group `ptxas`")
    code, _ = assemble(found, END_ROUND, f"sm_{target}")
    assert code


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("call cudaGraphSetConditional, (a, b);", "call vprintf, (a, b);", "unknown call: call vprintf"),
        ("call cudaGraphSetConditional, (a, b);", "call cudaGraphSetConditional, (a);", "unknown call"),
        (".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);", "", "is not declared"),
        (".extern .func cudaGraphSetConditional(", ".extern .func other(", "unknown declaration"),
        (".param .b32 b;", ".param .b32 a;", "declared twice"),
    ],
)
def test_kernels_call_nothing_else(old: str, new: str, message: str) -> None:
    assert load_module(END_ROUND).entries
    with pytest.raises(PtxError, match=message):
        load_module(END_ROUND.replace(old, new))
