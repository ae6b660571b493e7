"""Costs of launches on the processor, timed with the operations that dispatches consist of.

A submission queues a job for the worker threads.  A command list takes the place of a graph: recording it writes its
commands, and replaying it is one submission.  A ring that a worker serves is a persistent kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import addressof, c_int64
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.pool.commands import Command, CommandList
from vyre.adapters.cpu.pool.layout import StopReason
from vyre.adapters.cpu.pool.ring import MOST_ROWS, RingCode, RingSpec
from vyre.adapters.cpu.pool.ring_layout import STATUS_BYTES
from vyre.adapters.cpu.pool.worker_pool import SLICE_NS
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.launch import Placement, StepFrame
from vyre.adapters.cpu.runtime.pipeline import CpuExecutor
from vyre.adapters.empty_program import empty_program
from vyre.adapters.host.memory import allocate_aligned
from vyre.domain.dispatch import DEFAULT_CONFIG
from vyre.domain.errors import DispatchFailed, UnsupportedFeature
from vyre.ports.cost_probe import CostExperiment, ExperimentTimer

if TYPE_CHECKING:
    from vyre.adapters.cpu.pool.job import Job

_ALONE: Final = Placement(1, 1)


class CpuCostProbe:
    """``CostProbe`` of the backend."""

    def __init__(self, device: CpuDevice, executor: CpuExecutor) -> None:
        self._device = device
        self._executor = executor

    @property
    def experiments(self) -> frozenset[CostExperiment]:
        """Returns the experiments that this backend can run."""
        return frozenset(_EXPERIMENTS)

    @contextmanager
    def measuring(self) -> Iterator[ExperimentTimer]:
        """Prepares the experiments; the context's value runs one experiment of a size and returns its nanoseconds."""
        bench = _Bench(self._device, self._executor)
        try:
            yield bench.time
        finally:
            bench.settle()


class _Bench:
    """An empty kernel, jobs that launch it once, and command lists of many launches."""

    def __init__(self, device: CpuDevice, executor: CpuExecutor) -> None:
        self._device = device
        pipeline, _ = executor.pipeline(empty_program(), DEFAULT_CONFIG)
        launch = self._launch = pipeline.launch((4,))
        self._loaded = pipeline.module_for(launch).loaded
        self._value, address = allocate_aligned(4)
        self._address: Final = address
        self._frame = StepFrame(launch, None)
        self._frame.bind((address,))
        (self._command,) = self._frame.kernels(self._loaded, launch, _ALONE)
        self._launches: list[Job] = []
        self._lists: dict[int, Job] = {}
        self._now_ns: Callable[[], int] = time.perf_counter_ns

    def time(self, experiment: CostExperiment, size: int) -> int:
        """Implements ``ExperimentTimer``."""
        run = _EXPERIMENTS.get(experiment)
        if run is None:
            raise UnsupportedFeature(feature=f"the experiment {experiment.value}", backend=self._device.backend)
        found = run(self, size)
        self.settle()
        return found

    # ---- experiments
    def launches(self, size: int) -> int:
        jobs, submit = self._jobs(size), self._device.pool.submit
        started = self._now_ns()
        for job in jobs:
            submit(job)
        return self._now_ns() - started

    def round_trip(self, size: int) -> int:
        self.launches(size)
        waits = [job.wait for job in self._jobs(size)]  # these alone: a look at every other job takes time, too
        started = self._now_ns()
        for wait in waits:
            wait()
        return self._now_ns() - started

    def kernels(self, size: int) -> int:
        return self._native(self._list(size))

    def graph_record(self, size: int) -> int:
        started = self._now_ns()
        self._lists[size] = self._record(size)
        return self._now_ns() - started

    def graph_replay(self, size: int) -> int:
        job, submit = self._list(size), self._device.pool.submit
        started = self._now_ns()
        submit(job)
        return self._now_ns() - started

    def persistent(self, size: int) -> int:
        jobs = min(size, MOST_ROWS)
        table, status = (c_int64 * 2)(self._address, 0), (c_int64 * (STATUS_BYTES // 8 * jobs))()
        spec = RingSpec(2, 1, self._launch.grid, self._launch.counts, (0,), 1, None, None, 0)
        code = RingCode(self._loaded.functions, 0, self._loaded)
        started = self._now_ns()
        ring = self._device.ring(spec, code)
        try:
            for number in range(-(-size // jobs)):
                ring.write(number, jobs, addressof(table), addressof(status))
                ring.publish(jobs)
                while not ring.wait(number, SLICE_NS):
                    self._device.check()
        finally:
            ring.stop(StopReason.REQUESTED)
            ring.close()
        return self._now_ns() - started

    # ---- parts
    def _jobs(self, size: int) -> list[Job]:
        while len(self._launches) < size:
            self._launches.append(self._device.job(CommandList((self._command,))))
        return self._launches[:size]

    def _record(self, size: int) -> Job:
        commands: tuple[Command, ...] = (self._command,) * size
        return self._device.job(CommandList(commands))

    def _list(self, size: int) -> Job:
        found = self._lists.get(size)
        if found is None:
            found = self._lists[size] = self._record(size)
        return found

    def _native(self, job: Job) -> int:
        outcome = self._device.run(job, short=False)
        if outcome:
            raise DispatchFailed(f"an empty kernel ended with {outcome.name} on `{self._device.backend}`")
        return job.elapsed_ns

    def settle(self) -> None:
        """Waits until all work has ended."""
        for job in (*self._launches, *self._lists.values()):
            job.wait()


_EXPERIMENTS: Final[dict[CostExperiment, Callable[[_Bench, int], int]]] = {
    CostExperiment.LAUNCHES: _Bench.launches,
    CostExperiment.KERNELS: _Bench.kernels,
    CostExperiment.ROUND_TRIP: _Bench.round_trip,
    CostExperiment.GRAPH_RECORD: _Bench.graph_record,
    CostExperiment.GRAPH_REPLAY: _Bench.graph_replay,
    CostExperiment.GRAPH_KERNELS: _Bench.kernels,
    CostExperiment.PERSISTENT: _Bench.persistent,
}
