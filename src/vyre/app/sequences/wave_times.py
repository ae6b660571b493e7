"""The measured times of waves that a session knows: those of its runs, and those that other processes stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.adapters.forks import process_lock
from vyre.domain.errors import VyreError
from vyre.domain.launch_costs import CostSource
from vyre.domain.wave_times import WaveTime, WaveTimes
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry
    from vyre.ports.wave_time_store import WaveTimeStore


class KnownWaveTimes:
    """Times by the key of waves with equal structure; any thread may use them.

    ``store``: where they are kept; None: nowhere.  ``source``: the device and driver on which they are measured.  A
    table that cannot be read or written costs its times alone, and an event says so.
    """

    def __init__(
        self,
        store: Callable[[], WaveTimeStore | None] = lambda: None,
        source: Callable[[], CostSource] | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._store, self._source, self._telemetry = store, source, telemetry
        self._own: Final[dict[str, WaveTime]] = {}
        self._stored: WaveTimes | None = None
        self._told: set[str] = set()
        self._lock = process_lock()

    def get(self, key: str) -> tuple[WaveTime, bool] | None:
        """Returns the times of waves, and whether another process measured them; None where nobody did."""
        with self._lock, sealed:
            own = self._own.get(key)
            if own is not None:
                return own, False
            if self._stored is None:
                self._stored = self._load()
            time = None if self._stored is None else self._stored.times.get(key)
            return None if time is None else (time, True)

    def learn(self, key: str, time: WaveTime) -> None:
        """Records the measured times of waves, for other processes too."""
        with self._lock, sealed:
            if self._own.get(key) == time:
                return
            self._own[key] = time
            self._keep(key, time)

    def _load(self) -> WaveTimes | None:
        """Returns the stored table; an unreadable one counts as empty, and will be replaced."""
        if self._source is None:
            return None
        source = self._source()
        try:
            store = self._store()
            return WaveTimes(source) if store is None else store.load(source) or WaveTimes(source)
        except VyreError as error:
            self._tell("vyre.waves.not_read", error)
            return WaveTimes(source)

    def _keep(self, key: str, time: WaveTime) -> None:
        store = self._store()
        table = None if store is None else self._load()  # with what others have measured meanwhile
        if store is None or table is None:
            return
        self._stored = table.with_time(key, time)
        try:
            store.save(self._stored)
        except VyreError as error:
            self._tell("vyre.waves.not_kept", error)

    def _tell(self, event: str, error: VyreError) -> None:
        if self._telemetry is not None and event not in self._told:
            self._told.add(event)
            self._telemetry.event(event, level="warning", reason=error.message, fix=error.fix)
