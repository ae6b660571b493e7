"""The emulated device: its parts, and how the work of calls gets into streams and is waited for."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

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
    Graph,
    LaunchWork,
    RecordWork,
    Work,
    work_within,
)
from vyre.adapters.cuda.machine.host_memory import HostMemory, read_host
from vyre.adapters.cuda.machine.journal import Journal, ViolationKind
from vyre.adapters.cuda.machine.libraries import KernelCode, Library
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.ordering import RaceDetector
from vyre.adapters.cuda.machine.pools import DeviceHeap
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import Completion, Engine, Event, Operation, Outcome, Pause, Scheduler, Stream
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


_FIRST_HANDLE: Final = 0x5_0000_1000
_HANDLE_STEP: Final = 0x10
_T = TypeVar("_T")
_Owned = TypeVar("_Owned", Stream, Event, Graph, Executable)


class Handles:
    """Tables of objects by handle.

    A method that looks up a handle raises ``Status`` if no object has it, and for streams, graphs, executable graphs
    and ``own_event`` also if the object does not belong to the current context.
    """

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._numbers = itertools.count(_FIRST_HANDLE, _HANDLE_STEP)
        self.streams: Final[dict[int, Stream]] = {}
        self.events: Final[dict[int, Event]] = {}
        self.libraries: Final[dict[int, Library]] = {}
        self.kernels: Final[dict[int, KernelCode]] = {}
        self.graphs: Final[dict[int, Graph]] = {}
        self.executables: Final[dict[int, Executable]] = {}

    def new(self) -> int:
        """Returns a handle that no object has."""
        return next(self._numbers)

    @property
    def context(self) -> int:
        """Returns the handle of the current context.  Raises ``Status`` if none is usable."""
        return self._contexts.current().handle

    def live(self) -> Mapping[str, int]:
        """Returns the number of objects by kind."""
        return {
            "stream": len(self.streams),
            "event": len(self.events),
            "library": len(self.libraries),
            "graph": len(self.graphs),
            "graph_exec": len(self.executables),
        }

    def remove_context(self, context: int) -> None:
        """Removes the objects that belong to a context."""
        tables: tuple[dict[int, Any], ...] = (self.streams, self.events, self.graphs, self.executables)
        for table in tables:
            for handle in [handle for handle, thing in table.items() if thing.context == context]:
                del table[handle]

    def stream(self, handle: int) -> Stream:
        """Returns a stream of the current context."""
        if handle == 0:
            raise Status(Result.INVALID_HANDLE, "the legacy stream is not used")
        return self._own(self.streams, handle, Result.INVALID_HANDLE, "stream")

    def own_event(self, handle: int) -> Event:
        """Returns an event of the current context."""
        return self._own(self.events, handle, Result.INVALID_HANDLE, "event")

    def event(self, handle: int) -> Event:
        """Returns an event."""
        return _find(self.events, handle, Result.INVALID_HANDLE, "event")

    def library(self, handle: int) -> Library:
        """Returns a library."""
        return _find(self.libraries, handle, Result.INVALID_HANDLE, "library")

    def kernel(self, handle: int) -> KernelCode:
        """Returns a kernel."""
        return _find(self.kernels, handle, Result.INVALID_HANDLE, "kernel")

    def graph(self, handle: int) -> Graph:
        """Returns a graph of the current context."""
        return self._own(self.graphs, handle, Result.INVALID_VALUE, "graph")

    def executable(self, handle: int) -> Executable:
        """Returns an executable graph of the current context."""
        return self._own(self.executables, handle, Result.INVALID_VALUE, "executable graph")

    def _own(self, table: Mapping[int, _Owned], handle: int, code: Result, kind: str) -> _Owned:
        """Returns the object behind a handle.  Raises ``Status`` if it does not belong to the current context."""
        owned = _find(table, handle, code, kind)
        if owned.context != self.context:
            raise Status(code, f"{kind} {handle:#x} belongs to another context")
        return owned


def _find(table: Mapping[int, _T], handle: int, code: Result, kind: str) -> _T:
    object_ = table.get(handle)
    if object_ is None:
        raise Status(code, f"{handle:#x} is no {kind}")
    return object_
