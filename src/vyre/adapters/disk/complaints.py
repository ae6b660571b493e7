"""What a disk cannot do is said once a cause, and then done without."""

from __future__ import annotations

from threading import Lock
from typing import Final

from vyre.ports.support import Telemetry


class Complaints:
    """Warnings ``event`` about ``directory``, each with its problem and what mends it; any thread may call."""

    def __init__(self, telemetry: Telemetry, event: str, directory: str) -> None:
        self._telemetry, self._event, self._directory = telemetry, event, directory
        self._lock: Final = Lock()
        self._causes: set[object] = set()

    def of_error(self, error: OSError, fix: str) -> None:
        """Its number is the cause."""
        where = error.filename if isinstance(error.filename, str) else self._directory
        self.say(f"{where}: {error.strerror or error}", fix, cause=error.errno or 0)

    def say(self, problem: str, fix: str, *, cause: object = None) -> None:
        """``cause``: None is the problem itself."""
        cause = problem if cause is None else cause
        with self._lock:
            if cause in self._causes:
                return
            self._causes.add(cause)
        self._telemetry.event(self._event, level="warning", directory=self._directory, problem=problem, fix=fix)
