"""Streams, events, and the scheduler that runs their operations.

A stream is a queue of operations.  Under ``DEFERRED`` no operation runs when it is enqueued: a wait runs the heads of
all streams in seeded random order until its target is done, and a query runs a few of them, so a missing dependency
shows under some seed.  Under ``EAGER`` every operation runs when it is enqueued.  The classes are not thread-safe: the
driver's lock guards them, and a wait for a slow kernel releases that lock.

A kernel may run in slices, while the host shares memory with kernels: between two of them other streams may run.  If
all its lanes wait for the host, it is idle, which is no fault; while nothing else can run either, a wait lets other
threads of the host go on.  A wait gives the kernel up after some seconds in which nothing happened.

Time is virtual.  An operation starts when the host has enqueued it, its predecessors are done, and its stream and its
engine are free; there is one engine for copies in each direction and one for kernels.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from vyre.adapters.cuda.codes import DIAGNOSED
from vyre.adapters.cuda.machine.fault_plan import RunName, SlowKernel
from vyre.adapters.cuda.machine.ordering import Access, VectorClock, join
from vyre.adapters.cuda.machine.status import Status
from vyre.ports.interrupts import PATIENCE_S, given_up

QUEUE_LIMIT: Final = 1024
_LONGEST_NAP: Final = 0.02
MOST_STEPS_OF_A_QUERY: Final = 3
_IDLE_NAP: Final = 0.001
_MOST_NAPS: Final = 2_000
"""The naps in a row, of a wait for an idle kernel, after which nobody is expected to give it work."""


class StreamSchedule(Enum):
    """When enqueued operations run; the module's docstring describes both schedules."""

    EAGER = "eager"
    DEFERRED = "deferred"


class Engine(Enum):
    """A unit of the device that does one operation at a time."""

    UPLOAD = "upload"
    DOWNLOAD = "download"
    COMPUTE = "compute"


class Outcome(NamedTuple):
    """The result of an operation: its virtual time, and the device memory that it accessed."""

    duration_ns: int = 0
    accesses: tuple[Access, ...] = ()


class Pause(NamedTuple):
    """The end of a slice of an operation that goes on when it is called again.

    ``idle``: it waits for the host.  ``give_up`` returns the error if the host never does what it waits for.
    ``pass_time`` lets the time pass until it looks again, although nothing has changed.
    """

    idle: bool
    give_up: Callable[[], Status]
    pass_time: Callable[[], None]


NOTHING: Final = Outcome()
Action = Callable[[int], "Outcome | Pause"]
"""Performs an operation or a slice of it; its argument is the virtual start in ns.  Raises ``Status`` if the device
faults.
"""


def _nothing(_: int) -> Outcome:
    return NOTHING


class Completion:
    """The state of an operation: whether it is done, and when in virtual time.

    ``clock`` counts the operations that it comes after, and itself.  ``diagnosis`` is the diagnosis of an earlier
    kernel that the host did not know of when the operation ran.  ``after_host`` is the host's clock when it was
    enqueued, which ``clock`` includes.
    """

    __slots__ = ("after_host", "clock", "diagnosis", "done", "end_ns")

    def __init__(self) -> None:
        self.done: bool = False
        self.end_ns: int = 0
        self.clock: VectorClock = {}
        self.after_host: VectorClock | None = None
        self.diagnosis: Status | None = None


DONE: Final = Completion()
DONE.done = True


class _Hold:
    """The state of a slow kernel that keeps its stream's head from finishing."""

    def __init__(self, slow: SlowKernel, real: float, virtual_ns: int) -> None:
        self.real_end: float = real + slow.seconds if slow.seconds else -math.inf
        self.virtual_end: int = virtual_ns + slow.virtual_ns

    def over(self, real: float, virtual_ns: int) -> bool:
        """Returns whether the kernel may finish."""
        return real >= self.real_end and virtual_ns >= self.virtual_end


@dataclass(slots=True, kw_only=True)
class Operation:
    """One entry of a stream.

    ``after`` holds completions that must be done in addition to the entries before it.  ``records`` are completed in
    the middle of it.  ``uses`` holds handles of code that it runs.  ``carries`` tells whether it takes over a diagnosis
    from ``after``; ``diagnosis`` is one that it has in any case.  ``paused`` is the end of its latest slice, if it has
    begun and not ended.  ``abandoned_s`` is when nobody waited for it any more, in s of the monotonic clock.
    """

    name: RunName
    action: Action = _nothing
    engine: Engine | None = None
    after: tuple[Completion, ...] = ()
    slow: SlowKernel | None = None
    records: tuple[Completion, ...] = ()
    uses: frozenset[int] = frozenset()
    carries: bool = False
    diagnosis: Status | None = None
    completion: Completion = field(default_factory=Completion)
    enqueued_ns: int = 0
    hold: _Hold | None = None
    paused: Pause | None = None
    abandoned_s: float = math.inf


@dataclass(slots=True, eq=False)
class Stream:
    """A queue of operations.  ``last`` is the completion of the newest operation.

    ``diagnosis`` is that of a kernel in the stream, until it is reported to the host; meanwhile no kernel in it
    computes.
    """

    handle: int
    context: int
    queue: deque[Operation] = field(default_factory=deque)
    last: Completion | None = None
    clock: VectorClock = field(default_factory=dict)
    free_ns: int = 0
    diagnosis: Status | None = None

    def told(self) -> None:
        """Records that the diagnosis was reported to the host: it still holds for operations enqueued before, for no
        others.
        """
        for operation in self.queue:
            operation.diagnosis = operation.diagnosis or self.diagnosis
        self.diagnosis = None


@dataclass(slots=True, eq=False)
class Event:
    """An event.  ``record`` is the newest recording, None before the first; queries and waits refer to that one."""

    handle: int
    context: int
    timing: bool
    record: Completion | None = None


class Scheduler:
    """Runs the operations of all streams.

    ``ran(stream, operation, outcome)`` and ``failed(stream, operation, status)`` are called after each; ``failed`` must
    ``drop`` the streams of the lost context.

    Between two calls this invariant holds, and ``broken`` checks it:

    1. the busy streams are those with operations left to run, and no such operation is done, nor are its records;
    2. each operation has a clock of its own: it counts one operation of the stream more than the clock before it, and
       the stream has the clock and the completion of its last one;
    3. an operation comes after all that it awaits: its clock counts them.  So there is no cycle of operations that
       await each other, and the one that was enqueued first of all awaits nothing but a slow kernel's end;
    4. the host has seen the end of no operation that is left to run.
    """

    def __init__(
        self,
        schedule: StreamSchedule,
        seed: int,
        changed: threading.Condition,
        clock: Callable[[], float],
        ran: Callable[[Stream, Operation, Outcome], None],
        failed: Callable[[Stream, Operation, Status], None],
    ) -> None:
        self._schedule = schedule
        self._random = random.Random(seed)
        self._changed = changed
        self._clock = clock
        self._ran = ran
        self._failed = failed
        self._busy: dict[int, Stream] = {}
        self._idle_now: set[int] = set()
        """The streams whose kernels were idle since anything else has happened."""
        self._engines = dict.fromkeys(Engine, 0)
        self._awaited: Completion | None = None
        self._running: Stream | None = None
        self.now_ns: int = 0
        self.host_clock: VectorClock = {}

    def submit(self, stream: Stream, operation: Operation) -> Completion:
        """Appends ``operation`` to ``stream``."""
        completion, host = operation.completion, self.host_clock
        count = stream.clock.get(stream.handle, 0)
        # A clock that counts an operation comes after all that this operation comes after.
        unseen = () if host.get(stream.handle, 0) >= count else (stream.clock,)
        clock = join(host, *unseen, *(before.clock for before in operation.after))
        clock[stream.handle] = count + 1
        stream.clock, stream.last = clock, completion
        for each in (completion, *operation.records):
            each.clock, each.after_host = clock, host
        operation.enqueued_ns = self.now_ns
        stream.queue.append(operation)
        self._busy[stream.handle] = stream
        if self._schedule is StreamSchedule.EAGER:
            self._awaited = completion
            while self._step():
                pass
        elif len(stream.queue) > QUEUE_LIMIT:
            self._finish(stream.queue[0].completion)
        return completion

    def query(self, target: Completion | None) -> bool:
        """Runs a few operations, then returns whether ``target`` is done; None counts as done."""
        if target is None:
            return True
        if not target.done:
            self._awaited = target
            for _ in range(self._random.randint(1, MOST_STEPS_OF_A_QUERY)):
                self._step()
        if target.done:
            self._seen(target)
        return target.done

    def wait(self, targets: Iterable[Completion]) -> None:
        """Runs operations until ``targets`` are done."""
        for target in targets:
            self._finish(target)
            self._seen(target)

    def pending(self, context: int) -> list[Completion]:
        """Returns the newest operation of every stream of ``context`` that has some left to run."""
        return [s.last for s in self._busy.values() if s.context == context and s.last is not None]

    def floors(self) -> list[VectorClock]:
        """Returns clocks, the heads' and the host's: every operation still to run comes after at least one of them."""
        return [self.host_clock, *(stream.queue[0].completion.clock for stream in self._busy.values())]

    def uses(self, handle: int) -> bool:
        """Returns whether an operation still to run uses the code behind ``handle``."""
        return any(handle in operation.uses for stream in self._busy.values() for operation in stream.queue)

    def drop(self, context: int) -> None:
        """Discards the operations of all streams of ``context``; waits for them end."""
        for stream in [s for s in self._busy.values() if s.context == context]:
            for operation in stream.queue:
                for completion in (operation.completion, *operation.records):
                    completion.done = True
            stream.queue.clear()
            del self._busy[stream.handle]
        self._changed.notify_all()

    def end_holds(self) -> None:
        """Lets every slow kernel end, whether it runs now or is enqueued."""
        for stream in self._busy.values():
            for operation in stream.queue:
                operation.slow = operation.hold = None
        self._changed.notify_all()

    def broken(self) -> str:
        """Returns what of the invariant does not hold, empty if all of it does."""
        for handle, stream in self._busy.items():
            if handle != stream.handle or not stream.queue:
                return f"stream {handle:#x} is busy with nothing"
            newest = stream.queue[-1].completion
            if stream.last is not newest or stream.clock is not newest.clock:
                return f"stream {handle:#x} has not the clock of its last operation"
            first = newest.clock[handle] - len(stream.queue) + 1
            for count, operation in enumerate(stream.queue, first):
                if operation.completion.clock.get(handle) != count:
                    return f"{operation.name} is not operation {count} of stream {handle:#x}"
                if any(each.done for each in (operation.completion, *operation.records)):
                    return f"{operation.name} is done and left to run"
                if any(
                    join(operation.completion.clock, before.clock) != operation.completion.clock
                    for before in operation.after
                ):
                    return f"{operation.name} does not come after what it awaits"
            if self.host_clock.get(handle, 0) >= first:
                return f"the host has seen the end of operation {first} of stream {handle:#x}, which is left to run"
        if self._busy and not any(
            all(before.done for before in stream.queue[0].after) for stream in self._busy.values()
        ):
            return "every stream awaits another one"
        return ""

    def abandon(self, handle: int) -> None:
        """Notes that nobody waits for what is now in a stream, so that a kernel that goes on is given up."""
        stream = self._busy.get(handle)
        for operation in () if stream is None else tuple(stream.queue):
            operation.abandoned_s = time.monotonic()

    def given_up(self) -> bool:
        """Returns whether the operation that runs was abandoned a moment ago, or is on the stream that the caller of
        this thread waits for, who was interrupted then.
        """
        queue = () if self._running is None else self._running.queue
        if queue and time.monotonic() > queue[0].abandoned_s + PATIENCE_S / 2:
            return True
        return given_up() and any(self._awaited in (each.completion, *each.records) for each in queue)

    def _finish(self, target: Completion) -> None:
        naps, gave_way = 0, time.monotonic()
        while not target.done:
            self._awaited = target  # another thread, to which this one gave way, may have awaited something else
            if self._step():
                naps = 0
                if time.monotonic() - gave_way > _LONGEST_NAP:
                    self._changed.wait(_IDLE_NAP)  # as the calls of a driver do not wait for those of other threads
                    gave_way = time.monotonic()
            elif naps < _MOST_NAPS:
                naps += self._idle()
            else:
                self._give_up()

    def _seen(self, target: Completion) -> None:
        is_later = target.after_host is self.host_clock
        self.host_clock = target.clock if is_later else join(self.host_clock, target.clock)
        self.now_ns = max(self.now_ns, target.end_ns)

    def _step(self) -> bool:
        """Runs an operation or a slice of one; returns False if there is none, or if all of them were idle."""
        while True:
            idle = self._idle_now
            ready = [s for s in self._busy.values() if s.handle not in idle and self._can_run(s.queue[0])]
            if not ready:
                idle.clear()
                return False
            stream = self._random.choice(ready)
            self._run(stream)
            paused = stream.queue[0].paused if stream.queue else None
            if paused is None or not paused.idle:
                idle.clear()
                return True
            idle.add(stream.handle)

    def _can_run(self, operation: Operation) -> bool:
        if not all(before.done for before in operation.after):
            return False
        if operation.slow is None:
            return True
        if operation.hold is None:
            operation.hold = _Hold(operation.slow, self._clock(), self.now_ns)
        return operation.hold.over(self._clock(), self.now_ns)

    def _run(self, stream: Stream) -> None:
        self._running, operation = stream, stream.queue[0]
        completion, engine = operation.completion, operation.engine
        start = max([operation.enqueued_ns, stream.free_ns, *(before.end_ns for before in operation.after)])
        if engine is not None:
            start = max(start, self._engines[engine])
        known = operation.diagnosis
        diagnosis = known or stream.diagnosis
        if operation.carries:
            diagnosis = next((before.diagnosis for before in operation.after if before.diagnosis), diagnosis)
        outcome = NOTHING
        if diagnosis is None or engine is not Engine.COMPUTE:
            try:
                performed = operation.action(start)
                if isinstance(performed, Pause):
                    operation.paused = performed
                    return
                outcome = performed
            except Status as failure:
                if failure.code != DIAGNOSED:
                    self._failed(stream, operation, failure)
                    return
                diagnosis = failure
        if diagnosis is not None:
            if diagnosis is not known:
                stream.diagnosis = diagnosis
            for record in (completion, *operation.records):
                record.diagnosis, record.done, record.end_ns = diagnosis, True, start
        end = start + outcome.duration_ns + (operation.slow.virtual_ns if operation.slow else 0)
        if operation.paused is not None:
            end = max(end, self.now_ns)  # the host has lived through it
        completion.end_ns = stream.free_ns = end
        if engine is not None:
            self._engines[engine] = end
        stream.queue.popleft()
        if not stream.queue:
            del self._busy[stream.handle]
        completion.done = True
        self._ran(stream, operation, outcome)
        self._changed.notify_all()

    def _give_up(self) -> None:
        """Ends an idle kernel with its error."""
        for stream in tuple(self._busy.values()):
            operation = stream.queue[0]
            if operation.paused is not None:
                self._failed(stream, operation, operation.paused.give_up())
                return

    def _idle(self) -> bool:
        """Skips the virtual time of a slow kernel, or releases the lock while real time passes, because no operation
        can run.  Returns whether only idle kernels are left.
        """
        heads = [stream.queue[0] for stream in self._busy.values()]
        holds: Sequence[_Hold] = [head.hold for head in heads if head.hold is not None and head.paused is None]
        idle = [head.paused for head in heads if head.paused is not None]
        if idle and not holds:
            for paused in idle:
                paused.pass_time()
            self._changed.wait(_IDLE_NAP)
            return True
        if not holds:
            raise RuntimeError(f"the emulated device is stuck: {self.broken()}")
        real = self._clock()
        skippable = [hold.virtual_end for hold in holds if hold.real_end <= real]
        if skippable:
            self.now_ns = max(self.now_ns, min(skippable))
        else:
            nap = min(min(hold.real_end for hold in holds) - real, _LONGEST_NAP)
            self._changed.wait(nap)
        return False
