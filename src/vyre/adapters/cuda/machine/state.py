"""State of the emulated driver: its parts, the objects behind handles, and how operations get into streams."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine import libraries
from vyre.adapters.cuda.machine.contexts import Contexts
from vyre.adapters.cuda.machine.entering import Gate
from vyre.adapters.cuda.machine.fault_plan import FaultInjector, FaultPlan
from vyre.adapters.cuda.machine.faults import KernelFault
from vyre.adapters.cuda.machine.graphs import (
    CopyWork,
    Direction,
    Executable,
    FillWork,
    Graph,
    LaunchWork,
    Work,
)
from vyre.adapters.cuda.machine.host_memory import HostMemory, read_host
from vyre.adapters.cuda.machine.journal import CallRecord, Journal, Violation, ViolationKind
from vyre.adapters.cuda.machine.libraries import KernelCode, Library
from vyre.adapters.cuda.machine.machine_options import DEFAULT_MACHINE, MachineOptions
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.ordering import RaceDetector
from vyre.adapters.cuda.machine.pools import DeviceHeap
from vyre.adapters.cuda.machine.presets import DevicePreset
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import (
    Completion,
    Engine,
    Event,
    Operation,
    Outcome,
    Scheduler,
    Stream,
)
from vyre.adapters.cuda.machine.work import Worker
from vyre.adapters.cuda.seam import (
    LaunchShape,
    ParameterBlock,
)

_FIRST_HANDLE: Final = 0x5_0000_1000
_HANDLE_STEP: Final = 0x10
_BYTE: Final = range(256)
_T = TypeVar("_T")
_Owned = TypeVar("_Owned", Stream, Event, Graph, Executable)


class MachineState:
    """The emulated driver without its calls.  ``clock`` returns seconds; it is used for slow kernels only.

    For tests: ``calls`` counts calls by method (a launch as ``launch`` or ``graph_launch``), ``trace`` lists them if
    the options enable it, ``violations`` lists misuse that no real driver reports, and ``kernel_faults`` why kernels
    failed.
    """

    def __init__(
        self, options: MachineOptions = DEFAULT_MACHINE, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.options: Final = options
        self._handles = itertools.count(_FIRST_HANDLE, _HANDLE_STEP)
        self._journal = Journal(tracing=options.trace)
        self._contexts = Contexts(recoverable=options.recoverable)
        lock = threading.RLock()
        self.gate: Final = Gate(
            lock, self._journal, FaultInjector(options.faults), self._contexts, self._tick, self._lose_current
        )
        self._scheduler = Scheduler(
            options.schedule, options.seed, threading.Condition(lock), clock, self._ran, self._failed
        )
        self._races = RaceDetector(self._report_race)
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._libraries: dict[int, Library] = {}
        self._kernels: dict[int, KernelCode] = {}
        self._graphs: dict[int, Graph] = {}
        self._executables: dict[int, Executable] = {}
        self._host = HostMemory()
        self._preset = options.preset
        self._memory = DeviceMemory()
        self._heap = DeviceHeap(self._memory, self._total_memory)
        self._worker = Worker(self._memory, self._preset.speed, options.kernels, options.seed, self._report_race)

    # ---- for tests
    @property
    def calls(self) -> Counter[str]:
        """Returns the number of calls by method."""
        return self._journal.calls

    @property
    def trace(self) -> Sequence[CallRecord]:
        """Returns every call in order; empty unless the options enable it."""
        return self._journal.trace

    @property
    def violations(self) -> Sequence[Violation]:
        """Returns the misuse of the driver that was found so far."""
        return self._journal.violations

    @property
    def lane_instructions(self) -> int:
        """Returns the instructions of all kernels so far, each counted once per lane that executed it."""
        return self._worker.lane_instructions

    @property
    def kernel_faults(self) -> Sequence[KernelFault]:
        """Returns the faults of all kernels so far."""
        return self._worker.faults

    @property
    def virtual_ns(self) -> int:
        """Returns the host's virtual time: each call adds to it, and a wait advances it to the end of its target."""
        return self._scheduler.now_ns

    def live(self) -> Mapping[str, int]:
        """Returns the number of handles that were not released yet, by kind."""
        return {
            "context": len(self._contexts),
            "stream": len(self._streams),
            "event": len(self._events),
            "pool": self._heap.live_pools,
            "device_memory": self._heap.live_allocations,
            "host_memory": len(self._host),
            "library": len(self._libraries),
            "graph": len(self._graphs),
            "graph_exec": len(self._executables),
        }

    def inject(self, plan: FaultPlan) -> None:
        """Replaces the fault plan; its counting starts now."""
        with self.gate.lock:
            self.gate.injector = FaultInjector(plan)

    def end_slow_kernels(self) -> None:
        """Lets every launched kernel that a plan made slow end."""
        with self.gate.lock:
            self._scheduler.end_holds()

    def finalise(self) -> None:
        """Makes later calls fail as in an interpreter that shuts down."""
        self.gate.finalised = True

    # ---- operations
    def _submit(self, stream: Stream, operation: Operation) -> Completion:
        """Enqueues an operation; an injected fault of its run comes first."""
        injector, action = self.gate.injector, operation.action

        def run(start_ns: int) -> Outcome:
            code = injector.run(operation.name)
            if code is not None:
                raise Status(code, f"made to order for a run of {operation.name}")
            return action(start_ns)

        operation.action = run
        return self._scheduler.submit(stream, operation)

    def _submit_work(self, stream: Stream, name: str, work: Work) -> Completion:
        operation = Operation(name=name, action=lambda _: self._worker.perform(work), engine=Engine.COMPUTE)
        match work:
            case CopyWork():
                operation.engine = work.direction.value
            case LaunchWork():
                operation.slow = self.gate.injector.launch(work.kernel.name)
                operation.uses = frozenset((work.kernel.library.handle,))
            case _:
                pass
        return self._submit(stream, operation)

    def _add(self, graph: int, after: Sequence[int], work: Work) -> int:
        handle = next(self._handles)
        self._graph(graph).add(handle, after, work)
        return handle

    def _copy_work(self, direction: Direction, target: int, source: int, nbytes: int) -> CopyWork:
        if nbytes < 0:
            raise Status(Result.INVALID_VALUE, f"{nbytes} bytes")
        if nbytes:
            device, host = {
                Direction.TO_DEVICE: ((target,), (source,)),
                Direction.TO_HOST: ((source,), (target,)),
                Direction.ON_DEVICE: ((target, source), ()),
            }[direction]
            for address in device:
                self._heap.holding(address, nbytes)
            for address in host:
                self._host.is_pinned(address, nbytes)
        return CopyWork(direction, target, source, nbytes)

    def _fill_work(self, target: int, value: int, nbytes: int) -> FillWork:
        if value not in _BYTE or nbytes < 0:
            raise Status(Result.INVALID_VALUE, f"{nbytes} bytes of {value}")
        if nbytes:
            self._heap.holding(target, nbytes)
        return FillWork(target, value, nbytes)

    def _launch_work(self, kernel: int, shape: LaunchShape, parameters: ParameterBlock) -> LaunchWork:
        found = self._kernel(kernel)
        resident = libraries.check_launch(found, shape, self._preset)
        wrong = libraries.check_parameters(found, tuple((slot.offset, slot.size) for slot in parameters.slots))
        if wrong is not None:
            self._journal.violate(ViolationKind.PARAMETERS, wrong)
            raise Status(Result.INVALID_VALUE, wrong)
        return LaunchWork(found, shape, bytes(parameters.buffer)[: found.entry.parameter_bytes], resident)

    def _with_pageable(self, work: Work) -> Work:
        """Returns the work with the present content of pageable memory that it copies from."""
        if not isinstance(work, CopyWork) or work.direction is not Direction.TO_DEVICE or not work.nbytes:
            return work
        if self._host.is_pinned(work.source, work.nbytes):
            return work
        return replace(work, data=read_host(work.source, work.nbytes))

    def _fills_pageable(self, work: Work) -> bool:
        if not isinstance(work, CopyWork) or work.direction is not Direction.TO_HOST or not work.nbytes:
            return False
        return not self._host.is_pinned(work.target, work.nbytes)

    # ---- waiting
    def _wait(self, target: Completion | None) -> None:
        self._scheduler.wait([] if target is None else [target])
        self._settle()

    def _drain(self) -> None:
        self._scheduler.wait(self._scheduler.pending(self._context))
        self._settle()

    def _query(self, target: Completion | None) -> bool:
        ready = self._scheduler.query(target)
        self._contexts.current()
        return ready

    def _settle(self) -> None:
        self._contexts.current()
        self._heap.settle()

    def _tell(self, diagnosis: Status | None) -> None:
        """Raises a diagnosis.  The host then knows of it, so operations that it enqueues later run."""
        if diagnosis is not None:
            for stream in self._streams.values():
                if stream.diagnosis is diagnosis:
                    stream.told()
            raise diagnosis.again()

    # ---- callbacks of the parts
    def _tick(self) -> None:
        self._scheduler.now_ns += self._preset.speed.call_ns

    def _ran(self, stream: Stream, operation: Operation, outcome: Outcome) -> None:
        for access in outcome.accesses:
            self._races.check(access, stream.handle, operation.completion.clock, operation.name)
        self._races.prune(self._scheduler.floors)

    def _failed(self, stream: Stream, operation: Operation, status: Status) -> None:
        self._lose(stream.context, status)

    def _lose_current(self, why: Status) -> None:
        self._lose(self._contexts.current_handle, why)

    def _lose(self, context: int, why: Status) -> None:
        self._contexts.lose(context, why)
        self._scheduler.drop(context)

    def _report_race(self, message: str) -> None:
        self._journal.violate(ViolationKind.RACE, message)

    # ---- destruction
    def _tear_down(self, context: int) -> None:
        """Destroys the work and the handles of a context."""
        self._scheduler.drop(context)
        tables: tuple[dict[int, Any], ...] = (self._streams, self._events, self._graphs, self._executables)
        for table in tables:
            _remove_context(table, context)
        self._heap.free_context(context)
        self._host.free_context(context)

    def _unload(self, library: Library) -> None:
        for variable in library.loaded.variables:
            self._memory.free(variable)
        for kernel in library.kernels.values():
            del self._kernels[kernel]
        del self._libraries[library.handle]

    # ---- handles
    @property
    def _total_memory(self) -> int:
        return min(self.options.memory_bytes, self._preset.memory)

    @property
    def _context(self) -> int:
        return self._contexts.current().handle

    def _device(self, ordinal: int) -> DevicePreset:
        if ordinal != 0:
            raise Status(Result.INVALID_DEVICE, f"no device {ordinal}; there is one")
        return self._preset

    def _stream(self, handle: int) -> Stream:
        if handle == 0:
            raise Status(Result.INVALID_HANDLE, "the legacy stream is not used")
        return self._own(self._streams, handle, Result.INVALID_HANDLE, "stream")

    def _own_event(self, handle: int) -> Event:
        return self._own(self._events, handle, Result.INVALID_HANDLE, "event")

    def _event(self, handle: int) -> Event:
        return _find(self._events, handle, Result.INVALID_HANDLE, "event")

    def _library(self, handle: int) -> Library:
        return _find(self._libraries, handle, Result.INVALID_HANDLE, "library")

    def _kernel(self, handle: int) -> KernelCode:
        return _find(self._kernels, handle, Result.INVALID_HANDLE, "kernel")

    def _graph(self, handle: int) -> Graph:
        return self._own(self._graphs, handle, Result.INVALID_VALUE, "graph")

    def _executable(self, handle: int) -> Executable:
        return self._own(self._executables, handle, Result.INVALID_VALUE, "executable graph")

    def _own(self, table: Mapping[int, _Owned], handle: int, code: Result, kind: str) -> _Owned:
        """Returns the object behind a handle.  Raises ``Status`` if it does not belong to the current context."""
        found = _find(table, handle, code, kind)
        if found.context != self._context:
            raise Status(code, f"{kind} {handle:#x} belongs to another context")
        return found


def _find(table: Mapping[int, _T], handle: int, code: Result, kind: str) -> _T:
    found = table.get(handle)
    if found is None:
        raise Status(code, f"{handle:#x} is no {kind}")
    return found


def _remove_context(table: dict[int, Any], context: int) -> None:
    for handle in [handle for handle, thing in table.items() if thing.context == context]:
        del table[handle]
