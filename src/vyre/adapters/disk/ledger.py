"""The ledger: sizes of entries, announced before they are written, so that processes need not scan for each put.

Every put appends a record to one file and reads the records that others appended since its own last one.  So the count
of a process, from a scan and the records after it, lacks at most one entry of each other process: an entry that was
announced before the scan, and written after the scan had passed its place.

Nothing else depends on this file.  Records are of attempts, so a put that failed, or replaced an entry, is counted too
much; the next scan, which a count beyond the limits causes, corrects that.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import Final, NamedTuple

from vyre.adapters.disk.file_operations import FileOperations

_RECORD: Final = Struct("<Q8s")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_BYTES: Final = 1 << 20
"""A longer file is truncated."""


class Totals(NamedTuple):
    """Number and total size of entries."""

    entries: int
    nbytes: int


class _Seen(NamedTuple):
    """The last own record and its end offset.  It has a random part: if it is still there, the file is still the
    same.
    """

    record: bytes
    end: int


class Ledger:
    """One process's view of the ledger; not safe for concurrent use."""

    def __init__(self, files: FileOperations, path: str) -> None:
        self._files, self._path = files, path
        self._seen: _Seen | None = None
        self._totals: Totals | None = None

    def announce(self, nbytes: int) -> Totals | None:
        """Announces an entry; returns the estimated totals including it, or None if a scan is needed."""
        before, record = self._seen, _RECORD.pack(nbytes, os.urandom(8))
        self._seen = None
        descriptor = self._files.open(self._path, _FLAGS, 0o600)
        try:
            self._files.write(descriptor, record)
            end = self._files.lseek(descriptor, 0, os.SEEK_CUR)
            start = 0 if before is None else before.end - _RECORD.size
            unseen = b"" if before is None else self._files.pread(descriptor, max(end - start, 0), start)
        finally:
            self._files.close(descriptor)
        if end > MAX_BYTES:
            self._files.unlink(self._path)
        else:
            self._seen = _Seen(record, end)
        if before is None or self._totals is None or unseen[: _RECORD.size] != before.record:
            return None
        whole = len(unseen) // _RECORD.size * _RECORD.size
        sizes = [size for size, _ in _RECORD.iter_unpack(unseen[_RECORD.size : whole])]
        self._totals = Totals(self._totals.entries + len(sizes), self._totals.nbytes + sum(sizes))
        return self._totals

    def scanned(self, totals: Totals) -> None:
        """Sets the totals to those of a scan that began after the last announcement; they include its entry."""
        self._totals = totals
