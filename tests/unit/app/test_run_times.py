"""Times of kernels and of what is around runs, from planted times of runs."""

from __future__ import annotations

import pytest

from support.launch_costs import launch_costs
from vyre.app.work_graph.execution import Launches
from vyre.app.work_graph.structure import Structure
from vyre.app.work_graph.times import SAMPLES, RunTimes
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.launch_costs import ASSUMED

COSTS = launch_costs(round_trip=1_000, launch=500, graph_gap=10)


@pytest.fixture
def structure() -> Structure:
    return Structure((), (), {}, Launches((), ()))


def median(times: RunTimes, structure: Structure) -> int:
    found = times.kernel(structure, COSTS)
    assert found is not None
    return found.median_ns


def test_nothing_is_known_before_a_run(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    assert times.kernel(structure, COSTS) is None
    assert times.around(COSTS) is None
    times.took(structure, 0, DispatchTiming(5), one_by_one=False, whole_ns=9)
    assert times.kernel(structure, COSTS) is None, "a run without launches tells nothing"


def test_known_costs_are_no_part_of_a_kernel(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    times.took(structure, 8, DispatchTiming(8 * 700), one_by_one=True, whole_ns=None)
    assert median(times, structure) == 200
    times.took(structure, 8, DispatchTiming(99_999, 1_000 + 8 * 310), one_by_one=False, whole_ns=None)
    assert median(times, structure) == 300, "a list tells more than launches by themselves"


def test_assumed_costs_are_not_subtracted(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    times.took(structure, 8, DispatchTiming(8 * 700), one_by_one=True, whole_ns=None)
    found = times.kernel(structure, ASSUMED)
    assert found is not None
    assert found.median_ns == 700


def test_where_the_device_runs_launches_their_time_is_its_own(structure: Structure) -> None:
    times = RunTimes(overlaps=True)
    times.took(structure, 4, DispatchTiming(9_000, 4_000), one_by_one=False, whole_ns=10_000)
    assert median(times, structure) == 1_000
    assert times.around(COSTS) is None


def test_a_kernel_takes_no_negative_time(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    times.took(structure, 8, DispatchTiming(1), one_by_one=True, whole_ns=None)
    assert median(times, structure) == 0


def test_what_is_around_a_run_is_the_rest_of_the_call(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    times.took(structure, 8, DispatchTiming(20_000), one_by_one=False, whole_ns=None)
    assert times.around(COSTS) is None, "a run that was prepared first is no usual one"
    for whole_ns in (27_000, 28_000, 29_000):
        times.took(structure, 8, DispatchTiming(20_000), one_by_one=False, whole_ns=whole_ns)
    found = times.around(ASSUMED)
    assert found is not None
    assert (found.median_ns, found.count) == (8_000, 3), "beside what the backend saw"
    found = times.around(COSTS)
    assert found is not None
    assert found.median_ns == 28_000 - 20_000 - 2_500, "beside the device and the cost of the list"


def test_only_the_latest_runs_count(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    for ns in [10**9, *[1_000 + 8 * 110] * SAMPLES]:
        times.took(structure, 8, DispatchTiming(ns, ns), one_by_one=False, whole_ns=ns)
    assert median(times, structure) == 100
