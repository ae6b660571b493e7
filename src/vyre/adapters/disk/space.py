"""Space for new entries: counts existing ones, and evicts entries if a new one does not fit.

A ``Retention`` chooses victims, as for the cache in memory.  It sees all puts and uses of this process; of entries of
other processes it knows bytes, cost and the time of last use.  An entry that is met for the first time enters with its
cost reduced by that age, as if it had aged in this process; a later time of use counts as a request.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from vyre.adapters.caching.retention import Retention
from vyre.adapters.disk.entry_directory import RECENT_NS, EntryDirectory, Found
from vyre.adapters.disk.file_operations import FileOperations
from vyre.adapters.disk.ledger import Ledger, Totals
from vyre.ports.interrupts import whole

SLACK: Final = 16
"""An eviction frees at least this fraction (1/16) of the limits, so that not every put has to scan."""


class Space:
    """The limits of one cache directory; not safe for concurrent use.

    Others append the paths of entries that were used to ``uses``, at any time.
    """

    def __init__(
        self,
        directory: EntryDirectory,
        files: FileOperations,
        limits: Totals,
        retention: Retention[str],
        uses: deque[str] | None = None,
    ) -> None:
        self._directory, self._limits, self._retention, self._now_ns = directory, limits, retention, files.time_ns
        self._ledger = Ledger(files, directory.layout.announced)
        self._known: dict[str, int] = {}
        self._uses = deque[str]() if uses is None else uses
        self.evicted: int = 0

    @whole
    def reserve(self, path: str, nbytes: int) -> bool:
        """Evicts entries for one that is about to be written; returns whether it fits.  Raises ``OSError``."""
        totals = self._ledger.announce(nbytes)
        if totals is not None and self._fits(totals):
            return True
        self._directory.sweep()
        entries_by_path = {entry.path: entry for entry in self._directory.scan() if entry.path != path}
        totals = Totals(len(entries_by_path) + 1, sum(entry.nbytes for entry in entries_by_path.values()) + nbytes)
        if not self._fits(totals):
            totals = self._evict(entries_by_path, totals)
        self._ledger.scanned(totals)
        return self._fits(totals)

    @whole
    def kept(self, path: str, nbytes: int, cost_ns: int) -> None:
        """Records that the entry was written."""
        self._known[path] = self._now_ns()
        self._retention.admit(path, nbytes, cost_ns)

    @whole
    def evict_to_fit(self) -> int:
        """Evicts entries that exceed the limits; returns how many."""
        before = self.evicted
        entries_by_path = {entry.path: entry for entry in self._directory.scan()}
        totals = Totals(len(entries_by_path), sum(entry.nbytes for entry in entries_by_path.values()))
        if not self._fits(totals):
            self._evict(entries_by_path, totals)
        return self.evicted - before

    def _fits(self, totals: Totals) -> bool:
        return totals.entries <= self._limits.entries and totals.nbytes <= self._limits.nbytes

    def _evict(self, scanned: dict[str, Found], totals: Totals) -> Totals:
        """Evicts entries until there is slack; returns the totals after that."""
        self._review(scanned)
        limits = self._limits
        entries, nbytes = (limit - limit // SLACK for limit in limits)
        while self._known and (totals.entries > entries or totals.nbytes > nbytes):
            path = self._retention.evict()
            self._known.pop(path, None)
            victim = scanned.get(path)
            if victim is not None and self._directory.remove(path):
                self.evicted += 1
                totals = Totals(totals.entries - 1, totals.nbytes - victim.nbytes)
        return totals

    def _review(self, scanned: dict[str, Found]) -> None:
        """Reports to the retention what changed since the last eviction."""
        for path in self._known.keys() - scanned.keys():
            del self._known[path]
            self._retention.discard(path)
        while self._uses:
            self._retention.hit(self._uses.popleft())
        for entry in sorted(scanned.values(), key=lambda e: e.used_ns):
            before = self._known.get(entry.path)
            if before is None:
                self._retention.admit(entry.path, entry.nbytes, self._aged_cost(entry))
            elif entry.used_ns > before + RECENT_NS:
                self._retention.hit(entry.path)
            else:
                continue
            self._known[entry.path] = entry.used_ns

    def _aged_cost(self, entry: Found) -> int:
        age_ns = max(self._now_ns() - entry.used_ns, 0)
        return self._directory.cost_ns(entry.path) * RECENT_NS // (RECENT_NS + age_ns)
