"""The driver seam: the protocol through which the runtime calls a CUDA driver.

Two adapters implement it: ``driver.RealDriver`` calls the driver API, ``machine.MachineDriver`` emulates one.  One
suite of cases (``tests/contract``) runs on both.

Rules
    * Handles and addresses are plain integers; 0 is never a handle.  Every stream is non-blocking; stream 0 (the
      legacy stream) is refused.
    * A call that fails raises ``CudaCallError`` with the driver's own code; no other exception leaves the seam.
    * Calls need a current context in the calling thread (``set_current``), except ``init``, the ``device_*`` queries
      and the calls about the primary context.
    * Copies and memsets are ordered on their stream.  Host memory from ``host_alloc`` is *pinned*: a copy from it
      reads it when the stream reaches the copy, so it must not change before.  Other host memory is *pageable*: a copy
      from it has read it when the call returns.
    * Kernel parameters are copied when the launch is called or the node is added, never later.
    * No call starts once the interpreter is finalising, or in a process forked after ``init``.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from vyre.domain.names import Dim3
from vyre.domain.races import LanePlace
from vyre.domain.unique import Unique

Context: TypeAlias = int
Stream: TypeAlias = int
Event: TypeAlias = int
Pool: TypeAlias = int
DeviceAddress: TypeAlias = int
HostAddress: TypeAlias = int
Library: TypeAlias = int
Kernel: TypeAlias = int
Graph: TypeAlias = int
GraphNode: TypeAlias = int
GraphExec: TypeAlias = int
Condition: TypeAlias = int
Launcher: TypeAlias = "Callable[[], None]"
"""A prepared launch: calling it enqueues the launch.  It raises ``CudaCallError``; one thread at a time may call it."""

KEEP_ALL: Final = 2**64 - 1
"""The release threshold, in bytes, of a pool that returns memory to the system only when it is trimmed."""


class FoundAccess(NamedTuple):
    """A memory access of one lane: ``kind`` is ``load``, ``store`` or ``atomic``, or empty for an instruction that
    accesses no memory.

    ``line`` is the 1-based line of the loaded text, or None where it is no longer known.
    """

    kind: str
    line: int | None
    lane: LanePlace


class KernelFinding(NamedTuple):
    """The report of a driver that watches kernels about a kernel that it stopped.

    ``accesses`` are in the order in which they happened; the last one stopped the kernel.  ``address`` is that of the
    element in ``space``, which is ``global`` or ``shared`` (then it counts from the start of the block's area); it is
    None where no memory is accessed.  ``parameters`` is the launch's parameter block.  ``read(address, nbytes)``
    returns bytes of device memory as it is now.
    """

    entry: str
    accesses: tuple[FoundAccess, ...]
    space: str
    address: int | None
    parameters: bytes
    read: Callable[[DeviceAddress, int], bytes]


class CudaCallError(Exception):
    """A driver call that failed.

    ``code`` and ``name`` are the driver's (2, ``CUDA_ERROR_OUT_OF_MEMORY``); ``call`` is the function and ``arguments``
    are its arguments; ``log`` is the log of the driver or of its JIT, empty if there is none.  ``finding`` describes
    the kernel at fault if the driver watches kernels; it is not pickled.
    """

    def __init__(
        self,
        code: int,
        name: str,
        call: str,
        arguments: Mapping[str, object] | None = None,
        log: str = "",
        finding: KernelFinding | None = None,
    ) -> None:
        self.code: int = code
        self.name: str = name
        self.call: str = call
        self.log: str = log
        self.finding: KernelFinding | None = finding
        self.arguments: Mapping[str, object] = dict(arguments or {})
        arguments_text = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        super().__init__(f"{call}({arguments_text}) failed with {name} ({code})" + (f": {log}" if log else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.name, self.call, self.arguments, self.log)


class KernelDiagnosis(CudaCallError):
    """A kernel was stopped at a defect that hardware would not notice; the work enqueued behind it computed nothing.

    All work that the failed call waited for has ended, and the device is as usable as before.
    """


class LaunchShape(NamedTuple):
    """The geometry of a launch: ``grid`` in blocks, ``block`` in threads, ``dynamic_shared`` in bytes per block.

    ``race_check`` makes the driver look for data races; only drivers whose ``checks_races`` is true can.
    """

    grid: Dim3
    block: Dim3
    dynamic_shared: int = 0
    cooperative: bool = False
    race_check: bool = False


class ParameterPlace(NamedTuple):
    """The place of one kernel parameter in the block: ``offset`` and ``size`` in bytes, naturally aligned, and its
    ``struct`` format.
    """

    offset: int
    size: int
    format: str


class ParameterBlock(Unique):
    """The parameters of one launch, packed as the kernel declares them, at a fixed address.

    A block is made once and rewritten in place: ``pack`` is ``struct.Struct.pack_into`` bound to the whole block, in
    slot order.  ``pointers`` is the address of the array of parameter addresses that the driver API takes.  Two threads
    must not use a block at once, and it must not change between two launches that one driver call reads.
    """

    __slots__ = ("_keep", "address", "buffer", "pack", "pointers", "slots")

    def __init__(self, slots: Sequence[ParameterPlace]) -> None:
        self.slots: Final = tuple(slots)
        layout, end = "<", 0
        for slot in self.slots:
            layout += f"{gap}x{slot.format}" if (gap := slot.offset - end) else slot.format
            end = slot.offset + slot.size
        packer = struct.Struct(layout)
        self.buffer: Final = bytearray(max(1, packer.size))
        memory = (ctypes.c_char * len(self.buffer)).from_buffer(self.buffer)
        self.address: Final = ctypes.addressof(memory)
        array = (ctypes.c_void_p * max(1, len(self.slots)))(*[self.address + slot.offset for slot in self.slots])
        self.pointers: Final = ctypes.addressof(array)
        self._keep = (memory, array)
        self.pack: Final[Callable[..., None]] = partial(packer.pack_into, self.buffer, 0)

    @property
    def nbytes(self) -> int:
        """Returns the number of bytes of the parameter space that are in use."""
        return max((slot.offset + slot.size for slot in self.slots), default=0)


class HostBlock(NamedTuple):
    """Pinned host memory: its address, and a writable view of it that is valid until ``host_free``."""

    address: HostAddress
    view: memoryview


class WhileNode(NamedTuple):
    """A node of a graph that repeats another graph: its ``body``."""

    node: GraphNode
    body: Graph


class MemoryInfo(NamedTuple):
    """Bytes of device memory that are ``free``, and in ``total``."""

    free: int
    total: int


class PoolUse(NamedTuple):
    """Bytes of a pool that are in live allocations (``used``), and that it has taken from the device (``reserved``)."""

    used: int
    reserved: int


class PointerFacts(NamedTuple):
    """The allocation that contains an address: its first address, its size in bytes and the ordinal of its device.

    ``managed`` memory can migrate between host and device.
    """

    base: DeviceAddress
    nbytes: int
    device: int
    managed: bool


class KernelFacts(NamedTuple):
    """The resources that loaded code needs.

    Sizes are in bytes and versions are ``10 * major + minor``.  ``parameters`` holds (offset, size) per parameter in
    declaration order, or None where the driver cannot report them.
    """

    registers: int
    static_shared: int
    local_bytes: int
    constant_bytes: int
    max_threads: int
    ptx_version: int
    binary_version: int
    parameters: tuple[tuple[int, int], ...] | None


class JitOptions(NamedTuple):
    """Options of the driver's JIT compiler: ``level`` is the optimization level, 0 to 4; None leaves the default, 4.

    ``max_registers`` limits the registers per thread, and ``verbose`` makes the JIT write a longer log.  There are no
    options that change floating-point results.
    """

    level: int | None = None
    max_registers: int | None = None
    verbose: bool = False


DEFAULT_JIT: Final = JitOptions()


class LoadedLibrary(NamedTuple):
    """The handle of a loaded library, and the log that the JIT wrote while loading it."""

    library: Library
    log: str


class CudaDriver(Protocol):
    """The part of the driver API that the runtime needs.  The module's docstring has the rules for every method."""

    @property
    def name(self) -> str:
        """Returns the name of the driver in errors and reports: ``cuda`` or ``cuda-machine``."""

    @property
    def lock(self) -> threading.RLock | None:
        """The lock that its calls hold while they run Python, where a finaliser may come; None for the driver of the
        system.
        """

    @property
    def checks_races(self) -> bool:
        """Whether launches can be watched for data races."""

    # ---- start and devices
    def init(self) -> None:
        """Initialises the driver; later calls do nothing."""

    def driver_version(self) -> int:
        """Returns the driver's CUDA version as ``1000 * major + 10 * minor``."""

    def device_count(self) -> int:
        """Returns the number of devices that the process sees."""

    def device_name(self, ordinal: int) -> str:
        """Returns the product name of a device."""

    def device_uuid(self, ordinal: int) -> bytes:
        """Returns the 16 bytes that identify a device."""

    def device_memory(self, ordinal: int) -> int:
        """Returns the total memory of a device in bytes."""

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        """Returns an attribute of a device by the driver's number for it (``CUdevice_attribute``)."""

    # ---- contexts
    def primary_retain(self, ordinal: int) -> Context:
        """Returns the primary context of a device and adds a reference to it."""

    def primary_release(self, ordinal: int) -> None:
        """Drops one reference to the primary context of a device."""

    def primary_reset(self, ordinal: int) -> None:
        """Destroys everything in the primary context of a device, for every library in the process."""

    def context_create(self, ordinal: int) -> Context:
        """Creates a context on a device, apart from the primary one, and returns it."""

    def context_destroy(self, context: Context) -> None:
        """Destroys a context that ``context_create`` returned."""

    def set_current(self, context: Context) -> None:
        """Makes a context current in the calling thread."""

    def context_synchronize(self) -> None:
        """Waits until all work of the current context has ended."""

    # ---- streams and events
    def stream_create(self, priority: int = 0) -> Stream:
        """Creates a non-blocking stream; a lower ``priority`` number is served first."""

    def stream_destroy(self, stream: Stream) -> None:
        """Destroys a stream; work that is queued on it still runs."""

    def stream_synchronize(self, stream: Stream) -> None:
        """Waits until all work queued on a stream has ended."""

    def stream_ready(self, stream: Stream) -> bool:
        """Returns whether all work queued on a stream has ended, without waiting."""

    def abandon(self, stream: Stream) -> None:
        """Notes that nobody waits for what is queued on a stream.  It is no call of the API, where work then goes on;
        an emulated device ends it soon.
        """

    def stream_wait_event(self, stream: Stream, event: Event) -> None:
        """Makes later work on ``stream`` wait for the last recording of ``event``."""

    def event_create(self, *, timing: bool = False, blocking: bool = False) -> Event:
        """Creates an event.

        ``timing`` allows ``event_elapsed_ms`` on it; ``blocking`` makes a thread that waits for it sleep.
        """

    def event_destroy(self, event: Event) -> None:
        """Destroys an event."""

    def event_record(self, event: Event, stream: Stream) -> None:
        """Records an event on a stream: it completes when the work queued there before it has ended."""

    def event_ready(self, event: Event) -> bool:
        """Returns whether the last recording of an event has completed, without waiting."""

    def event_synchronize(self, event: Event) -> None:
        """Waits until the last recording of an event has completed."""

    def event_elapsed_ms(self, start: Event, end: Event) -> float:
        """Returns the milliseconds of device time between two completed events made with ``timing``."""

    # ---- memory
    def memory_info(self) -> MemoryInfo:
        """Returns the free and the total bytes of the current context's device."""

    def pool_create(self, ordinal: int, *, release_threshold: int = KEEP_ALL, max_bytes: int = 0) -> Pool:
        """Creates a memory pool on a device.

        The pool keeps up to ``release_threshold`` free bytes when a stream synchronises.  It takes at most
        ``max_bytes`` from the device; 0 means no limit except the device's.
        """

    def pool_destroy(self, pool: Pool) -> None:
        """Destroys a pool; its memory is returned once its allocations have been freed."""

    def pool_trim(self, pool: Pool, keep: int = 0) -> None:
        """Returns unused memory of a pool to the system until at most ``keep`` bytes are reserved."""

    def pool_use(self, pool: Pool) -> PoolUse:
        """Returns the bytes of a pool that are in use and reserved."""

    def mem_alloc_async(self, nbytes: int, pool: Pool, stream: Stream) -> DeviceAddress:
        """Allocates ``nbytes`` from a pool in the order of a stream, and returns their address."""

    def mem_free_async(self, address: DeviceAddress, stream: Stream) -> None:
        """Frees memory once the stream reaches this call."""

    def mem_alloc(self, nbytes: int) -> DeviceAddress:
        """Allocates ``nbytes`` outside any stream's order; used only where ``MEMORY_POOLS_SUPPORTED`` is 0."""

    def mem_free(self, address: DeviceAddress) -> None:
        """Frees memory at once; the driver waits for work that may use it."""

    def host_alloc(self, nbytes: int, *, mapped: bool = False) -> HostBlock:
        """Allocates ``nbytes`` of pinned host memory.  ``mapped``: kernels can use it at ``host_device_address``."""

    def host_device_address(self, block: HostBlock) -> DeviceAddress:
        """Returns the address at which kernels read and write a mapped block, also while the host does.

        Copies and memsets take the block's host address instead.
        """

    def host_free(self, block: HostBlock) -> None:
        """Frees pinned host memory; its view is invalid from then on."""

    def copy_to_device(self, target: DeviceAddress, source: HostAddress, nbytes: int, stream: Stream) -> None:
        """Enqueues a copy of ``nbytes`` bytes from host to device memory."""

    def copy_to_host(self, target: HostAddress, source: DeviceAddress, nbytes: int, stream: Stream) -> None:
        """Enqueues a copy of ``nbytes`` bytes from device to host memory."""

    def copy_on_device(self, target: DeviceAddress, source: DeviceAddress, nbytes: int, stream: Stream) -> None:
        """Enqueues a copy of ``nbytes`` bytes within device memory."""

    def memset8(self, target: DeviceAddress, value: int, nbytes: int, stream: Stream) -> None:
        """Enqueues a fill of ``nbytes`` bytes with the byte ``value``."""

    def pointer_facts(self, address: DeviceAddress) -> PointerFacts:
        """Returns the allocation that contains ``address``.  Raises ``CudaCallError`` if there is none."""

    # ---- code
    def library_load(self, image: bytes, options: JitOptions = DEFAULT_JIT) -> LoadedLibrary:
        """Loads PTX text that ends in NUL, or a cubin.  The JIT's log is in the result, or in the error."""

    def library_unload(self, library: Library) -> None:
        """Unloads a library and invalidates its kernels."""

    def library_kernel(self, library: Library, name: str) -> Kernel:
        """Returns the kernel of a library by the name of its entry."""

    def kernel_facts(self, kernel: Kernel) -> KernelFacts:
        """Returns the resources that a kernel needs on the current context's device."""

    def kernel_allow_dynamic_shared(self, kernel: Kernel, nbytes: int) -> None:
        """Allows launches of a kernel with up to ``nbytes`` of dynamic shared memory per block."""

    def occupancy(self, kernel: Kernel, threads: int, dynamic_shared: int) -> int:
        """Returns the number of blocks of ``threads`` threads that one multiprocessor can hold at once."""

    def prepare_launch(
        self, kernel: Kernel, shape: LaunchShape, stream: Stream, parameters: ParameterBlock
    ) -> Launcher:
        """Returns a launcher of a kernel on a stream; it reads ``parameters`` at each call."""

    # ---- graphs
    def graph_create(self) -> Graph:
        """Creates an empty graph."""

    def graph_destroy(self, graph: Graph) -> None:
        """Destroys a graph; executables made from it stay valid."""

    def graph_add_copy_to_device(
        self, graph: Graph, after: Sequence[GraphNode], target: DeviceAddress, source: HostAddress, nbytes: int
    ) -> GraphNode:
        """Adds a copy from host to device memory that runs after the nodes ``after``, and returns its node."""

    def graph_add_copy_to_host(
        self, graph: Graph, after: Sequence[GraphNode], target: HostAddress, source: DeviceAddress, nbytes: int
    ) -> GraphNode:
        """Adds a copy from device to host memory that runs after the nodes ``after``, and returns its node."""

    def graph_add_memset8(
        self, graph: Graph, after: Sequence[GraphNode], target: DeviceAddress, value: int, nbytes: int
    ) -> GraphNode:
        """Adds a fill of ``nbytes`` bytes with the byte ``value``, and returns its node."""

    def graph_add_kernel(
        self, graph: Graph, after: Sequence[GraphNode], kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock
    ) -> GraphNode:
        """Adds a launch with the parameters as they are now, and returns its node."""

    def graph_add_event_record(self, graph: Graph, after: Sequence[GraphNode], event: Event) -> GraphNode:
        """Adds the recording of an event, and returns its node."""

    def graph_condition(self, graph: Graph) -> Condition:
        """Makes a condition of a graph, for one ``while`` node.  It is 1 when a launch of the graph begins.

        A kernel sets it with ``cudaGraphSetConditional``.  Drivers before 12.4 answer ``NOT_SUPPORTED``.
        """

    def graph_add_while(self, graph: Graph, after: Sequence[GraphNode], condition: Condition) -> WhileNode:
        """Adds a node that runs its body graph again and again, as long as the condition is not 0 before a round.

        The body is empty yet.  It belongs to the graph, and takes no recording of events.
        """

    def graph_instantiate(self, graph: Graph) -> GraphExec:
        """Makes an executable from a graph; later changes to the graph do not affect it."""

    def graph_upload(self, executable: GraphExec, stream: Stream) -> None:
        """Enqueues the transfer of an executable to the device, so that its first launch need not do it."""

    def graph_exec_destroy(self, executable: GraphExec) -> None:
        """Destroys an executable."""

    def graph_update_kernel(
        self, executable: GraphExec, node: GraphNode, kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock
    ) -> None:
        """Gives a kernel node of an executable a new shape and new parameters.

        The node's cooperative attribute and its context cannot change.
        """

    def prepare_graph_launch(self, executable: GraphExec, stream: Stream) -> Launcher:
        """Returns a launcher of an executable on a stream."""
