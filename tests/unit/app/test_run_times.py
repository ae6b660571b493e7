"""Times of kernels and of what is around runs, from planted times of runs."""

from __future__ import annotations

import pytest

from support.launch_costs import launch_costs, measured
from vyre.app.sequences.execution import Launches
from vyre.app.sequences.structure import Structure
from vyre.app.sequences.times import SAMPLES, RunTimes
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.launch_costs import ASSUMED, LaunchCosts

COSTS = launch_costs(round_trip=1_000, launch=500, graph_gap=10)


@pytest.fixture
def structure() -> Structure:
    return Structure((), (), {}, Launches((), ()))


def median(times: RunTimes, structure: Structure) -> int:
    found = times.kernel(structure, COSTS)
    assert found is not None
    return found.median_ns


def around(times: RunTimes, structure: Structure, costs: LaunchCosts = COSTS) -> tuple[int | None, int | None]:
    """Returns the time besides launches in ns, for launches one by one and for a list of them."""
    found = [times.around(structure, costs, one_by_one=way) for way in (True, False)]
    one, other = (None if each is None else each.median_ns for each in found)
    return one, other


def test_nothing_is_known_before_a_run(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    assert times.kernel(structure, COSTS) is None
    assert around(times, structure) == (None, None)
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
    assert around(times, structure) == (None, None)


def test_a_kernel_takes_no_negative_time(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    times.took(structure, 8, DispatchTiming(1), one_by_one=True, whole_ns=None)
    assert median(times, structure) == 0


def test_what_is_around_a_run_is_the_rest_of_the_call(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    times.took(structure, 8, DispatchTiming(20_000), one_by_one=False, whole_ns=None)
    assert around(times, structure) == (None, None), "a run that was prepared first is no usual one"
    for whole_ns in (27_000, 28_000, 29_000):
        times.took(structure, 8, DispatchTiming(20_000), one_by_one=False, whole_ns=whole_ns)
    assert around(times, structure, ASSUMED) == (None, 8_000), "beside what the backend saw"
    assert around(times, structure) == (None, 28_000 - 20_000 - 2_500), "beside the device and the cost of the list"


def test_what_is_around_launches_by_themselves_is_no_part_of_a_list(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    for whole_ns in (9_000, 9_100, 9_200):
        times.took(structure, 8, DispatchTiming(8 * 700), one_by_one=True, whole_ns=whole_ns)
    assert around(times, structure) == (9_100 - 8 * 700, None), "beside the launches and their kernels"
    times.took(structure, 8, DispatchTiming(20_000, 1_000 + 8 * 310), one_by_one=False, whole_ns=27_000)
    found = around(times, structure)
    assert found == (9_100 - 8 * (500 + 300), 27_000 - 3_480 - 2_500), "a list tells the time of a kernel"


def test_a_launch_by_itself_is_timed_with_its_kernel(structure: Structure) -> None:
    """Once a run had enough of them; what is around a run is beside that time then."""
    times = RunTimes(overlaps=False)
    times.took(structure, 4, DispatchTiming(9_000), one_by_one=True, whole_ns=10_000)
    assert times.launched(structure) is None, "the start of a short run is a large part of it"
    times.took(structure, 16, DispatchTiming(16 * 750), one_by_one=True, whole_ns=13_000)
    found = times.launched(structure)
    assert found is not None
    assert found.median_ns == 750
    assert around(times, structure) == (10_000 - 4 * 750, None)
    assert RunTimes(overlaps=True).launched(structure) is None


def test_long_runs_tell_of_kernels_and_short_ones_of_what_is_around(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    for _ in range(3):
        times.took(structure, 1, DispatchTiming(9_000, 1_000 + 510), one_by_one=False, whole_ns=11_000)
        times.took(structure, 100, DispatchTiming(99_000, 1_000 + 100 * 310), one_by_one=False, whole_ns=40_000)
    assert median(times, structure) == 300
    assert around(times, structure) == (None, 11_000 - 1_510 - 2_500)


def test_workers_that_are_kept_set_nothing_up_and_find_in_the_time_of_a_launch(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    assert times.kept(structure, None, COSTS) == (None, COSTS)
    for _ in range(3):
        times.took_by_workers(structure, 8, DispatchTiming(20_000, 8 * 350), whole_ns=9_000)
    found, costs = times.kept(structure, measured(2_000), COSTS)
    assert found is not None and costs.persistent_setup is not None and costs.persistent_poll is not None
    assert (found.median_ns, costs.persistent_poll.median_ns) == (350, 0)
    assert costs.persistent_setup.median_ns == 9_000 - 8 * 350 - 1_000 - 2_000
    assert median(times, structure) == 350, "where only workers ran it"


def test_launches_of_another_structure_have_their_own(structure: Structure) -> None:
    times, other = RunTimes(overlaps=False), Structure((), (), {}, Launches((), ()))
    times.took(structure, 8, DispatchTiming(20_000), one_by_one=False, whole_ns=27_000)
    assert around(times, other) == (None, None)


def test_the_time_of_a_kernel_is_the_nearest_nanosecond(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    for ns, found in ((1_000 + 1_000 * 15 + 499, 5), (1_000 + 1_000 * 15 + 500, 6)):
        for _ in range(SAMPLES):
            times.took(structure, 1_000, DispatchTiming(ns, ns), one_by_one=False, whole_ns=None)
        assert median(times, structure) == found


def test_only_the_latest_runs_count(structure: Structure) -> None:
    times = RunTimes(overlaps=False)
    for ns in [10**9, *[1_000 + 8 * 110] * SAMPLES]:
        times.took(structure, 8, DispatchTiming(ns, ns), one_by_one=False, whole_ns=ns)
    assert median(times, structure) == 100
