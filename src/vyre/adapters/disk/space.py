"""Room for a new entry: counts what is there, and lets others leave when it does not fit.

Who leaves is decided as in the cache in memory, by a ``Retention``.  What this process put or used, it knows; of what
others left there it knows bytes, cost and the time of last use.  An entry that is met for the first time enters with
its cost reduced by that age, as if it had aged in this process; a later time of use counts as a request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from vyre.adapters.caching.retention import Retention
from vyre.adapters.disk.entry_directory import EntryDirectory, Found
from vyre.adapters.disk.file_operations import FileOperations
from vyre.adapters.disk.ledger import Ledger, Totals

SLACK: Final = 16
"""When something leaves, enough leaves that this part of the limits is free, so that not every put has to scan."""
RECENT_NS: Final = 3600 * 1_000_000_000
"""Age at which cost counts half; times of use are kept to within this."""
LOG: Final = 256
"""Uses that are remembered until the next scan."""


class Space:
    """The limits of one cache directory; to be called by one thread at a time, except ``used``."""

    def __init__(
        self,
        directory: EntryDirectory,
        files: FileOperations,
        limits: Totals,
        retention: Retention[str],
        now_ns: Callable[[], int],
    ) -> None:
        self._directory, self._limits, self._retention, self._now_ns = directory, limits, retention, now_ns
        self._ledger = Ledger(files, directory.layout.announced)
        self._known: dict[str, int] = {}
        self._log: deque[str] = deque(maxlen=LOG)
        self.evicted: int = 0

    def reserve(self, path: str, nbytes: int) -> bool:
        """Make room for an entry that is about to be written; is there room?  Raises ``OSError``."""
        totals = self._ledger.announce(nbytes)
        if totals is not None and self._fits(totals):
            return True
        self._directory.sweep(self._now_ns())
        found = {entry.path: entry for entry in self._directory.scan() if entry.path != path}
        totals = Totals(len(found) + 1, sum(entry.nbytes for entry in found.values()) + nbytes)
        if not self._fits(totals):
            totals = self._evict(found, totals)
        self._ledger.scanned(totals)
        return self._fits(totals)

    def kept(self, path: str, nbytes: int, cost_ns: int) -> None:
        """The entry has been written."""
        self._known[path] = self._now_ns()
        self._retention.admit(path, nbytes, cost_ns)

    def used(self, path: str) -> None:
        """The entry was asked for."""
        self._log.append(path)

    def evict_to_fit(self) -> int:
        """Hold the limits now; how many left?"""
        before = self.evicted
        found = {entry.path: entry for entry in self._directory.scan()}
        totals = Totals(len(found), sum(entry.nbytes for entry in found.values()))
        if not self._fits(totals):
            self._evict(found, totals)
        return self.evicted - before

    def _fits(self, totals: Totals) -> bool:
        return totals.entries <= self._limits.entries and totals.nbytes <= self._limits.nbytes

    def _evict(self, found: dict[str, Found], totals: Totals) -> Totals:
        """Let entries leave until there is some slack; what ``totals`` are then."""
        self._review(found)
        limits = self._limits
        entries, nbytes = (limit - limit // SLACK for limit in limits)
        while self._known and (totals.entries > entries or totals.nbytes > nbytes):
            path = self._retention.evict().key
            self._known.pop(path, None)
            victim = found.get(path)
            if victim is not None and self._directory.remove(path):
                self.evicted += 1
                totals = Totals(totals.entries - 1, totals.nbytes - victim.nbytes)
        return totals

    def _review(self, found: dict[str, Found]) -> None:
        """Tell the policy what has changed since it was last asked."""
        for path in self._known.keys() - found.keys():
            del self._known[path]
            self._retention.discard(path)
        while self._log:
            self._retention.hit(self._log.popleft())
        for entry in sorted(found.values(), key=lambda e: e.used_ns):
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
