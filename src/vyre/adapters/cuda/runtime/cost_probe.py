"""Costs of launches, graphs and copies on a CUDA device, timed with the operations that dispatches consist of.

Device times are measured by events.  A device runs empty kernels faster than the host submits them; a chain of them is
therefore timed after copies that keep the device busy until all are submitted.  Traffic is that of copies within the
memory of the device.  A persistent kernel is an engine that is opened for its items, and closed.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from vyre.adapters.cost_programs import BARRIER_WORKGROUPS, barriers_program, empty_program, new_program
from vyre.adapters.cuda.runtime.device import MIB, release_all
from vyre.adapters.cuda.runtime.executor import CudaExecutor, CudaPipeline
from vyre.adapters.cuda.runtime.graphs import Chain, RecordedGraph
from vyre.adapters.cuda.runtime.launch import PreparedLaunch, ScratchAddresses
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.runtime.memory import DeviceBlock
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.waiting import deadline_after
from vyre.adapters.cuda.seam import CudaCallError, HostAddress, HostBlock
from vyre.domain.binding import BindingPlan, plan_bindings
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, OutputArena
from vyre.domain.errors import DispatchTimeout, UnsupportedFeature
from vyre.domain.identity import program_digest
from vyre.domain.ir.program import Program
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.cost_probe import CostExperiment, ExperimentTimer
from vyre.ports.execution import BoundResidentStep, ProgramExecutor, ResidentBinder
from vyre.ports.interrupts import undisturbed, whole
from vyre.ports.persistent import PersistentEngine, PersistentExecutor
from vyre.ports.requests import DispatchRequest, ResidentStep

BUSY_BYTES: Final = 4 * MIB
"""The bytes of a copy that keeps a device busy, for at least 60 us, while the host submits ``BUSY_LAUNCHES``."""
BUSY_LAUNCHES: Final = 8
TRAFFIC_BYTES: Final = 4 * MIB
"""The bytes that copies on the device read and write at least, so that their events are a small part of the time."""
MOST_COPIES: Final = 64
TIMEOUT_S: Final = 30.0
_BARRIERS: Final = DispatchConfig(grid=(BARRIER_WORKGROUPS, 1, 1))


class CudaCostProbe:
    """``CostProbe`` of one device."""

    def __init__(
        self,
        resources: Resources,
        executor: CudaExecutor,
        binder: ResidentBinder,
        engines: PersistentExecutor,
        unstored: Callable[[], CudaExecutor],
    ) -> None:
        """``unstored`` returns an executor that reads no code from a store, and writes none there."""
        self._resources = resources
        self._executor = executor
        self._binder = binder
        self._engines = engines
        self._unstored = unstored
        self._builder: CudaExecutor | None = None

    @property
    def experiments(self) -> frozenset[CostExperiment]:
        """Returns the experiments that this backend can run."""
        device = self._resources.device
        experiments = frozenset(_EXPERIMENTS)
        if device.facts.limits_kernels:
            experiments -= {CostExperiment.PERSISTENT}
        if not device.facts.cooperative_launch or device.options.grid_sync is GridSyncMode.SPLIT:
            experiments -= {CostExperiment.GRID_BARRIERS}  # they are launches then
        return experiments

    @contextmanager
    def measuring(self) -> Iterator[ExperimentTimer]:
        """Prepares the experiments; the context's value runs one experiment of a size and returns its nanoseconds."""
        program = empty_program()
        device = self._resources.device
        pipeline, _ = self._executor.pipeline(program, DEFAULT_CONFIG)
        bench = self._bench(pipeline, program)
        offered = self.experiments

        def timed(experiment: CostExperiment, size: int, /) -> int:
            if experiment not in offered:
                raise UnsupportedFeature(feature=f"the experiment {experiment.value}", backend=device.backend)
            return bench.time(experiment, size)

        try:
            yield timed
        except BaseException:
            bench.abandon()
            raise
        undisturbed(device.call, bench.release, idle=True)

    @whole
    def _bench(self, pipeline: CudaPipeline, program: Program) -> _Bench:
        with self._resources.device.calls:
            return _Bench(
                self._resources,
                pipeline.module_for((1, 1, 1), frozenset(), inline_uniforms=True),
                plan_bindings(program),
                partial(self._binder.bind, ResidentStep(program, (memoryview(bytes(4)),))),
                partial(self._engines.open, program, DEFAULT_CONFIG, (4,), 2),
                self._executor,
                self._build,
            )

    def _build(self, program: Program) -> None:
        if self._builder is None:
            self._builder = self._unstored()
        self._builder.pipeline(program, DEFAULT_CONFIG)
        self._builder.forget({program_digest(program)})


class _Memory(NamedTuple):
    """Equal amounts of memory on the device, page-locked and pageable; ``keep`` owns the pageable part."""

    device: DeviceBlock
    pinned: HostBlock
    pageable: HostAddress
    keep: object


class _Bench:
    """A stream with empty launches, graphs of them and memory to copy, each made when it is first needed.

    ``bind`` binds such a launch, and ``engine`` opens a persistent engine of the same program.  ``executor`` runs other
    programs, and ``build`` makes the code of one.
    """

    def __init__(
        self,
        resources: Resources,
        module: LoadedModule,
        plan: BindingPlan,
        bind: Callable[[], BoundResidentStep],
        engine: Callable[[], PersistentEngine],
        executor: ProgramExecutor,
        build: Callable[[Program], None],
    ) -> None:
        """Prepares the launch.  Call it inside ``device.calls``; raises ``CudaCallError``."""
        self._resources, self._device = resources, resources.device
        self._bind, self._engine = bind, engine
        self._executor, self._build = executor, build
        self._barriers: Final = barriers_program()
        self._outputs: Final = OutputArena()
        self._now_ns: Final = resources.device.clock.now_ns
        self._driver: Final = resources.device.driver
        self._lease: Final = resources.streams.acquire()
        self._graphs: dict[int, RecordedGraph] = {}
        self._memory: dict[int, _Memory] = {}
        self._halves: dict[int, DeviceBlock] = {}
        self._value = 0
        try:
            self._launch = PreparedLaunch(
                self._device, module, plan, (1, 1, 1), self._lease.stream, cooperative=False, sink=resources.decisions
            )
        except CudaCallError as error:
            self._device.roll_back(error, [partial(resources.streams.give_back, self._lease)])
            raise
        except BaseException:
            resources.streams.give_back(self._lease)
            raise
        self._launch.bind((0,), (1,), ScratchAddresses())

    @whole
    def time(self, experiment: CostExperiment, size: int) -> int:
        """Implements ``ExperimentTimer`` for what the device offers."""
        with self._device.calls:
            ns = _EXPERIMENTS[experiment](self, size)
            self._settle()
        return ns

    # ---- experiments
    def launches(self, size: int) -> int:
        launch, rounds = self._launch, range(size)
        started = self._now_ns()
        for _ in rounds:
            launch()
        return self._now_ns() - started

    def bind(self, size: int) -> int:
        bound: list[BoundResidentStep] = []
        try:
            started = self._now_ns()
            bound.extend(self._bind() for _ in range(size))
            return self._now_ns() - started
        finally:
            for step in bound:
                step.close()

    def persistent(self, size: int) -> int:
        started = self._now_ns()
        engine = self._engine()
        try:
            for first in range(0, size, engine.most_jobs):
                jobs = min(size - first, engine.most_jobs)
                ticket = engine.submit_many((memoryview(bytes(4)),), jobs, ())
                assert ticket is not None, "the one before has ended"
                engine.wait_many(ticket, jobs, timeout=TIMEOUT_S)
                engine.forget(ticket)
        except TimeoutError:
            raise self._late() from None
        finally:
            engine.close()
        return self._now_ns() - started

    def grid_barriers(self, size: int) -> int:
        words = (memoryview(size.to_bytes(4, "little")), memoryview(bytes(4)))
        timing = self._executor.execute(DispatchRequest(self._barriers, words, _BARRIERS), self._outputs)
        assert timing.device_ns is not None, "events time it"
        return timing.device_ns

    def build(self, size: int) -> int:
        program = new_program(secrets.randbits(32), size)  # the driver, too, keeps the code that it has made
        return self._timed(partial(self._build, program))

    def traffic(self, size: int) -> int:
        half = max(1, size // 2)
        block = self._halves.get(half)
        if block is None:
            block = self._halves[half] = self._resources.memory.allocate(2 * half, self._lease.stream)
        source, target = block.address, block.address + half
        rounds = min(MOST_COPIES, max(1, TRAFFIC_BYTES // (2 * half)))

        def copies() -> None:
            for _ in range(rounds):
                self._driver.copy_on_device(target, source, half, self._lease.stream)

        return self._device_time(copies) // rounds

    def kernels(self, size: int) -> int:
        memory = self._block(BUSY_BYTES)
        for _ in range(-(-size // BUSY_LAUNCHES)):
            self._copy(memory, memory.pinned.address, BUSY_BYTES)
        return self._device_time(partial(self.launches, size))

    def round_trip(self, size: int) -> int:
        self.launches(size)
        return self._timed(self._settle)

    def graph_record(self, size: int) -> int:
        self._change()
        started = self._now_ns()
        graph = self._record(size)
        spent = self._now_ns() - started
        before, self._graphs[size] = self._graphs.get(size), graph
        if before is not None:
            before.release()
        return spent

    def graph_update(self, size: int) -> int:
        graph = self._graph(size)
        self._change()
        return self._timed(graph.update)

    def graph_replay(self, size: int) -> int:
        return self._timed(self._graph(size).launch)

    def graph_kernels(self, size: int) -> int:
        self._graph(size).launch()
        return self._elapsed()

    def pinned_copy(self, size: int) -> int:
        memory = self._block(size)
        return self._timed(partial(self._copy_and_wait, memory, memory.pinned.address, size))

    def pageable_copy(self, size: int) -> int:
        memory = self._block(size)
        return self._timed(partial(self._copy_and_wait, memory, memory.pageable, size))

    def event_pairs(self, size: int) -> int:
        record, stream = self._driver.event_record, self._lease.stream
        first, second, rounds = self._lease.started, self._lease.ended, range(size)
        started = self._now_ns()
        for _ in rounds:
            record(first, stream)
            record(second, stream)
        return self._now_ns() - started

    # ---- parts
    def _timed(self, work: Callable[[], object]) -> int:
        """Returns the time of the host that work takes, in ns."""
        started = self._now_ns()
        work()
        return self._now_ns() - started

    def _device_time(self, work: Callable[[], object]) -> int:
        """Returns the time on the device of what work enqueues, in ns."""
        self._driver.event_record(self._lease.started, self._lease.stream)
        work()
        self._driver.event_record(self._lease.ended, self._lease.stream)
        return self._elapsed()

    def _record(self, size: int) -> RecordedGraph:
        def record(chain: Chain) -> None:
            chain.mark(self._lease.started)
            for kernel in self._launch.kernels * size:
                chain.kernel(kernel)
            chain.mark(self._lease.ended)

        return RecordedGraph(self._device, record, self._lease.stream)

    def _graph(self, size: int) -> RecordedGraph:
        graph = self._graphs.get(size)
        if graph is None:
            graph = self._graphs[size] = self._record(size)
            self._settle()  # waits for its upload
        return graph

    def _change(self) -> None:
        """Gives the parameter another value."""
        self._value ^= 1
        self._launch.set_values((memoryview(self._value.to_bytes(4, "little")),))

    def _block(self, nbytes: int) -> _Memory:
        block = self._memory.get(nbytes)
        if block is None:
            resources = self._resources
            pageable = (ctypes.c_char * nbytes)()
            device = resources.memory.allocate(nbytes, self._lease.stream)
            try:
                pinned = resources.pinned.allocate(nbytes)
            except CudaCallError as error:
                self._device.roll_back(error, [partial(resources.memory.free, device, self._lease.stream)])
                raise
            block = self._memory[nbytes] = _Memory(device, pinned, ctypes.addressof(pageable), pageable)
        return block

    def _copy(self, memory: _Memory, source: HostAddress, nbytes: int) -> None:
        self._driver.copy_to_device(memory.device.address, source, nbytes, self._lease.stream)

    def _copy_and_wait(self, memory: _Memory, source: HostAddress, nbytes: int) -> None:
        self._copy(memory, source, nbytes)
        self._settle()

    def _elapsed(self) -> int:
        """Returns the device time from ``started`` to ``ended`` in ns."""
        self._settle()
        return round(self._driver.event_elapsed_ms(self._lease.started, self._lease.ended) * 1e6)

    def _settle(self) -> None:
        """Waits until all work has ended."""
        self._driver.event_record(self._lease.done, self._lease.stream)
        if not self._device.waiter.event(self._lease.done, deadline_after(self._device.clock, TIMEOUT_S)):
            raise self._late()

    def _late(self) -> DispatchTimeout:
        return DispatchTimeout(f"an empty kernel did not finish on `{self._device.backend}` within {TIMEOUT_S:g} s")

    # ---- the end
    def release(self, *, idle: bool) -> None:
        """Returns every resource.  ``idle`` resources may be used again; otherwise they are returned to the driver."""
        resources, stream = self._resources, self._lease.stream
        graphs, memory = tuple(self._graphs.values()), tuple(self._memory.values())
        halves = tuple(self._halves.values())
        self._graphs.clear()
        self._memory.clear()
        self._halves.clear()
        give_device = resources.memory.give_back if idle else resources.memory.free
        give_pinned = resources.pinned.give_back if idle else resources.pinned.free
        release_all(
            (
                *(graph.release for graph in graphs),
                *(partial(give_device, block.device, stream) for block in memory),
                *(partial(give_device, block, stream) for block in halves),
                *(partial(give_pinned, block.pinned) for block in memory),
                partial(resources.streams.give_back if idle else resources.streams.free, self._lease),
            )
        )

    @whole
    def abandon(self) -> None:
        """Puts every resource into quarantine after a failure, because submitted work may still be running."""
        if self._device.reachable:
            self._resources.quarantine.hold(self._lease.stream, partial(self.release, idle=False))


_EXPERIMENTS: Final[dict[CostExperiment, Callable[[_Bench, int], int]]] = {
    CostExperiment.LAUNCHES: _Bench.launches,
    CostExperiment.BIND: _Bench.bind,
    CostExperiment.KERNELS: _Bench.kernels,
    CostExperiment.ROUND_TRIP: _Bench.round_trip,
    CostExperiment.GRAPH_RECORD: _Bench.graph_record,
    CostExperiment.GRAPH_UPDATE: _Bench.graph_update,
    CostExperiment.GRAPH_REPLAY: _Bench.graph_replay,
    CostExperiment.GRAPH_KERNELS: _Bench.graph_kernels,
    CostExperiment.PINNED_COPY: _Bench.pinned_copy,
    CostExperiment.PAGEABLE_COPY: _Bench.pageable_copy,
    CostExperiment.EVENT_PAIRS: _Bench.event_pairs,
    CostExperiment.PERSISTENT: _Bench.persistent,
    CostExperiment.GRID_BARRIERS: _Bench.grid_barriers,
    CostExperiment.BUILD: _Bench.build,
    CostExperiment.TRAFFIC: _Bench.traffic,
}
