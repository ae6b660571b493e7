"""The measured times of waves that a session knows: those of its runs, and those that other processes stored."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Final

from vyre.domain.errors import VyreError
from vyre.domain.launch_costs import CostSource
from vyre.domain.wave_times import WaveTime, WaveTimes
from vyre.policies.frontiers.plan_cache import MegakernelPlanCacheKey

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry
    from vyre.ports.wave_time_store import WaveTimeStore


class KnownWaveTimes:
    """Times by the key of the waves' shape; any thread may use them.

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
        self._lock = Lock()

    def get(self, key: MegakernelPlanCacheKey) -> tuple[WaveTime, bool] | None:
        """Returns the times of waves, and whether another process measured them; None where nobody did."""
        name = _name(key)
        with self._lock:
            own = self._own.get(name)
            if own is not None:
                return own, False
            if self._stored is None:
                self._stored = self._load()
            found = None if self._stored is None else self._stored.times.get(name)
            return None if found is None else (found, True)

    def learn(self, key: MegakernelPlanCacheKey, time: WaveTime) -> None:
        """Records the measured times of waves, for other processes too."""
        name = _name(key)
        with self._lock:
            if self._own.get(name) == time:
                return
            self._own[name] = time
            self._keep(name, time)

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

    def _keep(self, name: str, time: WaveTime) -> None:
        store = self._store()
        table = None if store is None else self._load()  # with what others have measured meanwhile
        if store is None or table is None:
            return
        self._stored = table.with_time(name, time)
        try:
            store.save(self._stored)
        except VyreError as error:
            self._tell("vyre.waves.not_kept", error)

    def _tell(self, event: str, error: VyreError) -> None:
        if self._telemetry is not None and event not in self._told:
            self._told.add(event)
            self._telemetry.event(event, level="warning", reason=error.message, fix=error.fix)


def _name(key: MegakernelPlanCacheKey) -> str:
    """Returns a digest of a key that is the same in every process."""
    return blake2b(repr(key).encode(), digest_size=16).hexdigest()
