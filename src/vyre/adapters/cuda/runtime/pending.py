"""Asynchronous dispatch: ``submit`` enqueues and returns; one thread watches for completions that have callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from vyre.adapters.callbacks import call_back
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember
from vyre.adapters.cuda.runtime.executor import CudaExecutor, CudaPipeline, Running
from vyre.adapters.cuda.runtime.waiting import FIRST_SLEEP_NS, LONGEST_SLEEP_NS, deadline_after
from vyre.adapters.forks import refuse_within
from vyre.domain.dispatch import DispatchTiming, OutputArena
from vyre.domain.errors import BackendError
from vyre.domain.float_mode import in_default_mode
from vyre.domain.shared_dicts import entries_of
from vyre.domain.unique import Unique
from vyre.ports.interrupts import whole
from vyre.ports.requests import DispatchRequest, OutputStorage


class CudaPending(Unique):
    """A submitted dispatch.  Every method may be called from any thread, and any number of times.

    ``wait`` fills the storage that it is given; the first call takes the results off the device and keeps them.
    """

    def __init__(self, owner: CudaAsync, pipeline: CudaPipeline, running: Running, deadline_ns: int | None) -> None:
        self._owner = owner
        self._pipeline = pipeline
        self._running: Running | None = running
        self._deadline = deadline_ns
        self._lock = threading.RLock()
        self._outcome: DispatchTiming | BaseException | None = None
        self._outputs: tuple[bytes, ...] = ()

    def done(self) -> bool:
        """Returns whether ``wait`` would return at once; a dispatch that has failed is done."""
        running = self._running
        if running is None:
            return True
        try:
            return self._pipeline.done(running)
        except BackendError:
            return True  # ``wait`` will raise it

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        """Fills ``outputs`` with the results and returns the measured times.

        Raises the error of the run, and ``TimeoutError`` if it still runs after ``timeout`` seconds.
        """
        if self._outcome is None:
            self._await(timeout)
        outcome = self._outcome
        if isinstance(outcome, BaseException):
            outputs.clear()
            raise outcome
        assert outcome is not None
        for view, data in zip(outputs.begin(tuple(map(len, self._outputs))), self._outputs, strict=True):
            view[:] = data
        return outcome

    @whole
    def _await(self, timeout: float | None) -> None:
        clock = self._owner.device.clock
        deadline = deadline_after(clock, timeout)
        refuse_within(self._lock, repr(self))
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError(f"another thread still waits for {self!r}")
        try:
            if self._outcome is None:
                if deadline is not None and not self._reached(deadline):
                    raise TimeoutError(f"{self!r} did not finish within {timeout} s")
                self._collect()
        finally:
            self._lock.release()

    def add_done_callback(self, callback: Callable[[], object], /) -> None:
        """Has ``callback`` called once the dispatch is done: now if it is, else in the watching thread."""
        self._owner.watch(self, callback)

    def cancel(self) -> bool:
        """Returns False: what was enqueued on a stream runs to its end."""
        return False

    def _reached(self, deadline_ns: int) -> bool:
        """Returns whether it is done, or its own deadline passed, before ``deadline_ns``."""
        device = self._owner.device

        def ended() -> bool:  # collecting raises DispatchTimeout
            return self.done() or (self._deadline is not None and device.clock.now_ns() >= self._deadline)

        return device.waiter.condition(ended, deadline_ns)

    def _collect(self) -> None:
        running = self._running
        arena = OutputArena()
        try:
            assert running is not None
            timing = self._pipeline.complete(running, arena, self._deadline)
            self._outputs = arena.to_bytes()
            self._outcome = timing
        except BaseException as error:
            self._outcome = error
        self._running = None

    def __repr__(self) -> str:
        return f"<CudaPending of {self._pipeline.id}>"


class CudaAsync(DeviceMember):
    """``AsyncExecutor`` of one device."""

    def __init__(self, device: CudaDevice, executor: CudaExecutor) -> None:
        self.device: Final = device
        self._executor = executor
        self._watched: dict[int, tuple[CudaPending, Callable[[], object]]] = {}
        self._numbers = count()
        self._watcher: threading.Thread | None = None
        device.add(self)

    def submit(self, request: DispatchRequest, /) -> CudaPending:
        """Enqueues a dispatch and returns its handle; the inputs have been read when this returns."""
        pipeline, _ = self._executor.pipeline(request.program, request.config)
        deadline = deadline_after(self.device.clock, request.config.timeout_s)
        return CudaPending(self, pipeline, pipeline.begin(request.inputs, deadline), deadline)

    @in_default_mode
    def watch(self, pending: CudaPending, callback: Callable[[], object]) -> None:
        """Has ``callback`` called when ``pending`` is done."""
        if pending.done():
            call_back(callback)
        else:
            self._add(pending, callback)

    @whole
    def _add(self, pending: CudaPending, callback: Callable[[], object]) -> None:
        """Adds a callback, and starts a watcher unless one lives.

        It takes no lock, so that a finaliser may do the same meanwhile; two watchers share the callbacks.
        """
        self._watched[next(self._numbers)] = pending, callback
        if self._watcher is None or not self._watcher.is_alive():
            watcher = threading.Thread(target=self._watch, name="vyre-cuda-completions", daemon=True)
            try:
                watcher.start()
                self._watcher = watcher
            except RuntimeError:  # no more threads, or the interpreter exits: this thread watches
                self._watch()

    # ---- as a member of the device
    def release(self) -> None:
        """Calls every callback: the device is being closed."""
        self.forget()

    def forget(self) -> None:
        """Calls every callback; a caller that then waits gets the error that the device is closed or lost."""
        self._call(list(self._watched))

    def _call(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            entry = self._watched.pop(number, None)
            if entry is not None:  # else another thread calls it
                call_back(entry[1])

    def _watch(self) -> None:
        """Watches until no callback is left."""
        pause = FIRST_SLEEP_NS
        while True:
            if not self._watched:
                self._watcher = None
                if not self._watched:  # who has added one since may have taken this thread for its watcher
                    return
            ready = [number for number, (pending, _) in entries_of(self._watched) if pending.done()]
            if ready:
                pause = FIRST_SLEEP_NS
                self._call(ready)
            else:
                self.device.clock.sleep(pause / 1e9)
                pause = min(2 * pause, LONGEST_SLEEP_NS)
