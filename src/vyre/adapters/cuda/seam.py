"""The driver seam: all that the runtime asks of a CUDA driver.

Two adapters implement it: ``driver.RealDriver`` over the driver API and ``machine.MachineDriver``, which emulates
one.  One suite of cases (``tests/contract``) runs on both.

Rules
    * Handles and addresses are plain integers; 0 is never a handle.  Every stream is non-blocking; stream 0 (the
      legacy stream) is refused.
    * A call that fails raises ``CudaCallError`` with the driver's own code; nothing else leaves the seam.
    * Calls need a current context in the calling thread (``set_current``), but ``init``, the ``device_*`` queries
      and the primary context's.
    * Copies and memsets are ordered on their stream.  Host memory from ``host_alloc`` is *pinned*: a copy from it
      reads when the stream gets there, so it must not change before.  Other host memory is *pageable*: a copy
      from it has read it when the call returns.
    * Kernel parameters are copied when the launch is called or the node added, never later.
    * No call starts once the interpreter is finalising, or in a process forked after ``init``.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from vyre.domain.names import Dim3
from vyre.domain.races import LanePlace

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
Launcher: TypeAlias = "Callable[[], None]"
"""A prepared launch: call it to enqueue.  Raises ``CudaCallError``; one thread at a time."""

KEEP_ALL: Final = 2**64 - 1
"""Release threshold of a pool that returns memory to the system only when trimmed."""


class FoundAccess(NamedTuple):
    """What a lane was doing: ``kind`` is ``load``, ``store`` or ``atomic``, or empty for what accesses no memory.

    ``line`` is 1-based in the loaded text, None where it is not known any more.
    """

    kind: str
    line: int | None
    lane: LanePlace


class KernelFinding(NamedTuple):
    """What a driver that watches kernels can tell of one that it stopped.

    ``accesses`` are in the order in which they happened; the last one stopped the kernel.  ``address`` is that of the
    element, in ``space``: ``global``, or ``shared``, where it counts from the start of the block's area; None where no
    memory is accessed.  ``parameters`` is the launch's parameter block, ``read`` reads device memory as it is now:
    (address, bytes) to bytes.
    """

    entry: str
    accesses: tuple[FoundAccess, ...]
    space: str
    address: int | None
    parameters: bytes
    read: Callable[[DeviceAddress, int], bytes]


class CudaCallError(Exception):
    """A driver call that failed.

    ``code`` and ``name`` are the driver's (2, ``CUDA_ERROR_OUT_OF_MEMORY``); ``call`` is the function,
    ``arguments`` what it was given; ``log`` is the driver's own log (or the JIT's), empty if it has none.
    ``finding``: about the kernel at fault, of a driver that watches kernels; it is not pickled.
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
        given = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        super().__init__(f"{call}({given}) failed with {name} ({code})" + (f": {log}" if log else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.name, self.call, self.arguments, self.log)


class KernelDiagnosis(CudaCallError):
    """A kernel was stopped at a defect that hardware would not notice; what was enqueued behind it did not compute.

    All work that the failed call asked about has ended, and the device is as usable as before.
    """


class LaunchShape(NamedTuple):
    """``grid`` in blocks, ``block`` in threads, ``dynamic_shared`` in bytes for each block.

    ``race_check``: look for data races; only on a driver that ``checks_races``.
    """

    grid: Dim3
    block: Dim3
    dynamic_shared: int = 0
    cooperative: bool = False
    race_check: bool = False


class ParameterSlot(NamedTuple):
    """Place of one kernel parameter in the block: bytes, naturally aligned; ``format`` as in ``struct``."""

    offset: int
    size: int
    format: str


class ParameterBlock:
    """The parameters of one launch, packed as the kernel declares them, at a fixed address.

    Made once and rewritten in place: ``pack`` is ``struct.Struct.pack_into`` bound to the whole block, in slot
    order.  ``pointers`` is the address of the array of parameter addresses that the driver API takes.
    Not for two threads at once, nor to be changed between two launches that one driver call reads.
    """

    __slots__ = ("_keep", "address", "buffer", "pack", "pointers", "slots")

    def __init__(self, slots: Sequence[ParameterSlot]) -> None:
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
        """Bytes of the parameter space in use."""
        return max((slot.offset + slot.size for slot in self.slots), default=0)


class HostBlock(NamedTuple):
    """Pinned host memory: its address, and a writable view of it that is valid until ``host_free``."""

    address: HostAddress
    view: memoryview


class MemoryInfo(NamedTuple):
    free: int
    total: int


class PoolUse(NamedTuple):
    """Bytes of a pool: in live allocations, and taken from the device."""

    used: int
    reserved: int


class PointerFacts(NamedTuple):
    """The allocation that holds an address, and the ordinal of its device; ``managed`` memory can migrate."""

    base: DeviceAddress
    nbytes: int
    device: int
    managed: bool


class KernelFacts(NamedTuple):
    """What the loaded code needs.  Sizes in bytes, versions as ``10 * major + minor``; ``parameters`` are
    (offset, size) in declaration order, None where the driver cannot tell."""

    registers: int
    static_shared: int
    local_bytes: int
    constant_bytes: int
    max_threads: int
    ptx_version: int
    binary_version: int
    parameters: tuple[tuple[int, int], ...] | None


class JitOptions(NamedTuple):
    """``level``: 0 to 4 (the default of the driver).  Options that change floating-point results do not exist."""

    level: int | None = None
    max_registers: int | None = None
    verbose: bool = False


DEFAULT_JIT: Final = JitOptions()


class LoadedLibrary(NamedTuple):
    library: Library
    log: str


class CudaDriver(Protocol):
    """The driver API, reduced.  See the module for the rules."""

    @property
    def name(self) -> str:
        """What errors and reports call it: ``cuda`` or ``cuda-machine``."""
        ...

    @property
    def checks_races(self) -> bool:
        """Whether launches can be watched for data races."""
        ...

    # ---- start and devices
    def init(self) -> None: ...
    def driver_version(self) -> int:
        """``1000 * major + 10 * minor``."""
        ...

    def device_count(self) -> int: ...
    def device_name(self, ordinal: int) -> str: ...
    def device_uuid(self, ordinal: int) -> bytes: ...
    def device_memory(self, ordinal: int) -> int:
        """Bytes in all."""
        ...

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        """By the driver's number (``CUdevice_attribute``)."""
        ...

    # ---- contexts
    def primary_retain(self, ordinal: int) -> Context: ...
    def primary_release(self, ordinal: int) -> None: ...
    def primary_reset(self, ordinal: int) -> None: ...
    def context_create(self, ordinal: int) -> Context: ...
    def context_destroy(self, context: Context) -> None: ...
    def set_current(self, context: Context) -> None: ...
    def context_synchronize(self) -> None: ...

    # ---- streams and events
    def stream_create(self, priority: int = 0) -> Stream: ...
    def stream_destroy(self, stream: Stream) -> None: ...
    def stream_synchronize(self, stream: Stream) -> None: ...
    def stream_ready(self, stream: Stream) -> bool: ...
    def stream_wait_event(self, stream: Stream, event: Event) -> None: ...
    def event_create(self, *, timing: bool = False, blocking: bool = False) -> Event: ...
    def event_destroy(self, event: Event) -> None: ...
    def event_record(self, event: Event, stream: Stream) -> None: ...
    def event_ready(self, event: Event) -> bool: ...
    def event_synchronize(self, event: Event) -> None: ...
    def event_elapsed_ms(self, start: Event, end: Event) -> float: ...

    # ---- memory
    def memory_info(self) -> MemoryInfo: ...
    def pool_create(self, ordinal: int, *, release_threshold: int = KEEP_ALL, max_bytes: int = 0) -> Pool:
        """``max_bytes`` 0: no limit but the device's."""
        ...

    def pool_destroy(self, pool: Pool) -> None: ...
    def pool_trim(self, pool: Pool, keep: int = 0) -> None: ...
    def pool_use(self, pool: Pool) -> PoolUse: ...
    def mem_alloc_async(self, nbytes: int, pool: Pool, stream: Stream) -> DeviceAddress: ...
    def mem_free_async(self, address: DeviceAddress, stream: Stream) -> None: ...
    def mem_alloc(self, nbytes: int) -> DeviceAddress:
        """Not stream-ordered; only where ``MEMORY_POOLS_SUPPORTED`` is 0."""
        ...

    def mem_free(self, address: DeviceAddress) -> None: ...
    def host_alloc(self, nbytes: int) -> HostBlock: ...
    def host_free(self, block: HostBlock) -> None: ...
    def copy_to_device(self, target: DeviceAddress, source: HostAddress, nbytes: int, stream: Stream) -> None: ...
    def copy_to_host(self, target: HostAddress, source: DeviceAddress, nbytes: int, stream: Stream) -> None: ...
    def copy_on_device(self, target: DeviceAddress, source: DeviceAddress, nbytes: int, stream: Stream) -> None: ...
    def memset8(self, target: DeviceAddress, value: int, nbytes: int, stream: Stream) -> None: ...
    def pointer_facts(self, address: DeviceAddress) -> PointerFacts: ...

    # ---- code
    def library_load(self, image: bytes, options: JitOptions = DEFAULT_JIT) -> LoadedLibrary:
        """``image``: PTX text ending in NUL, or a cubin.  The JIT's log is in the result, or in the error."""
        ...

    def library_unload(self, library: Library) -> None: ...
    def library_kernel(self, library: Library, name: str) -> Kernel: ...
    def kernel_facts(self, kernel: Kernel) -> KernelFacts: ...
    def kernel_allow_dynamic_shared(self, kernel: Kernel, nbytes: int) -> None: ...
    def occupancy(self, kernel: Kernel, threads: int, dynamic_shared: int) -> int:
        """Blocks that one multiprocessor can hold at once."""
        ...

    def prepare_launch(
        self, kernel: Kernel, shape: LaunchShape, stream: Stream, parameters: ParameterBlock
    ) -> Launcher: ...

    # ---- graphs
    def graph_create(self) -> Graph: ...
    def graph_destroy(self, graph: Graph) -> None: ...
    def graph_add_copy_to_device(
        self, graph: Graph, after: Sequence[GraphNode], target: DeviceAddress, source: HostAddress, nbytes: int
    ) -> GraphNode: ...
    def graph_add_copy_to_host(
        self, graph: Graph, after: Sequence[GraphNode], target: HostAddress, source: DeviceAddress, nbytes: int
    ) -> GraphNode: ...
    def graph_add_memset8(
        self, graph: Graph, after: Sequence[GraphNode], target: DeviceAddress, value: int, nbytes: int
    ) -> GraphNode: ...
    def graph_add_kernel(
        self,
        graph: Graph,
        after: Sequence[GraphNode],
        kernel: Kernel,
        shape: LaunchShape,
        parameters: ParameterBlock,
    ) -> GraphNode: ...
    def graph_add_event_record(self, graph: Graph, after: Sequence[GraphNode], event: Event) -> GraphNode: ...
    def graph_instantiate(self, graph: Graph) -> GraphExec: ...
    def graph_upload(self, executable: GraphExec, stream: Stream) -> None: ...
    def graph_exec_destroy(self, executable: GraphExec) -> None: ...
    def graph_update_kernel(
        self, executable: GraphExec, node: GraphNode, kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock
    ) -> None:
        """The node's cooperative attribute cannot change, nor its context."""
        ...

    def prepare_graph_launch(self, executable: GraphExec, stream: Stream) -> Launcher: ...
