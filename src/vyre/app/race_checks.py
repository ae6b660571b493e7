"""Race checks of a session whose backend nobody asked for by name: the reference runs them, and says so."""

from __future__ import annotations

from typing import Final

from vyre.adapters.forks import process_lock
from vyre.adapters.telemetry.guarded import GuardedTelemetry
from vyre.app.lease import BackendLease
from vyre.app.selection import Selection
from vyre.domain.errors import session_closed
from vyre.ports.interrupts import sealed

WHY: Final = "a race check was asked for and no backend by name"


class RaceChecks:
    """The lease on the backend that runs race checks, opened on first use.  Any thread may use it."""

    def __init__(self, selection: Selection, usual: BackendLease, telemetry: GuardedTelemetry) -> None:
        self._make = selection.race_checker
        self._usual = usual
        self._telemetry = telemetry
        self._lease: BackendLease | None = None
        self._closed = False
        self._lock = process_lock()

    @property
    def lease(self) -> BackendLease:
        """The lease for programs that are checked: that of the session if its backend was asked for by name.

        Raises ``InvalidResource`` once the session is closed.
        """
        if self._make is None:
            return self._usual
        with self._lock, sealed:
            if self._closed:
                raise session_closed()
            if self._lease is None:
                backend = self._make()
                self._lease = BackendLease(backend, self._telemetry)
                self._telemetry.event(
                    "vyre.backend.reference_selected", level="warning", backend=str(backend.id), reason=WHY
                )
            return self._lease

    @property
    def report(self) -> str:
        """The backend that runs race checks instead of the session's, and why; empty if none was run there."""
        lease = self._lease
        return "" if lease is None else f"on `{lease.backend.id}`, since {WHY}"

    def close(self) -> None:
        """Closes the backend; idempotent."""
        with self._lock, sealed:
            self._closed = True
        if self._lease is not None:
            self._lease.close()
