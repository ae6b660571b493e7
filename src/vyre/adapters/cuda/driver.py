"""The driver seam over ``cuda.bindings.driver``: one thin method per driver call.

Constructing a ``RealDriver`` loads nothing; ``init`` loads the driver library.  Objects of the bindings never leave
this file and ``driver_calls``: handles are integers, and a status that the bindings return becomes ``CudaCallError``.

No call starts in a process forked after ``init`` or while the interpreter finalises: every method passes one check for
both.  The launchers do not check, because the runtime has just done so before it calls one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Final

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.driver_calls import LOG_BYTES, DriverCalls
from vyre.adapters.cuda.seam import (
    DEFAULT_JIT,
    KEEP_ALL,
    Condition,
    Context,
    CudaCallError,
    CudaDriver,
    DeviceAddress,
    Event,
    Graph,
    GraphExec,
    GraphNode,
    HostAddress,
    HostBlock,
    JitOptions,
    Kernel,
    KernelFacts,
    Launcher,
    LaunchShape,
    Library,
    LoadedLibrary,
    MemoryInfo,
    ParameterBlock,
    PointerFacts,
    Pool,
    PoolUse,
    Stream,
    WhileNode,
)
from vyre.domain.unique import Unique

BINARY_IMAGES: Final = (b"\x7fELF", b"P\xed\x55\xba")
"""The first bytes of a cubin and of a fat binary; any other image is text."""
_NON_BLOCKING: Final = 1
_PORTABLE: Final = 1
_DEVICE_MAP: Final = 2
_BLOCKING_SYNC: Final = 1
_DISABLE_TIMING: Final = 2
_ASSIGN_AT_LAUNCH: Final = 1
_MAX_PARAMETERS: Final = 8192


class RealDriver(Unique, DriverCalls, CudaDriver):
    """The driver of this machine: a method calls the function of the bindings that it names.

    Every method may be called from any thread.
    """

    @property
    def lock(self) -> None:
        """Returns None: no Python runs in its calls."""

    @property
    def checks_races(self) -> bool:
        """Returns False: hardware does not watch for data races."""
        return False

    @property
    def name(self) -> str:
        """Returns ``cuda``."""
        return "cuda"

    # ---------------------------------------------------------------- start and devices
    def init(self) -> None:
        """Loads the driver library, at the first call, and calls ``cuInit``."""
        if self._api is None or self._pid != os.getpid():
            self._load()
        self._call("cuInit", 0, flags=0)
        if self._log_start is None:
            try:
                status, iterator = self._api.cuLogsCurrent(0)
            except Exception:  # drivers before 12.9
                return
            self._log_start = None if status else iterator

    def driver_version(self) -> int:
        return int(self._call("cuDriverGetVersion"))

    def device_count(self) -> int:
        return int(self._call("cuDeviceGetCount"))

    def device_name(self, ordinal: int) -> str:
        name: bytes = self._call("cuDeviceGetName", 256, self._device(ordinal), ordinal=ordinal)
        return name.split(b"\0", 1)[0].decode("utf-8", "replace")

    def device_uuid(self, ordinal: int) -> bytes:
        return bytes(self._call("cuDeviceGetUuid", self._device(ordinal), ordinal=ordinal).bytes)

    def device_memory(self, ordinal: int) -> int:
        return int(self._call("cuDeviceTotalMem", self._device(ordinal), ordinal=ordinal))

    def device_attribute(self, ordinal: int, attribute: int) -> int:
        kind = self._enum("CUdevice_attribute", attribute, "cuDeviceGetAttribute")
        return int(
            self._call("cuDeviceGetAttribute", kind, self._device(ordinal), attribute=attribute, ordinal=ordinal)
        )

    def _device(self, ordinal: int) -> Any:
        return self._call("cuDeviceGet", ordinal, ordinal=ordinal)

    def _enum(self, enumeration: str, value: int, call: str) -> Any:
        try:
            return getattr(self._api, enumeration)(value)
        except ValueError:
            self._fail(call, Result.INVALID_VALUE, {"value": value})

    # ---------------------------------------------------------------- contexts
    def primary_retain(self, ordinal: int) -> Context:
        return int(self._call("cuDevicePrimaryCtxRetain", self._device(ordinal), ordinal=ordinal))

    def primary_release(self, ordinal: int) -> None:
        self._call("cuDevicePrimaryCtxRelease", self._device(ordinal), ordinal=ordinal)

    def primary_reset(self, ordinal: int) -> None:
        self._call("cuDevicePrimaryCtxReset", self._device(ordinal), ordinal=ordinal)

    def context_create(self, ordinal: int) -> Context:
        return int(self._call("cuCtxCreate", None, 0, self._device(ordinal), ordinal=ordinal))

    def context_destroy(self, context: Context) -> None:
        self._call("cuCtxDestroy", context, context=context)

    def set_current(self, context: Context) -> None:
        self._call("cuCtxSetCurrent", context, context=context)

    def context_synchronize(self) -> None:
        self._call("cuCtxSynchronize")

    # ---------------------------------------------------------------- streams and events
    def stream_create(self, priority: int = 0) -> Stream:
        return int(self._call("cuStreamCreateWithPriority", _NON_BLOCKING, priority, priority=priority))

    def stream_destroy(self, stream: Stream) -> None:
        self._call("cuStreamDestroy", self._own_stream(stream, "cuStreamDestroy"), stream=stream)

    def stream_synchronize(self, stream: Stream) -> None:
        self._call("cuStreamSynchronize", self._own_stream(stream, "cuStreamSynchronize"), stream=stream)

    def stream_ready(self, stream: Stream) -> bool:
        return self._ready("cuStreamQuery", self._own_stream(stream, "cuStreamQuery"))

    def abandon(self, stream: Stream) -> None:
        """Does nothing: work on a GPU ends by itself."""

    def stream_wait_event(self, stream: Stream, event: Event) -> None:
        self._call(
            "cuStreamWaitEvent", self._own_stream(stream, "cuStreamWaitEvent"), event, 0, stream=stream, event=event
        )

    def event_create(self, *, timing: bool = False, blocking: bool = False) -> Event:
        flags = (0 if timing else _DISABLE_TIMING) | (_BLOCKING_SYNC if blocking else 0)
        return int(self._call("cuEventCreate", flags, flags=flags))

    def event_destroy(self, event: Event) -> None:
        self._call("cuEventDestroy", event, event=event)

    def event_record(self, event: Event, stream: Stream) -> None:
        self._call("cuEventRecord", event, self._own_stream(stream, "cuEventRecord"), event=event, stream=stream)

    def event_ready(self, event: Event) -> bool:
        return self._ready("cuEventQuery", event)

    def event_synchronize(self, event: Event) -> None:
        self._call("cuEventSynchronize", event, event=event)

    def event_elapsed_ms(self, start: Event, end: Event) -> float:
        return float(self._call("cuEventElapsedTime", start, end, start=start, end=end))

    def _own_stream(self, stream: Stream, call: str) -> Stream:
        """Returns ``stream``, and refuses the legacy stream, which synchronises with the streams of every library."""
        if not stream:
            self._check(call)
            self._fail(call, Result.INVALID_HANDLE, {"stream": stream}, "the legacy stream is refused")
        return stream

    def _ready(self, name: str, handle: int) -> bool:
        self._check(name)
        try:
            (status,) = getattr(self._api, name)(handle)
        except ValueError as error:
            self._fail_unlisted(name, error, {"handle": handle})
        if not status:
            return True
        if int(status) != Result.NOT_READY:
            self._fail(name, int(status), {"handle": handle})
        return False

    # ---------------------------------------------------------------- memory
    def memory_info(self) -> MemoryInfo:
        free, total = self._call("cuMemGetInfo")
        return MemoryInfo(int(free), int(total))

    def pool_create(self, ordinal: int, *, release_threshold: int = KEEP_ALL, max_bytes: int = 0) -> Pool:
        """Implements ``pool_create`` by ``cuMemPoolCreate``; a pool whose threshold cannot be set is
        destroyed.
        """
        self._check("cuMemPoolCreate")
        api = self._api
        properties = api.CUmemPoolProps()
        properties.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.handleTypes = api.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        properties.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = ordinal
        properties.maxSize = max_bytes
        pool = int(self._call("cuMemPoolCreate", properties, ordinal=ordinal, max_bytes=max_bytes))
        try:
            threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
            self._call("cuMemPoolSetAttribute", pool, threshold, api.cuuint64_t(release_threshold), pool=pool)
        except CudaCallError:
            api.cuMemPoolDestroy(pool)
            raise
        return pool

    def pool_destroy(self, pool: Pool) -> None:
        self._call("cuMemPoolDestroy", pool, pool=pool)

    def pool_trim(self, pool: Pool, keep: int = 0) -> None:
        self._call("cuMemPoolTrimTo", pool, keep, pool=pool, keep=keep)

    def pool_use(self, pool: Pool) -> PoolUse:
        self._check("cuMemPoolGetAttribute")
        kinds = self._api.CUmemPool_attribute
        wanted = (kinds.CU_MEMPOOL_ATTR_USED_MEM_CURRENT, kinds.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        used, reserved = (int(self._call("cuMemPoolGetAttribute", pool, kind, pool=pool)) for kind in wanted)
        return PoolUse(used, reserved)

    def mem_alloc_async(self, nbytes: int, pool: Pool, stream: Stream) -> DeviceAddress:
        own = self._own_stream(stream, "cuMemAllocFromPoolAsync")
        return int(self._call("cuMemAllocFromPoolAsync", nbytes, pool, own, nbytes=nbytes, pool=pool, stream=stream))

    def mem_free_async(self, address: DeviceAddress, stream: Stream) -> None:
        own = self._own_stream(stream, "cuMemFreeAsync")
        self._call("cuMemFreeAsync", address, own, address=address, stream=stream)

    def mem_alloc(self, nbytes: int) -> DeviceAddress:
        return int(self._call("cuMemAlloc", nbytes, nbytes=nbytes))

    def mem_free(self, address: DeviceAddress) -> None:
        self._call("cuMemFree", address, address=address)

    def host_alloc(self, nbytes: int, *, mapped: bool = False) -> HostBlock:
        flags = _PORTABLE | _DEVICE_MAP * mapped
        address = int(self._call("cuMemHostAlloc", nbytes, flags, nbytes=nbytes, mapped=mapped))
        return HostBlock(address, memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B"))

    def host_device_address(self, block: HostBlock) -> DeviceAddress:
        return int(self._call("cuMemHostGetDevicePointer", block.address, 0, address=block.address))

    def host_free(self, block: HostBlock) -> None:
        self._call("cuMemFreeHost", block.address, address=block.address)

    def copy_to_device(self, target: DeviceAddress, source: HostAddress, nbytes: int, stream: Stream) -> None:
        self._copy_on_stream("cuMemcpyHtoDAsync", target, source, nbytes, stream)

    def copy_to_host(self, target: HostAddress, source: DeviceAddress, nbytes: int, stream: Stream) -> None:
        self._copy_on_stream("cuMemcpyDtoHAsync", target, source, nbytes, stream)

    def copy_on_device(self, target: DeviceAddress, source: DeviceAddress, nbytes: int, stream: Stream) -> None:
        self._copy_on_stream("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def _copy_on_stream(self, call: str, target: int, source: int, nbytes: int, stream: Stream) -> None:
        own = self._own_stream(stream, call)
        self._call(call, target, source, nbytes, own, target=target, source=source, nbytes=nbytes, stream=stream)

    def memset8(self, target: DeviceAddress, value: int, nbytes: int, stream: Stream) -> None:
        own = self._own_stream(stream, "cuMemsetD8Async")
        self._call(
            "cuMemsetD8Async", target, value, nbytes, own, target=target, value=value, nbytes=nbytes, stream=stream
        )

    def pointer_facts(self, address: DeviceAddress) -> PointerFacts:
        self._check("cuPointerGetAttribute")
        kinds = self._api.CUpointer_attribute
        base, nbytes, device, managed = (
            int(self._call("cuPointerGetAttribute", kind, address, address=address))
            for kind in (
                kinds.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                kinds.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                kinds.CU_POINTER_ATTRIBUTE_IS_MANAGED,
            )
        )
        return PointerFacts(base, nbytes, device, bool(managed))

    # ---------------------------------------------------------------- code
    def library_load(self, image: bytes, options: JitOptions = DEFAULT_JIT) -> LoadedLibrary:
        self._check("cuLibraryLoadData")
        if not image.endswith(b"\0") and not image.startswith(BINARY_IMAGES):
            self._fail("cuLibraryLoadData", Result.INVALID_PTX, {"nbytes": len(image)}, "PTX text must end in NUL")
        kinds = self._api.CUjit_option
        errors, infos = bytearray(LOG_BYTES), bytearray(LOG_BYTES)  # the driver writes into them
        values: dict[Any, Any] = {
            kinds.CU_JIT_ERROR_LOG_BUFFER: errors,
            kinds.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: LOG_BYTES,
            kinds.CU_JIT_INFO_LOG_BUFFER: infos,
            kinds.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: LOG_BYTES,
            kinds.CU_JIT_LOG_VERBOSE: int(options.verbose),
        }
        if options.level is not None:
            values[kinds.CU_JIT_OPTIMIZATION_LEVEL] = options.level
        if options.max_registers is not None:
            values[kinds.CU_JIT_MAX_REGISTERS] = options.max_registers
        status, library = self._api.cuLibraryLoadData(
            image, list(values), list(values.values()), len(values), None, None, 0
        )
        if status:
            log = _text(errors) or _text(infos)
            self._fail("cuLibraryLoadData", int(status), {"nbytes": len(image), "options": options}, log)
        return LoadedLibrary(int(library), _text(infos))

    def library_unload(self, library: Library) -> None:
        self._call("cuLibraryUnload", library, library=library)

    def library_kernel(self, library: Library, name: str) -> Kernel:
        return int(self._call("cuLibraryGetKernel", library, name.encode(), library=library, kernel=name))

    def kernel_facts(self, kernel: Kernel) -> KernelFacts:
        device = self._call("cuCtxGetDevice")
        kinds = self._api.CUfunction_attribute

        def fact(name: str) -> int:
            kind = getattr(kinds, f"CU_FUNC_ATTRIBUTE_{name}")
            return int(self._call("cuKernelGetAttribute", kind, kernel, device, kernel=kernel, attribute=name))

        return KernelFacts(
            registers=fact("NUM_REGS"),
            static_shared=fact("SHARED_SIZE_BYTES"),
            local_bytes=fact("LOCAL_SIZE_BYTES"),
            constant_bytes=fact("CONST_SIZE_BYTES"),
            max_threads=fact("MAX_THREADS_PER_BLOCK"),
            ptx_version=fact("PTX_VERSION"),
            binary_version=fact("BINARY_VERSION"),
            parameters=self._parameters(kernel),
        )

    def _parameters(self, kernel: Kernel) -> tuple[tuple[int, int], ...] | None:
        """Returns (offset, size) of each parameter, or None where the driver cannot report them."""
        slots: list[tuple[int, int]] = []
        try:
            while len(slots) < _MAX_PARAMETERS:
                status, offset, size = self._api.cuKernelGetParamInfo(kernel, len(slots))
                if int(status) == Result.INVALID_VALUE:
                    return tuple(slots)
                if status:
                    return None
                slots.append((int(offset), int(size)))
        except (AttributeError, RuntimeError):  # drivers before 12.4
            return None
        return tuple(slots)

    def kernel_allow_dynamic_shared(self, kernel: Kernel, nbytes: int) -> None:
        device = self._call("cuCtxGetDevice")
        kind = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuKernelSetAttribute", kind, nbytes, kernel, device, kernel=kernel, nbytes=nbytes)

    def occupancy(self, kernel: Kernel, threads: int, dynamic_shared: int) -> int:
        function = self._function(kernel, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return int(
            self._call(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                function,
                threads,
                dynamic_shared,
                kernel=kernel,
                threads=threads,
                dynamic_shared=dynamic_shared,
            )
        )

    def _fill_shape(self, target: Any, shape: LaunchShape) -> None:
        with self._within_range("cuLaunchKernelEx", shape=shape):
            target.gridDimX, target.gridDimY, target.gridDimZ = shape.grid
            target.blockDimX, target.blockDimY, target.blockDimZ = shape.block
            target.sharedMemBytes = shape.dynamic_shared

    def _function(self, kernel: Kernel, call: str) -> Any:
        """Returns a kernel as the function handle that launches take."""
        self._check(call)
        return self._api.CUfunction(kernel)

    def prepare_launch(
        self, kernel: Kernel, shape: LaunchShape, stream: Stream, parameters: ParameterBlock
    ) -> Launcher:
        function = self._function(kernel, "cuLaunchKernelEx")
        api = self._api
        config = api.CUlaunchConfig()
        self._fill_shape(config, shape)
        config.hStream = self._own_stream(stream, "cuLaunchKernelEx")
        if shape.cooperative:
            attribute = api.CUlaunchAttribute()
            attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            config.attrs = [attribute]
            config.numAttrs = 1
        call, pointers = api.cuLaunchKernelEx, parameters.pointers
        shown: dict[str, object] = {"kernel": kernel, "shape": shape, "stream": stream}

        def launch() -> None:
            try:
                (status,) = call(config, function, pointers, 0)
            except ValueError as error:
                self._fail_unlisted("cuLaunchKernelEx", error, shown)
            if status:
                self._fail("cuLaunchKernelEx", int(status), shown)

        launch.__dict__["keep"] = parameters
        return launch

    # ---------------------------------------------------------------- graphs
    def graph_create(self) -> Graph:
        return int(self._call("cuGraphCreate", 0))

    def graph_destroy(self, graph: Graph) -> None:
        self._call("cuGraphDestroy", graph, graph=graph)

    def graph_add_copy_to_device(
        self, graph: Graph, after: Sequence[GraphNode], target: DeviceAddress, source: HostAddress, nbytes: int
    ) -> GraphNode:
        return self._add_copy(graph, after, self._copy(target, source, nbytes, to_device=True), nbytes)

    def graph_add_copy_to_host(
        self, graph: Graph, after: Sequence[GraphNode], target: HostAddress, source: DeviceAddress, nbytes: int
    ) -> GraphNode:
        return self._add_copy(graph, after, self._copy(target, source, nbytes, to_device=False), nbytes)

    def _add_copy(self, graph: Graph, after: Sequence[GraphNode], copy: Any, nbytes: int) -> GraphNode:
        context = self._call("cuCtxGetCurrent")
        nodes = self._nodes(after)
        return int(
            self._call("cuGraphAddMemcpyNode", graph, nodes, len(nodes), copy, context, graph=graph, nbytes=nbytes)
        )

    def _copy(self, target: int, source: int, nbytes: int, *, to_device: bool) -> Any:
        self._check("CUDA_MEMCPY3D")
        kinds = self._api.CUmemorytype
        copy = self._api.CUDA_MEMCPY3D()
        if to_device:
            copy.srcMemoryType, copy.srcHost = kinds.CU_MEMORYTYPE_HOST, source
            copy.dstMemoryType, copy.dstDevice = kinds.CU_MEMORYTYPE_DEVICE, target
        else:
            copy.srcMemoryType, copy.srcDevice = kinds.CU_MEMORYTYPE_DEVICE, source
            copy.dstMemoryType, copy.dstHost = kinds.CU_MEMORYTYPE_HOST, target
        with self._within_range("CUDA_MEMCPY3D", nbytes=nbytes):
            copy.WidthInBytes, copy.Height, copy.Depth = nbytes, 1, 1
        return copy

    def graph_add_memset8(
        self, graph: Graph, after: Sequence[GraphNode], target: DeviceAddress, value: int, nbytes: int
    ) -> GraphNode:
        context = self._call("cuCtxGetCurrent")
        nodes, memset = self._nodes(after), self._memset(target, value, nbytes)
        return int(
            self._call("cuGraphAddMemsetNode", graph, nodes, len(nodes), memset, context, graph=graph, nbytes=nbytes)
        )

    def _memset(self, target: DeviceAddress, value: int, nbytes: int) -> Any:
        self._check("CUDA_MEMSET_NODE_PARAMS")
        memset = self._api.CUDA_MEMSET_NODE_PARAMS()
        with self._within_range("CUDA_MEMSET_NODE_PARAMS", value=value, nbytes=nbytes):
            memset.dst, memset.value, memset.elementSize = target, value, 1
            memset.width, memset.height, memset.pitch = nbytes, 1, 0
        return memset

    def graph_add_kernel(
        self, graph: Graph, after: Sequence[GraphNode], kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock
    ) -> GraphNode:
        nodes, launch = self._nodes(after), self._kernel_node(kernel, shape, parameters)
        node = self._call("cuGraphAddKernelNode", graph, nodes, len(nodes), launch, graph=graph, shape=shape)
        if shape.cooperative:
            value = self._api.CUkernelNodeAttrValue()
            value.cooperative = 1
            kind = self._api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            self._call("cuGraphKernelNodeSetAttribute", node, kind, value, graph=graph, shape=shape)
        return int(node)

    def _kernel_node(self, kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock) -> Any:
        self._check("CUDA_KERNEL_NODE_PARAMS")
        launch = self._api.CUDA_KERNEL_NODE_PARAMS()
        launch.kern = self._api.CUkernel(kernel)  # in the current context
        self._fill_shape(launch, shape)
        launch.kernelParams = parameters.pointers
        return launch

    def graph_add_event_record(self, graph: Graph, after: Sequence[GraphNode], event: Event) -> GraphNode:
        nodes = self._nodes(after)
        return int(self._call("cuGraphAddEventRecordNode", graph, nodes, len(nodes), event, graph=graph, event=event))

    def graph_condition(self, graph: Graph) -> Condition:
        context = self._call("cuCtxGetCurrent")
        return int(self._call("cuGraphConditionalHandleCreate", graph, context, 1, _ASSIGN_AT_LAUNCH, graph=graph))

    def graph_add_while(self, graph: Graph, after: Sequence[GraphNode], condition: Condition) -> WhileNode:
        context, nodes = self._call("cuCtxGetCurrent"), self._nodes(after)
        api = self._api
        parameters = api.CUgraphNodeParams()
        parameters.type = api.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        loop = parameters.conditional
        loop.handle = api.CUgraphConditionalHandle(condition)
        loop.type = api.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
        loop.size, loop.ctx = 1, context
        node = self._call("cuGraphAddNode", graph, nodes, None, len(nodes), parameters, graph=graph)
        return WhileNode(int(node), int(parameters.conditional.phGraph_out[0]))

    def graph_instantiate(self, graph: Graph) -> GraphExec:
        return int(self._call("cuGraphInstantiate", graph, 0, graph=graph))

    def graph_upload(self, executable: GraphExec, stream: Stream) -> None:
        own = self._own_stream(stream, "cuGraphUpload")
        self._call("cuGraphUpload", executable, own, executable=executable, stream=stream)

    def graph_exec_destroy(self, executable: GraphExec) -> None:
        self._call("cuGraphExecDestroy", executable, executable=executable)

    def graph_update_kernel(
        self, executable: GraphExec, node: GraphNode, kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock
    ) -> None:
        launch = self._kernel_node(kernel, shape, parameters)
        self._call(
            "cuGraphExecKernelNodeSetParams", executable, node, launch, executable=executable, node=node, shape=shape
        )

    def prepare_graph_launch(self, executable: GraphExec, stream: Stream) -> Launcher:
        own = self._own_stream(stream, "cuGraphLaunch")
        self._check("cuGraphLaunch")
        api = self._api
        call, handle, on = api.cuGraphLaunch, api.CUgraphExec(executable), api.CUstream(own)
        shown: dict[str, object] = {"executable": executable, "stream": stream}

        def launch() -> None:
            try:
                (status,) = call(handle, on)
            except ValueError as error:
                self._fail_unlisted("cuGraphLaunch", error, shown)
            if status:
                self._fail("cuGraphLaunch", int(status), shown)

        return launch

    def _nodes(self, after: Sequence[GraphNode]) -> list[Any]:
        self._check("CUgraphNode")
        return [self._api.CUgraphNode(node) for node in after]


def _text(buffer: bytearray) -> str:
    return bytes(buffer).split(b"\0", 1)[0].decode("utf-8", "replace").strip()
