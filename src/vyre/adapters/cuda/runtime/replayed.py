"""Work that is run by a graph where that pays: which graph that is, whether there is one, and what holds it.

A graph that the driver refuses is given up for good: plain launches do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.runtime.graph_cache import GraphCache
from vyre.adapters.cuda.runtime.graphs import Record, RecordedGraph
from vyre.adapters.cuda.runtime.replay_decision import ReplayDecision
from vyre.adapters.cuda.seam import CudaCallError, Stream

Update: TypeAlias = Callable[[RecordedGraph], int]
"""Readies a graph for its next launch; returns how many of its kernels got other parameters."""


class ReplayedWork:
    """A sequence of operations on one stream; one run at a time.  Call inside the door.

    ``decision``: None if it is never recorded, or not any more.
    """

    __slots__ = ("_graph", "_graphs", "_number", "_refused", "_stream", "decision")

    def __init__(self, graphs: GraphCache, decision: ReplayDecision | None, stream: Stream) -> None:
        self._graphs, self._stream = graphs, stream
        self._number: Final = graphs.number()
        self._graph: RecordedGraph | None = None
        """The one that is being run: others may push it out of the cache meanwhile."""
        self._refused = False
        self.decision = decision

    def replays(self, rounds: int = 1) -> bool:
        """Whether the run that begins now is to be ``replay``ed."""
        decision = self.decision
        return decision is not None and decision.replays(rounds)

    def replay(self, record: Record, update: Update, rounds: int = 1) -> int:
        """Launch the graph once a round, recorded if there is none; returns how many rounds the driver took.

        None of them if the graph was evicted: then it is decided anew.  Raises ``CudaCallError`` if the device is lost.
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
        """Nothing of it runs any more."""
        self._graph = None
        if self._refused:
            self._refused = False
            self._graphs.give_up(self._number)

    def release(self) -> None:
        """It will not be run again, nor does it."""
        self.end()
        if self.decision is not None:
            self.decision.end()
        self._graphs.drop(self._number)
