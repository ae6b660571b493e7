"""An emulated CUDA driver: the seam on top of the emulated memory, streams and interpreter.

Errors that a real driver reports at the call are reported at the call, with the same code; work that a real driver does
when a stream reaches it is done when the scheduler reaches it.  The rules are in the modules that this one calls.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine import libraries
from vyre.adapters.cuda.machine.contexts import PRIMARY
from vyre.adapters.cuda.machine.device import Device
from vyre.adapters.cuda.machine.entering import Needs, seam_call
from vyre.adapters.cuda.machine.fault_plan import FaultInjector, FaultPlan
from vyre.adapters.cuda.machine.faults import KernelFault
from vyre.adapters.cuda.machine.graphs import Direction, Executable, Graph, RecordWork, WhileWork, work_within
from vyre.adapters.cuda.machine.journal import CallRecord, Violation, ViolationKind
from vyre.adapters.cuda.machine.options import DEFAULT_MACHINE, MachineOptions
from vyre.adapters.cuda.machine.ordering import join
from vyre.adapters.cuda.machine.presets import DevicePreset
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import DONE, Completion, Event, Operation, Outcome, Stream
from vyre.adapters.cuda.seam import (
    DEFAULT_JIT,
    KEEP_ALL,
    CudaDriver,
    DeviceAddress,
    HostAddress,
    HostBlock,
    JitOptions,
    KernelFacts,
    Launcher,
    LaunchShape,
    LoadedLibrary,
    MemoryInfo,
    ParameterBlock,
    PointerFacts,
    PoolUse,
    WhileNode,
)
from vyre.domain.unique import Unique

_CONDITIONS_SINCE: Final = 12_040
"""The version of the first driver with conditional nodes."""


class MachineDriver(Unique, CudaDriver):
    """The seam on an emulated device.  ``clock`` returns seconds; it is used for slow kernels only.

    For tests: ``calls`` counts calls by method (a launch as ``launch`` or ``graph_launch``), ``trace`` lists them in
    order if the options enable it, ``violations`` lists misuse that no real driver reports, and ``kernel_faults`` the
    faults of all kernels so far.
    """

    def __init__(
        self, options: MachineOptions = DEFAULT_MACHINE, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        device = self._device = Device(options, clock)
        self._handles, self._heap = device.handles, device.heap
        self.options: Final = options
        self.gate: Final = device.gate
        self.calls: Final[Counter[str]] = device.journal.calls
        self.trace: Final[Sequence[CallRecord]] = device.journal.trace
        self.violations: Final[Sequence[Violation]] = device.journal.violations
        self.kernel_faults: Final[Sequence[KernelFault]] = device.worker.faults

    @property
    def name(self) -> str:
        """Returns ``cuda-machine``."""
        return "cuda-machine"

    @property
    def lock(self) -> threading.RLock:
        """Returns the lock of the device."""
        return self.gate.lock

    @property
    def checks_races(self) -> bool:
        """Returns True."""
        return True

    # ---- for tests
    @property
    def lane_instructions(self) -> int:
        """Returns the instructions of all kernels so far, each counted once per lane that executed it."""
        return self._device.worker.lane_instructions

    @property
    def virtual_ns(self) -> int:
        """Returns the host's virtual time: each call adds to it, and a wait advances it to the end of its target."""
        return self._device.scheduler.now_ns

    def live(self) -> Mapping[str, int]:
        """Returns the number of handles that were not released yet, by kind."""
        device = self._device
        return {
            "context": len(device.contexts),
            "pool": self._heap.live_pools,
            "device_memory": self._heap.live_allocations,
            "host_memory": len(device.host),
            **self._handles.live(),
        }

    def inject(self, plan: FaultPlan) -> None:
        """Replaces the fault plan; its counting starts now."""
        with self.gate.lock:
            self.gate.injector = FaultInjector(plan)

    def end_slow_kernels(self) -> None:
        """Lets every launched kernel that a plan made slow end."""
        with self.gate.lock:
            self._device.scheduler.end_holds()

    def finalise(self) -> None:
        """Makes later calls fail as in an interpreter that shuts down."""
        self.gate.finalised = True

    # ---- start and devices
    @seam_call("cuInit", Needs.NOTHING)
    def init(self) -> None:
        """Implements ``CudaDriver.init``; it fails if the options say that there is no device."""
        if not self.options.present:
            raise Status(Result.NO_DEVICE, "the machine was told to have no device")
        self.gate.opened()

    @seam_call("cuDriverGetVersion", Needs.NOTHING)
    def driver_version(self) -> int:
        """Returns the version that the options give."""
        return self.options.driver_version

    @seam_call("cuDeviceGetCount", Needs.INIT)
    def device_count(self) -> int:
        """Returns 1."""
        return 1

    @seam_call("cuDeviceGetName", Needs.INIT)
    def device_name(self, ordinal: int) -> str:
        return self._preset_of(ordinal).name

    @seam_call("cuDeviceGetUuid", Needs.INIT)
    def device_uuid(self, ordinal: int) -> bytes:
        return self._preset_of(ordinal).uuid

    @seam_call("cuDeviceTotalMem", Needs.INIT)
    def device_memory(self, ordinal: int) -> int:
        """Implements ``CudaDriver.device_memory``; options can make it less than the preset's."""
        self._preset_of(ordinal)
        return self._device.total_memory

    @seam_call("cuDeviceGetAttribute", Needs.INIT)
    def device_attribute(self, ordinal: int, attribute: int) -> int:
        """Implements ``CudaDriver.device_attribute`` for the attributes of the preset."""
        value = self._preset_of(ordinal).attributes().get(attribute)
        if value is None:
            raise Status(Result.INVALID_VALUE, f"the machine has no attribute {attribute}")
        return value

    # ---- contexts
    @seam_call("cuDevicePrimaryCtxRetain", Needs.INIT)
    def primary_retain(self, ordinal: int) -> int:
        self._preset_of(ordinal)
        return self._device.contexts.retain()

    @seam_call("cuDevicePrimaryCtxRelease", Needs.INIT)
    def primary_release(self, ordinal: int) -> None:
        """Implements ``CudaDriver.primary_release``; the last release destroys everything in the context."""
        self._preset_of(ordinal)
        if self._device.contexts.release():
            self._device.tear_down(PRIMARY)

    @seam_call("cuDevicePrimaryCtxReset", Needs.INIT)
    def primary_reset(self, ordinal: int) -> None:
        """Implements ``CudaDriver.primary_reset``; pools and libraries belong to the device and are destroyed too."""
        self._preset_of(ordinal)
        self._device.contexts.reset()
        self._device.tear_down(PRIMARY)
        self._heap.destroy_pools()
        for library in list(self._handles.libraries.values()):
            self._device.unload(library)

    @seam_call("cuCtxCreate", Needs.INIT)
    def context_create(self, ordinal: int) -> int:
        """Implements ``CudaDriver.context_create``; the new context is current in the calling thread."""
        self._preset_of(ordinal)
        handle = self._handles.new()
        self._device.contexts.create(handle)
        return handle

    @seam_call("cuCtxDestroy", Needs.INIT)
    def context_destroy(self, context: int) -> None:
        """Implements ``CudaDriver.context_destroy``; everything in the context is destroyed."""
        self._device.contexts.destroy(context)
        self._device.tear_down(context)

    @seam_call("cuCtxSetCurrent", Needs.INIT)
    def set_current(self, context: int) -> None:
        self._device.contexts.set_current(context)

    @seam_call("cuCtxSynchronize")
    def context_synchronize(self) -> None:
        """Runs operations until no stream of the current context has any left."""
        self._device.drain()

    # ---- streams and events
    @seam_call("cuStreamCreateWithPriority")
    def stream_create(self, priority: int = 0) -> int:
        """Implements ``CudaDriver.stream_create``; the priority has no effect."""
        handle = self._handles.new()
        self._handles.streams[handle] = Stream(handle, self._handles.context)
        return handle

    @seam_call("cuStreamDestroy")
    def stream_destroy(self, stream: int) -> None:
        """Implements ``CudaDriver.stream_destroy``; operations in the stream still run."""
        del self._handles.streams[self._handles.stream(stream).handle]

    @seam_call("cuStreamSynchronize")
    def stream_synchronize(self, stream: int) -> None:
        """Runs operations until the stream is empty; raises the diagnosis of a kernel in it."""
        queue = self._handles.stream(stream)
        self._device.wait(queue.last)
        self._device.tell(queue.diagnosis)

    @seam_call("cuStreamQuery")
    def stream_ready(self, stream: int) -> bool:
        """Runs a few operations, then returns whether the stream is empty."""
        queue = self._handles.stream(stream)
        ready = self._device.query(queue.last)
        if ready:
            self._device.tell(queue.diagnosis)
        return ready

    def abandon(self, stream: int) -> None:
        self._device.scheduler.abandon(stream)

    @seam_call("cuStreamWaitEvent")
    def stream_wait_event(self, stream: int, event: int) -> None:
        record = self._handles.event(event).record
        queue = self._handles.stream(stream)
        if record is not None:
            self._device.submit(queue, Operation(name="wait_event", after=(record,), carries=True))

    @seam_call("cuEventCreate")
    def event_create(self, *, timing: bool = False, blocking: bool = False) -> int:
        """Implements ``CudaDriver.event_create``; ``blocking`` has no effect."""
        handle = self._handles.new()
        self._handles.events[handle] = Event(handle, self._handles.context, timing)
        return handle

    @seam_call("cuEventDestroy")
    def event_destroy(self, event: int) -> None:
        del self._handles.events[self._handles.event(event).handle]

    @seam_call("cuEventRecord")
    def event_record(self, event: int, stream: int) -> None:
        own_event = self._handles.own_event(event)
        own_event.record = self._device.submit(self._handles.stream(stream), Operation(name="event_record"))

    @seam_call("cuEventQuery")
    def event_ready(self, event: int) -> bool:
        """Runs a few operations, then returns whether the event has completed."""
        record = self._handles.event(event).record
        ready = self._device.query(record)
        if ready and record is not None:
            self._device.tell(record.diagnosis)
        return ready

    @seam_call("cuEventSynchronize")
    def event_synchronize(self, event: int) -> None:
        """Runs operations until the event has completed; raises the diagnosis of a kernel before it."""
        record = self._handles.event(event).record
        self._device.wait(record)
        if record is not None:
            self._device.tell(record.diagnosis)

    @seam_call("cuEventElapsedTime")
    def event_elapsed_ms(self, start: int, end: int) -> float:
        """Implements ``CudaDriver.event_elapsed_ms`` in virtual time."""
        records = []
        for handle in (start, end):
            event = self._handles.event(handle)
            if not event.timing or event.record is None:
                raise Status(Result.INVALID_HANDLE, f"event {handle:#x} has no timing, or was never recorded")
            records.append(event.record)
        if not all(record.done for record in records):
            raise Status(Result.NOT_READY, "an event is not complete")
        return (records[1].end_ns - records[0].end_ns) / 1e6

    # ---- memory
    @seam_call("cuMemGetInfo")
    def memory_info(self) -> MemoryInfo:
        return self._heap.info()

    @seam_call("cuMemPoolCreate")
    def pool_create(self, ordinal: int, *, release_threshold: int = KEEP_ALL, max_bytes: int = 0) -> int:
        self._preset_of(ordinal)
        if not self._device.preset.memory_pools:
            raise Status(Result.NOT_SUPPORTED, "the device has no memory pools")
        handle = self._handles.new()
        self._heap.add_pool(handle, release_threshold, max_bytes)
        return handle

    @seam_call("cuMemPoolDestroy")
    def pool_destroy(self, pool: int) -> None:
        self._heap.destroy_pool(pool)

    @seam_call("cuMemPoolTrimTo")
    def pool_trim(self, pool: int, keep: int = 0) -> None:
        self._heap.trim(self._heap.pool(pool), keep)

    @seam_call("cuMemPoolGetAttribute")
    def pool_use(self, pool: int) -> PoolUse:
        use = self._heap.pool(pool)
        return PoolUse(use.used, use.reserved)

    @seam_call("cuMemAllocFromPoolAsync")
    def mem_alloc_async(self, nbytes: int, pool: int, stream: int) -> int:
        queue = self._handles.stream(stream)
        clock = join(queue.clock, self._device.scheduler.host_clock)
        allocation = self._heap.reserve(nbytes, self._heap.pool(pool), queue.context, clock)

        def begin(_: int) -> Outcome:
            self._heap.begin(allocation)
            return Outcome(0, (self._device.worker.access(allocation.address, nbytes, True),))

        after = () if allocation.after is None else (allocation.after,)
        self._device.submit(queue, Operation(name="mem_alloc_async", action=begin, after=after))
        return allocation.address

    @seam_call("cuMemFreeAsync")
    def mem_free_async(self, address: DeviceAddress, stream: int) -> None:
        queue = self._handles.stream(stream)
        freed = Completion()
        allocation = self._heap.retire(address, queue.context, freed)

        def end(_: int) -> Outcome:
            access = self._device.worker.access(allocation.address, allocation.nbytes, True)
            self._heap.end(allocation)
            return Outcome(0, (access,))

        self._device.submit(queue, Operation(name="mem_free_async", action=end, completion=freed))

    @seam_call("cuMemAlloc")
    def mem_alloc(self, nbytes: int) -> int:
        allocation = self._heap.reserve_plain(nbytes, self._handles.context)
        self._heap.begin(allocation)
        return allocation.address

    @seam_call("cuMemFree")
    def mem_free(self, address: DeviceAddress) -> None:
        """Implements ``CudaDriver.mem_free``; waits for all work of the context."""
        self._heap.holding(address, 1)
        self._device.drain()
        self._heap.end(self._heap.retire(address, self._handles.context, DONE))

    @seam_call("cuMemHostAlloc")
    def host_alloc(self, nbytes: int, *, mapped: bool = False) -> HostBlock:
        return self._device.host.allocate(nbytes, self._handles.context, mapped=mapped)

    @seam_call("cuMemHostGetDevicePointer")
    def host_device_address(self, block: HostBlock) -> int:
        """Implements ``CudaDriver.host_device_address``; it differs from the host's address."""
        return self._device.host.mapped_at(block.address, self._handles.context)

    @seam_call("cuMemFreeHost")
    def host_free(self, block: HostBlock) -> None:
        """Implements ``CudaDriver.host_free``; waits for all work of the context."""
        self._device.drain()
        self._device.host.free(block.address, self._handles.context)

    @seam_call("cuMemcpyHtoDAsync")
    def copy_to_device(self, target: DeviceAddress, source: HostAddress, nbytes: int, stream: int) -> None:
        queue = self._handles.stream(stream)
        work = self._device.copy_work(Direction.TO_DEVICE, target, source, nbytes)
        self._device.submit_work(queue, "copy_to_device", work)

    @seam_call("cuMemcpyDtoHAsync")
    def copy_to_host(self, target: HostAddress, source: DeviceAddress, nbytes: int, stream: int) -> None:
        """Implements ``CudaDriver.copy_to_host``; a copy to pageable memory is done when the call returns."""
        queue = self._handles.stream(stream)
        work = self._device.copy_work(Direction.TO_HOST, target, source, nbytes)
        self._device.submit_work(queue, "copy_to_host", work)

    @seam_call("cuMemcpyDtoDAsync")
    def copy_on_device(self, target: DeviceAddress, source: DeviceAddress, nbytes: int, stream: int) -> None:
        queue = self._handles.stream(stream)
        work = self._device.copy_work(Direction.ON_DEVICE, target, source, nbytes)
        self._device.submit_work(queue, "copy_on_device", work)

    @seam_call("cuMemsetD8Async")
    def memset8(self, target: DeviceAddress, value: int, nbytes: int, stream: int) -> None:
        queue = self._handles.stream(stream)
        self._device.submit_work(queue, "memset8", self._device.fill_work(target, value, nbytes))

    @seam_call("cuPointerGetAttributes")
    def pointer_facts(self, address: DeviceAddress) -> PointerFacts:
        return self._heap.facts(address)

    # ---- code
    @seam_call("cuLibraryLoadData")
    def library_load(self, image: bytes, options: JitOptions = DEFAULT_JIT) -> LoadedLibrary:
        """Implements the seam's ``library_load`` for PTX text; a cubin is refused."""
        handle = self._handles.new()
        self._handles.libraries[handle] = libraries.load(
            handle, image, options, self._device.preset, self.options.driver_version, self._device.memory
        )
        return LoadedLibrary(handle, "")

    @seam_call("cuLibraryUnload")
    def library_unload(self, library: int) -> None:
        """Implements the seam's ``library_unload``; unloading code with pending launches is recorded as a violation."""
        loaded = self._handles.library(library)
        if self._device.scheduler.uses(library):
            self._device.journal.violate(ViolationKind.UNLOADED, f"library {library:#x} unloaded with launches pending")
        self._device.unload(loaded)

    @seam_call("cuLibraryGetKernel")
    def library_kernel(self, library: int, name: str) -> int:
        loaded = self._handles.library(library)
        kernel = loaded.kernels.get(name)
        if kernel is not None:
            return kernel
        handle = self._handles.new()
        self._handles.kernels[handle] = libraries.kernel_of(handle, loaded, name, self._device.preset)
        loaded.kernels[name] = handle
        return handle

    @seam_call("cuKernelGetAttribute")
    def kernel_facts(self, kernel: int) -> KernelFacts:
        """Implements ``CudaDriver.kernel_facts``; the number of registers is an estimate."""
        return libraries.facts(self._handles.kernel(kernel), self._device.preset)

    @seam_call("cuKernelSetAttribute")
    def kernel_allow_dynamic_shared(self, kernel: int, nbytes: int) -> None:
        libraries.allow_dynamic_shared(self._handles.kernel(kernel), nbytes, self._device.preset)

    @seam_call("cuOccupancyMaxActiveBlocksPerMultiprocessor")
    def occupancy(self, kernel: int, threads: int, dynamic_shared: int) -> int:
        return libraries.resident_blocks(self._handles.kernel(kernel), threads, dynamic_shared, self._device.preset)

    def prepare_launch(self, kernel: int, shape: LaunchShape, stream: int, parameters: ParameterBlock) -> Launcher:
        """Returns a launcher; every check is made when it is called."""
        return lambda: self._launch(kernel, shape, stream, parameters)

    @seam_call("cuLaunchKernelEx", method="launch")
    def _launch(self, kernel: int, shape: LaunchShape, stream: int, parameters: ParameterBlock) -> None:
        queue = self._handles.stream(stream)
        work = self._device.launch_work(kernel, shape, parameters)
        self._device.submit_work(queue, "launch", work)

    # ---- graphs
    @seam_call("cuGraphCreate")
    def graph_create(self) -> int:
        handle = self._handles.new()
        self._handles.graphs[handle] = Graph(handle, self._handles.context)
        return handle

    @seam_call("cuGraphDestroy")
    def graph_destroy(self, graph: int) -> None:
        destroyed = self._handles.graph(graph)
        if destroyed.repeated:
            raise Status(Result.INVALID_VALUE, f"graph {graph:#x} belongs to a node of another one")
        del self._handles.graphs[graph]
        for work in work_within(destroyed.nodes.values()):
            if isinstance(work, WhileWork):
                del self._handles.graphs[work.body.handle]

    @seam_call("cuGraphAddMemcpyNode")
    def graph_add_copy_to_device(
        self, graph: int, after: Sequence[int], target: DeviceAddress, source: HostAddress, nbytes: int
    ) -> int:
        return self._device.add(graph, after, self._device.copy_work(Direction.TO_DEVICE, target, source, nbytes))

    @seam_call("cuGraphAddMemcpyNode")
    def graph_add_copy_to_host(
        self, graph: int, after: Sequence[int], target: HostAddress, source: DeviceAddress, nbytes: int
    ) -> int:
        return self._device.add(graph, after, self._device.copy_work(Direction.TO_HOST, target, source, nbytes))

    @seam_call("cuGraphAddMemsetNode")
    def graph_add_memset8(
        self, graph: int, after: Sequence[int], target: DeviceAddress, value: int, nbytes: int
    ) -> int:
        return self._device.add(graph, after, self._device.fill_work(target, value, nbytes))

    @seam_call("cuGraphAddKernelNode")
    def graph_add_kernel(
        self, graph: int, after: Sequence[int], kernel: int, shape: LaunchShape, parameters: ParameterBlock
    ) -> int:
        return self._device.add(graph, after, self._device.launch_work(kernel, shape, parameters))

    @seam_call("cuGraphAddEventRecordNode")
    def graph_add_event_record(self, graph: int, after: Sequence[int], event: int) -> int:
        return self._device.add(graph, after, RecordWork(self._handles.own_event(event)))

    @seam_call("cuGraphConditionalHandleCreate")
    def graph_condition(self, graph: int) -> int:
        """Implements ``CudaDriver.graph_condition``: the handle is the address of the condition."""
        owner = self._handles.graph(graph)
        if self.options.driver_version < _CONDITIONS_SINCE:
            raise Status(Result.NOT_SUPPORTED, f"driver {self.options.driver_version} has no conditional nodes")
        condition = self._device.memory.allocate(4)
        owner.conditions.add(condition)
        return condition

    @seam_call("cuGraphAddNode")
    def graph_add_while(self, graph: int, after: Sequence[int], condition: int) -> WhileNode:
        outer = self._handles.graph(graph)
        if condition not in outer.conditions:
            raise Status(Result.INVALID_VALUE, f"{condition:#x} is no free condition of the graph")
        body = Graph(self._handles.new(), self._handles.context, repeated=True)
        node = self._device.add(graph, after, WhileWork(condition, body))
        outer.conditions.discard(condition)
        self._handles.graphs[body.handle] = body
        return WhileNode(node, body.handle)

    @seam_call("cuGraphInstantiate")
    def graph_instantiate(self, graph: int) -> int:
        template = self._handles.graph(graph)
        if template.repeated or template.conditions:
            raise Status(Result.INVALID_VALUE, f"graph {graph:#x} is the body of a loop, or has an unused condition")
        handle = self._handles.new()
        self._handles.executables[handle] = Executable.of(handle, template)
        return handle

    @seam_call("cuGraphUpload")
    def graph_upload(self, executable: int, stream: int) -> None:
        self._handles.executable(executable)
        self._device.submit(self._handles.stream(stream), Operation(name="graph_upload"))

    @seam_call("cuGraphExecDestroy")
    def graph_exec_destroy(self, executable: int) -> None:
        del self._handles.executables[self._handles.executable(executable).handle]

    @seam_call("cuGraphExecKernelNodeSetParams")
    def graph_update_kernel(
        self, executable: int, node: int, kernel: int, shape: LaunchShape, parameters: ParameterBlock
    ) -> None:
        self._handles.executable(executable).update(node, self._device.launch_work(kernel, shape, parameters))

    def prepare_graph_launch(self, executable: int, stream: int) -> Launcher:
        """Returns a launcher; every check is made when it is called."""
        return lambda: self._graph_launch(executable, stream)

    @seam_call("cuGraphLaunch", method="graph_launch")
    def _graph_launch(self, executable: int, stream: int) -> None:
        self._device.submit_graph(self._handles.executable(executable), self._handles.stream(stream))

    def _preset_of(self, ordinal: int) -> DevicePreset:
        if ordinal != 0:
            raise Status(Result.INVALID_DEVICE, f"no device {ordinal}; there is one")
        return self._device.preset
