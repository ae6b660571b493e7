"""Warnings about a disk: each cause is reported once, and the failure is otherwise ignored."""

from __future__ import annotations

from typing import Final

from vyre.adapters.forks import process_lock
from vyre.domain.errors import VyreError
from vyre.ports.interrupts import sealed
from vyre.ports.support import Telemetry


class Complaints:
    """Emits warnings ``event`` about ``directory``, each with its problem and fix; every method is thread-safe."""

    def __init__(self, telemetry: Telemetry, event: str, directory: str) -> None:
        self._telemetry, self._event, self._directory = telemetry, event, directory
        self._lock: Final = process_lock()
        self._causes: set[object] = set()

    def of_error(self, error: OSError | VyreError, fix: str) -> None:
        """Reports an ``OSError``, whose ``errno`` is the cause, with this fix, or a refusal with its own."""
        if isinstance(error, VyreError):
            self.say(error.message, error.fix)
            return
        where = error.filename if isinstance(error.filename, str) else self._directory
        self.say(f"{where}: {error.strerror or error}", fix, cause=error.errno or 0)

    def say(self, problem: str, fix: str, *, cause: object = None) -> None:
        """Reports a problem.  ``cause``: None means the text of the problem."""
        cause = problem if cause is None else cause
        with self._lock, sealed:
            if cause in self._causes:
                return
            self._causes.add(cause)
        self._telemetry.event(self._event, level="warning", directory=self._directory, problem=problem, fix=fix)
