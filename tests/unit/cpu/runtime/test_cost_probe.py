"""The experiments of the native CPU backend time what their costs stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cpu.backends import CountedTools, backend_of
from support.disk_cache import store
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.adapters.cpu.runtime.cost_probe import CpuCostProbe
from vyre.adapters.cpu.runtime.resident import MEASURED_EACH, BoundStep, CpuMemory
from vyre.domain.errors import UnsupportedFeature
from vyre.ports.backend import Backend
from vyre.ports.cost_probe import CostExperiment

pytestmark = NEEDS_LLVM


@pytest.fixture
def backend() -> Iterator[Backend]:
    with backend_of(CountedTools().tools, threads=2) as made:
        yield made


def probe_of(backend: Backend) -> CpuCostProbe:
    probe = backend.cost_probe
    assert isinstance(probe, CpuCostProbe)
    return probe


def test_experiments_time_what_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock counts bound launches, steps that are bound, and runs of lists, each with a weight of its own."""
    spent = [0]

    def paid(weight: int, native: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            spent[0] += weight
            return native(*arguments, **named)

        return call

    monkeypatch.setattr(BoundStep, "__call__", paid(1, BoundStep.__call__))
    monkeypatch.setattr(CpuMemory, "bind", paid(1_000, CpuMemory.bind))
    monkeypatch.setattr(WorkerPool, "run_short", paid(1_000_000, WorkerPool.run_short))
    with (
        backend_of(CountedTools().tools, threads=2, now_ns=lambda: spent[0]) as backend,
        probe_of(backend).measuring() as timed,
    ):
        timed(CostExperiment.LAUNCHES, 40)
        timed(CostExperiment.GRAPH_REPLAY, 4)
        for size in (8, 40):
            measured_closely = 1_000_000 * size // MEASURED_EACH  # at most, if all of them are in the mean
            assert size <= timed(CostExperiment.LAUNCHES, size) <= size + measured_closely
        assert timed(CostExperiment.BIND, 5) == 5_000
        assert timed(CostExperiment.GRAPH_REPLAY, 4) == 0, "the time that the list itself shows is subtracted"
        assert timed(CostExperiment.ROUND_TRIP, 1) == timed(CostExperiment.KERNELS, 1) == 1_000_000


def test_every_experiment_runs_and_leaves_no_work(backend: Backend) -> None:
    probe = probe_of(backend)
    with probe.measuring() as timed:
        for experiment in probe.experiments:
            assert timed(experiment, 5) >= 0
        with pytest.raises(UnsupportedFeature):
            timed(next(each for each in CostExperiment if each not in probe.experiments), 1)


def test_what_is_built_is_compiled_each_time_and_stored_nowhere(tmp_path: Path) -> None:
    counted = CountedTools()
    with backend_of(counted.tools, store=store(tmp_path)) as backend, probe_of(backend).measuring() as timed:
        files, before = {*tmp_path.rglob("*")}, counted.compiled
        assert files, "what the other experiments run is stored"
        for _ in range(3):
            assert timed(CostExperiment.BUILD, 4) > 0
        assert counted.compiled == before + 3
        assert {*tmp_path.rglob("*")} == files


def test_without_a_compiler_nothing_is_built() -> None:
    with backend_of(CountedTools(version=None).tools) as backend:
        assert CostExperiment.BUILD not in probe_of(backend).experiments
