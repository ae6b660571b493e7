"""The recorded graphs of a device, bounded in number and size; the graph that costs least to record again is evicted.

An evicted graph is destroyed once no run refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from vyre.adapters.caching.memory_cache import Built, Cause, MemoryBudget, MemoryCache
from vyre.adapters.cuda.runtime.device import MIB, CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.runtime.graphs import GraphHandles, Record, RecordedGraph, destroy
from vyre.adapters.cuda.seam import Stream
from vyre.domain.shared_dicts import entries_of
from vyre.policies.journal import DecisionSink

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
