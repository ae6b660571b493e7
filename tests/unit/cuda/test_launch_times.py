"""What a run on resident memory says of its launches: how many were no replay, and what one of them took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import sleep

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from support.small_programs import square_program
from vyre import CacheConfig, DecisionJournal
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.cuda.runtime.waiting import WaitingClock
from vyre.adapters.disk.measurement_stores import DiskCostStore
from vyre.domain.cost_limits import LEAST_SAMPLES
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.domain.launch_costs import to_text
from vyre.policies.launching.plan_execution import ExecutionInputs, plan_execution
from vyre.ports.requests import ResidentSequence, ResidentStep
from vyre.testing import CudaMachine, cuda_machine

PLAIN = CudaOptions(graph_after=None)


def doubling(*, traps: bool = False) -> Program:
    """In place; 7 is not to be doubled where it ``traps``."""
    with ProgramBuilder("doubling", workgroup=8) as p:
        x = p.inout("x", u32)
        i = p.global_id()
        if traps:
            with p.if_(x[i] == 7):
                p.trap(i, "seven")
        x[i] = x[i] * 2
    return p.build()


DOUBLE = doubling()


def run(machine: CudaMachine, *iterations: int, rounds: int = 1, program: Program = DOUBLE) -> DispatchTiming:
    """Of a sequence with a step of so many iterations each, in so many rounds."""
    backend = machine.backend
    backend.lifecycle.prepare()
    with backend.require_memory().allocate(32) as x:
        steps = tuple(ResidentStep(program, (x,), DispatchConfig(fixpoint_iterations=n)) for n in iterations)
        return backend.require_resident_executor().run(ResidentSequence(repeated=steps, repeat_count=rounds))


@pytest.mark.parametrize(
    ("iterations", "rounds", "launches", "told"),
    [
        ((1,), 1, 1, True),
        ((1, 50, 3), 1, 54, True),
        ((8, 8), 4, 64, True),
        ((256,), 2, 512, True),
        ((256, 1), 2, 514, False),
        ((600,), 1, 600, False),
    ],
    ids=str,
)
def test_launches_are_counted_and_timed_unless_there_are_so_many_that_the_host_may_have_to_wait(
    iterations: tuple[int, ...], rounds: int, launches: int, told: bool
) -> None:
    timing = run(cuda_machine(PLAIN), *iterations, rounds=rounds)
    assert timing.launches == launches
    assert (timing.launch_ns is not None) is told
    if timing.launch_ns is not None:
        assert timing.enqueue_ns is not None
        assert 0 < timing.launch_ns * launches <= timing.enqueue_ns


def test_two_looks_at_the_clock_tell_it() -> None:
    """Each of them is 1000 ns later than the one before."""

    def looks(options: CudaOptions) -> tuple[int, int | None]:
        ticks = count(0, 1_000)
        machine = cuda_machine(options, clock=WaitingClock(lambda: next(ticks), sleep), schedule=StreamSchedule.EAGER)
        launch_ns = run(machine, 16).launch_ns
        return next(ticks) // 1_000, launch_ns

    (replayed, untold), (launched, told) = looks(CudaOptions(graph_after=0)), looks(PLAIN)
    assert (untold, told) == (None, 1_000 // 16)
    assert replayed == launched + 2  # which looks as often, and around the recording


def test_copies_between_launches_and_fills_hide_what_these_take() -> None:
    with ProgramBuilder("add", workgroup=8) as p:
        added, to = p.input("x", u32), p.inout("y", u32)
        to[p.global_id()] = to[p.global_id()] + added[p.global_id()]
    x = np.arange(8, dtype=np.uint32)
    with cuda_machine(PLAIN).open() as session, session.resident(x) as y:
        steps = [vyre.Step(p.build(), {"x": x, "y": y})] * 2
        before, between = session.sequence(steps[:1])(), session.sequence(steps)()
        zeroed = session.sequence([vyre.Step(square_program(), {"x": x, "y": y})])()
    assert (before.launches, before.launch_ns is None) == (1, False)
    assert (between.launches, between.launch_ns) == (2, None)
    assert (zeroed.launches, zeroed.launch_ns) == (1, None)


def test_a_replay_is_no_launch() -> None:
    machine = cuda_machine(CudaOptions(graph_after=1))
    with machine.open() as session, session.resident(np.arange(8, dtype=np.uint32)) as x:
        config = DispatchConfig(fixpoint_iterations=16)
        found = [session.dispatch(DOUBLE, {"x": x}, config).timing for _ in range(3)]
    assert [timing.launches for timing in found] == [16, 0, 0]
    assert [timing.launch_ns is not None for timing in found] == [True, False, False]


def test_where_traps_are_looked_for_nothing_is_told() -> None:
    timing = run(cuda_machine(PLAIN), 16, program=doubling(traps=True))
    assert (timing.launches, timing.launch_ns) == (None, None)


def test_a_run_of_nothing_launches_nothing() -> None:
    machine = cuda_machine(PLAIN)
    assert run(machine, 16).launches == 16
    assert (run(machine).launches, run(machine).launch_ns) == (None, None)


def test_dispatches_on_host_memory_say_what_they_launched() -> None:
    machine = cuda_machine(CudaOptions(graph_after=1))
    x = np.arange(8, dtype=np.uint32)
    with machine.open() as session:
        config = DispatchConfig(fixpoint_iterations=3)
        found = [session.dispatch(DOUBLE, {"x": x}, config).timing for _ in range(3)]
        submitted = session.submit(DOUBLE, {"x": x}).result(LIMIT_S).timing
        trapping = session.dispatch(doubling(traps=True), {"x": x[:4]}, config).timing
    assert [timing.launches for timing in found] == [3, 0, 0]
    assert (submitted.launches, trapping.launches) == (1, None)


def test_dispatches_on_host_memory_correct_a_launch_cost_that_is_a_hundred_times_too_large(tmp_path: Path) -> None:
    """What is kept is handed to the backend, and replaced by what is seen, without anybody's asking."""
    x, store = np.arange(8, dtype=np.uint32), CacheConfig(tmp_path)
    with vyre.open("cuda-machine", cache=store) as session:
        truth = session.calibrate(rounds=LEAST_SAMPLES).costs
    assert truth.launch is not None
    planted = replace(truth, launch=replace(truth.launch, median_ns=10**8, standard_error_ns=0))
    DiskCostStore(str(tmp_path)).save(planted)
    journal = DecisionJournal()
    with vyre.open("cuda-machine", cache=store, journal=journal) as session:
        for _ in range(50):
            session.dispatch(DOUBLE, {"x": x})
        known = session.launch_costs()
    (verdict,) = [v for v in known.corrected if v.cost == "launch"]
    assert verdict.value.median_ns < 10**8 and "launch is at most" in known.why
    *_, (asked,) = [decision.arguments for decision in journal.decisions if decision.policy is plan_execution]
    assert isinstance(asked, ExecutionInputs) and asked.costs.launch is not None
    assert asked.costs.launch.median_ns < 10**8


@pytest.mark.parametrize("wrong", [lambda ns: ns // 100, lambda ns: ns * 100], ids=["a hundredth", "a hundred times"])
def test_a_session_corrects_a_launch_cost_within_50_dispatches(wrong: Callable[[int], int], tmp_path: Path) -> None:
    """Also where replays are planned with it: of forty launches, at what one costs in truth, 1000 ns as any call."""
    path = tmp_path / "planted.json"
    machine = cuda_machine(clock=WaitingClock(lambda: 1_000 * machine.driver.calls.total(), sleep))
    with machine.open() as session, session.resident(np.arange(8, dtype=np.uint32)) as x:
        costs = session.calibrate(rounds=LEAST_SAMPLES).costs
        truth = costs.launch
        assert truth is not None
        planted = replace(truth, median_ns=wrong(truth.median_ns), standard_error_ns=0)
        costs = replace(costs, launch=planted, graph_replay=truth)
        path.write_text(to_text(costs))
        assert machine.backend.planning is not None
        machine.backend.planning.use_costs(costs)
        for _ in range(9):
            assert "launch" not in [found.cost for found in session.launch_costs(path).corrected]
            session.dispatch(DOUBLE, {"x": x}, DispatchConfig(fixpoint_iterations=40))
        (verdict,) = (found for found in session.launch_costs(path).corrected if found.cost == "launch")
        assert not verdict.upper_bound
        assert verdict.value.median_ns == truth.median_ns == 1_000
        assert f"not {planted.median_ns} ns: 9 samples" in str(verdict.why)
