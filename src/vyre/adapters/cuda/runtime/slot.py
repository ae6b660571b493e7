"""Slots: a stream with the work prepared on it, which later runs use again.

Both kinds of slots, for dispatches on host memory and for sequences on resident memory, run their work in the same way.
A run of a sequence of operations begins with the verdict of the decision about its replays, and the slot acts by it:

- plain: the slot enqueues the operations one by one;
- record: it adds the operations to a graph, keeps that in the cache, and goes on as for a replay;
- replay: it gives the kernels of the graph the values of this run, and launches the graph once per round.

If the graph was evicted, the run is plain, and the decision begins anew.  If the driver refuses a graph, the rest of
the run and all later ones are plain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.runtime.conditions import Conditions
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.graphs import Chain, GraphCache, RecordedGraph
from vyre.adapters.cuda.runtime.memory import DeviceMemory, PinnedMemory, Quarantine
from vyre.adapters.cuda.runtime.streams import StreamLease, StreamPool
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed
from vyre.adapters.cuda.seam import CudaCallError
from vyre.adapters.replay_decision import ReplayDecision, ReplayPlanner, Verdict, Work
from vyre.domain.unique import Unique
from vyre.policies.journal import DecisionSink

Part = TypeVar("Part")
"""The type of what a kind of slot runs: a part of a run, which is one round of a sequence or several."""


class Resources(NamedTuple):
    """The parts that slots are made of; one set per device.  ``decisions`` receives every decision about them."""

    device: CudaDevice
    memory: DeviceMemory
    pinned: PinnedMemory
    streams: StreamPool
    quarantine: Quarantine
    graphs: GraphCache
    replays: ReplayPlanner
    conditions: Conditions
    decisions: DecisionSink | None = None


class Track:
    """The state of one sequence of operations on the stream of a slot.

    ``decision`` is None if the sequence is never recorded, and after the driver has refused its graph.  ``number`` is
    that of its graph in the cache.
    """

    __slots__ = ("_graphs", "_refused", "_running", "decision", "number")

    def __init__(self, resources: Resources, work: Work | None) -> None:
        """Makes the track of ``work``; None if it must not be recorded."""
        self._graphs = resources.graphs
        self.number: Final = resources.graphs.number()
        self.decision: ReplayDecision | None = None if work is None else resources.replays.decision(work)
        self._running: RecordedGraph | None = None
        self._refused = False

    def hold(self, graph: RecordedGraph) -> None:
        """Keeps the graph that is being run: it may be evicted from the cache meanwhile."""
        self._running = graph

    def refuse(self) -> None:
        """Notes that the driver has refused the graph."""
        self.decision, self._refused = None, True

    def end(self) -> None:
        """Drops the reference to the graph, because the run has ended."""
        self._running = None
        if self._refused:
            self._refused = False
            self._graphs.give_up(self.number)

    def release(self) -> None:
        """Drops the graph for good: the sequence does not run and will not be run again."""
        self.end()
        if self.decision is not None:
            self.decision.end()
        self._graphs.drop(self.number)


class Slot(Unique, ABC, Generic[Part]):
    """A stream and what is prepared on it; one run at a time.  Call its methods inside ``device.calls``.

    They raise ``CudaCallError`` and ``DeadlinePassed``.  ``launches`` is the number of kernels that the latest run
    enqueued one by one, not by a graph; None if it waited for each of them.
    """

    __slots__ = ("_device", "_resources", "_tracks", "epoch", "launches", "lease")

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._device = resources.device
        self._tracks: list[Track] = []
        """The tracks of the latest run for which a graph was asked, until that run ends."""
        self.epoch: Final = resources.device.epoch
        self.lease: Final[StreamLease] = resources.streams.acquire()
        self.launches: int | None = None

    def _run(self, track: Track, part: Part, rounds: int = 1, wanted: bool | None = None) -> int:
        """Enqueues so many rounds; returns how many of them a graph runs.

        ``wanted``: whether the caller wants a graph; None: the decision about the sequence is asked.

        Raises ``CudaCallError`` if a plain operation fails or the device is lost.
        """
        decision, replayed = track.decision, 0
        if decision is not None and (verdict := decision.verdict(rounds, wanted)) is not Verdict.PLAIN:
            self._tracks.append(track)
            self._prepare(part)
            replayed = self._replay(track, decision, verdict, part, rounds)
        if replayed < rounds:
            self._enqueue(part, rounds - replayed)
        return replayed

    def _replay(self, track: Track, decision: ReplayDecision, verdict: Verdict, part: Part, rounds: int) -> int:
        """Launches the graph once per round; returns how many launches the driver accepted."""
        graphs, counters, now_ns = self._resources.graphs, self._device.counters, self._device.clock.now_ns
        graph, done = None, 0
        try:
            if verdict is Verdict.RECORD:
                began = now_ns()
                graph = graphs.record(track.number, partial(self._record, part), self.lease.stream)
                decision.recorded(now_ns() - began)
            else:
                graph = graphs.get(track.number)
            if graph is None:
                decision.begin_anew()
                return 0
            track.hold(graph)
            decision.updated(self._refresh(part, graph))
            while done < rounds:
                graph.launch()
                done += 1
        except CudaCallError as error:
            if is_sticky(error.code):
                raise
            track.refuse()
            counters.graph_fallbacks += 1
        counters.graph_launches += done
        counters.graph_kernels += done * (0 if graph is None else len(graph))
        return done

    @abstractmethod
    def _enqueue(self, part: Part, rounds: int) -> None:
        """Enqueues the operations of so many rounds, one by one."""

    @abstractmethod
    def _prepare(self, part: Part) -> None:
        """Copies the host bytes of a part to where a graph of it reads them."""

    @abstractmethod
    def _record(self, part: Part, chain: Chain) -> None:
        """Adds the operations that ``_enqueue`` enqueues for one round."""

    @abstractmethod
    def _refresh(self, part: Part, graph: RecordedGraph) -> int:
        """Gives the kernels of the graph the values of a part; returns how many got other ones."""

    def wait(self, deadline_ns: int | None) -> None:
        """Waits for ``lease.done``.  Raises ``DeadlinePassed``."""
        self._device.counters.sync_points += 1
        if not self._device.waiter.event(self.lease.done, deadline_ns):
            raise DeadlinePassed

    def device_ns(self) -> int:
        """Returns the time of the kernels of a run that has ended, on the device."""
        return round(self._device.driver.event_elapsed_ms(self.lease.started, self.lease.ended) * 1e6)

    def end(self) -> None:
        """Ends the latest run, of which no work is left."""
        for track in self._tracks:
            track.end()
        self._tracks.clear()

    @abstractmethod
    def release(self, *, idle: bool) -> None:
        """Returns every resource; its streams are idle.

        ``idle`` resources may be used again; otherwise they are returned to the driver.
        """
