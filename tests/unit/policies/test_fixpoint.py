"""Convergence loops: what the host may ask for, and what runs them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vyre.domain.errors import PlanError
from vyre.policies.frontiers.fixpoint import (
    ConvergenceInputs,
    FixpointExecutor,
    FixpointProfile,
    FixpointThresholds,
    ReadbackPolicy,
    choose_executor,
    plan_convergence,
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


@pytest.mark.parametrize(("limit", "steps", "rounds"), [(9, 1, 9), (5000, 1, 1024), (5000, 3, 341), (5000, 9999, 1)])
def test_rounds_of_one_unrolled_graph(limit: int, steps: int, rounds: int) -> None:
    assert rounds_unrolled(replace(SEPARATE, max_iterations=limit, steps=steps)) == rounds


def test_a_forced_barrier_that_cannot_work_is_refused() -> None:
    profile = replace(LOOP, grid=replace(TOO_LARGE, forced=GridSyncMode.NATIVE))
    with pytest.raises(PlanError, match="do not fit") as error:
        choose_executor(profile)
    assert error.value.kind == "GridBarrierImpossible"
