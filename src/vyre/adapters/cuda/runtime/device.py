"""One CUDA device of the runtime: its context, its life cycle, and the one way to call its driver.

    with device.calls:
        address = device.driver.mem_alloc_async(...)

Only threads that no signal handler interrupts do so; what the main thread does by itself, it does by ``call``.
Entering ``calls`` refuses work on a device that is closed, lost or inherited through ``fork`` and makes the context
current in the calling thread; leaving it turns a ``CudaCallError`` into the typed error of the port.  A sticky error
loses the device: from then on ``calls`` refuses every entry, handles are dropped without a driver call, and only
``recover`` opens a new epoch.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY
from enum import Enum
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Final, Literal, NoReturn, ParamSpec, TypeVar
from weakref import WeakMethod, WeakValueDictionary, ref

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.runtime.counters import Counters
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts, probe_facts
from vyre.adapters.cuda.runtime.faults import FIXES, Kind, kind_of, typed_error
from vyre.adapters.cuda.runtime.waiting import SYSTEM_CLOCK, Waiter, WaitingClock, deadline_after
from vyre.adapters.cuda.seam import DEFAULT_JIT, Context, CudaCallError, CudaDriver, JitOptions, KernelDiagnosis, Stream
from vyre.adapters.forks import is_held_here, process_lock
from vyre.domain.errors import BackendError, BackendUnavailable, DeviceLost, DispatchFailed
from vyre.domain.launch_costs import LaunchCosts
from vyre.domain.names import BackendId
from vyre.domain.record import U64, U64_MAX, Count, FloatRange, IntRange, record
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.interrupts import undisturbed, whole

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.loaded import LoadedModule

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
MIB: Final = 1024 * 1024
SETTLE_POLL_S: Final = 0.001


@record
class CudaOptions:
    """Options of the CUDA backends.

    ``own_context``: use a context apart from the primary one, which other libraries share; threads that use it must not
    use sessions on the primary one.  ``allow_primary_reset``: let ``recover`` reset the primary context, which destroys
    the work of every library on it.  ``close_timeout_s``: seconds that ``close`` waits for running work.
    ``pool_bytes``: most device memory that the pool may take, 0 for all.  ``cached_device_bytes`` and
    ``cached_host_bytes``: idle memory kept for the next dispatch.  ``slots``: most dispatches prepared at once.
    ``exports``: let other libraries have the addresses of resident buffers.

    ``grid_sync``: how grid barriers run; None: natively if the grid fits the device, else split into several launches.
    ``graph_after``: runs of one shape, or of one sequence on resident memory, after which it is recorded as a graph;
    "costs": when that pays by ``costs``; None: never.  ``graphs``: most graphs kept, at least one.  ``side_by_side``:
    steps of a recorded sequence that touch different memory may run at the same time.  ``copy_overlap``: host bytes of
    a step on resident memory are copied while the steps before it run.
    """

    _: KW_ONLY
    ordinal: Count = 0
    own_context: bool = False
    allow_primary_reset: bool = False
    close_timeout_s: Annotated[float, FloatRange(0.0)] = 5.0
    pool_bytes: U64 = 0
    cached_device_bytes: U64 = 256 * MIB
    cached_host_bytes: U64 = 128 * MIB
    slots: Annotated[int, IntRange(1, U64_MAX)] = 128
    grid_sync: GridSyncMode | None = None
    exports: bool = True
    graph_after: Count | Literal["costs"] | None = "costs"
    costs: LaunchCosts | None = None
    graphs: Annotated[int, IntRange(1, U64_MAX)] = 128
    side_by_side: bool = True
    copy_overlap: bool = True
    jit: JitOptions = DEFAULT_JIT


DEFAULT_OPTIONS: Final = CudaOptions()


class DeviceMember(Unique):
    """An owner of driver handles of a device, registered with ``CudaDevice.add`` in order of dependence."""

    def busy_streams(self) -> Sequence[Stream]:
        """Returns the streams on which this member may have queued work."""
        return ()

    def allocatable(self, free: int) -> int:
        """Returns the bytes that can still be allocated on a device with ``free`` free bytes.  Raises
        ``CudaCallError``.
        """
        return free

    def given_up(self) -> Sequence[Stream]:
        """Returns the streams whose work no caller waits for any more."""
        return ()

    def stop(self) -> None:
        """Tells work to end that would go on by itself; called before the device is waited for, to close it."""

    def settled(self) -> bool:
        """Returns whether no thread is in the middle of using this member."""
        return True

    def release(self) -> None:
        """Returns every handle to the driver: tries each one (``release_all``), then raises the first failure."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drops every handle without a driver call, because the device is lost or its work was abandoned."""
        raise NotImplementedError


def release_all(releases: Iterable[Callable[[], object]]) -> None:
    """Calls every function; raises the first ``CudaCallError`` at the end, a sticky one at once."""
    first: CudaCallError | None = None
    for release in releases:
        try:
            release()
        except CudaCallError as error:
            if is_sticky(error.code):
                raise
            first = first or error
    if first is not None:
        raise first


class _State(Enum):
    NEW = "new"
    OPEN = "open"
    LOST = "lost"
    CLOSED = "closed"


class CudaDevice(Unique):
    """A device behind a driver, with its ``DeviceLifecycle``.

    The constructor calls nothing; ``prepare`` or the first entry of ``calls`` takes the context, ``close`` returns it.
    ``facts`` need the driver but no context.  ``driver`` is the seam itself: call it inside ``calls`` only.
    """

    def __init__(
        self,
        driver: CudaDriver,
        options: CudaOptions = DEFAULT_OPTIONS,
        *,
        backend: BackendId,
        clock: WaitingClock = SYSTEM_CLOCK,
        counters: Counters | None = None,
    ) -> None:
        self.driver: Final = driver
        self.options: Final = options
        self.backend: Final = backend
        self.clock: Final = clock
        self.waiter: Final = Waiter(driver, clock)
        self.counters: Final = counters if counters is not None else Counters()
        self.calls: Final = _CallScope(self)
        self._facts: CudaDeviceFacts | None = None
        self._state = _State.NEW
        self._ready = False
        self._why_lost = ""
        self._context: Context = 0
        self._always_bind = True
        self._epoch = 0
        self._pid = 0
        self._shut_by = 0
        self._why_shut = ""
        self._local = threading.local()
        self._lock = process_lock()
        self._loss = process_lock()
        self._members: list[DeviceMember] = []
        self._discarded: deque[Callable[[], None]] = deque()
        self.waits_for_streams: list[None] = []
        """One for each thread that waits for streams that are not its own, none of which may be destroyed meanwhile."""
        self.discard: Final[Callable[[Callable[[], None]], None]] = self._discarded.append
        """Has a function called at the next entry of ``calls``; safe from a finaliser and from any thread."""
        self._orphans: list[Callable[[], None]] = []
        self.orphan: Final[Callable[[Callable[[], None]], None]] = self._orphans.append
        """Has a function called in a new context: it returns a handle that was forgotten and outlives its context."""
        self.loaded: Final[WeakValueDictionary[str, LoadedModule]] = WeakValueDictionary()
        """Modules by entry name, to find the one whose kernel a driver reports about."""

    # ---------------------------------------------------------------- facts
    @property
    def facts(self) -> CudaDeviceFacts:
        """Returns the device's facts, probed once.  Raises ``BackendUnavailable`` if the driver or the device is
        missing.
        """
        if self._facts is None:
            try:
                self._pid = os.getpid()
                self.driver.init()
                self._facts = probe_facts(self.driver, self.options.ordinal)
            except CudaCallError as error:
                raise self._unavailable(error) from error
        return self._facts

    @property
    def epoch(self) -> int:
        """Returns the epoch, which grows by 1 with every recovery."""
        return self._epoch

    @property
    def context(self) -> Context:
        """Returns the context, 0 if there is none."""
        return self._context

    # ---------------------------------------------------------------- calls
    def enter(self) -> None:
        """Refuses work that cannot run, and makes the context current in this thread."""
        self.check_idle_here()
        if not self._ready or os.getpid() != self._pid or sys.is_finalizing():
            self.prepare()
        if self._always_bind or getattr(self._local, "epoch", -1) != self._epoch:
            self._make_current()
        if self._discarded:
            undisturbed(self.release_discarded)

    def check_idle_here(self) -> None:
        """Raises ``DispatchFailed`` in a signal handler or finaliser that interrupts a call of the driver."""
        lock = self.driver.lock
        if lock is not None and is_held_here(lock):
            raise DispatchFailed(
                f"backend `{self.backend}` is busy: this signal handler or finaliser interrupts a call of its driver",
                fix="let it take note, and use the backend afterwards.",
            )

    def fault(self, error: CudaCallError) -> BackendError:
        """Returns the typed error of a failed call; a sticky one loses the device.

        If another thread closes or recovers the device, the error says that, whatever the driver reported.
        """
        if self._is_shut_out:
            return self._shut_out()
        available = None
        kind = kind_of(error.code)
        if kind is Kind.LOST:
            self._lose(str(error))
        elif kind is Kind.MEMORY:
            available = self._free_bytes()
        return typed_error(error, self.backend, available=available, loaded=self.loaded)

    def roll_back(self, error: CudaCallError, releases: Iterable[Callable[[], None]]) -> None:
        """Calls ``releases`` to undo steps that preceded ``error``.

        It does nothing on a lost device, and ignores further failures.
        """
        if is_sticky(error.code):
            return
        with suppress(CudaCallError):
            release_all(releases)

    def settle(self, error: BaseException, streams: Iterable[Stream], deadline_ns: int | None) -> None:
        """Waits, after ``error``, for what the streams were given before it, so that nothing later runs beside it.

        Does nothing after a passed deadline, an interrupt, or the loss of the device.  Work that does not end by the
        deadline goes on.  A failure of the wait is not raised, because the caller raises ``error``.
        """
        failed = isinstance(error, CudaCallError | BackendError)
        if not failed or (isinstance(error, CudaCallError) and is_sticky(error.code)) or not self.reachable:
            return
        for stream in streams:
            with suppress(CudaCallError):
                self.waiter.stream(stream, deadline_ns)

    @property
    def reachable(self) -> bool:
        """Whether the driver may be called: not before ``prepare``, after ``close`` or a loss, in a fork, or at exit.

        While a thread closes or recovers the device, only that thread may call it.
        """
        ready = self._ready or (self._shut_by == threading.get_ident() and self._state is _State.OPEN)
        return ready and os.getpid() == self._pid and not sys.is_finalizing()

    def _make_current(self) -> None:
        try:
            self.driver.set_current(self._context)
        except CudaCallError as error:
            raise self.fault(error) from error
        self._local.epoch = self._epoch

    def call(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls ``work`` as in ``calls``, for a caller whom ``DeviceMember.settled`` tells ``close`` of.

        Signal handlers may interrupt it anywhere, which ``calls`` would not survive.
        """
        self.enter()
        try:
            return work(*args, **kwargs)
        except CudaCallError as error:
            raise self.fault(error) from error

    def release_discarded(self) -> None:
        """Calls what was discarded, once; it may discard itself again.  Call it inside ``calls``."""
        if getattr(self._local, "epoch", -1) != self._epoch:  # in the thread that gets no signals
            self._make_current()
        try:
            release_all(self._taken())
        except CudaCallError as error:
            raise self.fault(error) from error

    def when_dead(self, release: Callable[[T], None], handle: T) -> Callable[[], None]:
        """Returns what has ``release``, a method, called so at the next entry of ``calls``; it keeps nothing alive."""
        member, device = WeakMethod(release), ref(self)

        def gone() -> None:
            if (method := member()) is not None and (alive := device()) is not None:
                alive.discard(partial(method, handle))

        return gone

    # ---------------------------------------------------------------- life
    def add(self, member: DeviceMember) -> None:
        """Makes ``member`` part of ``close`` and ``recover``; members are released in reverse order."""
        with self._lock:
            self._members.append(member)

    @whole
    def prepare(self) -> None:
        """Takes the context; does nothing on an open device.  Raises ``BackendUnavailable``."""
        if self._forked:  # the lock may be held by a thread of the parent, which does not exist here
            self._refuse()
        if self._is_shut_out:  # the thread that holds the lock waits for this one
            raise self._shut_out()
        with self._lock:
            if self.reachable:
                return
            if self._state is not _State.NEW or sys.is_finalizing():
                self._refuse()
            # All libraries use the primary context of a single device; with several devices another one may be current.
            self._always_bind = self.facts.devices > 1 or self.options.own_context
            self._take_context()
            self._state, self._ready = _State.OPEN, True

    @whole
    def flush(self) -> None:
        """Waits until the device has finished all work, except work that was given up after a failure."""
        if self._state is _State.NEW:
            return
        with self.calls:
            given_up = {stream for member in self._members for stream in member.given_up()}
            if not given_up:
                self.driver.context_synchronize()
            else:
                self._wait_for_streams(lambda stream: stream in given_up or self.waiter.stream(stream, None))
        self.counters.sync_points += 1

    @whole
    def device_lost(self) -> bool:
        """Returns whether the device is lost; calls the driver if no loss is known."""
        if self._state is _State.LOST:
            return True
        if not self.reachable:
            return False
        try:
            with self.calls:
                self.driver.memory_info()
        except BackendError:
            pass
        return self._lost

    @whole
    def recover(self) -> None:
        """Makes a new context and starts a new epoch; every older handle is invalid.

        Raises ``DeviceLost`` if the driver cannot make a context: then only a new process helps.
        """
        if self._forked:
            self._refuse()
        with self._lock:
            if self._state in (_State.NEW, _State.CLOSED):
                self._refuse()
            if self._state is _State.OPEN:
                self._shut_by, self._why_shut = threading.get_ident(), "is being recovered by another thread"
                try:
                    with self.calls, suppress(_StillRunning):
                        release_all((self._drain_members, self._release_members))
                finally:
                    self._shut_by = 0
            self._ready = False
            self._forget_members()
            try:
                self._renew_context()
            except CudaCallError as error:
                self._state = _State.LOST
                self._why_lost = f"recovery failed: {error}"
                raise DeviceLost(
                    f"backend `{self.backend}` cannot recover its device: {error}",
                    fix="start a new process, or allow a reset of the context (CudaOptions.allow_primary_reset).",
                ) from error
            self._epoch += 1
            self._state, self._ready = _State.OPEN, True

    @whole
    def close(self) -> None:
        """Waits for running work (``close_timeout_s``) and returns every handle.  Idempotent.

        A handle that the driver does not take back is reported after all others were returned.  In a fork of the
        process that opened the device nothing is returned, and no lock is taken.
        """
        if self._forked:
            self._state, self._ready = _State.CLOSED, False
            return
        with self._lock:
            if self._state is _State.CLOSED:
                return
            self._shut_by, self._why_shut = threading.get_ident(), _CLOSED
            try:
                if self._state is _State.OPEN and self.reachable:
                    with suppress(BackendError):  # in a thread that is new to the device; `calls` tries it once more
                        self._make_current()
                    with self.calls:
                        self._close_open()
            finally:
                self._state, self._ready = _State.CLOSED, False
                self._forget_members()

    def __del__(self) -> None:
        if getattr(self, "_state", None) is _State.OPEN and self.reachable:  # nobody closed its session
            with suppress(RuntimeError):  # no thread is left; this one may be anywhere, even in a call of the driver
                start_new_thread(self._close_dropped, ())

    # ---------------------------------------------------------------- details
    def _close_dropped(self) -> None:
        with suppress(BackendError, CudaCallError):  # nobody is told
            self.close()

    @property
    def _forked(self) -> bool:
        """Whether the driver was initialised by another process."""
        return self._pid not in (0, os.getpid())

    @property
    def _lost(self) -> bool:
        return self._state is _State.LOST

    def _close_open(self) -> None:
        """Waits and releases; a failing query does not keep the rest from being released."""
        try:
            release_all((self._drain_members, self._release_members, self._return_context))
        except _StillRunning:
            warnings.warn(
                f"backend `{self.backend}` was closed with work still running after "
                f"{self.options.close_timeout_s:g} s; its memory is abandoned",
                RuntimeWarning,
                stacklevel=3,
            )

    def _drain_members(self) -> None:
        """Waits for streams, and for threads inside a dispatch; raises ``_StillRunning`` after the close timeout.

        It is called inside ``calls``, which then refuses all other threads; when it returns, no other thread is inside.
        """
        deadline = deadline_after(self.clock, self.options.close_timeout_s)
        self._stop(deadline)
        self._wait_until(self._settled, deadline)
        self._ready = False  # later calls are refused before the handles that they would use are released
        self._wait_until(lambda: self.calls.passages <= 1 and self._settled(), deadline)
        self._stop(deadline)  # what other threads have begun meanwhile

    def _stop(self, deadline: int | None) -> None:
        for member in self._members:
            member.stop()
        self._wait_for_streams(lambda stream: self._drain(stream, deadline))

    def _settled(self) -> bool:
        return all(member.settled() for member in self._members)

    def _wait_until(self, condition: Callable[[], bool], deadline_ns: int | None) -> None:
        while not condition():
            if deadline_ns is not None and self.clock.now_ns() >= deadline_ns:
                raise _StillRunning
            self.clock.sleep(SETTLE_POLL_S)

    def _drain(self, stream: Stream, deadline_ns: int | None) -> None:
        try:
            ended = self.waiter.stream(stream, deadline_ns)
        except KernelDiagnosis:  # the work has ended; only a caller that waits for it gets the diagnosis
            return
        if not ended:
            self.driver.abandon(stream)
            raise _StillRunning

    def _wait_for_streams(self, wait: Callable[[Stream], object]) -> None:
        """Calls ``wait`` for every stream that is in use; raises as ``release_all`` does."""
        self.waits_for_streams.append(None)
        try:
            streams = dict.fromkeys(stream for member in self._members for stream in member.busy_streams())
            release_all([partial(wait, stream) for stream in streams])
        finally:
            self.waits_for_streams.pop()

    def _take_context(self) -> None:
        try:
            self._context = self._new_context()
        except CudaCallError as error:
            raise self._unavailable(error) from error

    def _new_context(self) -> Context:
        if self.options.own_context:
            return self.driver.context_create(self.options.ordinal)
        return self.driver.primary_retain(self.options.ordinal)

    def _return_context(self) -> None:
        if self.options.own_context:
            self.driver.context_destroy(self._context)
        else:
            self.driver.primary_release(self.options.ordinal)

    def _renew_context(self) -> None:
        driver, options = self.driver, self.options
        if options.allow_primary_reset and not options.own_context:
            driver.primary_reset(options.ordinal)
            self._orphans.clear()
        else:
            if self._context:
                self._return_context()
            self._context = 0
            self._context = self._new_context()
        driver.set_current(self._context)
        self._local.epoch = self._epoch + 1
        driver.context_synchronize()  # a context that survived a fault fails here, not in the next dispatch
        orphans = self._orphans[:]
        self._orphans.clear()
        release_all(orphans)

    def _release_members(self) -> None:
        release_all([*self._taken(), *(member.release for member in reversed(self._members))])

    def _taken(self) -> list[Callable[[], None]]:
        """Takes what was discarded, all at once: a release may enter ``calls``, which releases the rest."""
        taken: list[Callable[[], None]] = []
        with suppress(IndexError):  # another thread takes some, too
            taken += (self._discarded.popleft() for _ in range(len(self._discarded)))
        return taken

    def _forget_members(self) -> None:
        self._discarded.clear()
        for member in reversed(self._members):
            member.forget()

    def _lose(self, why: str) -> None:
        with self._loss:  # not the lock of close(), which waits for the thread that is here
            if self._state is not _State.OPEN:
                return
            self._state, self._ready, self._why_lost = _State.LOST, False, why
            self.counters.losses += 1
            self._forget_members()

    def _free_bytes(self) -> int | None:
        try:
            free = self.driver.memory_info().free
            for member in self._members:
                free = member.allocatable(free)
            return free
        except CudaCallError:
            return None  # the caller reports the shortage, which matters more

    def _unavailable(self, error: CudaCallError) -> BackendUnavailable:
        return BackendUnavailable(f"backend `{self.backend}`: {error}", fix=FIXES.get(error.code))

    @property
    def _is_shut_out(self) -> bool:
        """Whether another thread has closed the device, or closes or recovers it."""
        return self._shut_by not in (0, threading.get_ident())

    def _shut_out(self) -> DispatchFailed:
        fix = "open a new session." if self._why_shut is _CLOSED else "try again once it is."
        return DispatchFailed(f"backend `{self.backend}` {self._why_shut}", fix=fix)

    def lost_error(self) -> DeviceLost:
        """Returns the error of uses of a lost device, which says why it was lost."""
        return DeviceLost(f"backend `{self.backend}` has lost its device: {self._why_lost}")

    def _refuse(self) -> NoReturn:
        if sys.is_finalizing():
            raise DispatchFailed(
                f"backend `{self.backend}` is used while the interpreter exits",
                fix="close sessions before the program ends.",
            )
        if self._forked:
            raise used_in_a_fork(f"backend `{self.backend}`", self._pid, os.getpid())
        if self._lost:
            raise self.lost_error()
        if self._state is _State.CLOSED:
            raise DispatchFailed(f"backend `{self.backend}` {_CLOSED}", fix="open a new session.")
        raise DispatchFailed(f"backend `{self.backend}` is not open", fix="dispatch, or call lifecycle.prepare().")


_CLOSED: Final = "is closed"


class _StillRunning(Exception):
    """Work did not end within the close timeout."""


class _CallScope:
    """``CudaDevice.calls``: a context manager shared by all threads, which counts the threads that are inside.

    An entry is counted before it is refused or accepted, so that ``close`` misses none.
    """

    __slots__ = ("_device", "_passing")

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._passing: list[None] = []  # appending and popping are atomic

    @property
    def passages(self) -> int:
        """Returns the number of entries that have not ended."""
        return len(self._passing)

    def __enter__(self) -> None:
        self._passing.append(None)
        try:
            self._device.enter()
        except BaseException:
            self._passing.pop()
            raise

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self._passing.pop()
        if isinstance(exc, CudaCallError):
            raise self._device.fault(exc) from exc
