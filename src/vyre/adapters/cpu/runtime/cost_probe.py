"""Costs of launches on the processor, timed as sequences on resident memory run them, and of traffic.

A launch is a call of a bound step, which runs on the calling thread and has ended when the call returns.  A command
list takes the place of a graph: recording it prepares its steps and writes its commands, and replaying it is one call,
in which ``round_trip`` is the time of an empty list that its own clock shows.  A ring that a worker serves is
a persistent kernel.  Traffic is that of lists of a kernel that copies one array to another and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import addressof, c_int64
from functools import cache
from typing import Final

from vyre.adapters.cost_programs import empty_program, new_program
from vyre.adapters.cpu.pool.layout import Status, StopReason
from vyre.adapters.cpu.pool.ring import MOST_ROWS, RingCode, RingSpec
from vyre.adapters.cpu.pool.worker_pool import SLICE_NS
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.pipeline import CpuExecutor
from vyre.adapters.cpu.runtime.resident import MEASURED_EACH, CpuMemory
from vyre.adapters.host.memory import allocate_aligned
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchTiming
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.program import Program
from vyre.ports.cost_probe import CostExperiment, ExperimentTimer
from vyre.ports.execution import BoundResidentStep
from vyre.ports.requests import ResidentSequence, ResidentStep, Upload
from vyre.ports.resident_buffer import ResidentBuffer

AGAIN: Final = 9
"""The runs in a row of which the median is taken, where a part costs a few ns."""
_SETTLING: Final = 130
"""The launches of a bound step after which few of them are measured."""
TRAFFIC_BYTES: Final = 2 << 20
"""The bytes that are moved at least, in rounds, where less would take no longer than the list."""
MOST_COPIES: Final = 64
_WARM: Final = 3
_APART: Final = 27
"""The launches between those of two steps that are measured, modulo their period."""


@cache
def _copy_program() -> Program:
    """Returns a program that copies one array to another of as many words."""
    from vyre.domain.ir.builder import ProgramBuilder
    from vyre.domain.ir.types import f32

    with ProgramBuilder("copy", workgroup=256) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_((i < x.length) & (i < y.length)):
            y[i] = x[i]
    return p.build()


class CpuCostProbe:
    """``CostProbe`` of the backend."""

    def __init__(
        self, device: CpuDevice, memory: CpuMemory, executor: CpuExecutor, unstored: Callable[[], CpuExecutor] | None
    ) -> None:
        """``unstored`` returns an executor that reads no code from a store, and writes none there; None where no code
        can be made.
        """
        self._device, self._memory, self._executor, self._unstored = device, memory, executor, unstored

    @property
    def experiments(self) -> frozenset[CostExperiment]:
        """Returns the experiments that this backend can run."""
        return frozenset(_EXPERIMENTS) - ({CostExperiment.BUILD} if self._unstored is None else set())

    @contextmanager
    def measuring(self) -> Iterator[ExperimentTimer]:
        """Prepares the experiments; the context's value runs one experiment of a size and returns its nanoseconds."""
        bench = _Bench(self._device, self._memory, self._executor, self._unstored)
        try:
            yield bench.time
        finally:
            bench.close()


class _Bench:
    """Empty kernels on host memory, launched as sequences on resident memory are: one by one, bound beforehand, or as
    command lists.
    """

    def __init__(
        self, device: CpuDevice, memory: CpuMemory, executor: CpuExecutor, unstored: Callable[[], CpuExecutor] | None
    ) -> None:
        self._device, self._memory, self._unstored = device, memory, unstored
        self._program = empty_program()
        pipeline, _ = executor.pipeline(self._program, DEFAULT_CONFIG)
        self._launch = pipeline.launch((4,))
        self._loaded = pipeline.module_for(self._launch).loaded
        buffer, self._address = allocate_aligned(4)
        self._value = buffer.data
        self._bound: list[BoundResidentStep] = []
        self._lists: dict[tuple[int, int], ResidentSequence] = {}
        self._arrays: dict[int, tuple[ResidentBuffer, memoryview]] = {}
        self._copies: dict[int, tuple[ResidentSequence, int]] = {}
        self._copied: list[ResidentBuffer] = []
        self._now_ns = device.counters.now_ns

    def time(self, experiment: CostExperiment, size: int) -> int:
        """Implements ``ExperimentTimer``."""
        run = _EXPERIMENTS.get(experiment)
        if run is None or (experiment is CostExperiment.BUILD and self._unstored is None):
            raise UnsupportedFeature(feature=f"the experiment {experiment.value}", backend=self._device.backend)
        if experiment in _NATIVE:
            return sorted(run(self, size) for _ in range(AGAIN))[AGAIN // 2]
        if experiment is CostExperiment.GRAPH_REPLAY:
            run(self, size)
        return run(self, size)

    # ---- experiments
    def launches(self, size: int) -> int:
        if size > len(self._bound):
            more = self._prepared(size - len(self._bound))
            for number, launch in enumerate(more):  # one of so many is looked at closely: each at another time
                for _ in range(_SETTLING + _APART * number % MEASURED_EACH):
                    launch()
            self._bound += more
        launches = self._bound[:size]
        times = sorted(self._pass(launches) for _ in range(MEASURED_EACH))
        kept = times[: -MEASURED_EACH // 16]  # without those that were disturbed most
        return sum(kept) // len(kept)

    def _pass(self, launches: list[BoundResidentStep]) -> int:
        started = self._now_ns()
        for launch in launches:
            launch()
        return self._now_ns() - started

    def bind(self, size: int) -> int:
        started = self._now_ns()
        bound = self._prepared(size)
        ended = self._now_ns()
        for step in bound:
            step.close()
        return ended - started

    def round_trip(self, size: int) -> int:
        return self._device_ns(self._list(size, 1))

    def kernels(self, size: int) -> int:
        return self._device_ns(self._list(1, size))

    def graph_record(self, size: int) -> int:
        sequence = self._sequence(size, 1)
        first, again = self._run(sequence), self._run(sequence)
        return max(0, first.wall_ns - again.wall_ns)

    def graph_replay(self, size: int) -> int:
        timing = self._run(self._list(size, 1))
        return max(0, timing.wall_ns - (timing.device_ns or 0))

    def copy(self, size: int) -> int:
        pair = self._arrays.get(size)
        if pair is None:
            pair = self._arrays[size] = self._memory.allocate(size), memoryview(bytearray(size))
        array, data = pair
        started = self._now_ns()
        self._memory.upload((Upload(array, data),))
        return self._now_ns() - started

    def build(self, size: int) -> int:
        assert self._unstored is not None
        program, executor = new_program(0, size), self._unstored()
        started = self._now_ns()
        executor.pipeline(program, DEFAULT_CONFIG)
        return self._now_ns() - started

    def traffic(self, size: int) -> int:
        pair = self._copies.get(size)
        if pair is None:
            pair = self._copies[size] = self._copy_list(max(1, size // 8))
        sequence, copies = pair
        return self._device_ns(sequence) // copies

    def _copy_list(self, count: int) -> tuple[ResidentSequence, int]:
        """Returns rounds of copying so many words there and back, and the number of copies."""
        one, other = (self._memory.allocate(4 * count) for _ in range(2))
        self._copied += (one, other)
        rounds = min(MOST_COPIES, max(1, TRAFFIC_BYTES // (16 * count)))
        steps = tuple(ResidentStep(_copy_program(), arrays) for arrays in ((one, other), (other, one)))
        sequence = ResidentSequence(repeated=steps, repeat_count=rounds)
        for _ in range(_WARM):  # memory is touched, code is chosen
            self._run(sequence)
        return sequence, 2 * rounds

    def persistent(self, size: int) -> int:
        jobs = min(size, MOST_ROWS)
        table, status = (c_int64 * 2)(self._address, 0), (c_int64 * (Status.BYTES // 8 * jobs))()
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
    def _step(self) -> ResidentStep:
        return ResidentStep(self._program, (self._value,))

    def _prepared(self, size: int) -> list[BoundResidentStep]:
        return [self._memory.bind(self._step()) for _ in range(size)]

    def _sequence(self, size: int, rounds: int) -> ResidentSequence:
        return ResidentSequence(repeated=tuple(self._step() for _ in range(size)), repeat_count=rounds)

    def _list(self, size: int, rounds: int) -> ResidentSequence:
        sequence = self._lists.get((size, rounds))
        if sequence is None:
            sequence = self._lists[size, rounds] = self._sequence(size, rounds)
            self._run(sequence)
        return sequence

    def _run(self, sequence: ResidentSequence) -> DispatchTiming:
        return self._memory.run(sequence)

    def _device_ns(self, sequence: ResidentSequence) -> int:
        return self._run(sequence).device_ns or 0

    def close(self) -> None:
        """Releases everything."""
        for bound in self._bound:
            bound.close()
        for array in (*self._copied, *(array for array, _ in self._arrays.values())):
            array.close()


_EXPERIMENTS: Final[dict[CostExperiment, Callable[[_Bench, int], int]]] = {
    CostExperiment.LAUNCHES: _Bench.launches,
    CostExperiment.KERNELS: _Bench.kernels,
    CostExperiment.ROUND_TRIP: _Bench.round_trip,
    CostExperiment.BIND: _Bench.bind,
    CostExperiment.GRAPH_RECORD: _Bench.graph_record,
    CostExperiment.GRAPH_REPLAY: _Bench.graph_replay,
    CostExperiment.GRAPH_KERNELS: _Bench.kernels,
    CostExperiment.PERSISTENT: _Bench.persistent,
    CostExperiment.PAGEABLE_COPY: _Bench.copy,
    CostExperiment.BUILD: _Bench.build,
    CostExperiment.TRAFFIC: _Bench.traffic,
}
_NATIVE: Final = frozenset({CostExperiment.KERNELS, CostExperiment.ROUND_TRIP, CostExperiment.GRAPH_KERNELS})
"""The experiments that the clock of a command list times."""
