"""Sequences on resident memory replayed as graphs: one launch an iteration, with the values and memory of each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import vyre
from support.cuda.scenarios import PROGRAM
from vyre.adapters.cuda.machine.fault_plan import DriverCall, Fault, FaultPlan
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.replay_decision import NODE_LIMIT
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import TrapError
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.domain.launch_costs import ASSUMED, Measured, Provenance
from vyre.ports.backend import Backend
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep, Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing import CudaMachine, cuda_machine

N: Final = 32
X: Final = np.arange(N, dtype=np.uint32)


def multiply_add(*, traps: bool = False) -> Program:
    """``y = x * k + 1``; 7 is no factor where it ``traps``."""
    with ProgramBuilder("multiply_add", workgroup=32) as p:
        k = p.param("k", u32)
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        if traps:
            with p.if_(k == 7):
                p.trap(i, "seven")
        y[i] = x[i] * k + 1
    return p.build()


STEP: Final = multiply_add()


def scalar(k: int) -> memoryview:
    return memoryview(np.uint32(k).tobytes())


class Loop(NamedTuple):
    """Two buffers on a machine, and what is run on them."""

    machine: CudaMachine
    backend: Backend
    one: ResidentBuffer
    two: ResidentBuffer

    def steps(self, factors: Sequence[int], program: Program = STEP) -> tuple[ResidentStep, ...]:
        """To and fro, each with a factor of its own."""
        pair = (self.one, self.two)
        return tuple(ResidentStep(program, (scalar(k), pair[i % 2], pair[1 - i % 2])) for i, k in enumerate(factors))

    def run(self, steps: Sequence[ResidentStep], rounds: int, *, once: Sequence[ResidentStep] = ()) -> bytes:
        back = bytearray(4 * N)
        self.backend.require_memory().upload([Upload(self.one, memoryview(X.tobytes()))])
        self.backend.require_resident_executor().run(
            ResidentSequence(
                prefix=tuple(once),
                repeated=tuple(steps),
                repeat_count=rounds,
                reads=(Readback(self.one, memoryview(back)),),
            )
        )
        return bytes(back)

    def spent(self, steps: Sequence[ResidentStep], rounds: int, expected: bytes) -> Counter[str]:
        """The driver calls of a run, and its counts."""
        before = Counter(self.machine.driver.calls)
        assert self.run(steps, rounds) == expected
        return Counter(self.machine.driver.calls) - before


def wanted(factors: Sequence[int], rounds: int) -> bytes:
    x = X.copy()
    for k in tuple(factors) * rounds:
        x = x * np.uint32(k) + np.uint32(1)
    return x.tobytes()


def opened(options: CudaOptions | None = None) -> Loop:
    machine = cuda_machine(options or CudaOptions())
    machine.backend.lifecycle.prepare()
    memory = machine.backend.require_memory()
    return Loop(machine, machine.backend, memory.allocate(4 * N, label="one"), memory.allocate(4 * N, label="two"))


def close(loop: Loop) -> None:
    loop.one.close()
    loop.two.close()
    loop.backend.lifecycle.close()
    assert not any(loop.machine.driver.live().values())
    assert not loop.machine.driver.violations


def metric(loop: Loop, name: str) -> int:
    assert loop.backend.metric_source is not None
    return loop.backend.metric_source.metrics()[name]


HUNDRED: Final = tuple(range(1, 101))


def test_a_loop_of_a_hundred_kernels_is_one_graph_launch_an_iteration() -> None:
    loop = opened()
    steps = loop.steps(HUNDRED)
    first = loop.spent(steps, 3, wanted(HUNDRED, 3))
    assert (first["graph_launch"], first["graph_add_kernel"], first["launch"]) == (3, 100, 0)
    again = loop.spent(steps, 5, wanted(HUNDRED, 5))
    assert (again["graph_launch"], again["graph_create"], again["launch"]) == (5, 0, 0)
    assert again["graph_update_kernel"] == 0
    assert (metric(loop, "graph_launches"), metric(loop, "graph_kernels")) == (8, 800)
    assert (metric(loop, "kernel_launches"), metric(loop, "graph_recordings")) == (0, 1)
    close(loop)


def test_a_single_round_is_recorded_when_it_came_often() -> None:
    loop = opened()
    steps = loop.steps((3, 5))
    for _ in range(64):
        assert loop.run(steps, 1) == wanted((3, 5), 1)
    assert metric(loop, "graph_recordings") == 1
    assert 0 < metric(loop, "graph_launches") < 64
    assert metric(loop, "kernel_launches") + metric(loop, "graph_kernels") == 128
    close(loop)


@pytest.mark.parametrize(
    ("dear", "once", "samples"),
    [
        ("launch", (), {4: [2]}),
        ("launch", (1, 1), {4: [2], 2: [2]}),
        ("graph_record", (1, 1), {4: [2], 2: [2]}),
        ("launch", (NODE_LIMIT + 1,), {4: [2]}),
    ],
    ids=["all replayed", "one of two replayed", "none replayed", "one of two too long for a graph"],
)
def test_a_run_tells_what_its_parts_took_where_all_were_run_alike(
    dear: str, once: tuple[int, ...], samples: dict[int, list[int | None]]
) -> None:
    """``samples``: those that each plan had of its kernels, by steps of the sequence.  No cost is refuted.

    The first run of a loop has none, and is decided about without a plan.
    """
    known: dict[str, Any] = {dear: Measured(10**9, 0, 0, 9, Provenance.MEASURED)}
    costs = replace(ASSUMED, **known)
    loop = opened(CudaOptions(costs=costs))
    first = [
        replace(step, config=DispatchConfig(fixpoint_iterations=iterations))
        for step, iterations in zip(loop.steps((2,) * len(once)), once, strict=True)
    ]
    for _ in range(3):
        loop.run(loop.steps((3, 5, 7, 9)), 3, once=first)
    assert loop.backend.planning is not None
    found: dict[int, list[int | None]] = {}
    for planned in loop.backend.planning.plans():
        kernel = planned.inputs.workload.kernel
        found.setdefault(int(planned.work.split()[0]), []).append(None if kernel is None else kernel.count)
        assert planned.inputs.costs == costs
    assert found == samples
    close(loop)


def test_values_that_changed_are_written_into_the_graph_and_no_others() -> None:
    loop = opened(CudaOptions(graph_after=0))
    loop.run(loop.steps((3, 5, 7, 9)), 2)
    spent = loop.spent(loop.steps((3, 6, 7, 11)), 2, wanted((3, 6, 7, 11), 2))
    assert (spent["graph_update_kernel"], spent["graph_launch"], spent["graph_create"]) == (2, 2, 0)
    close(loop)


def test_other_memory_is_another_graph() -> None:
    loop = opened(CudaOptions(graph_after=0))
    memory = loop.backend.require_memory()
    loop.run(loop.steps((3, 5)), 2)
    with memory.allocate(4 * N) as other:
        turned = Loop(loop.machine, loop.backend, loop.one, other)
        spent = turned.spent(turned.steps((3, 5)), 2, wanted((3, 5), 2))
    assert (spent["graph_create"], spent["graph_launch"], spent["launch"]) == (1, 2, 0)
    assert loop.spent(loop.steps((3, 5)), 2, wanted((3, 5), 2))["graph_create"] == 0
    close(loop)


def test_what_comes_once_is_a_sequence_of_its_own() -> None:
    loop = opened(CudaOptions(graph_after=1))
    for _ in range(3):
        found = loop.run(loop.steps((3, 5)), 2, once=loop.steps((2, 4)))
        x = (X * np.uint32(2) + np.uint32(1)) * np.uint32(4) + np.uint32(1)
        for k in (3, 5, 3, 5):
            x = x * np.uint32(k) + np.uint32(1)
        assert found == x.tobytes()
    close(loop)


def test_host_bytes_that_changed_are_seen_by_replays() -> None:
    loop = opened(CudaOptions(graph_after=0))
    for k in (1, 2, 3):
        x = np.full(N, k, np.uint32)
        step = ResidentStep(STEP, (scalar(k), memoryview(x.tobytes()), loop.one))
        assert loop.run((step,), 2) == (x * np.uint32(k) + np.uint32(1)).tobytes()
    assert metric(loop, "graph_recordings") == 1
    close(loop)


def test_it_can_be_switched_off() -> None:
    loop = opened(CudaOptions(graph_after=None))
    assert loop.run(loop.steps(HUNDRED), 3) == wanted(HUNDRED, 3)
    assert metric(loop, "graph_launches") == 0 == loop.machine.driver.calls["graph_create"]
    assert metric(loop, "kernel_launches") == 300
    close(loop)


def watched(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """For each kernel that will be added to a graph, in order, those that it waits for."""
    add, nodes, edges = loop.machine.driver.graph_add_kernel, list[int](), list[set[int]]()

    def noted(graph: int, after: Sequence[int], *launch: Any) -> int:
        edges.append({nodes.index(node) for node in after})
        nodes.append(add(graph, after, *launch))
        return nodes[-1]

    monkeypatch.setattr(loop.machine.driver, "graph_add_kernel", noted)
    return edges


@pytest.mark.parametrize("side_by_side", [True, False])
def test_steps_wait_for_those_whose_memory_they_share(side_by_side: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = opened(CudaOptions(graph_after=0, side_by_side=side_by_side))
    edges = watched(loop, monkeypatch)
    memory = loop.backend.require_memory()
    with memory.allocate(4 * N) as three, memory.allocate(4 * N) as four:
        pairs = [(loop.one, loop.two), (three, four), (loop.two, three), (loop.one, four), (loop.two, loop.one)]
        loop.run([ResidentStep(STEP, (scalar(3), *pair)) for pair in pairs], 2)
    assert edges == ([set(), set(), {0, 1}, {1}, {0, 3}] if side_by_side else [set(), {0}, {1}, {2}, {3}])
    close(loop)


@pytest.mark.parametrize("cooperative", [True, False])
def test_cooperative_kernels_have_the_device_to_themselves(cooperative: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = opened(CudaOptions(graph_after=0))
    edges, config = watched(loop, monkeypatch), DispatchConfig(cooperative=cooperative)
    with loop.backend.require_memory().allocate(4 * N) as three:
        pairs = [(loop.one, loop.two), (loop.one, three)]
        loop.run([ResidentStep(STEP, (scalar(3), *pair), config) for pair in pairs], 2)
    assert edges == [set(), {0} if cooperative else set()]
    close(loop)


def test_what_can_trap_is_launched_one_by_one() -> None:
    loop = opened(CudaOptions(graph_after=0))
    trapping = multiply_add(traps=True)
    assert loop.run(loop.steps((3, 5), trapping), 2) == wanted((3, 5), 2)
    with pytest.raises(TrapError):
        loop.run(loop.steps((3, 7), trapping), 2)
    assert metric(loop, "graph_recordings") == 0
    close(loop)


@pytest.mark.parametrize("method", ["graph_create", "graph_add_kernel", "graph_instantiate", "graph_update_kernel"])
@pytest.mark.parametrize("code", [1, 2, 801])
def test_a_refused_graph_is_given_up_for_plain_launches(method: DriverCall, code: int) -> None:
    loop = opened(CudaOptions(graph_after=1))
    loop.machine.driver.inject(FaultPlan(calls=(Fault(code=code, method=method),)))
    for k in range(2, 7):
        assert loop.run(loop.steps((k, 5)), 3) == wanted((k, 5), 3)
    assert metric(loop, "graph_fallbacks") == 1
    assert loop.machine.driver.live()["graph"] == 0 == loop.machine.driver.live()["graph_exec"]
    close(loop)


@pytest.mark.parametrize("nth", range(1, 6))
def test_iterations_behind_a_refused_replay_are_launched_plainly(nth: int) -> None:
    loop = opened(CudaOptions(graph_after=0))
    loop.machine.driver.inject(FaultPlan(calls=(Fault(code=1, method="graph_launch", nth=nth),)))
    assert loop.run(loop.steps((3, 5)), 5) == wanted((3, 5), 5)
    assert (metric(loop, "graph_launches"), metric(loop, "kernel_launches")) == (nth - 1, 2 * (6 - nth))
    assert loop.run(loop.steps((3, 5)), 5) == wanted((3, 5), 5)
    assert metric(loop, "graph_fallbacks") == 1 and loop.machine.driver.live()["graph_exec"] == 0
    close(loop)


def test_no_more_graphs_are_kept_than_asked_for() -> None:
    loop = opened(CudaOptions(graph_after=1, graphs=2))
    sequences = [loop.steps(range(1, 1 + 2 * n)) for n in range(1, 5)]
    for _ in range(6):
        for n, steps in enumerate(sequences, 1):
            assert loop.run(steps, 2) == wanted(range(1, 1 + 2 * n), 2)
            assert loop.machine.driver.live()["graph_exec"] <= 3
    assert metric(loop, "graph_recordings") == metric(loop, "graph_evictions") + 2 > 4
    close(loop)


@pytest.mark.parametrize(("rounds", "verdict"), [(2, "PlainLaunches"), (1000, "RecordAndReplay")])
def test_a_session_records_the_first_run_of_a_loop_where_its_rounds_pay_for_it(rounds: int, verdict: str) -> None:
    with vyre.ProgramBuilder("adding", workgroup=32) as p:
        y = p.inout("y", vyre.u32)
        y[p.global_id()] = y[p.global_id()] + 1
    journal = vyre.DecisionJournal()
    with (
        vyre.open("cuda-machine", cache=False, journal=journal) as session,
        session.resident(np.zeros(32, np.uint32)) as counted,
        session.sequence([vyre.Step(p.build(), {"y": counted})] * 2) as sequence,
    ):
        run = sequence(rounds)
        assert counted.download().tolist() == [2 * rounds] * 32
    (asked,) = [each for each in journal.decisions if each.name == "decide_command_reuse"]
    assert type(asked.verdict).__name__ == verdict
    assert (run.launches == 2 * rounds) is (verdict == "PlainLaunches")


def test_sequences_that_are_not_run_any_more_are_forgotten() -> None:
    loop = opened(CudaOptions(graph_after=0))
    for n in range(1, 41):
        loop.run(loop.steps(range(2 * n)), 1)
    assert loop.machine.driver.live()["graph_exec"] <= 33
    close(loop)


def test_a_run_of_many_launches_keeps_the_memory_of_all_until_it_ends() -> None:
    """Each step with host bytes has memory of its own; more of them than a lane remembers."""
    loop = opened(CudaOptions(graph_after=1))
    data = [np.full(N, n, np.uint32) for n in range(80)]
    steps = [ResidentStep(PROGRAM, (scalar(1), memoryview(x.tobytes()), loop.one, loop.two)) for x in data]
    for _ in range(3):
        found = loop.run(steps, 1)
        assert found == (X + np.uint32(sum(range(80)))).tobytes()
    for _ in range(2):
        assert loop.run(loop.steps((3, 5)), 1) == wanted((3, 5), 1)
    assert metric(loop, "graph_launches") > 0
    close(loop)
