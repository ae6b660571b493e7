"""Launches on resident memory: sequences of steps on one stream, each prepared once for the memory it is bound to.

A *slot* owns a stream and remembers the launches prepared on it by program, config and memory.  A run takes an idle
slot, enqueues everything in order, and waits once.  If a kernel can trap, the run waits after each launch and checks,
so that no kernel runs after a trap.

``bind`` resolves everything about one step, so that a call only launches and waits.  A bound step refuses to run after
a failure that may have left work behind, and when the epoch that it was prepared in has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import Final, NamedTuple
from weakref import WeakSet

from vyre.adapters.cuda.runtime.chunks import Piece, copy_now
from vyre.adapters.cuda.runtime.device import DeviceMember, release_all
from vyre.adapters.cuda.runtime.executor import CudaExecutor
from vyre.adapters.cuda.runtime.resident import MemoryRange, ResidentStore
from vyre.adapters.cuda.runtime.resident_launch import Prepared, Step, StepLaunch, buffers_of
from vyre.adapters.cuda.runtime.resident_slot import ResidentSlot
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed, deadline_after
from vyre.adapters.cuda.seam import CudaCallError, KernelDiagnosis
from vyre.adapters.forks import process_lock
from vyre.adapters.host.step_memory import step_memory
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError, DispatchTimeout, InvalidResource, UnsupportedFeature, VyreError
from vyre.domain.record import U32_MAX
from vyre.domain.unique import Unique
from vyre.policies.frontiers.fixpoint import FixpointExecutor
from vyre.policies.launching.grid_sync_mode import GridSyncInputs
from vyre.ports.interrupts import PATIENCE_S, whole
from vyre.ports.requests import FLAG_BYTES, ResidentSequence, ResidentStep
from vyre.ports.support import Profiler

SLOTS: Final = 16
"""The number of idle slots that are kept."""
FAILED: Final = "an earlier call failed, or the device was lost or recovered"
MANY_LAUNCHES: Final = 16
"""The launches of a bound step from which on looking up its sequence costs comparatively little."""


class Ran(NamedTuple):
    """The run of a sequence: the moment when all of it was enqueued, and the kernels' time, in ns.

    ``launches`` is None where the slot knows it.  ``rounds`` and ``converged`` are those of a sequence with a flag.
    """

    enqueued_ns: int
    device_ns: int
    launches: int | None = None
    rounds: int | None = None
    converged: bool | None = None


NOTHING: Final = Ran(0, 0)


class ResidentRunner(DeviceMember):
    """``ResidentExecutor``, ``ResidentBinder`` and ``LoopSupport`` of one device."""

    def __init__(self, resources: Resources, executor: CudaExecutor, store: ResidentStore, profiler: Profiler) -> None:
        self._resources = resources
        self._profiler = profiler
        self.device: Final = resources.device
        self._executor = executor
        self._store = store
        self._idle: list[ResidentSlot] = []
        self._active: set[ResidentSlot] = set()
        self._bound: WeakSet[Bound] = WeakSet()
        self._lock = process_lock()
        resources.memory.on_shortage(self._release_idle)
        resources.device.add(self)

    @whole
    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        """Runs a sequence, waits, fills its reads, and returns the measured times."""
        with self._profiler.range("vyre.cuda.resident_dispatch"):
            return self._run_sequence(sequence)

    def _run_sequence(self, sequence: ResidentSequence) -> DispatchTiming:
        device = self.device
        started = device.clock.now_ns()
        reads = self._store.pieces(sequence.reads)
        flag = None
        if sequence.flag is not None:
            flag = self._store.range(sequence.flag, 0, FLAG_BYTES, writing=True)
        steps = [self._resolve(number, step) for number, step in enumerate((*sequence.prefix, *sequence.repeated))]
        limits = [s.config.timeout_s for s in (*sequence.prefix, *sequence.repeated) if s.config.timeout_s is not None]
        deadline = deadline_after(device.clock, min(limits) if limits else None)
        with device.calls, self._store.using(buffers_of(steps)):
            self._resources.quarantine.reap()
            slot = self._take()
            try:
                once, limit = len(sequence.prefix), sequence.repeat_count
                if flag is None:
                    ran = self._run(slot, steps, once, limit, reads, deadline, sequence.replayed)
                else:
                    looped = self._loop(slot, steps, once, limit, flag, reads, deadline)
                    ran = looped or self._poll(slot, steps, once, limit, flag, reads, deadline)
            except BaseException as error:
                self._drop(slot, steps, error, deadline)
                if isinstance(error, DeadlinePassed):
                    raise self.timeout(steps[0], min(limits)) from error
                raise
            launches = slot.launches if ran.launches is None else ran.launches
            launch_ns = slot.launch_ns
            self._put(slot)
        now = device.clock.now_ns()
        enqueued = ran.enqueued_ns
        waited = None if launches is None else now - enqueued  # with checks between launches, all had ended before
        return DispatchTiming(
            now - started, ran.device_ns, enqueued - started, waited, launches, launch_ns, ran.rounds, ran.converged
        )

    @whole
    def bind(self, step: ResidentStep, /) -> Bound:
        """Prepares ``step`` once; its host bytes are copied now, for every launch."""
        resolved = self._resolve(0, step)
        replays = self.device.options.graph_after is not None
        with self.device.calls:
            self._resources.quarantine.reap()
            slot = ResidentSlot(self._resources)
            try:
                launch = slot.launch(resolved)
                pieces = launch.host_pieces(resolved)
                many = launch.operations >= MANY_LAUNCHES and replays and not (launch.looks or pieces)
                bound = (BoundSequence if many else BoundStep)(self, slot, resolved, step.config.timeout_s)
                if pieces:
                    copy_now(self._resources, slot.lease.stream, pieces, to_device=True)
            except BaseException as error:
                self._drop(slot, (resolved,), error)
                raise
            with self._lock:
                self._bound.add(bound)
                bound.owns = True
        return bound

    @whole
    def run_bound(self, bound: BoundSequence) -> None:
        """Runs a bound sequence once."""
        deadline = deadline_after(self.device.clock, bound.seconds)
        with self.device.calls:
            try:
                self._run(bound.slot, (bound.step,), 1, 0, (), deadline)
            except KernelDiagnosis:  # all work has ended, and the sequence may run again
                raise
            except BaseException as error:
                self.give_up(bound, error)
                if isinstance(error, DeadlinePassed):
                    raise self.timeout(bound.step, bound.seconds) from error
                raise

    @whole
    def unbind(self, bound: Bound) -> None:
        """Closes a bound step, if it is not closed yet."""
        if self._unbound(bound, "it was closed") and self.device.reachable:
            with self.device.calls:
                bound.slot.release(idle=True)

    @whole
    def give_up(self, bound: Bound, error: BaseException) -> None:
        """Closes a bound step of which a call has failed and may have left work behind."""
        if self._unbound(bound, FAILED):
            self._drop(bound.slot, (bound.step,), error, deadline_after(self.device.clock, bound.seconds))

    def _unbound(self, bound: Bound, why: str) -> bool:
        """Expires a bound step and takes its slot; returns False if it had none any more."""
        with self._lock:
            owned, bound.owns = bound.owns, False
            self._bound.discard(bound)
        if owned:
            bound.expire(why)
        return owned

    # ---------------------------------------------------------------- resolving
    def _resolve(self, number: int, step: ResidentStep) -> Step:
        """Checks everything that can be checked before the first byte moves, and returns the step."""
        memory = step_memory(step, self._store.own)
        config = memory.sized
        pipeline, _ = self._executor.pipeline(step.program, config)
        launch = pipeline.shape(memory.input_nbytes).launch
        memory.check(launch)
        return Step(number, step.program, pipeline, memory.plan, launch, memory.memory, launch.nbytes, config.launches)

    # ---------------------------------------------------------------- running
    def _run(
        self,
        slot: ResidentSlot,
        steps: Sequence[Step],
        once: int,
        repeat_count: int,
        reads: Sequence[Piece],
        deadline: int | None,
        wanted: bool | None = None,
    ) -> Ran:
        """Enqueues the first ``once`` steps once and the others ``repeat_count`` times, waits, and reads."""
        device, driver = self.device, self.device.driver
        prepared = slot.prepare(steps)
        looks = any(launch.looks for launch, _ in prepared)
        if wanted and (looks or not (slot.records(prepared[:once]) and slot.records(prepared[once:]))):
            why = "a launch may trap" if looks else "no graph of this sequence is recorded"
            raise UnsupportedFeature(
                feature="the forced mode graph", backend=device.backend, fix=f"leave the mode to the planner: {why}."
            )
        check = partial(self.check_trap, slot, deadline) if looks else None
        began = device.clock.now_ns()
        run = prepared if repeat_count else prepared[:once]
        copies = slot.copies(run, deadline)
        if copies is not None:
            copies.send(run[0].step.number)  # before the timing starts, because nothing runs yet
        driver.event_record(slot.lease.started, slot.lease.stream)
        for part, rounds in ((prepared[:once], 1), (prepared[once:], repeat_count)):
            if check is None:
                slot.enqueue(part, rounds, copies, wanted)
            else:
                for launch, step in chain.from_iterable(repeat(part, rounds)):
                    if copies is not None:
                        copies.send(step.number)
                    launch.enqueue_checked(step, check)
        enqueued, device_ns = self._end(slot, reads, deadline)
        slot.settle(device_ns, device.clock.now_ns() - began)
        return Ran(enqueued, device_ns)

    def _end(self, slot: ResidentSlot, reads: Sequence[Piece], deadline: int | None) -> tuple[int, int]:
        """Waits for the end of a run, and reads; returns when all was enqueued, and the kernels' time, in ns."""
        device, (stream, _, ended, done) = self.device, slot.lease
        device.driver.event_record(ended, stream)
        device.driver.event_record(done, stream)
        enqueued = device.clock.now_ns()
        if reads:
            device.counters.sync_points += 1
            self._read(slot, reads, deadline)
        else:
            slot.wait(deadline)
        return enqueued, slot.device_ns()

    @whole
    def loop_executors(self, steps: Sequence[ResidentStep], /) -> frozenset[FixpointExecutor]:
        resolved = [self._resolve(number, step) for number, step in enumerate(steps)]
        with self.device.calls:
            self._resources.quarantine.reap()
            slot = self._take()
            try:
                loops = _loops_in_graphs(slot.prepare(resolved)) and self._resources.conditions.available
            except BaseException as error:
                self._drop(slot, resolved, error)
                raise
            self._put(slot)
        return frozenset({FixpointExecutor.WHILE_GRAPH} if loops else ())

    @whole
    def grid_sync(self, step: ResidentStep, /) -> GridSyncInputs:
        resolved = self._resolve(0, step)
        with self.device.calls:
            return resolved.pipeline.grid_sync(resolved.launch.grid)

    def _loop(
        self,
        slot: ResidentSlot,
        steps: Sequence[Step],
        once: int,
        limit: int,
        flag: MemoryRange,
        reads: Sequence[Piece],
        deadline: int | None,
    ) -> Ran | None:
        """Enqueues the first ``once`` steps once, and a graph that repeats the others until one round leaves the flag
        at 0; waits once.  None where there is no such graph, and then nothing has run.
        """
        driver = self.device.driver
        prepared = slot.prepare(steps)
        if not 0 < limit <= U32_MAX or not _loops_in_graphs(prepared):
            return None
        rest = prepared[once:]
        loop = slot.loops.ready(rest, slot.record, flag.address, limit)
        if loop is None:
            return None
        copies = slot.copies(prepared, deadline)
        if copies is not None:
            copies.send(steps[0].number)
        driver.event_record(slot.lease.started, slot.lease.stream)
        slot.enqueue(prepared[:once], 1, copies)
        if copies is not None:
            for _, step in rest:
                copies.send(step.number)
        loop.launch()
        enqueued, device_ns = self._end(slot, [loop.status, *reads], deadline)
        slot.end()
        rounds, converged = loop.ended()
        return Ran(enqueued, device_ns, slot.launches or 0, rounds, converged)

    def _poll(
        self,
        slot: ResidentSlot,
        steps: Sequence[Step],
        once: int,
        limit: int,
        flag: MemoryRange,
        reads: Sequence[Piece],
        deadline: int | None,
    ) -> Ran:
        """Enqueues the first ``once`` steps once, and then the others round by round until one leaves the flag at 0.

        It waits after each round.
        """
        word = bytearray(FLAG_BYTES)
        look = Piece(memoryview(word), flag.address)
        ran = self._run(slot, steps[:once], once, 0, () if limit else reads, deadline) if once else NOTHING
        device_ns, launches, rounds, converged = ran.device_ns, slot.launches if once else 0, 0, False
        while rounds < limit and not converged:
            self.device.driver.memset8(flag.address, 0, FLAG_BYTES, slot.lease.stream)
            ran = self._run(slot, steps[once:], 0, 1, (look,), deadline)
            device_ns += ran.device_ns
            launches = None if launches is None or slot.launches is None else launches + slot.launches
            rounds += 1
            converged = not any(word)
        if reads and (limit or not once):
            self._read(slot, reads, deadline)
        return Ran(ran.enqueued_ns or self.device.clock.now_ns(), device_ns, launches, rounds, converged)

    def _read(self, slot: ResidentSlot, reads: Sequence[Piece], deadline: int | None) -> None:
        copy_now(self._resources, slot.lease.stream, reads, deadline, to_device=False)

    def check_trap(self, slot: ResidentSlot, deadline: int | None, launch: StepLaunch) -> None:
        """Waits for a launch whose memory is looked at, and raises its trap, if it has one."""
        if not launch.looks:
            return
        self._read(slot, [launch.traps], deadline)
        if launch.can_trap:
            launch.raise_trap()

    def timeout(self, step: Step, seconds: float | None) -> DispatchTimeout:
        """Counts a passed deadline and returns its error."""
        self.device.counters.timeouts += 1
        return DispatchTimeout(
            f"resident dispatch of {step.pipeline.id} did not finish on backend `{self.device.backend}` within "
            f"{seconds} s; it may still run, and its buffers are freed only after it"
        )

    # ---------------------------------------------------------------- slots
    def _take(self) -> ResidentSlot:
        with self._lock:
            slot = self._idle.pop() if self._idle else None
        slot = slot or ResidentSlot(self._resources)
        with self._lock:
            self._active.add(slot)
        return slot

    def _put(self, slot: ResidentSlot) -> None:
        """Keeps ``slot``, which is idle; does nothing with a slot of an earlier epoch."""
        with self._lock:
            self._active.discard(slot)
            if slot.epoch != self.device.epoch:
                return
            if len(self._idle) < SLOTS:
                self._idle.append(slot)
                return
        slot.release(idle=True)

    def _drop(
        self, slot: ResidentSlot, steps: Sequence[Step], error: BaseException, deadline: int | None = None
    ) -> None:
        """Puts a slot and its buffers aside after a failure.

        What was enqueued before it is waited for until the deadline, or else may still be running.
        """
        if slot.epoch == self.device.epoch:
            self.device.settle(error, slot.streams, deadline)
        with self._lock:
            self._active.discard(slot)
        if slot.epoch != self.device.epoch or not self.device.reachable:
            return
        if isinstance(error, BackendError) and not isinstance(error, DeadlinePassed):
            self._put(slot)  # a trap, or a launch that was refused: nothing is pending behind it
            return
        for buffer in buffers_of(steps):
            buffer.occupy(slot.lease.stream)
        release: Callable[[], None] = partial(slot.release, idle=False)
        for stream in reversed(slot.streams):
            release = partial(self._resources.quarantine.hold, stream, release)
        release()

    def _release_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        release_all([partial(slot.release, idle=True) for slot in idle])

    # ---- as a member of the device
    def settled(self) -> bool:
        """Returns whether no thread is running a sequence or a bound step."""
        with self._lock:
            return not self._active and not any(bound.active for bound in self._bound)

    def release(self) -> None:
        """Releases every slot."""
        with self._lock:
            slots = [*self._idle, *self._active, *[bound.slot for bound in self._bound]]
        self.forget()
        release_all([partial(slot.release, idle=False) for slot in slots])

    def forget(self) -> None:
        """Drops every slot without a driver call, and expires every bound step."""
        with self._lock:
            bound = list(self._bound)
            self._bound.clear()
            self._idle.clear()
            self._active.clear()
        for step in bound:
            step.owns = False
            step.expire(FAILED)


def _loops_in_graphs(prepared: Sequence[Prepared]) -> bool:
    """Returns whether a graph can repeat these launches: each is let run on without a look at it."""
    return not any(launch.looks or launch.cooperative for launch, _ in prepared)


class Bound(Unique, ABC):
    """``BoundResidentStep`` on a slot of its own, which it ``owns`` until it is closed or has failed.

    ``active``: a thread is in the middle of a call.
    """

    __slots__ = ("__weakref__", "_runner", "active", "owns", "seconds", "slot", "step")

    def __init__(self, runner: ResidentRunner, slot: ResidentSlot, step: Step, seconds: float | None) -> None:
        self._runner: Final = runner
        self.slot: Final = slot
        self.step: Final = step
        self.seconds: Final = seconds
        self.active: bool = False
        self.owns: bool = False  # until ``bind`` hands it over
        for buffer in buffers_of((step,)):
            buffer.expires(self)

    @abstractmethod
    def __call__(self) -> None:
        """Launches and waits.  Raises as ``ResidentExecutor.run`` does, and ``InvalidResource`` once it has expired."""

    @abstractmethod
    def expire(self, why: str, /) -> None:
        """Implements ``Expiring.expire``."""

    def close(self) -> None:
        """Returns the stream.  Idempotent."""
        self._runner.unbind(self)

    def __del__(self) -> None:
        if getattr(self, "owns", False):
            self._runner.device.discard(partial(self.slot.release, idle=True))


class BoundStep(Bound):
    """A bound step that makes the driver calls one after the other."""

    __slots__ = ("_calls", "_device", "_enter", "_idle", "_launch", "_stream")

    def __init__(self, runner: ResidentRunner, slot: ResidentSlot, step: Step, seconds: float | None) -> None:
        super().__init__(runner, slot, step, seconds)
        self._device: Final = runner.device
        self._launch: Final = slot.launch(step)
        self._stream: Final = slot.lease.stream
        check = (partial(runner.check_trap, slot, None, self._launch),) if self._launch.looks else ()
        self._calls = self._launch.calls(step, *check)
        self._idle: Final = self._device.driver.stream_ready
        self._enter = self._device.enter

    def __call__(self) -> None:
        device = self._device
        try:
            self.active: bool = True  # before ``enter``: ``close`` waits for it, or ``enter`` refuses this thread
            self._enter()
            for call in self._calls:
                call()
            device.counters.kernel_launches += self._launch.kernels
            if not self._idle(self._stream):  # queried here first: a short launch has ended by now
                deadline = None if self.seconds is None else deadline_after(device.clock, self.seconds)
                if not device.waiter.stream(self._stream, deadline):
                    raise DeadlinePassed
            self.active = False
        except BaseException as error:
            typed = self._failed(error)
            if typed is error:
                raise
            raise typed from error

    @whole
    def _failed(self, error: BaseException) -> BaseException:
        """Returns the error that the caller gets; the launch can be called again, or it has expired."""
        device, runner = self._device, self._runner
        try:
            if isinstance(error, VyreError):
                return error
            if isinstance(error, CudaCallError):
                typed = device.fault(error)
                if not isinstance(error, KernelDiagnosis):  # which leaves no work behind
                    runner.give_up(self, error)
                return typed
            if isinstance(error, DeadlinePassed):
                runner.give_up(self, error)
                return runner.timeout(self.step, self.seconds)
            device.driver.abandon(self._stream)
            with suppress(BackendError), device.calls, suppress(KernelDiagnosis):  # an interrupt
                if not device.waiter.stream(self._stream, deadline_after(device.clock, PATIENCE_S)):
                    runner.give_up(self, error)
            return error
        finally:
            self.active = False

    def expire(self, why: str, /) -> None:
        """Implements ``Expiring.expire``."""
        # If the device is lost, that is the error to raise.
        self._calls, self._enter = (partial(_refuse, why),), self._device.prepare


class BoundSequence(Bound):
    """A bound step with enough launches for a graph of them to pay; it runs as a sequence of this one step."""

    __slots__ = ("_expired",)

    def __init__(self, runner: ResidentRunner, slot: ResidentSlot, step: Step, seconds: float | None) -> None:
        taken = tuple([memoryview(bytes(m)) if isinstance(m, memoryview) else m for m in step.memory])
        super().__init__(runner, slot, step._replace(memory=taken), seconds)
        self._expired = ""

    def __call__(self) -> None:
        try:
            self.active: bool = True
            if self._expired:
                self._runner.device.prepare()  # if the device is lost, that is the error to raise
                _refuse(self._expired)
            self._runner.run_bound(self)
        finally:
            self.active = False

    def expire(self, why: str, /) -> None:
        """Implements ``Expiring.expire``."""
        self._expired = why


def _refuse(why: str) -> None:
    raise InvalidResource(f"the bound launch cannot run: {why}", fix="bind it again.")
