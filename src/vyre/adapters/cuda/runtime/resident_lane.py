"""Streams for runs on resident memory, with the launches prepared on them and the graphs recorded of their sequences.

A sequence is known by the launches that it consists of, and these by program, config and memory: other memory is
another sequence.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.runtime.device import release_all
from vyre.adapters.cuda.runtime.graphs import Chain, RecordedGraph
from vyre.adapters.cuda.runtime.lane import Resources
from vyre.adapters.cuda.runtime.replay_decision import ReplayDecision, Work
from vyre.adapters.cuda.runtime.resident_copies import HostCopies, overlapped_steps
from vyre.adapters.cuda.runtime.resident_launch import Key, Step, StepLaunch
from vyre.adapters.cuda.runtime.streams import StreamLease
from vyre.adapters.cuda.seam import CudaCallError, GraphNode, Stream
from vyre.policies.hazards import Access, AccessMode, HazardInputs, hazard_graph
from vyre.policies.journal import decide

LAUNCHES: Final = 64
"""Prepared launches that a lane remembers, beside those of its latest run."""
ALL: Final = (Access(0, AccessMode.READ_WRITE),)
SEQUENCES: Final = 32
"""Sequences of which a lane remembers how often they were run, and which of their copies overlap."""
SHORT: Final = 512
"""Launches of a run for which no driver makes the host wait: streams hold some more."""


class Prepared(NamedTuple):
    """A launch, and the step that it is to run."""

    launch: StepLaunch
    step: Step


Launches: TypeAlias = "tuple[StepLaunch, ...]"


class _Sequence:
    """What is remembered of one.  ``number``: of its graph.  ``decision``: None, it is not to be recorded."""

    __slots__ = ("decision", "kernels", "number", "operations")

    def __init__(self, resources: Resources, launches: Launches) -> None:
        self.number: Final = resources.graphs.number()
        self.kernels: Final = sum(launch.kernels for launch in launches)
        self.operations: Final = sum(launch.operations for launch in launches)
        title = f"{len(launches)} step(s) on resident memory"
        self.decision = resources.replays.decision(Work(title, self.operations, self.operations))


class ResidentLane:
    """A stream and what is prepared on it; one run at a time.  Call inside the door.

    ``launches``: that the latest run enqueued one by one, not by a graph; None: it looked behind each.
    """

    __slots__ = (
        "_copies",
        "_copy_lease",
        "_launch_ns",
        "_launches",
        "_overlapped",
        "_refused",
        "_resources",
        "_running",
        "_sequences",
        "_timed",
        "epoch",
        "launches",
        "lease",
    )

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.epoch: Final = resources.device.epoch
        self.lease: Final = resources.streams.acquire()
        self._copy_lease: StreamLease | None = None
        self._copies: HostCopies | None = None
        self._launches: Final[OrderedDict[Key, StepLaunch]] = OrderedDict()
        self._sequences: Final[OrderedDict[Launches, _Sequence]] = OrderedDict()
        self._overlapped: Final[OrderedDict[Launches, frozenset[int]]] = OrderedDict()
        self._running: list[RecordedGraph] = []
        self._refused: list[int] = []
        self._timed: list[tuple[_Sequence, int]] = []
        self.launches: int | None = None
        self._launch_ns: int | None = None

    @property
    def launch_ns(self) -> int | None:
        """Host time of a launch of the latest run, if that tells it."""
        return None if (self.launches or 0) > SHORT else self._launch_ns

    def launch(self, step: Step) -> StepLaunch:
        """The launch of ``step``, prepared if need be.  Raises ``CudaCallError`` and what preparing raises."""
        key = step.key
        found = self._launches.get(key)
        if found is None:
            found = self._launches[key] = StepLaunch(self._resources, step, self.lease)
        else:
            self._launches.move_to_end(key)
        return found

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Those that a run may use."""
        return (self.lease.stream,) if self._copy_lease is None else (self.lease.stream, self._copy_lease.stream)

    def prepare(self, steps: Sequence[Step]) -> list[Prepared]:
        """The launches of the next run; raises as ``launch`` does."""
        self.end()
        self.launches = self._launch_ns = None
        prepared = [Prepared(self.launch(step), step) for step in steps]
        while len(self._launches) > max(LAUNCHES, len(prepared)):
            self._evict(self._launches.popitem(last=False)[1])
        return prepared

    def copies(self, prepared: Sequence[Prepared], deadline_ns: int | None) -> HostCopies | None:
        """Those of a run of these steps; None if they have no host bytes."""
        pieces = {step.number: found for launch, step in prepared if (found := launch.host_pieces(step))}
        if not pieces:
            return None
        overlapped: Iterable[int] = ()
        if behind_launches := pieces.keys() != {prepared[0].step.number}:
            overlapped = self._overlapped_steps(prepared)
        self._copies = HostCopies(
            self._resources, self.lease, self._copy_stream, pieces, overlapped, behind_launches, deadline_ns
        )
        return self._copies

    def enqueue(self, part: Sequence[Prepared], rounds: int, copies: HostCopies | None) -> None:
        """Run a sequence so many times: by its graph, where that pays, else launch by launch."""
        if not part or not rounds:
            return
        sequence = self._sequence(tuple([launch for launch, _ in part]))
        decision = sequence.decision
        if decision is not None:
            self._timed.append((sequence, rounds))
            if decision.replays(rounds):
                if copies is not None:
                    for _, step in part:
                        copies.send(step.number)
                rounds -= self._replay(sequence, decision, part, rounds)
        self.launches = (self.launches or 0) + rounds * sequence.kernels
        for _ in range(rounds):
            for launch, step in part:
                if copies is not None:
                    copies.send(step.number)
                self._launch_ns = launch.enqueue(step, None) or self._launch_ns

    def settle(self, device_ns: int, wall_ns: int) -> None:
        """All that was enqueued has run, and took so long, on the device and in all.

        Nothing is learned from times that have copies in them.
        """
        copies = self._copies
        total = sum(sequence.operations * rounds for sequence, rounds in self._timed)
        for sequence, rounds in self._timed:
            if sequence.decision is None or (copies is not None and copies.behind_launches):
                continue
            sequence.decision.samples.append(device_ns * sequence.operations // total)
            if copies is None:
                sequence.decision.observe(wall_ns * sequence.operations * rounds // total, rounds)
        self.end()

    def end(self, *, idle: bool = True) -> None:
        """Nothing of the latest run is left on the streams.  ``idle``: what it copied through may be used again."""
        self._running.clear()
        self._timed.clear()
        copies, self._copies = self._copies, None
        refused, self._refused = self._refused, []
        for number in refused:
            self._resources.graphs.give_up(number)
        if copies is not None:
            copies.release(idle=idle)

    def release(self, *, idle: bool) -> None:
        """Return everything; the streams are idle.  ``idle``: they may be used again."""
        resources = self._resources
        launches, sequences = list(self._launches.values()), list(self._sequences.values())
        self._launches.clear()
        self._sequences.clear()
        self._overlapped.clear()
        leases = [self.lease, *([] if self._copy_lease is None else [self._copy_lease])]
        self._copy_lease = None
        let_go = resources.streams.give_back if idle else resources.streams.free
        for sequence in sequences:
            resources.graphs.drop(sequence.number)
        release_all(
            [
                partial(self.end, idle=idle),
                *(launch.release for launch in launches),
                *(partial(let_go, lease) for lease in leases),
            ]
        )

    # ---- details
    def _sequence(self, launches: Launches) -> _Sequence:
        found = self._sequences.get(launches)
        if found is None:
            found = self._sequences[launches] = _Sequence(self._resources, launches)
            if len(self._sequences) > SEQUENCES:
                self._resources.graphs.drop(self._sequences.popitem(last=False)[1].number)
        else:
            self._sequences.move_to_end(launches)
        return found

    def _replay(self, sequence: _Sequence, decision: ReplayDecision, part: Sequence[Prepared], rounds: int) -> int:
        """Run it by its graph; returns how many rounds the driver took.

        A graph that the driver refuses is given up for good: plain launches do the same.
        """
        counters, graphs = self._resources.device.counters, self._resources.graphs
        done = 0
        try:
            graph = graphs.get(sequence.number)
            if graph is None:
                if decision.recorded:
                    decision.begin_anew()
                    return 0
                record = partial(_record, part, self._order(part))
                graph = graphs.record(sequence.number, record, self.lease.stream)
                decision.recorded = True
            else:
                decision.changed += _update(graph, part)
            self._running.append(graph)
            while done < rounds:
                graph.launch()
                done += 1
        except CudaCallError as error:
            if is_sticky(error.code):
                raise
            sequence.decision = None
            self._refused.append(sequence.number)
            counters.graph_fallbacks += 1
        counters.graph_launches += done
        counters.graph_kernels += done * sum(launch.kernels for launch, _ in part)
        return done

    def _order(self, part: Sequence[Prepared]) -> Iterable[Sequence[int]]:
        """For each step those that it has to wait for.  Edges of a graph are free, so that no more of them are drawn
        than hazards demand.
        """
        if not self._resources.device.options.side_by_side:
            return [(), *((number,) for number in range(len(part) - 1))]
        operations = tuple(ALL if launch.cooperative else launch.accesses(step) for launch, step in part)
        return decide(self._resources.decisions, hazard_graph, HazardInputs(operations)).predecessors

    def _copy_stream(self) -> StreamLease:
        """For copies that overlap with launches."""
        if self._copy_lease is None:
            self._copy_lease = self._resources.streams.acquire()
        return self._copy_lease

    def _overlapped_steps(self, prepared: Sequence[Prepared]) -> frozenset[int]:
        if not self._resources.device.options.copy_overlap:
            return frozenset()
        launches = tuple([launch for launch, _ in prepared])
        found = self._overlapped.get(launches)
        if found is None:
            found = self._overlapped[launches] = overlapped_steps(prepared, self._resources.decisions)
            if len(self._overlapped) > SEQUENCES:
                self._overlapped.popitem(last=False)
        return found

    def _evict(self, launch: StepLaunch) -> None:
        """Give back a launch, and what refers to its memory: graphs, and which copies overlap with it."""
        for launches in [launches for launches in self._overlapped if launch in launches]:
            del self._overlapped[launches]
        for launches in [launches for launches in self._sequences if launch in launches]:
            self._resources.graphs.drop(self._sequences.pop(launches).number)
        launch.release()


def _record(part: Sequence[Prepared], before: Iterable[Sequence[int]], chain: Chain) -> None:
    """``before``: for each step those that it has to wait for."""
    ends: list[tuple[GraphNode, ...]] = []
    for (launch, step), awaited in zip(part, before, strict=True):
        chain.last = tuple([node for number in awaited for node in ends[number]])
        launch.record(step, chain)
        ends.append(chain.last)


def _update(graph: RecordedGraph, part: Sequence[Prepared]) -> int:
    """Give each kernel the values of its step: one launch may be of several steps, which differ in nothing else.

    Returns how many kernels have others than before.
    """
    changed = end = 0
    for launch, step in part:
        first, end = end, end + launch.kernels
        if launch.has_values:
            launch.set_values(step)
            changed += graph.update(first, end)
    return changed
