"""A session's lease on its backend, from ``prepare`` to ``close``, with the resident memory allocated from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, Protocol
from weakref import ref

from vyre.adapters.forks import process_lock, tell_in_forks
from vyre.app.asynchrony.order import Accesses, MemoryOrder
from vyre.domain.arguments import whole
from vyre.domain.errors import VyreError, session_closed
from vyre.domain.record import U64_MAX
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.ports.backend import Backend
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.adapters.telemetry.guarded import GuardedTelemetry
    from vyre.app.asynchrony.work import AsyncWork
    from vyre.app.calibration.review import CostReview
    from vyre.app.residency import ResidentBudget
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import DecisionSink

LEAST_SWEPT: Final = 64
"""The arrays from which on those that are gone are looked for."""


def _unheard() -> None:
    """Does nothing: the notification of a lease without a cost review."""


def checked_resident_budget(nbytes: object) -> int | None:
    """Returns the limit on resident memory as a plain int; None is none.  Raises ``InvalidConfig``."""
    fix = "give a number of bytes above 0, or None."
    return None if nbytes is None else whole("resident_budget", nbytes, 1, U64_MAX, fix)


class LeasedMemory(Protocol):
    """Memory that a lease frees when it is closed, such as a resident array."""

    def _set_owner(self, lease: BackendLease, /) -> None:
        """Notes the lease that frees the memory."""

    def close(self) -> None:
        """Frees the memory; idempotent."""


class BackendLease(Unique):
    """Prepares the backend when made, unless its first use does; ``close`` closes the backend once and frees the memory
    that is still resident.

    Callers call ``launched`` after every run that launched.  A lease is also ``closed`` in every process that is forked
    while it is open: there ``check_open`` says so, and ``close`` must not be called.
    """

    def __init__(self, backend: Backend, telemetry: GuardedTelemetry | None = None) -> None:
        self.telemetry: GuardedTelemetry | None = telemetry
        self.now_ns: Callable[[], int] = perf_counter_ns if telemetry is None else telemetry.now_ns
        self.within: Callable[[], AbstractContextManager[None]] = nullcontext
        """Opens a context in which the session's environment and adapters are used, where no argument names them."""
        if not backend.opens_on_use:
            backend.lifecycle.prepare()
        self.backend: Backend = backend
        if telemetry is not None and (telemetry.watches or telemetry.ranges is not None):
            from vyre.adapters.telemetry.observed import observed  # imported on use

            self.backend = observed(backend, telemetry)
        self.closed: bool = False
        self._is_released = False
        self.is_inherited: bool = False
        self.has_residents: bool = False
        self.launched: Callable[[], None] = _unheard
        self.is_reviewed: bool = False
        """Whether ``review_with`` was called."""
        self._review: CostReview | None = None
        self._residents: dict[int, ref[LeasedMemory]] = {}
        """The arrays by their ids, with some that are gone; a set of weak references costs more for each."""
        self._sweep_at = LEAST_SWEPT
        self.order: MemoryOrder = MemoryOrder()
        """The asynchronous operations on the arrays."""
        self.work: AsyncWork | None = None
        """The state that these operations share; None until a session has made it."""
        self.budget: ResidentBudget | None = None
        """The limit on resident memory; None without one."""
        self._lock = process_lock()
        self._opened_in = os.getpid()
        tell_in_forks(self)

    def keep_to(self, nbytes: int, sink: DecisionSink | None) -> None:
        """Has the arrays take at most ``nbytes`` of the memory of the device from now on."""
        from vyre.app.residency import BudgetedMemory, ResidentBudget  # imported on use

        lifecycle = self.backend.lifecycle
        self.budget = ResidentBudget(nbytes, sink, lambda: lifecycle.epoch)
        self.backend = replace(self.backend, memory=BudgetedMemory(self.backend.require_memory(), self.budget))

    def inherited(self) -> None:
        """Marks the lease as closed in a forked process."""
        self.closed = self.is_inherited = True

    def review_with(self, review: CostReview) -> None:
        """Reports every run that launches to ``review``, which ends with the lease.  A second review is ignored."""
        with self._lock, sealed:
            if not self.closed and self._review is None:
                self._review, self.launched, self.is_reviewed = review, review.launched, True

    def check_open(self) -> None:
        """Raises ``InvalidResource`` on a closed lease, and what ``check_process`` raises."""
        if self.closed:
            self.check_process()
            raise session_closed()

    def check_process(self) -> None:
        """Raises ``DispatchFailed`` in a forked child of the process that opened it."""
        if self.is_inherited:
            raise used_in_a_fork(f"backend `{self.backend.id}`", self._opened_in, os.getpid())

    def failed(self, error: VyreError, what: str, *programs: Program) -> None:
        """Tells telemetry that work failed, and notes on the error whose it was: ``what`` is ``program=saxpy``, and
        ``programs`` are those that ran, which have the location of what failed.
        """
        if programs:
            from vyre.domain.sites import locate  # only for errors

            locate(error, programs)
        self.told(error, what)
        error.add_note(f"backend={self.backend.id} {what}")

    def told(self, error: VyreError, what: str) -> None:
        """Tells telemetry that work failed, unless it was told of this error before."""
        if self.telemetry is not None:
            self.telemetry.failed(error, str(self.backend.id), what)

    def adopt(self, array: LeasedMemory) -> None:
        """Closes ``array`` with the lease.  If the lease is closed already, frees it and raises as ``check_open``."""
        with self._lock, sealed:
            adopted = not self.closed
            if adopted:
                self._residents[id(array)] = ref(array)
                array._set_owner(self)
                self.has_residents = True
                if len(self._residents) >= self._sweep_at:
                    self._sweep()
        if not adopted:
            array.close()
            self.check_open()

    def _sweep(self) -> None:
        """Forgets the arrays that are gone.  Its time is bounded by that of the adoptions since the last time."""
        self._residents = {key: one for key, one in self._residents.items() if one() is not None}
        self._sweep_at = max(LEAST_SWEPT, 2 * len(self._residents))

    def wait_for(self, accesses: Accesses | None) -> None:
        """Waits for the asynchronous operations that conflict with these accesses; None: for all.

        Does nothing on a closed lease, whose operations end by themselves or belong to another process.
        """
        if self.closed or not self.order.under_way:
            return
        if accesses is None:
            self.order.wait_for_all()
        else:
            self.order.wait_for(accesses)

    def flush(self) -> None:
        """Waits until the backend has finished all queued work."""
        self.backend.lifecycle.flush()

    def close(self) -> None:
        """Closes the cost review, the backend, and then the resident arrays; idempotent."""
        if self._is_released:
            return
        with self._lock, sealed:
            self.closed = True
            arrays = [array for one in self._residents.values() if (array := one()) is not None]
        if self._review is not None:
            self._review.close()
        try:
            self.backend.lifecycle.close()  # first, because other threads may still be using the arrays
        finally:
            for array in arrays:
                array.close()
        self._is_released = True  # last: who was interrupted closes again
