"""A host that submits, and a stream that executes: the truth that predicted times are held against.

It is made of durations, a queue and an agenda of events, and shares no code with the prices that a plan is made of.
What they leave out happens here: noise in every single duration, a queue of limited depth, at whose end the host has to
wait, the way from the host to the device and back, a host that fills the ring of a resident kernel.

Times are ns.  A batch is ``runs`` runs of ``nodes`` kernels, after which the host waits.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

QUEUE_DEPTH: Final = 1024
"""Submissions that a stream holds before the host has to wait."""
ARRIVAL: Final = 0.3
"""Part of a round trip: from the end of a submission until an idle device begins.  The rest is the way back."""
PUSH_NS: Final = 150.0
"""For the host to put an item into the ring of a resident kernel."""

Draw = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Machine:
    """Medians of what host and device take."""

    launch: float
    kernel: float
    round_trip: float = 3_000.0
    launch_gap: float = 1_300.0
    graph_record: float = 20_000.0
    graph_record_node: float = 3_500.0
    graph_update: float = 500.0
    graph_update_node: float = 1_000.0
    graph_replay: float = 2_500.0
    graph_replay_node: float = 20.0
    graph_gap: float = 900.0
    persistent_setup: float = 50_000.0
    persistent_poll: float = 1_000.0


class Batch(NamedTuple):
    """``changed``: nodes whose parameters change before each replay.  ``joined``: kernels of a fused launch, which
    takes ``fused`` times as long as these.
    """

    runs: int
    nodes: int
    changed: int = 0
    joined: int = 1
    fused: float = 1.0


class Submit(NamedTuple):
    """Hand over work that takes the device so long."""

    duration_ns: float


class Wait(NamedTuple):
    """For the device to have done everything."""


Host = Iterator[float | Submit | Wait]
"""The actions of a host in order; a float is a time for which it is busy."""


def noise(sigma: float, seed: object) -> Draw:
    """Draws durations: log-normal, from their median."""
    gauss = random.Random(str(seed)).gauss
    return lambda median_ns: median_ns * math.exp(gauss(0.0, sigma))


def batch_ns(mode: str, machine: Machine, batch: Batch, draw: Draw) -> float:
    """How long one batch takes, for the host, once a graph is recorded."""
    host, gap_ns = _MODES[mode](machine, batch, draw)
    return _Simulation(host, lambda: draw(gap_ns), draw(machine.round_trip)).run()


def record_ns(machine: Machine, batch: Batch, draw: Draw) -> float:
    """How long it takes to capture the run and to instantiate a graph of it."""
    return draw(machine.graph_record) + sum(draw(machine.graph_record_node) for _ in range(batch.nodes))


class _Simulation:
    def __init__(self, host: Host, gap_ns: Callable[[], float], round_trip_ns: float) -> None:
        self._host, self._gap_ns = host, gap_ns
        self._arrival_ns, self._notice_ns = ARRIVAL * round_trip_ns, (1 - ARRIVAL) * round_trip_ns
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._events = 0
        self._now = self._ready = 0.0
        self._queue: deque[tuple[float, float]] = deque()  # arrival and duration; the first one executes
        self._held: Submit | None = None
        self._waiting = False

    def run(self) -> float:
        """The time when the host is through."""
        self._act()
        while self._agenda:
            self._now, _, event = heapq.heappop(self._agenda)
            event()
        return self._now

    def _at(self, time: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time, self._events, event))
        self._events += 1

    # ---- host
    def _act(self) -> None:
        """Go on until the host is busy, held up or through."""
        for step in self._host:
            match step:
                case Submit():
                    if len(self._queue) == QUEUE_DEPTH:
                        self._held = step
                        return
                    self._enqueue(step)
                case Wait():
                    if self._queue:
                        self._waiting = True
                        return
                case busy_ns:
                    self._at(self._now + busy_ns, self._act)
                    return

    def _enqueue(self, work: Submit) -> None:
        self._queue.append((self._now + self._arrival_ns, work.duration_ns))
        if len(self._queue) == 1:
            self._start_first()

    # ---- device
    def _start_first(self) -> None:
        arrival, duration = self._queue[0]
        self._at(max(arrival, self._ready) + duration, self._done)

    def _done(self) -> None:
        self._queue.popleft()
        self._ready = self._now + self._gap_ns()
        if self._queue:
            self._start_first()
        if self._held is not None:
            held, self._held = self._held, None
            self._enqueue(held)
            self._act()
        elif self._waiting and not self._queue:
            self._waiting = False
            self._at(self._now + self._notice_ns, self._act)


# ---- what hosts do
_Mode = Callable[[Machine, Batch, Draw], tuple[Host, float]]
"""A host, and the gap between its submissions on the device."""


def _plain(machine: Machine, batch: Batch, draw: Draw) -> tuple[Host, float]:
    def host() -> Host:
        for _ in range(batch.runs * batch.nodes):
            yield draw(machine.launch)
            yield Submit(draw(machine.kernel))
        yield Wait()

    return host(), machine.launch_gap


def _fused(machine: Machine, batch: Batch, draw: Draw) -> tuple[Host, float]:
    def host() -> Host:
        for _ in range(batch.runs):
            for first in range(0, batch.nodes, batch.joined):
                yield draw(machine.launch)
                kernels = min(batch.joined, batch.nodes - first)
                yield Submit(batch.fused * sum(draw(machine.kernel) for _ in range(kernels)))
        yield Wait()

    return host(), machine.launch_gap


def _graph(machine: Machine, batch: Batch, draw: Draw) -> tuple[Host, float]:
    def host() -> Host:
        for _ in range(batch.runs):
            if batch.changed:
                yield draw(machine.graph_update) + sum(draw(machine.graph_update_node) for _ in range(batch.changed))
            yield draw(machine.graph_replay) + sum(draw(machine.graph_replay_node) for _ in range(batch.nodes))
            gaps = sum(draw(machine.graph_gap) for _ in range(batch.nodes - 1))
            yield Submit(sum(draw(machine.kernel) for _ in range(batch.nodes)) + gaps)
        yield Wait()

    return host(), machine.launch_gap


def _persistent(machine: Machine, batch: Batch, draw: Draw) -> tuple[Host, float]:
    def host() -> Host:
        yield draw(machine.persistent_setup)
        for _ in range(batch.runs * batch.nodes):
            yield draw(PUSH_NS)
            yield Submit(draw(machine.persistent_poll) + draw(machine.kernel))
        yield Wait()

    return host(), 0.0


_MODES: Final[dict[str, _Mode]] = {
    "plain": _plain,
    "graph": _graph,
    "persistent": _persistent,
    "fused": _fused,
}
