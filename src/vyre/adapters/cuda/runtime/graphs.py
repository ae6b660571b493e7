"""Operations recorded as CUDA graphs, so that one launch submits them all, and the graphs that a device keeps.

Nodes are added explicitly, each after those that it has to wait for, so that each can be updated later: replays see new
bytes in pinned and device memory by themselves, and new scalars and uniforms through ``update``.  No stream is
captured.

The graphs that are kept are bounded in number and size; the one that costs least to record again is evicted, and
destroyed once no run refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.caching.memory_cache import Built, Cause, MemoryBudget, MemoryCache
from vyre.adapters.cuda.runtime.device import MIB, CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.runtime.launch import BoundKernel
from vyre.adapters.cuda.seam import (
    Condition,
    CudaCallError,
    CudaDriver,
    DeviceAddress,
    Event,
    Graph,
    GraphExec,
    GraphNode,
    HostAddress,
    Kernel,
    Launcher,
    LaunchShape,
    ParameterBlock,
    Stream,
)
from vyre.domain.shared_dicts import entries_of
from vyre.domain.unique import Unique
from vyre.policies.journal import DecisionSink


class Copy(NamedTuple):
    """A copy of ``nbytes`` bytes between pinned memory and the device."""

    device: DeviceAddress
    host: HostAddress
    nbytes: int


class GraphHandles(NamedTuple):
    """The driver's handles of a graph, and of the executable made from it."""

    graph: Graph
    executable: GraphExec


class _KernelNode:
    """A kernel in a graph, with the parameters that it has there."""

    __slots__ = ("kernel", "node", "packed")

    def __init__(self, node: GraphNode, kernel: BoundKernel) -> None:
        self.node, self.kernel = node, kernel
        self.packed = bytes(kernel.parameters.buffer)


class Chain:
    """Adds nodes to a graph, each after the nodes ``last``, and makes it the new ``last``.  Raises
    ``CudaCallError``.
    """

    __slots__ = ("_driver", "_graph", "kernels", "last")

    def __init__(self, driver: CudaDriver, graph: Graph) -> None:
        self._driver, self._graph = driver, graph
        self.last: tuple[GraphNode, ...] = ()
        self.kernels: Final[list[_KernelNode]] = []

    def upload(self, copy: Copy) -> None:
        """Adds a copy from pinned memory to the device."""
        self.last = (
            self._driver.graph_add_copy_to_device(self._graph, self.last, copy.device, copy.host, copy.nbytes),
        )

    def download(self, copy: Copy) -> None:
        """Adds a copy from the device to pinned memory."""
        self.last = (self._driver.graph_add_copy_to_host(self._graph, self.last, copy.host, copy.device, copy.nbytes),)

    def zero(self, address: DeviceAddress, nbytes: int) -> None:
        """Adds a fill of ``nbytes`` bytes with zeros."""
        self.last = (self._driver.graph_add_memset8(self._graph, self.last, address, 0, nbytes),)

    def mark(self, event: Event) -> None:
        """Adds the recording of an event."""
        self.last = (self._driver.graph_add_event_record(self._graph, self.last, event),)

    def repeat(self, record: Callable[[Chain, Condition], object]) -> None:
        """Adds a node that repeats what ``record`` adds to its body, until a kernel in it sets the condition to 0.

        The body's kernels keep the parameters that they have now.
        """
        condition = self._driver.graph_condition(self._graph)
        node, body = self._driver.graph_add_while(self._graph, self.last, condition)
        record(Chain(self._driver, body), condition)
        self.last = (node,)

    def launch(self, kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock) -> None:
        """Adds a launch that is never updated."""
        self.last = (self._driver.graph_add_kernel(self._graph, self.last, kernel, shape, parameters),)

    def kernel(self, kernel: BoundKernel) -> None:
        """Adds a launch with the parameters that the kernel has now."""
        node = self._driver.graph_add_kernel(
            self._graph, self.last, kernel.kernel.handle, kernel.shape, kernel.parameters
        )
        self.last = (node,)
        self.kernels.append(_KernelNode(node, kernel))


Record: TypeAlias = Callable[[Chain], object]
"""A function that adds the operations of a graph, in order."""


class RecordedGraph(Unique):
    """An executable graph on one stream.  Raises ``CudaCallError``.  Not for two threads at once."""

    __slots__ = ("__weakref__", "_driver", "_kernels", "handles", "launch")

    def __init__(self, device: CudaDevice, record: Record, stream: Stream) -> None:
        driver = self._driver = device.driver
        graph = driver.graph_create()
        undo: list[Callable[[], None]] = [partial(driver.graph_destroy, graph)]
        try:
            chain = Chain(driver, graph)
            record(chain)
            executable = driver.graph_instantiate(graph)
            undo.insert(0, partial(driver.graph_exec_destroy, executable))
            driver.graph_upload(executable, stream)
            self.launch: Final[Launcher] = driver.prepare_graph_launch(executable, stream)
        except CudaCallError as error:
            device.roll_back(error, undo)
            raise
        self._kernels: Final = chain.kernels
        self.handles: Final = GraphHandles(graph, executable)

    def __len__(self) -> int:
        """Returns the number of its kernels."""
        return len(self._kernels)

    def update(self, first: int = 0, end: int | None = None) -> int:
        """Copies the present parameters of the kernels in [``first``, ``end``) into the graph; returns how many
        changed.
        """
        changed = 0
        for recorded in self._kernels[first:end]:
            kernel = recorded.kernel
            packed = bytes(kernel.parameters.buffer)
            if packed != recorded.packed:
                self._driver.graph_update_kernel(
                    self.handles.executable, recorded.node, kernel.kernel.handle, kernel.shape, kernel.parameters
                )
                recorded.packed = packed
                changed += 1
        return changed

    def release(self) -> None:
        """Destroys the graph, which must not be running."""
        destroy(self._driver, self.handles)


def destroy(driver: CudaDriver, handles: GraphHandles) -> None:
    """Destroys a graph and its executable."""
    release_all((partial(driver.graph_exec_destroy, handles.executable), partial(driver.graph_destroy, handles.graph)))


BYTES: Final = 64 * MIB
NODE_BYTES: Final = 4096
"""The assumed size of a kernel in a graph: the largest parameter block, of which drivers keep a copy."""


class GraphCache(DeviceMember):
    """Graphs by number.  Call its methods inside ``device.calls``."""

    def __init__(self, device: CudaDevice, sink: DecisionSink | None = None) -> None:
        """Makes an empty cache; ``sink`` receives the decision which graph is evicted."""
        self.device: Final = device
        self._graphs: Final[MemoryCache[int, RecordedGraph]] = MemoryCache(
            MemoryBudget(BYTES, max(1, device.options.graphs)), now_ns=device.clock.now_ns, sink=sink
        )
        self._live: dict[int, GraphHandles] = {}
        self._births, self._numbers = count(), count()
        self.get: Final[Callable[[int], RecordedGraph | None]] = self._graphs.get
        device.add(self)

    def __len__(self) -> int:
        return len(self._graphs)

    def number(self) -> int:
        """Returns a number that no graph has."""
        return next(self._numbers)

    def record(self, number: int, record: Record, stream: Stream) -> RecordedGraph:
        """Records a graph under ``number``; keep a reference to it while it runs.  Raises ``CudaCallError``."""
        counters = self.device.counters
        graph = self._graphs.get_or_build(number, partial(self._build, record, stream))
        counters.graph_recordings += 1
        evicted = self._graphs.stats().evicted
        counters.graph_evictions = evicted[Cause.BYTES] + evicted[Cause.ENTRIES]
        return graph

    def drop(self, number: int) -> None:
        """Removes the graph under ``number``, if there is one."""
        self._graphs.discard(number)

    def give_up(self, number: int) -> None:
        """Removes the graph under ``number``, if there is one, and destroys it although a failed run may still refer to
        it.

        The graph is not running, and will not be launched again.
        """
        graph = self.get(number)
        self.drop(number)
        if graph is not None:
            for birth, handles in entries_of(self._live):
                if handles == graph.handles:
                    self.device.discard(partial(self._destroy, birth))

    # ---- as a member of the device
    def release(self) -> None:
        """Destroys every graph."""
        live, self._live = self._live, {}
        self._graphs.clear()
        release_all([partial(destroy, self.device.driver, handles) for handles in live.values()])

    def forget(self) -> None:
        """Drops every graph without a driver call."""
        self._live = {}
        self._graphs.clear()

    # ---- details
    def _build(self, record: Record, stream: Stream) -> Built[RecordedGraph]:
        self.device.enter()  # builds run on threads of their own
        graph, birth = RecordedGraph(self.device, record, stream), next(self._births)
        self._live[birth] = graph.handles
        gone = self.device.when_dead(self._destroy, birth)
        return Built(graph, NODE_BYTES * max(1, len(graph)), gone)

    def _destroy(self, birth: int) -> None:
        """Destroys a graph that has died, unless all were destroyed meanwhile."""
        handles = self._live.pop(birth, None)
        if handles is not None:
            destroy(self.device.driver, handles)
