"""Plans of sequences: which steps are joined, when, and what that saves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from vyre import ExecutionMode, ProgramBuilder, Repeat, Step, u32
from vyre.app.journal import DecisionJournal
from vyre.app.sequences.planner import ASSUMED_BUILD, JOINING_NS, Chosen, WorkPlanner
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.policies.launching.execution_prices import Price

Words: TypeAlias = npt.NDArray[np.uint32]
BUILD_NS: Final = 0 if ASSUMED_BUILD is None else ASSUMED_BUILD.median_ns
N: Final = 96
X: Final[Words] = np.arange(N, dtype=np.uint32)


def mapped(k: int, *, traps: bool = False, workgroup: int = 16) -> vyre.Program:
    """``y = x * k + 1``."""
    with ProgramBuilder(f"map{k}", workgroup=workgroup) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            if traps:
                with p.if_(x[i] == 0xFFFF_FFFF):
                    p.trap(i, "largest")
            y[i] = x[i] * k + 1
    return p.build()


def shifted() -> vyre.Program:
    """``y[i] = x[i + 17]``: of a lane in another workgroup."""
    with ProgramBuilder("shifted", workgroup=16) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i + 17 < x.length):
            y[i] = x[i + 17]
    return p.build()


MAPS: Final = [mapped(k) for k in range(2, 6)]
SHIFTED: Final = shifted()


@pytest.fixture(params=["reference", "reference-scalar", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[vyre.Session]:
    with vyre.open("cpu", cache=False, journal=DecisionJournal()) as opened:
        yield opened


def chain(session: vyre.Session, programs: list[vyre.Program], x: Any, y: Any) -> list[Step]:
    """The programs one after the other, from ``x`` through temporary arrays to ``y``."""
    memory = [x, *(session.temporary(u32, N) for _ in programs[1:]), y]
    return [Step(program, {"x": memory[at], "y": memory[at + 1]}) for at, program in enumerate(programs)]


def test_joined_steps_are_one_launch_without_the_memory_between(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        steps = chain(session, MAPS, x, y)
        found = {}
        for fused in (False, True):
            with session.sequence(steps, modes={"fused": fused}) as sequence:
                found[fused] = sequence()
                assert [group.steps for group in sequence.plan().groups] == [
                    group.steps for group in found[fused].plan.groups
                ]
            want = X
            for k in range(2, 6):
                want = want * k + 1
            np.testing.assert_array_equal(y.download(), want)
            y.upload(np.zeros(N, np.uint32))
        apart, joined = found[False], found[True]
        assert (apart.kernels, joined.kernels) == (4, 1)
        assert apart.allocated_bytes - joined.allocated_bytes == joined.plan.unallocated_bytes == 3 * 4 * N
        assert (apart.bound_bytes, joined.bound_bytes) == (8 * 4 * N, 2 * 4 * N)
        (group,) = joined.plan.groups
        assert (group.mode, group.steps) == (ExecutionMode.FUSED, tuple(f"steps[{at}]" for at in range(4)))
        assert "steps[3]" in str(joined.plan) and "fused map2+map3" in str(joined.plan)


def test_lanes_that_read_other_workgroups_wait_for_them(session: vyre.Session) -> None:
    """Forced, the stages are joined by a barrier of the grid; without it the bytes would be others."""
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        steps = chain(session, [MAPS[0], SHIFTED], x, y)
        with session.sequence(steps, modes={"fused": True}) as sequence:
            run = sequence()
            assert "all workgroups wait" in run.plan.groups[0].why and run.plan.unallocated_bytes == 0
        want = np.zeros(N, np.uint32)
        want[:-17] = X[17:] * 2 + 1
        np.testing.assert_array_equal(y.download(), want)


def refused(session: vyre.Session, steps: list[Step], reason: str) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"forced mode fused.*{reason}"):
        session.sequence(steps, modes={"fused": True})


def test_what_cannot_be_joined_stays_apart_and_says_why(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        refused(session, chain(session, [mapped(2, traps=True), MAPS[0]], x, y), "trap")
        for config, reason in (
            (DispatchConfig(timeout_s=100.0), "timeout"),
            (DispatchConfig(step_budget=100), "step budget"),
            (DispatchConfig(fixpoint_iterations=2), "several launches"),
        ):
            one, two = chain(session, MAPS[:2], x, y)
            other = Step(two.program, two.inputs, config)
            if session.backend == "cuda-machine" and config.step_budget is not None:  # it counts no steps
                continue
            refused(session, [one, other], reason)
            with session.sequence([one, other]) as sequence:
                sequence()
            want = (X * 2 + 1) * 3 + 1
            np.testing.assert_array_equal(y.download(), want)


def test_a_trap_between_keeps_what_was_written_before(session: vyre.Session) -> None:
    """Independent steps are gathered, but never across one that may fail."""
    largest = X.copy()
    largest[5] = 0xFFFF_FFFF
    with ExitStack() as stack, session.resident(largest) as x:
        arrays = [stack.enter_context(session.resident(np.zeros(N, np.uint32))) for _ in range(3)]
        steps = [
            Step(MAPS[0], {"x": x, "y": arrays[0]}),
            Step(mapped(9, traps=True), {"x": x, "y": arrays[1]}),
            Step(MAPS[1], {"x": arrays[0], "y": arrays[2]}),
        ]
        with pytest.raises(vyre.TrapError):
            session.sequence(steps)()
        np.testing.assert_array_equal(arrays[0].download(), largest * 2 + 1)
        np.testing.assert_array_equal(arrays[2].download(), np.zeros(N, np.uint32))


def test_steps_are_gathered_where_their_order_is_free(session: vyre.Session) -> None:
    """Two chains, taken in turns, whose launches differ in shape: gathered they are two launches, in turn four."""
    small = [mapped(k, workgroup=8) for k in (7, 8)]
    with ExitStack() as stack, session.resident(X) as x:
        a, b, c, d = [stack.enter_context(session.resident(np.zeros(N, np.uint32))) for _ in range(4)]
        shift = Step(SHIFTED, {"x": b, "y": c})
        steps = [
            Step(MAPS[0], {"x": x, "y": a}),
            Step(small[0], {"x": x, "y": b}),
            Step(MAPS[1], {"x": a, "y": d}),
            shift,
        ]
        for modes in ({"fused": False}, {"fused": True}):
            session.sequence(steps, modes=modes)()
            np.testing.assert_array_equal(d.download(), (X * 2 + 1) * 3 + 1)
            want = np.zeros(N, np.uint32)
            want[:-17] = X[17:] * 7 + 1
            np.testing.assert_array_equal(c.download(), want)


def test_a_repeated_part_is_joined_in_itself(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        inner = chain(session, MAPS[:2], x, y)
        steps: list[Step | Repeat] = [Step(MAPS[2], {"x": y, "y": x}), Repeat(inner, 3)]
        with session.sequence(steps, modes={"fused": True}) as sequence:
            run = sequence(2)
        assert (run.kernels, [group.mode for group in run.plan.groups][1]) == (2 * 4, ExecutionMode.FUSED)
        b = np.zeros(N, np.uint32)
        for _ in range(2):
            b = ((b * 4 + 1) * 2 + 1) * 3 + 1
        np.testing.assert_array_equal(y.download(), b)


def test_a_long_first_run_is_decided_about_after_some_rounds(
    cpu: vyre.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that pretend to be long are joined for the rounds that are left; temporary arrays keep their content."""
    with ProgramBuilder("total", workgroup=16) as p:
        x_, total = p.input("x", u32), p.inout("total", u32)
        i = p.global_id()
        with p.if_(i < x_.length):
            total[i] = total[i] + x_[i]
    count = p.build()
    with cpu.resident(X) as x, cpu.resident(np.zeros(N, np.uint32)) as y:
        kept = cpu.temporary(u32, N, label="kept")
        steps = [*chain(cpu, MAPS, x, kept_input := cpu.temporary(u32, N))]
        steps += [Step(count, {"x": kept_input, "total": kept}), Step(MAPS[0], {"x": kept, "y": y})]
        took = WorkPlanner.took

        def slow(
            self: WorkPlanner, kernels: int, chosen: Chosen, timing: DispatchTiming, whole_ns: int | None = None
        ) -> None:
            took(self, kernels, chosen, DispatchTiming(timing.wall_ns, kernels * BUILD_NS))

        monkeypatch.setattr(WorkPlanner, "took", slow)
        with cpu.sequence(steps) as sequence:
            run = sequence(64)
            assert (run.submissions, len(run.plan.groups)) == (2, 2), "the zeros of `kept`, and all steps"
            assert run.kernels == 1 + 4 * 6 + 60 and run.plan.groups[1].mode is ExecutionMode.FUSED
            want = X
            for k in range(2, 6):
                want = want * k + 1
            np.testing.assert_array_equal(y.download(), want * 64 * 2 + 1)
            again = sequence(64)
            assert (again.submissions, again.kernels) == (1, 1 + 64)
            np.testing.assert_array_equal(y.download(), want * 64 * 2 + 1)
        with cpu.sequence(steps, modes={"fused": False}) as sequence:
            assert sequence(64).submissions == 1


@pytest.mark.parametrize(("graph", "counted"), [(True, (5, 0)), (False, (0, 10))])
def test_graphs_of_a_device_are_forced_and_forbidden(graph: bool, counted: tuple[int, int]) -> None:
    names = ("graph_launches", "kernel_launches")
    with ExitStack() as stack:
        session = stack.enter_context(vyre.open("cuda-machine", cache=False))
        x, y = (stack.enter_context(session.resident(data)) for data in (X, np.zeros(N, np.uint32)))
        steps = chain(session, MAPS[:2], x, y)
        forced = stack.enter_context(session.sequence(steps, modes={"graph": graph, "fused": False}))
        before = session.metrics()
        run = forced(5)
        after = session.metrics()
        assert tuple(after[name] - before[name] for name in names) == counted
        assert run.plan.mode is (ExecutionMode.GRAPH if graph else ExecutionMode.PLAIN)
        np.testing.assert_array_equal(y.download(), (X * 2 + 1) * 3 + 1)
        free = stack.enter_context(session.sequence(steps, modes={"fused": False}))
        plan = free().plan
        assert plan.mode is ExecutionMode.PLAIN and "no replay was predicted to pay" in plan.why
        assert session.metrics()["graph_launches"] == after["graph_launches"], "what is forced decides nothing else"


def test_a_graph_of_steps_that_may_trap_is_a_typed_error() -> None:
    with ExitStack() as stack:
        session = stack.enter_context(vyre.open("cuda-machine", cache=False))
        x, y = (stack.enter_context(session.resident(data)) for data in (X, np.zeros(N, np.uint32)))
        traps = chain(session, [mapped(2, traps=True), MAPS[0]], x, y)
        sequence = stack.enter_context(session.sequence(traps, modes={"graph": True}))
        with pytest.raises(UnsupportedFeature, match=r"forced mode graph.*may trap"):
            sequence()
        np.testing.assert_array_equal(y.download(), np.zeros(N, np.uint32))


# ---------------------------------------------------------------- decisions
def planner_of(sequence: vyre.StepSequence) -> WorkPlanner:
    return sequence._planner


def run(planner: WorkPlanner, kernel_ns: dict[str, int], rounds: int = 1) -> Chosen:
    """Pretends a run whose launches take so long."""
    chosen = planner.choose(rounds)
    kinds = ["fused" if unit.is_joined else "apart" for unit in chosen.structure.units]
    ns = rounds * sum(kernel_ns[kind] for kind in kinds)
    planner.took(chosen.launches.once.kernels + rounds * chosen.launches.each.kernels, chosen, DispatchTiming(ns, ns))
    return chosen


def is_joined(chosen: Chosen) -> bool:
    return any(unit.is_joined for unit in chosen.structure.units)


def test_steps_are_joined_when_that_is_predicted_to_pay(cpu: vyre.Session) -> None:
    with (
        cpu.resident(X) as x,
        cpu.resident(np.zeros(N, np.uint32)) as y,
        cpu.sequence(chain(cpu, MAPS, x, y)) as sequence,
    ):
        planner = planner_of(sequence)
        long = {"apart": 2 * BUILD_NS, "fused": BUILD_NS}
        assert not is_joined(run(planner, long)), "nothing was timed yet"
        assert is_joined(run(planner, long)), "one more run as long as the first pays for the build"
        assert all(is_joined(run(planner, long)) for _ in range(20))
        assert cpu.journal is not None
        assert any(decision.name == "plan_execution" for decision in cpu.journal.decisions)


def test_short_work_is_never_joined_for_a_decision(cpu: vyre.Session) -> None:
    with (
        cpu.resident(X) as x,
        cpu.resident(np.zeros(N, np.uint32)) as y,
        cpu.sequence(chain(cpu, MAPS, x, y)) as sequence,
    ):
        planner = planner_of(sequence)
        for _ in range(50):
            assert not is_joined(run(planner, {"apart": JOINING_NS // 1000, "fused": 1}))
        assert planner._joined is None


def test_joining_that_turns_out_slower_is_undone_for_good(cpu: vyre.Session) -> None:
    """The negative control of the prediction: the measured time of the joined launch replaces it."""
    with (
        cpu.resident(X) as x,
        cpu.resident(np.zeros(N, np.uint32)) as y,
        cpu.sequence(chain(cpu, MAPS, x, y)) as sequence,
    ):
        planner = planner_of(sequence)
        slow = {"apart": 2 * BUILD_NS, "fused": 40 * BUILD_NS}
        found = [is_joined(run(planner, slow)) for _ in range(64)]
        assert found[1] and not any(found[8:])


def test_a_forbidden_mode_is_never_taken(cpu: vyre.Session) -> None:
    with (
        cpu.resident(X) as x,
        cpu.resident(np.zeros(N, np.uint32)) as y,
        cpu.sequence(chain(cpu, MAPS, x, y), modes={"fused": False}) as sequence,
    ):
        planner = planner_of(sequence)
        assert not any(is_joined(run(planner, {"apart": 9 * BUILD_NS, "fused": 1})) for _ in range(10))


def test_an_explanation_prices_what_would_be_run(session: vyre.Session) -> None:
    with session.resident(X) as x, session.resident(np.zeros(N, np.uint32)) as y:
        with session.sequence(chain(session, MAPS, x, y)) as sequence:
            found = sequence.explain(1000, repeats=1000, costs="assumed", kernel_time_ns=100_000)
            (group,) = found.groups
            assert (group.mode, found.temporary_bytes) == (ExecutionMode.FUSED, 0)
            quotes = {quote.mode: quote for quote in found.quotes}
            fused = quotes[ExecutionMode.FUSED]
            assert isinstance(fused, Price)
            assert {term.cost: term.times for term in fused.terms}["fused_kernel"] == 10**6
            if session.backend == "cpu":
                assert isinstance(quotes[ExecutionMode.PERSISTENT], Price)
            else:
                assert "no resident workers" in str(quotes[ExecutionMode.PERSISTENT])
            assert "fused:" in str(found)
            short = sequence.explain(costs="assumed", kernel_time_ns=100)
            assert len(short.groups) == 4, "one short run does not pay for the build"
            assert "nobody timed" in str(sequence.explain(costs="assumed"))
            assert "nothing" not in str(sequence.plan())
            np.testing.assert_array_equal(y.download(), np.zeros(N, np.uint32))  # nothing ran
        for modes in ({"fused": False}, None):
            with session.sequence(chain(session, [mapped(2, traps=True), MAPS[0]], x, y), modes=modes) as apart:
                why = "forbidden" if modes else "trap"
                assert re.search(rf"fused: unavailable: .*{why}", str(apart.explain(costs="assumed")))


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"repeats": 1.5}, {"kernel_time_ns": -1}, {"rounds": None}])
def test_questions_without_an_answer_are_refused(cpu: vyre.Session, wrong: dict[str, Any]) -> None:
    with (
        cpu.resident(X) as x,
        cpu.resident(np.zeros(N, np.uint32)) as y,
        cpu.sequence(chain(cpu, MAPS, x, y)) as sequence,
        pytest.raises(InvalidConfig, match=r"Fix:"),
    ):
        sequence.explain(**wrong)
