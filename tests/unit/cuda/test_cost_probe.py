"""What launches cost on a CUDA device: on the emulated one, whose device clock is exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import vyre
from vyre.adapters.cuda.machine.presets import H200, DevicePreset
from vyre.adapters.cuda.runtime import cost_probe
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.errors import DispatchTimeout, UnsupportedFeature
from vyre.domain.launch_costs import COSTS, Provenance
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.backend import Backend
from vyre.ports.cost_probe import CostExperiment, CostProbe
from vyre.testing.machine import CudaMachine, cuda_machine

KERNEL_NS = 3_000
"""Device time of an empty kernel on the emulated device."""


@pytest.fixture
def machine() -> CudaMachine:
    found = cuda_machine()
    found.backend.lifecycle.prepare()
    return found


def probe_of(backend: Backend) -> CostProbe:
    assert backend.cost_probe is not None
    return backend.cost_probe


def calls(machine: CudaMachine, experiment: CostExperiment, size: int) -> Counter[str]:
    """Driver calls of an experiment that was run before."""
    with probe_of(machine.backend).measuring() as timed:
        timed(experiment, size)
        before = Counter(machine.driver.calls)
        timed(experiment, size)
        return Counter(machine.driver.calls) - before


def test_every_experiment_can_be_run(machine: CudaMachine) -> None:
    assert probe_of(machine.backend).experiments == frozenset(CostExperiment)


def test_kernels_that_stay_are_not_timed_where_the_driver_ends_them() -> None:
    machine = cuda_machine(preset=replace(H200, limits_kernels=True))
    probe = probe_of(machine.backend)
    assert probe.experiments == frozenset(CostExperiment) - {CostExperiment.PERSISTENT}
    with probe.measuring() as timed, pytest.raises(UnsupportedFeature, match="persistent"):
        timed(CostExperiment.PERSISTENT, 1)


def test_a_persistent_kernel_is_launched_once_for_all_items(machine: CudaMachine) -> None:
    counters = machine.backend.metric_source
    assert counters is not None

    def made(size: int) -> tuple[int, int]:
        before = counters.metrics()
        timed(CostExperiment.PERSISTENT, size)
        after = counters.metrics()
        launches, jobs = (after[name] - before[name] for name in ("persistent_launches", "persistent_jobs"))
        return launches, jobs

    with probe_of(machine.backend).measuring() as timed:
        assert [made(size) for size in (1, 9)] == [(1, 1), (1, 9)]


@pytest.mark.parametrize(
    ("options", "preset"),
    [(CudaOptions(grid_sync=GridSyncMode.SPLIT), H200), (CudaOptions(), replace(H200, cooperative=False))],
)
def test_barriers_that_are_launches_are_not_timed(options: CudaOptions, preset: DevicePreset) -> None:
    probe = probe_of(cuda_machine(options, preset=preset).backend)
    assert probe.experiments == frozenset(CostExperiment) - {CostExperiment.GRID_BARRIERS}
    with probe.measuring() as timed, pytest.raises(UnsupportedFeature, match="grid_barriers"):
        timed(CostExperiment.GRID_BARRIERS, 1)


def test_each_barrier_of_the_grid_is_a_round_of_one_kernel(machine: CudaMachine) -> None:
    def work(size: int) -> int:
        before = machine.driver.lane_instructions
        timed(CostExperiment.GRID_BARRIERS, size)
        return machine.driver.lane_instructions - before

    with probe_of(machine.backend).measuring() as timed:
        work(1)
        few, more, many = (work(size) for size in (2, 6, 10))
    assert 0 < many - few < 3 * (more - few) and more - few > few / 2


def test_what_is_built_is_new_and_kept_nowhere(tmp_path: Path) -> None:
    with vyre.open("cuda-machine", cache=tmp_path) as session:
        backend = session._lease.backend
        probe, counters = probe_of(backend), backend.metric_source
        assert counters is not None
        with probe.measuring() as timed:
            timed(CostExperiment.BUILD, 4)
            files, before = {*tmp_path.rglob("*")}, counters.metrics()["emits"]
            for _ in range(3):
                timed(CostExperiment.BUILD, 4)
            assert counters.metrics()["emits"] == before + 3
            assert {*tmp_path.rglob("*")} == files


def test_items_of_a_persistent_kernel_that_never_end_are_a_timeout(
    machine: CudaMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_probe, "TIMEOUT_S", 0.0)
    with probe_of(machine.backend).measuring() as timed, pytest.raises(DispatchTimeout, match="empty kernel"):
        timed(CostExperiment.PERSISTENT, 257)
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


@pytest.mark.parametrize("experiment", [CostExperiment.KERNELS, CostExperiment.GRAPH_KERNELS])
def test_device_times_are_those_of_the_kernels(machine: CudaMachine, experiment: CostExperiment) -> None:
    with probe_of(machine.backend).measuring() as timed:
        assert [timed(experiment, size) for size in (1, 7, 1, 20)] == [KERNEL_NS * size for size in (1, 7, 1, 20)]


LAUNCH, GRAPH_LAUNCH, EVENT = "launch", "graph_launch", "event_record"
WANTED: dict[CostExperiment, dict[str, int]] = {
    CostExperiment.LAUNCHES: {LAUNCH: 5, EVENT: 1},
    CostExperiment.BIND: {"stream_create": 0},
    CostExperiment.TRAFFIC: {"copy_on_device": 64, EVENT: 4},
    CostExperiment.KERNELS: {LAUNCH: 5, EVENT: 4, "copy_to_device": 1},
    CostExperiment.ROUND_TRIP: {LAUNCH: 5, EVENT: 2},
    CostExperiment.GRAPH_RECORD: {"graph_create": 1, "graph_add_kernel": 5, "graph_instantiate": 1, "graph_upload": 1},
    CostExperiment.GRAPH_UPDATE: {"graph_update_kernel": 5},
    CostExperiment.GRAPH_REPLAY: {GRAPH_LAUNCH: 1},
    CostExperiment.GRAPH_KERNELS: {GRAPH_LAUNCH: 1},
    CostExperiment.PINNED_COPY: {"copy_to_device": 1},
    CostExperiment.PAGEABLE_COPY: {"copy_to_device": 1},
    CostExperiment.EVENT_PAIRS: {EVENT: 11},
    CostExperiment.PERSISTENT: {LAUNCH: 1},
    CostExperiment.GRID_BARRIERS: {LAUNCH: 1},
    CostExperiment.BUILD: {"library_load": 1},
}


@pytest.mark.parametrize("experiment", CostExperiment)
def test_an_experiment_makes_the_calls_that_it_times(machine: CudaMachine, experiment: CostExperiment) -> None:
    made = calls(machine, experiment, 5)
    assert {name: made[name] for name in WANTED[experiment]} == WANTED[experiment]
    kernels = {LAUNCH, GRAPH_LAUNCH, "graph_update_kernel", "graph_add_kernel"} - WANTED[experiment].keys()
    assert not any(made[name] for name in kernels)


def test_nothing_is_held_after_the_context(machine: CudaMachine) -> None:
    def measure() -> None:
        with probe_of(machine.backend).measuring() as timed:
            for experiment in CostExperiment:
                timed(experiment, 3)

    for _ in range(2):  # the idle lane of a dispatch has a stream of the pool from then on
        measure()
    held = dict(machine.driver.live())
    measure()
    assert dict(machine.driver.live()) == held
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


def test_what_fails_inside_is_given_back(machine: CudaMachine) -> None:
    with pytest.raises(ZeroDivisionError), probe_of(machine.backend).measuring() as timed:
        for experiment in CostExperiment:
            timed(experiment, 3)
        raise ZeroDivisionError
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


def test_an_emulated_device_is_not_measured(tmp_path: Path) -> None:
    with vyre.open("cuda-machine", cache=tmp_path) as session:
        found = session.calibrate(rounds=5)
        assert session.launch_costs(assume=False).costs == found.costs
    assert found.provenance is Provenance.EMULATED
    assert {cost.provenance for cost in found.costs.known().values()} == {Provenance.EMULATED}
    assert found.costs.known().keys() == set(COSTS)
    for exact in (found.costs.launch_gap, found.costs.graph_gap):
        assert exact is not None and (exact.median_ns, exact.spread_ns) == (KERNEL_NS, 0)
    assert found.why.startswith("emulated now on cuda-machine on Emulated H200")
