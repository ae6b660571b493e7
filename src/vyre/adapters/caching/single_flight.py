"""Single flight: one thread builds a value that several request at once; the others wait for its result.

A failed or cancelled build releases all threads: the builder with what it raised, the waiting ones with an error of the
same class and text if it is a ``VyreError``, else with ``UnfinishedBuild``.  A build may request other keys.  If it
requests its own, directly or through what another thread builds, waiting would never end: that raises an error.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from vyre.adapters.forks import process_lock
from vyre.domain.errors import DispatchTimeout, UnfinishedBuild, VyreError
from vyre.domain.float_mode import in_default_mode
from vyre.ports.interrupts import sealed, undisturbed, wait_at

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Flight(Generic[V]):
    """A build in progress; ``result`` or ``error`` is set once it has landed.

    ``gate`` is the lock at which other threads wait, held until it lands; None as long as nobody waits.
    """

    __slots__ = ("error", "gate", "landed", "owner", "result")

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.landed = False
        self.result: V
        self.error: VyreError | None = None
        self.gate: threading.Lock | None = None

    def close_gate(self) -> None:
        """Makes what ``wait`` waits at, if nobody has; called under the lock of the flights, before ``wait``."""
        if self.gate is None:
            gate = threading.Lock()  # an event would be made of the same, by six calls more
            gate.acquire()
            self.gate = gate

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until it has landed; returns whether it has within so many seconds."""
        assert self.gate is not None
        wait_at(self.gate, lambda: self.landed, timeout_s)
        return self.landed


class SingleFlight(Generic[K, V]):
    """Builds in progress by key; every method may be called from any thread.

    ``name`` describes a key in messages.
    """

    def __init__(self, name: Callable[[K], str] = repr) -> None:
        self._name = name
        self._lock = process_lock()
        self._flights: dict[K, _Flight[V]] = {}
        self._waiting: dict[int, _Flight[V]] = {}

    @in_default_mode
    def run(self, key: K, build: Callable[[], V], timeout_s: float | None = None) -> tuple[V, bool]:
        """Returns the result of ``build``, and whether this thread ran it.

        ``timeout_s`` bounds the wait for another thread, not the own build.  Raises what ``build`` raises,
        ``UnfinishedBuild``, and ``DispatchTimeout`` when the wait times out; the build then continues.  An exception
        of a signal handler ends the call, and the build continues on a thread of its own.
        """
        return undisturbed(self._run, key, build, timeout_s)

    def forget(self, key: K) -> None:
        """Detaches a running build: later requests do not get its result."""
        self._flights.pop(key, None)  # one call, which needs no lock

    # ---- details
    def _run(self, key: K, build: Callable[[], V], timeout_s: float | None) -> tuple[V, bool]:
        own: _Flight[V] = _Flight(threading.get_ident())
        try:
            with self._lock, sealed:
                flight = self._flights.setdefault(key, own)
            if flight is not own:
                flight = self._join(key, own)
            if flight is own:
                own.result = build()
                return own.result, True
        except BaseException as error:
            own.error = _for_the_others(self._name(key), error)
            raise
        finally:
            self._land(key, own)
        return self._wait(key, flight, timeout_s), False

    def _join(self, key: K, own: _Flight[V]) -> _Flight[V]:
        """Returns the flight to wait for, or ``own`` if it is the first."""
        with self._lock, sealed:
            flight = self._flights.get(key)
            if flight is None or flight.landed:  # it lands before it leaves the table
                self._flights[key] = own
                return own
            if self._waits_for(flight, own.owner):
                raise UnfinishedBuild(
                    f"the build of {self._name(key)} waits for itself", fix="do not ask for a key inside its own build."
                )
            flight.close_gate()
            self._waiting[own.owner] = flight
            return flight

    def _waits_for(self, flight: _Flight[V], thread: int) -> bool:
        """Returns whether ``flight`` can end only after ``thread`` continues."""
        following: _Flight[V] | None = flight
        while following is not None and not following.landed:
            if following.owner == thread:
                return True
            following = self._waiting.get(following.owner)
        return False

    def _wait(self, key: K, flight: _Flight[V], timeout_s: float | None) -> V:
        try:
            landed = flight.wait(timeout_s)
        finally:
            with self._lock, sealed:
                self._waiting.pop(threading.get_ident(), None)
        if not landed:
            raise DispatchTimeout(
                f"waited {timeout_s} s for another thread to build {self._name(key)}",
                fix="allow more time, or prepare the program before its first dispatch.",
            )
        if flight.error is not None:
            raise _copied(flight.error)
        return flight.result

    def _land(self, key: K, flight: _Flight[V]) -> None:
        flight.landed = True  # first: who closes the gate too late to be seen here sees this
        if flight.gate is not None:
            flight.gate.release()  # lets the waiting threads go on
        with self._lock, sealed:
            if self._flights.get(key) is flight:
                del self._flights[key]


def _for_the_others(name: str, error: BaseException) -> VyreError:
    """Returns the error for waiting threads.  It holds no traceback, which would keep the builder's frames alive."""
    if isinstance(error, VyreError):
        return _copied(error)
    how = "failed" if isinstance(error, Exception) else "was cancelled"
    told = f"{type(error).__name__}: {error}".removesuffix(": ")
    return UnfinishedBuild(f"the build of {name} in another thread {how} ({told})")


def _copied(error: VyreError) -> VyreError:
    """Returns a copy for one thread to raise: notes and tracebacks of several threads would mix."""
    own = copy.copy(error)
    notes: list[str] | None = getattr(error, "__notes__", None)
    if notes is not None:
        own.__notes__ = list(notes)
    return own
