"""Sequences that resident workers run: waves, counters, errors, and when the planner takes that mode."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.cpu.pool import until
from support.launch_costs import launch_costs, measured
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre import Batch, ExecutionMode, ProgramBuilder, Repeat, Step, u32
from vyre.adapters.cpu.runtime.kept_steps import CpuPersistentSteps
from vyre.app.journal import DecisionJournal
from vyre.app.sequences.execution import UNROLLED, Waves
from vyre.app.sequences.planner import WorkPlanner
from vyre.app.sequences.sequence import StepSequence
from vyre.app.sequences.waves import waves_of
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import DispatchTimeout, InvalidConfig, TrapError, UnsupportedFeature, VyreError

pytestmark = NEEDS_LLVM

N: Final = 48
X: Final = np.arange(N, dtype=np.uint32)
PERSISTENT: Final = {"persistent": True, "fused": False}
GRAPH, KEPT, PLAIN = ExecutionMode.GRAPH, ExecutionMode.PERSISTENT, ExecutionMode.PLAIN


def mixed(*, traps: bool = False) -> vyre.Program:
    """``y = y * 3 + x``: the order of two of them matters."""
    with ProgramBuilder("mixed", workgroup=16) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            if traps:
                with p.if_(x[i] == 7):
                    p.trap(i, "seven")
            y[i] = y[i] * 3 + x[i]
    return p.build()


def endless() -> vyre.Program:
    with ProgramBuilder("endless", workgroup=16) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        with p.for_(0, 0xFFFF_FFFF) as k, p.for_(0, 0xFFFF_FFFF):
            y[i] = y[i] * 3 + k
    return p.build()


MIXED: Final = mixed()


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    with vyre.open("cpu", cache=False, threads=2, journal=DecisionJournal()) as opened:
        yield opened


@pytest.fixture
def arrays(session: vyre.Session) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield [stack.enter_context(session.resident(X + n)) for n in range(6)]


def planner_of(sequence: StepSequence) -> WorkPlanner:
    return sequence._planner


def waves(sequence: StepSequence) -> tuple[Waves, ...]:
    planner = planner_of(sequence)
    return waves_of(planner._work, planner.structure)


def changed(session: vyre.Session, before: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in session.metrics().items() if count != before[name]}


# ---------------------------------------------------------------- waves
def test_independent_steps_are_one_wave_and_dependent_ones_many(session: vyre.Session, arrays: list[Any]) -> None:
    a, b, c, d, e, f = arrays
    fan = Batch(MIXED, [{"x": a, "y": y} for y in (b, c, d)])
    with session.sequence([fan, Step(MIXED, {"x": b, "y": a}), Step(MIXED, {"x": e, "y": f})]) as sequence:
        assert waves(sequence) == ((), ((0, 1, 2, 4), (3,)))
    chain = [Step(MIXED, {"x": x, "y": y}) for x, y in ((a, b), (b, c), (c, d))]
    with session.sequence(chain) as sequence:
        assert waves(sequence) == ((), ((0,), (1,), (2,)))


def test_stated_dependencies_and_steps_that_may_fail_part_waves(session: vyre.Session, arrays: list[Any]) -> None:
    a, b, c, d, e, f = arrays
    one = Step(MIXED, {"x": a, "y": b})
    with session.sequence([one, Step(MIXED, {"x": c, "y": d}, after=[one])]) as sequence:
        assert waves(sequence) == ((), ((0,), (1,)))
    for program, config in (
        (mixed(traps=True), None),
        (MIXED, DispatchConfig(step_budget=100)),
        (MIXED, DispatchConfig(timeout_s=100.0)),
    ):
        fails = Step(program, {"x": c, "y": d}, config)
        others = [Step(MIXED, {"x": a, "y": y}) for y in (b, e, f)]
        with session.sequence([others[0], fails, *others[1:]]) as sequence:
            assert waves(sequence) == ((), ((0,), (1,), (2, 3)))
        with session.sequence([fails, *others]) as sequence:
            assert waves(sequence) == ((), ((0,), (1, 2, 3)))


def test_joined_steps_are_in_waves_too(session: vyre.Session, arrays: list[Any]) -> None:
    a, b, c, d, e, f = arrays
    d.upload(np.zeros(N, np.uint32))
    steps = [
        Step(MIXED, {"x": a, "y": b}),
        Step(MIXED, {"x": b, "y": c}),
        Step(mixed(traps=True), {"x": d, "y": e}),
        Step(MIXED, {"x": a, "y": f}),
    ]
    with session.sequence(steps, modes={"persistent": True, "fused": True}) as sequence:
        run = sequence()
        assert [group.steps for group in run.plan.groups] == [("steps[0]", "steps[1]"), ("steps[2]",), ("steps[3]",)]
        assert waves(sequence) == ((), ((0,), (1,), (2,)))
        assert (run.kernels, run.submissions, run.plan.mode) == (3, 1, ExecutionMode.PERSISTENT)
        assert [group.mode for group in run.plan.groups] == [ExecutionMode.FUSED, KEPT, KEPT]
    np.testing.assert_array_equal(c.download(), (X + 2) * 3 + (X + 1) * 3 + X)
    np.testing.assert_array_equal(e.download(), (X + 4) * 3)


# ---------------------------------------------------------------- counters
def test_a_run_is_one_submission_and_launches_nothing(session: vyre.Session, arrays: list[Any]) -> None:
    a, *others = arrays
    with session.sequence([Batch(MIXED, [{"x": a, "y": y} for y in others])], modes=PERSISTENT) as sequence:
        before = session.metrics()
        for rounds in (1, 1, 10):
            run = sequence(rounds)
            assert (run.submissions, run.launches, run.kernels) == (1, 0, 5 * rounds)
            assert (run.plan.mode, run.plan.why) == (ExecutionMode.PERSISTENT, "asked for")
            assert "beside 4 others in wave 1 of 1" in run.plan.groups[0].why
        found = changed(session, before)
        assert found.pop("kernel_cache_hits", 0) <= 1
        assert found == {"persistent_launches": 1, "persistent_jobs": 60}, "nothing else was launched, run or copied"
    want = X + 1
    for _ in range(12):
        want = want * 3 + X
    np.testing.assert_array_equal(others[0].download(), want)


def test_what_runs_once_and_long_loops_are_submissions_of_their_own(session: vyre.Session, arrays: list[Any]) -> None:
    a, b = arrays[:2]
    step = Step(MIXED, {"x": a, "y": b})
    with session.sequence([Repeat([step], 3), step], first=[step], modes=PERSISTENT) as sequence:
        assert [sequence(rounds).submissions for rounds in (0, 1, 5)] == [1, 2, 2]
    with session.sequence([Repeat([step], UNROLLED), step], modes=PERSISTENT) as sequence:
        run = sequence(3)
        assert (run.submissions, run.kernels) == (6, 3 * (UNROLLED + 1))
    with session.sequence([Repeat([step], UNROLLED + 1)], modes=PERSISTENT) as sequence:
        assert sequence(2).submissions == 1
    want = X + 1
    for _ in range(1 + 5 + 21 + 3 * (UNROLLED + 1) + 2 * (UNROLLED + 1)):
        want = want * 3 + X
    np.testing.assert_array_equal(b.download(), want)


def test_workers_are_released_with_the_sequence_and_had_again(session: vyre.Session, arrays: list[Any]) -> None:
    a, b = arrays[:2]
    between = session.temporary(u32, N)
    steps = [Step(MIXED, {"x": a, "y": between}), Step(MIXED, {"x": between, "y": b})]
    before = session.metrics()["persistent_launches"]
    with session.sequence(steps, modes=PERSISTENT) as sequence:
        assert [sequence().allocations for _ in range(3)] == [1, 0, 0]
        sequence.close()
        assert sequence().allocations == 1
    assert session.metrics()["persistent_launches"] - before == 2
    want = X + 1
    for _ in range(4):
        want = want * 3 + X
    np.testing.assert_array_equal(b.download(), want)


# ---------------------------------------------------------------- errors
def test_a_failure_leaves_what_was_written_before_it(session: vyre.Session, arrays: list[Any]) -> None:
    a, b, c, d, _, _ = arrays
    trapping = mixed(traps=True)
    steps = [Step(MIXED, {"x": a, "y": b}), Step(trapping, {"x": a, "y": c}), Step(MIXED, {"x": a, "y": d})]
    with session.sequence(steps, modes=PERSISTENT) as sequence:
        for runs in (1, 2):
            with pytest.raises(TrapError) as found:
                sequence(5)
            assert found.value.global_id == (7, 0, 0) and any("sequence=" in note for note in found.value.__notes__)
            want = X + 1
            for _ in range(runs):
                want = want * 3 + X
            np.testing.assert_array_equal(b.download(), want)
            np.testing.assert_array_equal(d.download(), X + 3)


def test_a_timeout_bounds_its_own_step(session: vyre.Session, arrays: list[Any]) -> None:
    a, b, c = arrays[:3]
    late = Step(endless(), {"y": c}, DispatchConfig(timeout_s=0.05))
    steps = [Step(MIXED, {"x": a, "y": b}), late]
    with session.sequence(steps, modes=PERSISTENT) as sequence, pytest.raises(DispatchTimeout, match=r"0\.05 s"):
        sequence(3)
    np.testing.assert_array_equal(b.download(), (X + 1) * 3 + X)


def test_ctrl_c_stops_a_run_and_the_next_one_is_whole(session: vyre.Session, arrays: list[Any]) -> None:
    a, b, c = arrays[:3]
    with (
        session.sequence([Step(MIXED, {"x": a, "y": b}), Step(endless(), {"y": c})], modes=PERSISTENT) as stuck,
        session.sequence([Step(MIXED, {"x": a, "y": b})], modes=PERSISTENT) as sequence,
    ):
        timer = threading.Timer(0.1, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            stuck(2)
        timer.join()
        sequence()
        timer = threading.Timer(0.1, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            stuck()
        timer.join()
    want = X + 1
    for _ in range(3):
        want = want * 3 + X
    np.testing.assert_array_equal(b.download(), want)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_fork_is_refused_and_harms_nothing(session: vyre.Session, arrays: list[Any]) -> None:
    with session.sequence([Step(MIXED, {"x": arrays[0], "y": arrays[1]})], modes=PERSISTENT) as sequence:
        sequence()
        child = os.fork()
        if not child:
            code = 1
            try:
                sequence()
            except VyreError as error:
                code = 0 if "fork" in str(error) else 2
            sequence.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        sequence()
    np.testing.assert_array_equal(arrays[1].download(), ((X + 1) * 3 + X) * 3 + X)


def test_closing_the_session_ends_a_run() -> None:
    failures: list[BaseException] = []
    own = vyre.open("cpu", cache=False, threads=2)
    y = own.resident(X)
    sequence = own.sequence([Step(endless(), {"y": y})], modes=PERSISTENT)
    launches = own.metrics()["persistent_launches"]

    def run() -> None:
        try:
            sequence()
        except VyreError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: own.metrics()["persistent_launches"] > launches)
    own.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive() and "closed" in str(failures[0])
    sequence.close()


def test_modes_that_cannot_run_are_typed_errors(
    session: vyre.Session, arrays: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [Step(MIXED, {"x": arrays[0], "y": arrays[1]})]
    with pytest.raises(InvalidConfig, match=r"forces persistent and graph"):
        session.sequence(steps, modes={"persistent": True, "graph": True})
    monkeypatch.setattr(CpuPersistentSteps, "most_steps", 2)
    with pytest.raises(UnsupportedFeature, match=r"forced mode persistent.*take 2 launches of a part.*one has 3"):
        session.sequence(steps * 3, modes=PERSISTENT)
    for backend in ("reference", "cuda-machine"):
        with (
            vyre.open(backend, cache=False) as other,
            other.resident(X) as x,
            other.resident(X) as y,
            pytest.raises(UnsupportedFeature, match=r"forced mode persistent.*no resident workers.*"),
        ):
            other.sequence([Step(MIXED, {"x": x, "y": y})], modes={"persistent": True})


# ---------------------------------------------------------------- the planner
def modes_taken(sequence: StepSequence, kernel_ns: dict[ExecutionMode, int], runs: int) -> list[ExecutionMode]:
    """Returns the modes of runs that pretend to take so long for each launch; nothing is run."""
    planner, found = planner_of(sequence), []
    planner._costs = lambda: launch_costs(graph_gap=100, persistent_poll=100, launch=900)
    for _ in range(runs):
        chosen = planner.choose(1)
        found.append(chosen.plan.mode)
        kernels = chosen.launches.once.kernels + chosen.launches.each.kernels
        ns = kernel_ns[chosen.plan.mode] * kernels
        planner.took(kernels, chosen, DispatchTiming(ns, ns), ns + 10_000)
    return found


def fan_of(session: vyre.Session, arrays: Sequence[Any], modes: Any = None) -> StepSequence:
    """Two hundred independent steps of two arrays each: their own, and one that all read."""
    return session.sequence(
        [Batch(MIXED, [{"x": arrays[0], "y": y} for y in arrays[1:]])], modes={"fused": False} | (modes or {})
    )


@pytest.fixture
def many(session: vyre.Session) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield [stack.enter_context(session.resident(X)) for _ in range(201)]


def test_workers_are_taken_where_steps_overlap(session: vyre.Session, many: list[Any]) -> None:
    with fan_of(session, many) as sequence:
        found = modes_taken(sequence, {GRAPH: 4_000, KEPT: 2_000, PLAIN: 5_000}, 40)
    assert found[0] is GRAPH and found[1:] == [KEPT] * 39
    assert session.journal is not None
    assert any(decision.name == "plan_execution" for decision in session.journal.decisions)


def test_workers_that_turn_out_slower_are_given_up(session: vyre.Session, many: list[Any]) -> None:
    with fan_of(session, many) as sequence:
        found = modes_taken(sequence, {GRAPH: 4_000, KEPT: 40_000, PLAIN: 5_000}, 40)
    assert KEPT in found[:8] and KEPT not in found[8:]


def test_opening_is_paid_once_by_all_runs(session: vyre.Session, many: list[Any]) -> None:
    with fan_of(session, many) as sequence:
        for repeats, setup_ns in ((1, 5_000_000), (100, 50_000)):
            found = planner_of(sequence)._inputs(1, repeats, measured(4_000), launch_costs(persistent_setup=5_000_000))
            assert found is not None and found.costs.persistent_setup is not None
            assert found.costs.persistent_setup.median_ns == setup_ns
        modes_taken(sequence, {GRAPH: 4_000, KEPT: 2_000, PLAIN: 5_000}, 20)
        found = planner_of(sequence)._inputs(1, 100, measured(4_000), launch_costs(persistent_setup=5_000_000))
        assert found is not None and found.costs.persistent_setup is not None
        assert found.costs.persistent_setup.median_ns < 10_000, "beside the runs, which pretend to take 10 us more"


def test_workers_are_not_taken_for_steps_one_after_the_other(session: vyre.Session, many: list[Any]) -> None:
    chain = [Step(MIXED, {"x": x, "y": y}) for x, y in pairwise(many)]
    with session.sequence(chain, modes={"fused": False}) as sequence:
        assert KEPT not in modes_taken(sequence, {GRAPH: 4_000, KEPT: 4_000, PLAIN: 5_000}, 20)


@pytest.mark.parametrize("modes", [{"persistent": False}, {"graph": True}, {"plain": True}, {"graph": False}])
def test_what_is_forbidden_is_never_taken(session: vyre.Session, many: list[Any], modes: dict[str, bool]) -> None:
    if modes.get("plain"):
        modes = modes | {"fused": False}
    with fan_of(session, many, modes) as sequence:
        assert KEPT not in modes_taken(sequence, {GRAPH: 4_000, KEPT: 2_000, PLAIN: 5_000}, 20)
        told = str(sequence.explain(costs="assumed"))
        assert "persistent: unavailable: it is forbidden" in told or "another mode is asked for" in told
