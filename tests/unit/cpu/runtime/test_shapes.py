"""What a pipeline plans for certain input lengths: measured times, short launches, threads and copies for atomics."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from support.cpu.backends import ADD
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.decisions.private_atomics import PrivateInputs, private_atomics
from vyre.adapters.cpu.decisions.thread_plan import ThreadInputs, thread_plan
from vyre.adapters.cpu.pool.commands import Private, PrivateTable
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.adapters.cpu.runtime.backend import make_backend
from vyre.adapters.cpu.runtime.launch import FRAME_HEAD, Placement
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.shapes import (
    BOUNDED_STEPS,
    HANDOFF_NS,
    REACHED_S,
    SHORT_LAUNCHES,
    SHORT_NS,
    SHORT_STEPS,
    Estimate,
    is_short,
    place,
    private_buffers,
    runs_here,
    steps_at_most,
)
from vyre.adapters.cpu.runtime.tools import native_tools
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import U32_MAX, DispatchConfig, OutputArena
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.domain.names import Dim3
from vyre.domain.validation.validator import validate
from vyre.policies.journal import Decision
from vyre.ports.backend import BackendServices
from vyre.ports.requests import DispatchRequest

LIMITS = LaunchLimits("cpu", max_invocations_per_workgroup=U32_MAX)


class Sink:
    """``DecisionSink`` that keeps the decisions."""

    keeps = True

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def note(self, decision: Decision, /) -> None:
        self.decisions.append(decision)


def module(*bounds: int | None, nodes: int = 1, lanes: int = 4) -> Any:
    """A module with a kernel for each bound of its loops."""
    kernels = tuple(SimpleNamespace(bounded=bound) for bound in bounds)
    return SimpleNamespace(nodes=nodes, loaded=SimpleNamespace(kernels=kernels, lanes=lanes))


def launch(grid: Dim3, workgroup: Dim3 = (4, 1, 1)) -> Launch:
    x, y, z = workgroup
    program = Program.from_text(f"""
        program nothing
        workgroup_size {x}, {y}, {z}
        buffer y @0 read_write u32[1]
        body {{ }}
    """)
    return resolve_launch(program, (4,), DispatchConfig(grid=grid), LIMITS)


# ---------------------------------------------------------------- measured times
def test_the_first_run_gives_an_estimate_and_asks_for_a_new_plan() -> None:
    assert Estimate().group_ns is None
    estimate = Estimate()
    assert estimate.took(1_000, 8)
    assert (estimate.group_ns, estimate.runs) == (125, 1)


def test_a_launch_without_workgroups_is_measured_as_one() -> None:
    estimate = Estimate()
    estimate.took(1_000, 0)
    assert estimate.group_ns == 1_000


def test_the_middle_times_of_the_runs_up_to_1_2_4_8_are_used() -> None:
    estimate, used = Estimate(), []
    for run in range(1, 20):
        estimate.took(run * 1_000, 1)
        used.append(estimate.group_ns)
    assert used == [1_000, *[2_000] * 2, *[3_000] * 4, *[7_000] * 8, *[15_000] * 4]


@pytest.mark.parametrize("slow", [2, 3, 4, 6, 7, 8])
def test_one_interrupted_run_of_the_last_three_changes_no_estimate(slow: int) -> None:
    estimate = Estimate()
    planned = [estimate.took(50_000 if run == slow else 1_000, 1) for run in range(1, 9)]
    assert estimate.group_ns == 1_000
    assert planned[3:] == [slow == 2, *[False] * 4]  # the second run has a time of its own


@pytest.mark.parametrize(
    ("later", "is_new"), [(49, True), (50, False), (100, False), (200, False), (201, True), (0, True)]
)
def test_a_new_plan_is_asked_for_if_the_time_has_halved_or_doubled(later: int, is_new: bool) -> None:
    estimate = Estimate()
    estimate.took(100, 1)
    assert estimate.took(later, 1) is is_new
    assert estimate.group_ns == later


# ---------------------------------------------------------------- short launches
def test_a_launch_is_short_up_to_a_number_of_steps() -> None:
    groups = SHORT_STEPS // 4
    assert is_short(steps_at_most(module(1), launch((groups, 1, 1)), 1))
    assert not is_short(steps_at_most(module(1), launch((groups + 1, 1, 1)), 1))


@pytest.mark.parametrize(
    ("bounds", "nodes", "grid", "workgroup", "iterations"),
    [
        ((3, 5), 1, (1, 1, 1), (4, 1, 1), 1),  # the rounds of all kernels in turn
        ((0, 7), 1, (1, 1, 1), (4, 1, 1), 1),  # a kernel without a round runs once
        ((1,), 8, (1, 1, 1), (4, 1, 1), 1),
        ((1,), 1, (2, 2, 2), (4, 1, 1), 1),
        ((1,), 1, (1, 1, 1), (1, 2, 15), 1),  # 30 lanes are 8 vectors
        ((1,), 1, (1, 1, 1), (4, 1, 1), 8),
    ],
)
def test_every_factor_counts(
    monkeypatch: pytest.MonkeyPatch, bounds: tuple[int, ...], nodes: int, grid: Dim3, workgroup: Dim3, iterations: int
) -> None:
    """Each case has 32 steps: 8 times the 4 lanes of a vector."""
    found = module(*bounds, nodes=nodes), launch(grid, workgroup), iterations
    monkeypatch.setattr("vyre.adapters.cpu.runtime.shapes.SHORT_STEPS", 32)
    assert is_short(steps_at_most(*found))
    monkeypatch.setattr("vyre.adapters.cpu.runtime.shapes.SHORT_STEPS", 31)
    assert not is_short(steps_at_most(*found))


@pytest.mark.parametrize(
    ("steps", "launches", "timeout_s", "expected_ns", "here"),
    [
        (SHORT_STEPS, SHORT_LAUNCHES, None, inf, True),
        (SHORT_STEPS, SHORT_LAUNCHES + 1, None, 0, False),
        (SHORT_STEPS, 1, REACHED_S, inf, True),  # it ends before
        (SHORT_STEPS, 1, REACHED_S / 2, 0, False),
        (SHORT_STEPS + 1, 1, None, SHORT_NS, True),
        (SHORT_STEPS + 1, 1, None, SHORT_NS + 1, False),
        (SHORT_STEPS + 1, 1, None, inf, False),  # it was never measured
        (SHORT_STEPS + 1, 1, 1e9, SHORT_NS, False),  # the next run may take longer
        (BOUNDED_STEPS, 1, None, SHORT_NS, True),
        (BOUNDED_STEPS + 1, 1, None, 0, False),
        (None, 1, None, 0, False),
    ],
)
def test_who_runs_what(
    steps: int | None, launches: int, timeout_s: float | None, expected_ns: float, here: bool
) -> None:
    assert runs_here(steps, launches, timeout_s, lambda: expected_ns) is here


def test_a_launch_whose_loops_have_no_bound_is_not_short() -> None:
    assert not is_short(steps_at_most(module(1, None), launch((1, 1, 1)), 1))


# ---------------------------------------------------------------- threads
def placed(found: Any, grid: Dim3, workgroup: Dim3 = (4, 1, 1), **options: Any) -> tuple[Placement, ThreadInputs]:
    sink = Sink()
    arguments: dict[str, Any] = {"threads": 4, "group_ns": None, "order_sensitive": False} | options
    placement = place(found, launch(grid, workgroup), sink=sink, **arguments)
    (decision,) = sink.decisions
    assert decision.policy is thread_plan
    (inputs,) = decision.arguments
    assert isinstance(inputs, ThreadInputs)
    plan = thread_plan(inputs)
    assert placement == Placement(plan.threads, plan.grain)
    return placement, inputs


def test_a_launch_is_placed_by_its_work() -> None:
    placement, inputs = placed(module(6, 9, nodes=5), (10, 20, 5), (2, 3, 3))
    assert inputs == ThreadInputs(1_000, None, HANDOFF_NS, 4, group_nodes=5 * 5, rounds=9)
    assert placement.threads == 4 and placement.table is None


def test_a_measured_time_and_the_order_of_atomics_are_passed_on() -> None:
    placement, inputs = placed(module(1), (100, 1, 1), group_ns=7, order_sensitive=True, threads=2)
    assert inputs == ThreadInputs(100, 7, HANDOFF_NS, 2, group_nodes=1, rounds=1, order_sensitive=True)
    assert placement == Placement(1, 100)


def test_a_measured_hand_off_counts_instead_of_the_assumed_one() -> None:
    placement, inputs = placed(module(1), (100, 1, 1), group_ns=100, handoff_ns=10_000)
    assert inputs.handoff_ns == 10_000
    assert placement.threads == 1
    assert placed(module(1), (100, 1, 1), group_ns=100, handoff_ns=0)[1].handoff_ns == 0
    assert placed(module(1), (100, 1, 1), group_ns=100, handoff_ns=2_500)[0].threads == 4


@NEEDS_LLVM
def test_a_backend_places_launches_by_what_its_workers_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerPool, "handoff_ns", 12_345)
    sink = Sink()
    backend = make_backend(native_tools(), CpuOptions(threads=2), BackendServices(decisions=sink))
    try:
        assert backend.async_executor is not None and backend.lifecycle is not None
        backend.lifecycle.prepare()
        request = DispatchRequest(ADD, (memoryview(bytes(64)),))
        backend.async_executor.submit(request).wait(OutputArena())
    finally:
        backend.lifecycle.close()
    found = [each.arguments[0] for each in sink.decisions if each.policy is thread_plan]
    assert {inputs.handoff_ns for inputs in found if isinstance(inputs, ThreadInputs)} == {12_345}


@pytest.mark.parametrize(
    ("bounds", "rounds"), [((), 1), ((0,), 1), ((3, 2), 3), ((2**40,), U32_MAX), ((None,), None), ((9, None), None)]
)
def test_rounds_are_known_if_those_of_all_kernels_are(bounds: tuple[int | None, ...], rounds: int | None) -> None:
    assert placed(module(*bounds), (1, 1, 1))[1].rounds == rounds


# ---------------------------------------------------------------- copies for atomics
def counting(body: str) -> Program:
    program = Program.from_text(f"""
        program counts
        workgroup_size 64, 1, 1
        buffer x @0 read_write u32[runtime]
        buffer counts @3 read_write u32[16]
        buffer highest @5 read_write i32[runtime]
        body {{
          let before = atomic_add(counts, x[gid.x] % 16u, 1u)
          {body}
        }}
    """)
    validate(program).raise_if_invalid()
    return program


BOTH = "let unused = atomic_max(highest, 0u, 3i)"
USED = "let old = atomic_max(highest, 0u, 3i)  x[gid.x] = cast<u32>(old)"


def table(body: str, threads: int, *, order_sensitive: bool = False) -> tuple[PrivateTable | None, PrivateInputs]:
    sink, program = Sink(), counting(body)
    found = resolve_launch(program, (4 * 6_400, 64, 20), DispatchConfig(grid=(100, 1, 1)), LIMITS)
    made = private_buffers(program, plan_bindings(program), found, threads, order_sensitive=order_sensitive, sink=sink)
    (decision,) = sink.decisions
    assert decision.policy is private_atomics
    (inputs,) = decision.arguments
    assert isinstance(inputs, PrivateInputs)
    return made, inputs


def test_all_buffers_with_atomics_get_copies() -> None:
    made, inputs = table(BOTH, 2)
    assert made == PrivateTable(FRAME_HEAD + 6, [Private(1, 64, "u32", "add"), Private(2, 20, "i32", "max")])
    assert [(each.use.buffer, each.nbytes) for each in inputs.buffers] == [
        ("counts", 64),
        ("highest", 20),
    ]
    assert (inputs.threads, inputs.lanes, inputs.order_sensitive) == (2, 6_400, False)


def test_only_buffers_with_atomics_are_in_the_table() -> None:
    made, inputs = table("", 3)
    assert made == PrivateTable(FRAME_HEAD + 6, [Private(1, 64, "u32", "add")])
    assert inputs.threads == 3


@pytest.mark.parametrize(("body", "threads", "order_sensitive"), [(USED, 2, False), (BOTH, 1, False), (BOTH, 2, True)])
def test_no_buffer_gets_a_copy_where_the_decision_refuses(body: str, threads: int, order_sensitive: bool) -> None:
    made, inputs = table(body, threads, order_sensitive=order_sensitive)
    assert made is None
    assert (inputs.threads, inputs.order_sensitive) == (threads, order_sensitive)


def test_a_program_without_atomics_has_no_table() -> None:
    found = launch((1, 1, 1))
    program = Program.from_text("program nothing\nworkgroup_size 4, 1, 1\nbuffer y @0 read_write u32[1]\nbody { }")
    assert private_buffers(program, plan_bindings(program), found, 4, order_sensitive=False, sink=None) is None
