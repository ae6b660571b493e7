"""The artifact store on disk: one writable directory, and read-only layers below it."""

from __future__ import annotations

import errno
import heapq
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.disk.complaints import Complaints
from vyre.adapters.disk.configuration import CacheOption, CacheSettings, cache_settings
from vyre.adapters.disk.entry_directory import RECENT_NS, EntryDirectory, Found, Untrusted
from vyre.adapters.disk.entry_format import MAX_ENTRY_BYTES, Damaged, decode, encode
from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.layout import Place, place_of
from vyre.adapters.forks import process_lock
from vyre.adapters.on_use import OnUse
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.cache_config import Eviction
from vyre.domain.errors import VyreError
from vyre.ports.artifact_store import NEIGHBOURS, Artifact, StoredEntry, StoreStats
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.adapters.caching.held_decisions import HeldDecisions
    from vyre.adapters.caching.retention import Retention
    from vyre.adapters.disk.space import Space
    from vyre.policies.journal import DecisionSink
    from vyre.ports.support import Environment, Telemetry

_FIXES: Final = {
    errno.ENOSPC: "free some space, or set VYRE_CACHE_DIR to a directory on another disk.",
    errno.EDQUOT: "free some of your quota, or set VYRE_CACHE_DIR to a directory on another disk.",
    errno.EROFS: "set VYRE_CACHE_DIR to a directory that can be written, or VYRE_CACHE_DISABLE=1.",
    errno.EACCES: "make the directory readable and writable for you, or set VYRE_CACHE_DIR to another one.",
    errno.EPERM: "make the directory readable and writable for you, or set VYRE_CACHE_DIR to another one.",
}
_OTHER_FIX: Final = "check the disk with `vyre cache verify`, or set VYRE_CACHE_DIR to a directory on another one."


LOGGED_USES: Final = 256
"""The uses of entries that are kept until the next eviction, at most."""


class _Layer(NamedTuple):
    """A directory of the store; ``label`` names it in telemetry."""

    directory: EntryDirectory
    label: str


class DiskArtifactStore:
    """Artifacts in the directory of ``settings``, shared with every process that uses it.

    A failure of the disk is reported once per cause, as the event ``vyre.cache.unusable``, and never raised.  Counters
    are ``vyre.cache.hit`` (label ``layer``), ``.miss`` (``reason``), ``.put``, ``.corrupt`` and ``.evicted``.

    ``files`` stands for the operating system.  ``sink`` receives the decisions of the retention that chooses victims
    when the directory is full.
    """

    def __init__(
        self,
        settings: CacheSettings,
        telemetry: Telemetry,
        *,
        sink: DecisionSink | None = None,
        files: FileOperations = REAL_FILES,
    ) -> None:
        self.settings: Final = settings
        self._telemetry, self._files = telemetry, files
        self._lock = process_lock()
        self._decisions: HeldDecisions | None = None
        if sink is not None:
            from vyre.adapters.caching.held_decisions import HeldDecisions

            self._decisions = HeldDecisions(sink)
        self._space_lock = process_lock()  # held while entries are evicted; hits do not wait for it
        self._prepared = False
        self._counts: Counter[str] = Counter()
        self._complaints = Complaints(telemetry, "vyre.cache.unusable", str(settings.directory))
        self._own = self._opened(settings.directory)
        lower = [self._opened(path) for path in settings.layers]
        self._layers = [_Layer(self._own, "own")] if self._own is not None else []
        self._layers += [_Layer(directory, "lower") for directory in lower if directory is not None]
        self._uses: Final[deque[str]] = deque(maxlen=LOGGED_USES)
        self._space = OnUse(self._make_space)

    # ---- the port
    def get(self, key: ArtifactKey, /) -> Artifact | None:
        """Implements ``ArtifactStore.get``: the first layer with a valid entry answers."""
        place, reason = place_of(key), "absent"
        for layer in self._layers:
            try:
                return self._read(layer, place)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                reason = "unreadable"
                self._report(error)
            except Untrusted as refusal:
                reason = "untrusted"
                self._complaints.say(f"{layer.directory.layout.entries}/{place.path}: {refusal}", "remove it.")
            except Damaged:
                reason = "corrupt"
        self._count("miss", reason=reason)
        return None

    def put(self, key: ArtifactKey, artifact: Artifact, /) -> bool:
        """Implements ``ArtifactStore.put``; False if the entry is too large or could not be written."""
        if self._own is None:
            return False
        place = place_of(key)
        data = encode(place.key, artifact)
        if len(data) > min(self.settings.max_bytes, MAX_ENTRY_BYTES):
            return False
        try:
            try:
                stored = self._put(self._own, place, data, artifact.cost_ns)
            except FileNotFoundError:  # another process removed the whole directory
                self._prepared = False
                stored = self._put(self._own, place, data, artifact.cost_ns)
        except (OSError, VyreError) as error:
            self._report(error)
            return False
        if stored:
            self._count("put")
        return stored

    def neighbours(self, key: ArtifactKey, /) -> Sequence[ArtifactKey]:
        """Implements ``ArtifactStore.neighbours``: the most recently used ones."""
        from vyre.adapters.disk.inventory import key_of_entry

        place = place_of(key)
        latest = heapq.nlargest(NEIGHBOURS, self._family(place), key=lambda item: item[1].used_ns)
        keys = (key_of_entry(directory, entry.path) for directory, entry in latest)
        return [each for each in keys if each is not None]

    def entries(self) -> Iterator[StoredEntry]:
        """Implements ``ArtifactStore.entries``; entries of another version of vyre count as unreadable."""
        from vyre.adapters.disk.inventory import listing

        for directory, _ in self._layers:
            layer = "" if directory is self._own else directory.layout.root
            for entry in listing(directory):
                if entry.key is not None:
                    yield StoredEntry(entry.key, entry.found.nbytes, layer)

    def remove(self, key: ArtifactKey, /) -> bool:
        """Implements ``ArtifactStore.remove``, in the writable directory."""
        if self._own is not None:
            try:
                self._own.unlink(place_of(key).path)
            except OSError as error:
                self._report(error)
                return False
        return True

    def stats(self) -> StoreStats:
        """Implements ``ArtifactStore.stats``; ``entries`` and ``nbytes`` come from a scan of the writable directory."""
        sizes = [] if self._own is None else [entry.nbytes for entry in self._own.scan()]
        with self._lock, sealed:
            counts = self._counts
            return StoreStats(
                entries=len(sizes),
                nbytes=sum(sizes),
                hits=counts["hit"],
                misses=counts["miss"],
                puts=counts["put"],
                corrupt=counts["corrupt"],
                evicted=counts["evicted"],
            )

    def close(self) -> None:
        """Does nothing: no file is kept open."""

    # ---- reading
    def _read(self, layer: _Layer, place: Place) -> Artifact:
        directory = layer.directory
        read = directory.read(place.path)
        try:
            entry = decode(read.data)
            if entry.key != place.key:
                raise Damaged("it is of another key")
        except Damaged as damage:
            self._count("corrupt")
            self._telemetry.event(
                "vyre.cache.corrupt",
                level="warning",
                entry=f"{directory.layout.entries}/{place.path}",
                problem=str(damage),
            )
            if directory is self._own:
                directory.quarantine(place.path, read.inode)
            raise
        if directory is self._own:
            self._note_use(directory, place.path, read.used_ns)
        self._count("hit", layer=layer.label)
        return entry.artifact

    def _note_use(self, directory: EntryDirectory, path: str, used_ns: int) -> None:
        """Records a use.  Times of use have a resolution of an hour, so that most hits do not write."""
        self._uses.append(path)
        now_ns = self._files.time_ns()
        if abs(now_ns - used_ns) > RECENT_NS:
            with suppress(OSError):  # the only consequence is an earlier eviction
                directory.touch(path, now_ns)

    def _family(self, place: Place) -> Iterator[tuple[EntryDirectory, Found]]:
        """Yields other entries of the program and kind; of an entry in several layers the first counts."""
        seen = {place.path}
        for layer in self._layers:
            for entry in layer.directory.scan_family(place.name):
                if entry.path not in seen:
                    seen.add(entry.path)
                    yield layer.directory, entry

    # ---- writing
    def _put(self, directory: EntryDirectory, place: Place, data: bytes, cost_ns: int) -> bool:
        if not self._prepared:  # checked again, because it may not have existed when the store was opened
            directory.prepare()
            self._prepared = True
        with self._space_lock, sealed:
            space = self._space()
            before = space.evicted
            has_room = space.reserve(place.path, len(data))
            evicted = space.evicted - before
        if self._decisions is not None:
            self._decisions.tell()
        if evicted:
            self._count("evicted", evicted)
        if not has_room:
            self._complaints.say(f"{directory.layout.root} is full and its entries cannot be removed", _OTHER_FIX)
            return False
        directory.write(place, data, self.settings.durability)
        with self._space_lock, sealed:
            self._space().kept(place.path, len(data), cost_ns)
        return True

    def _make_space(self) -> Space:
        """Returns the limits of the writable directory; only what writes to it needs them."""
        from vyre.adapters.disk.ledger import Totals
        from vyre.adapters.disk.space import Space

        assert self._own is not None
        settings = self.settings
        limits = Totals(settings.max_entries, settings.max_bytes)
        retention = retention_of(settings.eviction, self._decisions)
        return Space(self._own, self._files, limits, retention, self._uses)

    # ---- telling
    def _opened(self, path: Path) -> EntryDirectory | None:
        """Opens the directory; None if it cannot be used, which is reported."""
        directory = EntryDirectory(self._files, str(path))
        try:
            directory.check()
        except (OSError, VyreError) as error:
            self._report(error)
        else:
            return directory
        return None

    def _count(self, what: str, value: int = 1, **labels: str) -> None:
        with self._lock, sealed:
            self._counts[what] += value
        self._telemetry.count(f"vyre.cache.{what}", value, **labels)

    def _report(self, error: OSError | VyreError) -> None:
        number = error.errno if isinstance(error, OSError) else None
        self._complaints.of_error(error, _FIXES.get(number or 0, _OTHER_FIX))


def retention_of(eviction: Eviction, sink: DecisionSink | None = None) -> Retention[str]:
    """Returns the retention that implements ``eviction``."""
    match eviction:
        case Eviction.COST:
            from vyre.adapters.caching.cost_eviction import CostEviction

            return CostEviction[str](sink=sink)
        case Eviction.HEAT:
            from vyre.adapters.caching.retention import HeatRetention

            return HeatRetention[str](sink=sink)


def open_disk_store(
    cache: CacheOption,
    environment: Environment,
    telemetry: Telemetry,
    *,
    sink: DecisionSink | None = None,
    files: FileOperations = REAL_FILES,
) -> DiskArtifactStore | None:
    """Opens the store that ``cache`` configures, completed from the environment; None if the cache on disk is disabled.

    Raises ``InvalidConfig`` for an invalid ``cache``; failures of the disk are only reported.
    """
    settings = cache_settings(cache, environment)
    return None if settings is None else DiskArtifactStore(settings, telemetry, sink=sink, files=files)
