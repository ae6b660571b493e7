"""Streams for runs on resident memory, with the launches prepared on them and the graphs recorded of their sequences.

A sequence is identified by its launches, and a launch by program, config and memory: with other memory it is another
sequence.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.runtime.device import release_all
from vyre.adapters.cuda.runtime.graphs import Chain, RecordedGraph
from vyre.adapters.cuda.runtime.resident_copies import HostCopies, overlapped_steps
from vyre.adapters.cuda.runtime.resident_launch import Key, Prepared, Step, StepLaunch
from vyre.adapters.cuda.runtime.resident_loops import SlotLoops
from vyre.adapters.cuda.runtime.slot import Resources, Slot, Track
from vyre.adapters.cuda.runtime.streams import StreamLease
from vyre.adapters.cuda.seam import Event, GraphNode, Stream
from vyre.adapters.replay_decision import Work
from vyre.policies.concurrency.hazards import Access, AccessMode, HazardInputs, hazard_graph
from vyre.policies.journal import decide

LAUNCHES: Final = 64
"""The prepared launches that a slot keeps in addition to those of its latest run."""
ALL_MEMORY: Final = (Access(0, AccessMode.READ_WRITE),)
"""The assumed accesses of a cooperative kernel: it needs the whole device, so that nothing may overlap with it."""
SEQUENCES: Final = 32
"""The sequences of which a slot remembers how often they were run, and which of their copies overlap."""
SHORT: Final = 512
"""The launches of a run for which no driver makes the host wait; the queue of a stream holds some more."""


Launches: TypeAlias = "tuple[StepLaunch, ...]"


class _Sequence(Track):
    """The state of one sequence.  ``operations``: those of a round, whether by a graph or call by call."""

    __slots__ = ("kernels", "operations")

    def __init__(self, resources: Resources, launches: Launches) -> None:
        self.kernels: Final = sum(launch.kernels for launch in launches)
        self.operations: Final = sum(launch.operations for launch in launches)
        title = f"{len(launches)} step(s) on resident memory"
        super().__init__(resources, Work(title, self.operations, self.operations))


class _Part(NamedTuple):
    """A part of a run: ``rounds`` rounds of the steps, which are ``sequence``, with the copies of their host bytes."""

    steps: Sequence[Prepared]
    sequence: _Sequence
    rounds: int
    copies: HostCopies | None

    @property
    def operations(self) -> int:
        """Returns the operations of all rounds."""
        return self.sequence.operations * self.rounds


class ResidentSlot(Slot[_Part]):
    """A stream and the launches prepared on it; one run at a time.  Call its methods inside ``device.calls``."""

    __slots__ = (
        "_between",
        "_copies",
        "_copy_lease",
        "_forced",
        "_launches",
        "_only_launches",
        "_overlapped",
        "_parts",
        "_sequences",
        "_submitting_ns",
        "loops",
    )

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources)
        self._copy_lease: StreamLease | None = None
        self._copies: HostCopies | None = None
        self._launches: Final[OrderedDict[Key, StepLaunch]] = OrderedDict()
        self._sequences: Final[OrderedDict[Launches, _Sequence]] = OrderedDict()
        self._overlapped: Final[OrderedDict[Launches, frozenset[int]]] = OrderedDict()
        self._parts: list[tuple[_Part, int]] = []
        """The parts of the latest run, each with the number of its rounds that a graph ran."""
        self._between: Event | None = None
        self.loops: Final = SlotLoops(resources, self.lease.stream)
        self._submitting_ns = 0
        self._only_launches = True
        self._forced = False

    @property
    def launch_ns(self) -> int | None:
        """Returns the host time of one launch in the latest run; None if that run does not reveal it."""
        launches = self.launches or 0
        return self._submitting_ns // launches if self._only_launches and 0 < launches <= SHORT else None

    def launch(self, step: Step) -> StepLaunch:
        """Returns the launch of ``step``, and prepares it at first.  Raises ``CudaCallError`` and the errors of
        preparing.
        """
        key = step.key
        prepared = self._launches.get(key)
        if prepared is None:
            prepared = self._launches[key] = StepLaunch(self._resources, step, self.lease)
        else:
            self._launches.move_to_end(key)
        prepared.program = step.program
        return prepared

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Returns the streams that a run may use."""
        return (self.lease.stream,) if self._copy_lease is None else (self.lease.stream, self._copy_lease.stream)

    def prepare(self, steps: Sequence[Step]) -> list[Prepared]:
        """Returns the launches of the next run.  Raises as ``launch`` does."""
        self.end()
        self.launches = None
        self._submitting_ns = 0
        self._only_launches = True
        self._forced = False
        prepared = [Prepared(self.launch(step), step) for step in steps]
        while len(self._launches) > max(LAUNCHES, len(prepared)):
            self._evict(self._launches.popitem(last=False)[1])
        return prepared

    def record(self, steps: Sequence[Prepared], chain: Chain) -> None:
        """Adds the operations of a round to a graph; what follows in the chain runs after all of them."""
        ends: list[tuple[GraphNode, ...]] = []
        for (launch, step), awaited in zip(steps, self._order(steps), strict=True):
            chain.last = tuple([node for number in awaited for node in ends[number]])
            launch.record(step, chain)
            ends.append(chain.last)
        chain.last = tuple(dict.fromkeys(node for each in ends for node in each))

    def copies(self, prepared: Sequence[Prepared], deadline_ns: int | None) -> HostCopies | None:
        """Returns the copies of a run of these steps; None if they have no host bytes."""
        pieces = {step.number: pieces_of for launch, step in prepared if (pieces_of := launch.host_pieces(step))}
        if not pieces:
            return None
        overlapped: Iterable[int] = ()
        if behind_launches := pieces.keys() != {prepared[0].step.number}:
            overlapped = self._overlapped_steps(prepared)
        self._copies = HostCopies(
            self._resources, self.lease, self._copy_stream, pieces, overlapped, behind_launches, deadline_ns
        )
        return self._copies

    def records(self, steps: Sequence[Prepared]) -> bool:
        """Returns whether a graph of a sequence can be recorded, whatever it costs."""
        return not steps or self._sequence(tuple([launch for launch, _ in steps])).decision is not None

    def enqueue(
        self, steps: Sequence[Prepared], rounds: int, copies: HostCopies | None, wanted: bool | None = None
    ) -> None:
        """Runs a sequence ``rounds`` times: by its graph if that pays or is ``wanted``, else launch by launch."""
        if not steps or not rounds:
            return
        if self._parts:
            self._mark()
        self.launches = self.launches or 0
        self._forced = wanted is not None
        part = _Part(steps, self._sequence(tuple([launch for launch, _ in steps])), rounds, copies)
        self._parts.append((part, self._run(part.sequence, part, rounds, wanted)))

    def _enqueue(self, part: _Part, rounds: int) -> None:
        """Implements ``Slot._enqueue``."""
        steps, sequence, _, copies = part
        launches = rounds * sequence.kernels
        self.launches = (self.launches or 0) + launches
        self._device.counters.kernel_launches += launches
        now_ns = self._device.clock.now_ns
        began = now_ns()
        for _ in range(rounds):
            for launch, step in steps:
                if copies is not None:
                    copies.send(step.number)
                launch.enqueue(step)
        self._submitting_ns += now_ns() - began
        if sequence.operations > sequence.kernels or (copies is not None and copies.behind_launches):
            self._only_launches = False

    def _prepare(self, part: _Part) -> None:
        """Implements ``Slot._prepare``."""
        if part.copies is not None:
            for _, step in part.steps:
                part.copies.send(step.number)

    def _record(self, part: _Part, chain: Chain) -> None:
        """Implements ``Slot._record``."""
        self.record(part.steps, chain)

    def _refresh(self, part: _Part, graph: RecordedGraph) -> int:
        """Implements ``Slot._refresh``: several steps that differ in values only may share one launch."""
        changed = end = 0
        for launch, step in part.steps:
            first, end = end, end + launch.kernels
            if launch.has_values:
                launch.set_values(step)
                changed += graph.update(first, end)
        return changed

    def settle(self, device_ns: int, wall_ns: int) -> None:
        """Records the time of a run whose work has all ended, on the device and in all.

        Each part's share is taken in proportion to its operations, which are assumed to take the same time.  Such a
        share means nothing if only some parts were replayed, or if host bytes were copied; copies between launches also
        hide the kernels' own time.  A run that a caller forced says nothing about those that costs decide about.
        """
        parts, copies = self._parts, self._copies
        if not self._forced and (copies is None or not copies.behind_launches):
            total = sum(part.operations for part, _ in parts)
            alike = copies is None and sum(count for _, count in parts) in (0, sum(part.rounds for part, _ in parts))
            for (part, replayed), taken_ns in zip(parts, self._device_times(device_ns), strict=True):
                decision = part.sequence.decision
                if decision is not None and replayed in (0, part.rounds):
                    share = wall_ns * part.operations // total if alike else None
                    decision.took(taken_ns // part.rounds, share, part.rounds)
        self.end()

    def end(self, *, idle: bool = True) -> None:
        """Implements ``Slot.end``.  ``idle``: the pinned memory of the run may be used again."""
        super().end()
        self._parts.clear()
        copies, self._copies = self._copies, None
        if copies is not None:
            copies.release(idle=idle)

    def release(self, *, idle: bool) -> None:
        """Implements ``Slot.release``."""
        resources = self._resources
        launches, sequences = list(self._launches.values()), list(self._sequences.values())
        self._launches.clear()
        self._sequences.clear()
        self._overlapped.clear()
        leases = [self.lease, *([] if self._copy_lease is None else [self._copy_lease])]
        self._copy_lease = None
        between, self._between = self._between, None
        let_go = resources.streams.give_back if idle else resources.streams.free
        for sequence in sequences:
            sequence.release()
        self.loops.release()
        release_all(
            [
                partial(self.end, idle=idle),
                *(launch.release for launch in launches),
                *(partial(let_go, lease) for lease in leases),
                *([] if between is None else [partial(self._device.driver.event_destroy, between)]),
            ]
        )

    # ---- details
    def _mark(self) -> None:
        """Records an event between the two parts of a run."""
        driver = self._device.driver
        if self._between is None:
            self._between = driver.event_create(timing=True)
        driver.event_record(self._between, self.lease.stream)

    def _device_times(self, device_ns: int) -> tuple[int, ...]:
        """Returns the device time of each part of a run that took ``device_ns`` in all."""
        if len(self._parts) < 2:
            return (device_ns,) * len(self._parts)
        assert self._between is not None
        first = round(self._device.driver.event_elapsed_ms(self.lease.started, self._between) * 1e6)
        return first, max(0, device_ns - first)

    def _sequence(self, launches: Launches) -> _Sequence:
        sequence = self._sequences.get(launches)
        if sequence is None:
            sequence = self._sequences[launches] = _Sequence(self._resources, launches)
            if len(self._sequences) > SEQUENCES:
                self._sequences.popitem(last=False)[1].release()
        else:
            self._sequences.move_to_end(launches)
        return sequence

    def _order(self, part: Sequence[Prepared]) -> Iterable[Sequence[int]]:
        """Returns, for each step, the steps that it has to wait for.

        A graph orders only those nodes that an edge connects, so only the edges that hazards demand are added.
        """
        if not self._device.options.side_by_side:
            return [(), *((number,) for number in range(len(part) - 1))]
        operations = tuple(ALL_MEMORY if launch.cooperative else launch.accesses(step) for launch, step in part)
        return decide(self._resources.decisions, hazard_graph, HazardInputs(operations)).predecessors

    def _copy_stream(self) -> StreamLease:
        """Returns the stream for copies that overlap with launches."""
        if self._copy_lease is None:
            self._copy_lease = self._resources.streams.acquire()
        return self._copy_lease

    def _overlapped_steps(self, prepared: Sequence[Prepared]) -> frozenset[int]:
        if not self._device.options.copy_overlap:
            return frozenset()
        launches = tuple([launch for launch, _ in prepared])
        numbers = self._overlapped.get(launches)
        if numbers is None:
            numbers = self._overlapped[launches] = overlapped_steps(prepared)
            if len(self._overlapped) > SEQUENCES:
                self._overlapped.popitem(last=False)
        return numbers

    def _evict(self, launch: StepLaunch) -> None:
        """Releases a launch, and the graphs and overlap decisions that refer to its memory."""
        for launches in [launches for launches in self._overlapped if launch in launches]:
            del self._overlapped[launches]
        for launches in [launches for launches in self._sequences if launch in launches]:
            self._sequences.pop(launches).release()
        self.loops.drop(launch)
        launch.release()
