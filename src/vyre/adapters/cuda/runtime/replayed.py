"""Work that is run by a graph if that pays: its graph, the state of the decision, and the reference that keeps it
alive.

If the driver refuses a graph, plain launches replace it for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.runtime.graph_cache import GraphCache
from vyre.adapters.cuda.runtime.graphs import Record, RecordedGraph
from vyre.adapters.cuda.seam import CudaCallError, Stream
from vyre.adapters.replay_decision import ReplayDecision

Update: TypeAlias = Callable[[RecordedGraph], int]
"""A function that prepares a graph for its next launch and returns how many of its kernels got other parameters."""


class ReplayedWork:
    """A sequence of operations on one stream; one run at a time.  Call its methods inside ``device.calls``.

    ``decision`` is None if the sequence is never recorded, and after the driver has refused its graph.
    """

    __slots__ = ("_graph", "_graphs", "_number", "_refused", "_stream", "decision")

    def __init__(self, graphs: GraphCache, decision: ReplayDecision | None, stream: Stream) -> None:
        self._graphs, self._stream = graphs, stream
        self._number: Final = graphs.number()
        self._graph: RecordedGraph | None = None
        """The graph that is being run: it may be evicted from the cache meanwhile."""
        self._refused = False
        self.decision = decision

    def replays(self, rounds: int = 1) -> bool:
        """Returns whether the run that begins now should call ``replay``."""
        decision = self.decision
        return decision is not None and decision.replays(rounds)

    def replay(self, record: Record, update: Update, rounds: int = 1) -> int:
        """Launches the graph once per round, and records it first if there is none.

        Returns how many rounds the driver accepted: 0 if the graph was evicted, after which a new decision is taken.
        Raises ``CudaCallError`` if the device is lost.
        """
        decision, graphs, counters = self.decision, self._graphs, self._graphs.device.counters
        assert decision is not None
        done = kernels = 0
        try:
            graph = graphs.get(self._number)
            if graph is None:
                if decision.recorded:
                    decision.begin_anew()
                    return 0
                now_ns = graphs.device.clock.now_ns
                began = now_ns()
                graph = graphs.record(self._number, record, self._stream)
                decision.recorded = True
                decision.leave_out(now_ns() - began)
            self._graph = graph
            decision.changed += update(graph)
            kernels = len(graph)
            while done < rounds:
                graph.launch()
                done += 1
        except CudaCallError as error:
            if is_sticky(error.code):
                raise
            self.decision, self._refused = None, True
            counters.graph_fallbacks += 1
        counters.graph_launches += done
        counters.graph_kernels += done * kernels
        return done

    def end(self) -> None:
        """Drops the reference to the graph, because the run has ended."""
        self._graph = None
        if self._refused:
            self._refused = False
            self._graphs.give_up(self._number)

    def release(self) -> None:
        """Drops the graph for good: the sequence does not run and will not be run again."""
        self.end()
        if self.decision is not None:
            self.decision.end()
        self._graphs.drop(self._number)
