"""The experiments of the native CPU backend time what their costs stand for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.cpu_backends import CountedTools, backend_of
from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.adapters.cpu.pool import Job
from vyre.adapters.cpu.runtime.cost_probe import CpuCostProbe
from vyre.domain.errors import UnsupportedFeature
from vyre.ports.backend import Backend
from vyre.ports.cost_probe import CostExperiment

pytestmark = pytest.mark.skipif(llvm_version() is None, reason="llvmlite is not installed")


@pytest.fixture
def backend() -> Iterator[Backend]:
    with backend_of(CountedTools().tools, threads=2) as made:
        yield made


def probe_of(backend: Backend) -> CpuCostProbe:
    probe = backend.cost_probe
    assert isinstance(probe, CpuCostProbe)
    return probe


def test_a_round_trip_waits_for_its_own_launches_alone(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[Job] = []
    native = Job.wait

    def wait(self: Job, timeout_s: float | None = None) -> bool:
        waits.append(self)
        return native(self, timeout_s)

    monkeypatch.setattr(Job, "wait", wait)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: len(waits))  # the clock counts waits
    with probe_of(backend).measuring() as timed:
        timed(CostExperiment.LAUNCHES, 40)
        for size in (1, 3):
            assert timed(CostExperiment.ROUND_TRIP, size) == size
        assert timed(CostExperiment.LAUNCHES, 40) == 0
        assert timed(CostExperiment.GRAPH_REPLAY, 4) == 0


def test_every_experiment_runs_and_leaves_no_work(backend: Backend) -> None:
    probe = probe_of(backend)
    with probe.measuring() as timed:
        for experiment in probe.experiments:
            assert timed(experiment, 5) >= 0
        with pytest.raises(UnsupportedFeature):
            timed(next(each for each in CostExperiment if each not in probe.experiments), 1)
