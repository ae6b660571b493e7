"""What lets an exception of a signal handler, such as ``KeyboardInterrupt``, arrive anywhere.

The rule is written down in ``docs/maintainers/interrupts.md``.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, wraps
from math import inf
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from vyre.ports.collecting import hold_collections, let_collect

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE_S: Final = 0.4
"""How long an interrupted caller waits for the end of the work."""
SLICE_S: Final = 0.05
"""How long a signal may go unnoticed."""
_KEPT_SIGNALS: Final = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT", "SIGSYS", "SIGPROF", "SIGVTALRM")
_OURS: Final = str(Path(__file__).parents[1]) + os.sep
_STANDARD: Final = str(Path(os.__file__).parent) + os.sep


class _Sealed:
    """Does nothing; ``with lock, sealed:`` releases the lock also where an exception is raised as its block ends.

    CPython handles no signal there, but a trace function (a debugger that is left, a test that interrupts every line)
    may raise: after the block, and before the release.  What is raised as the inner context ends, the outer one sees.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __enter__(self) -> None: ...
        def __exit__(self, *raised: object) -> None: ...
    else:  # a function of C that takes anything and returns what is false: no code of Python runs
        __enter__ = __exit__ = staticmethod("".format)


sealed: Final = _Sealed()


def wait_at(lock: threading.Lock, is_over: Callable[[], bool], timeout: float | None = None) -> None:
    """Waits until something is over, at whose end a lock that is held is released, at most so many seconds.

    It waits in slices: CPython does not notice a signal that comes just before it sleeps.
    """
    end = inf if timeout is None else time.monotonic() + timeout
    while not is_over() and (left := end - time.monotonic()) > 0:
        if lock.acquire(timeout=min(left, SLICE_S)):
            lock.release()  # for the next one that waits


def is_disturbed() -> bool:
    """Returns whether signal handlers run on the calling thread."""
    return threading.get_ident() == threading.main_thread().ident and not sys.is_finalizing()


class _Job(Generic[R]):
    """Work for a helper, and its outcome: ``result`` or ``error``, once ``done`` is released.

    ``waits`` has one item until a thread takes it to begin, or its caller so that nobody does.  ``left`` is the moment
    when its caller was interrupted, in s of the monotonic clock.
    """

    __slots__ = ("collects", "done", "error", "left", "result", "waits", "work")

    def __init__(self, work: Callable[[], R], collects: bool = True) -> None:
        """``collects``: garbage may be collected before its caller goes on."""
        self.work: Callable[[], R] | None = work
        self.waits: Final[list[None]] = [None]
        self.collects: Final = collects
        self.left: float | None = None
        self.result: R | None = None
        self.error: BaseException | None = None
        self.done: Final = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        """Does the work, unless its caller has taken it back; ``done`` is still held."""
        if self.taken() and self.work is not None:
            _NOW.job = self
            try:
                self.result = self.work()
            except BaseException as error:
                self.error = error
        _NOW.job = self.work = None  # so that nobody else keeps what it names

    def taken(self) -> bool:
        """Returns whether nobody has taken it before."""
        try:
            self.waits.pop()
        except IndexError:
            return False
        return True


_NOW: Final = threading.local()


def given_up() -> bool:
    """Returns whether the caller of the work that this thread does was interrupted, and has waited for a while."""
    job = getattr(_NOW, "job", None)
    return job is not None and job.left is not None and time.monotonic() > job.left + PATIENCE_S / 2


class _Helpers:
    """The threads of one process that do such work: ``waiting`` of ``count`` wait for some."""

    def __init__(self) -> None:
        self._jobs: Final[SimpleQueue[_Job[Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self.count = self.waiting = 0

    def add(self, job: _Job[Any]) -> bool:
        """Has a helper do a job; returns False where none can be started.  Only the main thread calls it."""
        if self.waiting <= self._jobs.qsize():
            try:
                start_new_thread(self._begin, ())
            except RuntimeError:
                return False
        self._jobs.put(job)
        return True

    def await_end(self) -> None:
        """Waits until no helper is at work, as the interpreter exits."""
        while self.waiting < self.count:
            time.sleep(0.001)

    def _begin(self) -> None:
        """Starts a thread that others can see: ``start`` is Python, which the main thread could leave half done."""
        try:
            threading.Thread(target=self._serve, name="vyre-undisturbed", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._serve()

    def _serve(self) -> None:
        leave_signals()
        with self._lock:
            self.count += 1
        done: threading.Lock | None = None
        collects = True
        while True:
            with self._lock:  # before the caller goes on, who would else start another thread
                self.waiting += 1
            if done is not None:
                done.release()
                if not collects:
                    let_collect()
            done, collects = self._do()

    def _do(self) -> tuple[threading.Lock, bool]:
        """Does a job, which nobody here names any more when this returns."""
        job = self._jobs.get()
        if not job.collects:
            hold_collections()
        with self._lock:
            self.waiting -= 1
        job.run()
        return job.done, job.collects


_HELPERS: Final = [_Helpers()]


def undisturbed(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls ``work`` where no signal handler runs, and returns what it returns or raises what it raises.

    That is the calling thread, unless it is the main one: then a thread of its own.  What a signal handler raises
    reaches the caller, once the work has ended or a moment later; the work always goes on to its end.  So it must end
    by itself, and need no lock that the main thread holds.  A finaliser or a handler that uses vyre inside vyre calls
    directly, because the thread may hold one.
    """
    if not is_disturbed() or _is_inside():
        return work(*args, **kwargs)
    return done_apart(False, work, *args, **kwargs)


def whole(method: Callable[P, R]) -> Callable[P, R]:
    """Makes a method undisturbed, and what a signal handler raises come at its end; a second interrupt comes at once.

    It is for what uses memory of the caller, which must not go on once the caller has it back.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not is_disturbed() or _is_inside():
            return method(*args, **kwargs)
        return done_apart(True, method, *args, **kwargs)

    return call


def done_apart(to_its_end: bool, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Has another thread call ``work`` for the main one; an interrupt comes when it has ended, or a moment later."""
    context = copy_context()
    return _done(_Job(lambda: context.run(work, *args, **kwargs)), to_its_end)


def done_uncollected(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Does what ``done_apart`` does, and has no garbage collected meanwhile.

    A finaliser that uses vyre there might need a lock that the main thread holds, which waits.
    """
    context = copy_context()
    return _done(_Job(lambda: context.run(work, *args, **kwargs), collects=False), False)


def _done(job: _Job[R], to_its_end: bool) -> R:
    try:
        if not _HELPERS[0].add(job):
            to_its_end = False  # this thread does it
            job.run()
            job.done.release()
        wait_at(job.done, lambda: job.work is None)
    except BaseException:
        job.left = time.monotonic()
        while job.work is not None and not job.done.acquire(timeout=PATIENCE_S) and to_its_end and not job.taken():
            pass  # where the work has ended, the interrupted wait may hold the lock
        raise
    error, job.error = job.error, None  # the frame of the work, which the error names, names the job
    if error is None:
        return job.result  # type: ignore[return-value]  # it is what ``work`` returned
    try:
        raise error
    finally:
        del error  # which names this frame


def leave_signals() -> None:
    """Leaves signals to the main thread, whose waiting they interrupt."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, _left())


@cache
def _left() -> set[signal.Signals]:
    return signal.valid_signals() - {getattr(signal, name, None) for name in _KEPT_SIGNALS}


def _is_inside() -> bool:
    """Returns whether code of others, which vyre's code called or was interrupted by, calls vyre."""
    frame, others = sys._getframe(2), False
    while frame.f_back is not None:
        frame = frame.f_back
        file = frame.f_code.co_filename
        if not file.startswith(_OURS):
            others = others or not file.startswith(_STANDARD)
        elif others:
            return True
    return False


@atexit.register
def _await_end() -> None:
    _HELPERS[0].await_end()


def _renew() -> None:
    _HELPERS[0] = _Helpers()  # a fork has none of the threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
