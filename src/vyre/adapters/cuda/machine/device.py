"""The emulated device: its parts, and how the work of calls gets into streams and is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine import libraries
from vyre.adapters.cuda.machine.contexts import Contexts
from vyre.adapters.cuda.machine.entering import Gate
from vyre.adapters.cuda.machine.fault_plan import FaultInjector, RunName
from vyre.adapters.cuda.machine.graphs import (
    CopyWork,
    Direction,
    Executable,
    FillWork,
    LaunchWork,
    RecordWork,
    Work,
    work_within,
)
from vyre.adapters.cuda.machine.handles import Handles
from vyre.adapters.cuda.machine.host_memory import HostMemory, read_host
from vyre.adapters.cuda.machine.journal import Journal, ViolationKind
from vyre.adapters.cuda.machine.libraries import Library
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.ordering import RaceDetector
from vyre.adapters.cuda.machine.pools import DeviceHeap
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import Completion, Engine, Operation, Outcome, Pause, Scheduler, Stream
from vyre.adapters.cuda.machine.work import Worker
from vyre.adapters.cuda.seam import LaunchShape, ParameterBlock
from vyre.adapters.forks import process_lock

_BYTE: Final = range(256)


class Device:
    """The parts of an emulated device, which the calls of a driver use.  ``clock`` is used for slow kernels only.

    The lock of ``gate`` guards all of them: a method is called with it held.
    """

    def __init__(self, options: MachineOptions, clock: Callable[[], float]) -> None:
        self.preset: Final = options.preset
        self.total_memory: Final = min(options.memory_bytes, options.preset.memory)
        self.journal: Final = Journal(tracing=options.trace)
        self.contexts: Final = Contexts(recoverable=options.recoverable)
        self.handles: Final = Handles(self.contexts)
        lock = process_lock()
        self.gate: Final = Gate(
            lock, self.journal, FaultInjector(options.faults), self.contexts, self._tick, self._lose_current
        )
        self.scheduler: Final = Scheduler(
            options.schedule, options.seed, threading.Condition(lock), clock, self._ran, self._failed
        )
        self._races = RaceDetector(self._report_race)
        self.memory: Final = DeviceMemory()
        self.host: Final = HostMemory(self.memory)
        self.heap: Final = DeviceHeap(self.memory, self.total_memory)
        self.worker: Final = Worker(
            self.memory, self.preset.speed, options.kernels, options.seed, self._report_race, self.scheduler.given_up
        )

    # ---- operations
    def submit(self, stream: Stream, operation: Operation) -> Completion:
        """Enqueues an operation; an injected fault of its run comes first."""
        injector, action = self.gate.injector, operation.action

        def run(start_ns: int) -> Outcome | Pause:
            code = injector.run(operation.name) if operation.paused is None else None
            if code is not None:
                raise Status(code, f"made to order for a run of {operation.name}")
            return action(start_ns)

        operation.action = run
        return self.scheduler.submit(stream, operation)

    def submit_work(self, stream: Stream, name: RunName, work: Work) -> None:
        """Enqueues work under the name of its call; waits for it if it copies into pageable memory."""
        work = self._with_pageable(work)
        operation = Operation(name=name, action=self.worker.action(work), engine=Engine.COMPUTE)
        match work:
            case CopyWork():
                operation.engine = work.direction.value
            case LaunchWork():
                operation.slow = self.gate.injector.launch(work.kernel.name)
                operation.uses = frozenset((work.kernel.library.handle,))
            case _:
                pass
        done = self.submit(stream, operation)
        if self._fills_pageable(work):
            self.wait(done)

    def submit_graph(self, graph: Executable, target: Stream) -> None:
        """Enqueues a launch of a graph; waits for it if it copies into pageable memory."""
        nodes = [replace(node, work=self._with_pageable(node.work)) for node in graph.nodes.values()]
        launches = [work.kernel for work in work_within(nodes) if isinstance(work, LaunchWork)]
        slow = [self.gate.injector.launch(kernel.name) for kernel in launches]
        records: dict[int, Completion] = {}
        for node in nodes:
            if isinstance(node.work, RecordWork):
                records[node.handle] = node.work.event.record = Completion()
        operation = Operation(
            name="graph_launch",
            action=self.worker.graph(nodes, records),
            engine=Engine.COMPUTE,
            after=() if graph.last is None else (graph.last,),
            slow=next(filter(None, slow), None),
            records=tuple(records.values()),
            uses=frozenset(kernel.library.handle for kernel in launches),
        )
        graph.last = self.submit(target, operation)
        if any(self._fills_pageable(node.work) for node in nodes):
            self.wait(graph.last)

    def add(self, graph: int, after: Sequence[int], work: Work) -> int:
        """Adds work to a graph, and returns its node."""
        handle = self.handles.new()
        self.handles.graph(graph).add(handle, after, work)
        return handle

    def copy_work(self, direction: Direction, target: int, source: int, nbytes: int) -> CopyWork:
        """Returns a copy, after checking its ranges."""
        if nbytes < 0:
            raise Status(Result.INVALID_VALUE, f"{nbytes} bytes")
        if nbytes:
            device, host = {
                Direction.TO_DEVICE: ((target,), (source,)),
                Direction.TO_HOST: ((source,), (target,)),
                Direction.ON_DEVICE: ((target, source), ()),
            }[direction]
            for address in device:
                self.heap.holding(address, nbytes)
            for address in host:
                self.host.is_pinned(address, nbytes)
        return CopyWork(direction, target, source, nbytes)

    def fill_work(self, target: int, value: int, nbytes: int) -> FillWork:
        """Returns a fill, after checking its range."""
        if value not in _BYTE or nbytes < 0:
            raise Status(Result.INVALID_VALUE, f"{nbytes} bytes of {value}")
        if nbytes:
            self.heap.holding(target, nbytes)
        return FillWork(target, value, nbytes)

    def launch_work(self, kernel: int, shape: LaunchShape, parameters: ParameterBlock) -> LaunchWork:
        """Returns a launch, after checking its shape and its parameters."""
        code = self.handles.kernel(kernel)
        resident = libraries.check_launch(code, shape, self.preset)
        passed, declared = tuple((slot.offset, slot.size) for slot in parameters.slots), code.entry.parameters
        if passed != declared:  # which a real driver cannot check
            wrong = f"{code.name} declares parameters at {declared}, given are {passed}"
            self.journal.violate(ViolationKind.PARAMETERS, wrong)
            raise Status(Result.INVALID_VALUE, wrong)
        return LaunchWork(code, shape, bytes(parameters.buffer)[: code.entry.parameter_bytes], resident)

    def _with_pageable(self, work: Work) -> Work:
        """Returns the work with the present content of pageable memory that it copies from."""
        if not isinstance(work, CopyWork) or work.direction is not Direction.TO_DEVICE or not work.nbytes:
            return work
        if self.host.is_pinned(work.source, work.nbytes):
            return work
        return replace(work, data=read_host(work.source, work.nbytes))

    def _fills_pageable(self, work: Work) -> bool:
        """Returns whether work copies into pageable memory."""
        if not isinstance(work, CopyWork) or work.direction is not Direction.TO_HOST or not work.nbytes:
            return False
        return not self.host.is_pinned(work.target, work.nbytes)

    # ---- waiting
    def wait(self, target: Completion | None) -> None:
        """Runs operations until ``target`` is done; None counts as done."""
        self.scheduler.wait([] if target is None else [target])
        self._settle()

    def drain(self) -> None:
        """Runs operations until no stream of the current context has any left."""
        self.scheduler.wait(self.scheduler.pending(self.handles.context))
        self._settle()

    def query(self, target: Completion | None) -> bool:
        """Runs a few operations, then returns whether ``target`` is done."""
        ready = self.scheduler.query(target)
        self.contexts.current()
        return ready

    def _settle(self) -> None:
        self.contexts.current()
        self.heap.settle()

    def tell(self, diagnosis: Status | None) -> None:
        """Raises a diagnosis.  The host then knows of it, so operations that it enqueues later run."""
        if diagnosis is not None:
            for stream in self.handles.streams.values():
                if stream.diagnosis is diagnosis:
                    stream.told()
            raise diagnosis.again()

    # ---- callbacks of the parts
    def _tick(self) -> None:
        self.scheduler.now_ns += self.preset.speed.call_ns

    def _ran(self, stream: Stream, operation: Operation, outcome: Outcome) -> None:
        for access in outcome.accesses:
            self._races.check(access, stream.handle, operation.completion.clock, operation.name)
        self._races.prune(self.scheduler.floors)

    def _failed(self, stream: Stream, operation: Operation, status: Status) -> None:
        self._lose(stream.context, status)

    def _lose_current(self, why: Status) -> None:
        """Loses the thread's context to an error of the device; all of them where none is current."""
        current = self.contexts.current_handle
        for context in (current,) if current else self.contexts.handles():
            self._lose(context, why)

    def _lose(self, context: int, why: Status) -> None:
        self.contexts.lose(context, why)
        self.scheduler.drop(context)

    def _report_race(self, message: str) -> None:
        self.journal.violate(ViolationKind.RACE, message)

    # ---- destruction
    def tear_down(self, context: int) -> None:
        """Destroys the work and the handles of a context."""
        self.scheduler.drop(context)
        self.handles.remove_context(context)
        self.heap.free_context(context)
        self.host.free_context(context)

    def unload(self, library: Library) -> None:
        """Removes a library with its kernels."""
        for variable in library.loaded.variables:
            self.memory.free(variable)
        for kernel in library.kernels.values():
            del self.handles.kernels[kernel]
        del self.handles.libraries[library.handle]
