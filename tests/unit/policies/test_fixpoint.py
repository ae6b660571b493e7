"""Convergence loops: what the host may ask for, and what runs them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vectors.seeds.convergence import ConvergenceInputs, ReadbackPolicy, plan_convergence
from vyre.domain.errors import PlanError
from vyre.policies.frontiers.fixpoint import (
    FixpointExecutor,
    FixpointProfile,
    FixpointThresholds,
    RoundCosts,
    choose_executor,
    may_pay,
    rounds_unrolled,
)
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, GridSyncMode

FITS = GridSyncInputs(cooperative=True, workgroups=8, multiprocessors=4, resident_per_multiprocessor=2)
TOO_LARGE = replace(FITS, workgroups=9)
LOOP = FixpointProfile(max_iterations=5000, grid=FITS, supports_conditional_graphs=True)


@pytest.mark.parametrize("iterations", [1, 7, 2**32 - 1])
def test_the_host_waits_once_whatever_the_iterations(iterations: int) -> None:
    found = plan_convergence(ConvergenceInputs(iterations, 4, 0))
    assert found.max_device_iterations == iterations
    assert (found.host_sync_points, found.changed_flag_readback_bytes, found.host_iteration_polls) == (1, 4, 0)
    assert found.readback_policy is ReadbackPolicy.FINAL_FLAG_ONLY


@pytest.mark.parametrize(
    ("inputs", "kind", "fields"),
    [
        ((0, 3, 1), "EmptyIterationBudget", {}),
        ((1, 3, 1), "InvalidChangedFlagWidth", {"bytes": 3}),
        ((1, 4, 1), "HostPolledConvergence", {"polls": 1}),
    ],
)
def test_the_first_thing_wrong_is_named(inputs: tuple[int, int, int], kind: str, fields: dict[str, int]) -> None:
    with pytest.raises(PlanError) as error:
        plan_convergence(ConvergenceInputs(*inputs))
    assert (error.value.kind, error.value.fields) == (kind, fields)


@pytest.mark.parametrize(
    ("profile", "executor", "launches", "why"),
    [
        (LOOP, FixpointExecutor.COOPERATIVE, 1, "8 workgroups are resident at once, up to 8 can be"),
        (
            replace(LOOP, grid=TOO_LARGE),
            FixpointExecutor.WHILE_GRAPH,
            1,
            "no loop in the kernel: 9 workgroups do not fit 4 multiprocessors of 2 each",
        ),
        (
            replace(LOOP, grid=replace(FITS, forced=GridSyncMode.SPLIT)),
            FixpointExecutor.WHILE_GRAPH,
            1,
            "no loop in the kernel: split kernels are asked for",
        ),
        (
            replace(LOOP, grid=replace(FITS, cooperative=False), supports_conditional_graphs=False),
            FixpointExecutor.UNROLLED_GRAPH,
            5,
            "no loop in the kernel: the device launches no cooperative kernels; and no conditional graphs",
        ),
    ],
)
def test_what_runs_the_loop(profile: FixpointProfile, executor: FixpointExecutor, launches: int, why: str) -> None:
    found = choose_executor(profile)
    assert (found.executor, found.host_launches, str(found.why)) == (executor, launches, why)
    assert (found.max_iterations, found.flag_buffers, found.host_sync_points, found.early_exit) == (5000, 3, 1, True)
    assert choose_executor(replace(profile, early_exit=False)) == replace(found, early_exit=False)


@pytest.mark.parametrize(("iterations", "launches"), [(1, 1), (1024, 1), (1025, 2), (2048, 2), (2**32 - 1, 2**22)])
def test_unrolled_graphs_are_bounded(iterations: int, launches: int) -> None:
    profile = FixpointProfile(iterations, TOO_LARGE, supports_conditional_graphs=False)
    assert choose_executor(profile).host_launches == launches
    assert choose_executor(profile, FixpointThresholds(2**32 - 1)).host_launches == 1


SEPARATE = replace(LOOP, grid=None, supports_conditional_graphs=False)


@pytest.mark.parametrize(
    ("profile", "executor", "launches", "waits", "why"),
    [
        (
            replace(SEPARATE, repeats_lists=True),
            FixpointExecutor.COMMAND_LIST,
            1,
            1,
            "the backend repeats a list of steps by itself",
        ),
        (
            replace(LOOP, repeats_lists=True, forbidden=frozenset({FixpointExecutor.COMMAND_LIST})),
            FixpointExecutor.COOPERATIVE,
            1,
            1,
            "8 workgroups are resident at once, up to 8 can be",
        ),
        (
            SEPARATE,
            FixpointExecutor.UNROLLED_GRAPH,
            5,
            1,
            "no loop in the kernel: the steps are not one kernel; and no conditional graphs",
        ),
        (
            replace(SEPARATE, steps=100),
            FixpointExecutor.UNROLLED_GRAPH,
            500,
            1,
            "no loop in the kernel: the steps are not one kernel; and no conditional graphs",
        ),
        (
            replace(SEPARATE, guardable=False),
            FixpointExecutor.POLLED,
            5000,
            5000,
            "no loop in the kernel: the steps are not one kernel; no conditional graphs; and the steps cannot be made "
            "to return at once",
        ),
        (replace(LOOP, forced=FixpointExecutor.POLLED), FixpointExecutor.POLLED, 5000, 5000, "it is asked for"),
    ],
)
def test_what_runs_separate_steps(
    profile: FixpointProfile, executor: FixpointExecutor, launches: int, waits: int, why: str
) -> None:
    found = choose_executor(profile)
    assert (found.executor, found.host_launches, found.host_sync_points) == (executor, launches, waits)
    assert str(found.why) == why


@pytest.mark.parametrize(
    ("profile", "kind", "fix"),
    [
        (
            replace(SEPARATE, forced=FixpointExecutor.WHILE_GRAPH),
            "ExecutorUnavailable",
            "use one of unrolled_graph, polled",
        ),
        (
            replace(SEPARATE, forbidden=frozenset(FixpointExecutor)),
            "EveryExecutorForbidden",
            "polling works everywhere",
        ),
    ],
)
def test_an_executor_that_does_not_work_is_refused(profile: FixpointProfile, kind: str, fix: str) -> None:
    with pytest.raises(PlanError, match=fix) as error:
        choose_executor(profile)
    assert error.value.kind == kind


COSTS = RoundCosts(gap_ns=1_000, barrier_ns=1_500, launch_ns=3_000, wait_ns=9_000, build_ns=1_000_000)
MEASURED = replace(LOOP, steps=4, barriers=1, costs=COSTS, max_iterations=1_001)


@pytest.mark.parametrize(
    ("profile", "executor", "why"),
    [
        # 4 gaps against 2 barriers: 1 us an iteration, which 1 001 iterations pay, and 1 000 do not.
        (
            MEASURED,
            FixpointExecutor.COOPERATIVE,
            "8 workgroups are resident at once, up to 8 can be; against while_graph it spares 1001000 ns in 1001 "
            "iterations, and takes 1000000 ns to build, by measured costs",
        ),
        (
            replace(MEASURED, max_iterations=1_000),
            FixpointExecutor.WHILE_GRAPH,
            "no loop in the kernel: 8 workgroups are resident at once, up to 8 can be; against while_graph it spares "
            "1000000 ns in 1000 iterations, and takes 1000000 ns to build, by measured costs",
        ),
        # The list tests the flag without a launch: 3 gaps against 2 barriers.
        (
            replace(MEASURED, repeats_lists=True),
            FixpointExecutor.COMMAND_LIST,
            "the backend repeats a list of steps by itself",
        ),
        # A grid that is split has a launch more: 3 gaps against 3.
        (
            replace(MEASURED, grid=TOO_LARGE, repeats_lists=True, max_iterations=2**32 - 1),
            FixpointExecutor.COMMAND_LIST,
            "the backend repeats a list of steps by itself",
        ),
        (
            replace(MEASURED, grid=TOO_LARGE, repeats_lists=True, steps=6, max_iterations=2**32 - 1),
            FixpointExecutor.COOPERATIVE,
            "9 workgroups do not fit 4 multiprocessors of 2 each; against command_list it spares 200000000 ns in "
            "100000 iterations, and takes 1000000 ns to build, by measured costs",
        ),
        # Polling costs 4 launches and a wait: 21 us against 3.
        (
            replace(MEASURED, supports_conditional_graphs=False, guardable=False, max_iterations=56),
            FixpointExecutor.COOPERATIVE,
            "8 workgroups are resident at once, up to 8 can be; against polled it spares 1008000 ns in 56 iterations, "
            "and takes 1000000 ns to build, by measured costs",
        ),
        (
            replace(MEASURED, max_iterations=1, forbidden=frozenset(FixpointExecutor) - {FixpointExecutor.COOPERATIVE}),
            FixpointExecutor.COOPERATIVE,
            "8 workgroups are resident at once, up to 8 can be",
        ),
    ],
)
def test_costs_decide_about_a_loop_in_the_kernel(
    profile: FixpointProfile, executor: FixpointExecutor, why: str
) -> None:
    found = choose_executor(profile)
    assert (found.executor, str(found.why)) == (executor, why)


def test_a_split_grid_is_no_choice_without_costs() -> None:
    split = replace(LOOP, grid=TOO_LARGE, repeats_lists=True)
    assert choose_executor(split).executor is FixpointExecutor.COMMAND_LIST
    assert choose_executor(replace(split, forced=FixpointExecutor.COOPERATIVE)).host_launches == 1
    with pytest.raises(PlanError, match=r"why = 9 workgroups do not fit 4 multiprocessors of 2 each\. Fix"):
        choose_executor(replace(LOOP, grid=TOO_LARGE, forced=FixpointExecutor.COOPERATIVE))
    with pytest.raises(PlanError, match="why = they trap"):
        choose_executor(replace(LOOP, grid=None, apart="they trap", forced=FixpointExecutor.COOPERATIVE))


@pytest.mark.parametrize(
    ("profile", "tried"),
    [
        (replace(MEASURED, grid=None, max_iterations=251), True),  # 251 times 4 us
        (replace(MEASURED, grid=None, max_iterations=250), False),
        (replace(MEASURED, grid=None, costs=None), False),
        (replace(MEASURED, grid=None, max_iterations=2**32 - 1, costs=replace(COSTS, gap_ns=2)), False),
        (replace(MEASURED, grid=None, max_iterations=2**32 - 1, costs=replace(COSTS, gap_ns=3)), True),
    ],
)
def test_steps_are_joined_where_that_may_pay(profile: FixpointProfile, tried: bool) -> None:
    assert may_pay(profile) is tried


@pytest.mark.parametrize(("limit", "steps", "rounds"), [(9, 1, 9), (5000, 1, 1024), (5000, 3, 341), (5000, 9999, 1)])
def test_rounds_of_one_unrolled_graph(limit: int, steps: int, rounds: int) -> None:
    assert rounds_unrolled(replace(SEPARATE, max_iterations=limit, steps=steps)) == rounds


def test_a_forced_barrier_that_cannot_work_is_refused() -> None:
    profile = replace(LOOP, grid=replace(TOO_LARGE, forced=GridSyncMode.NATIVE))
    with pytest.raises(PlanError, match="do not fit") as error:
        choose_executor(profile)
    assert error.value.kind == "GridBarrierImpossible"
