"""The entries below one root: read, written and removed one at a time.

No operation needs a lock.  An entry appears whole, by a rename; a reader of an entry that is being replaced gets the
old or the new one; an entry that was removed is a miss.  Directories are made when they turn out to be missing, since
any process may remove an empty one at any time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from vyre.adapters.disk.entry_format import HEADER_BYTES, MAX_ENTRY_BYTES, MAX_KEY_BYTES, Damaged, read_header
from vyre.adapters.disk.file_operations import FileOperations
from vyre.adapters.disk.layout import Layout, Name, Place, parse_path, shards
from vyre.adapters.disk.trust import check_directory, check_file, trusted_owners
from vyre.domain.cache_config import Durability
from vyre.ports.interrupts import whole

# O_NONBLOCK so that a pipe in place of an entry does not block; it has no effect on regular files.
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS: Final = 16
"""Number of times that a directory may vanish before a put gives up."""
QUARANTINE_FILES: Final = 16
QUARANTINE_BYTES: Final = 64 << 20
STALE_S: Final = 3600
"""Age in seconds at which a temporary file is abandoned: writing one takes seconds at most."""

RECENT_NS: Final = 3600 * 1_000_000_000
"""Age in ns at which the cost of an entry counts half; also the resolution of times of use."""


class Untrusted(Exception):
    """A file that other users could have written; ``str`` says why."""


class Read(NamedTuple):
    """The content of a file.

    ``inode`` shows whether a path still names the same file.  ``used_ns``: time of last use since the epoch.
    """

    data: bytes
    inode: int
    used_ns: int


class Found(NamedTuple):
    """An entry found by a scan.  ``nbytes``: size of its file.  ``used_ns``: time of last use since the epoch."""

    path: str
    nbytes: int
    used_ns: int


class EntryDirectory:
    """The entries of one cache directory.

    Paths of entries are relative to ``entries``; every method raises ``OSError`` unless it says otherwise.
    """

    def __init__(self, files: FileOperations, root: str) -> None:
        self._files, self._user = files, files.geteuid()
        self._owners = trusted_owners(self._user)
        self.layout: Final = Layout(root)

    def check(self) -> bool:
        """Returns whether it exists.  Raises ``UntrustedDirectory`` if other users could change its content."""
        return check_directory(self._files, self.layout.root, self._user) and all(
            check_directory(self._files, path, self._user) for path in self.layout.directories
        )

    # ---- reading
    def read_key(self, path: str) -> bytes:
        """Returns the key of an entry, encoded and not verified; also raises ``Damaged`` and ``Untrusted``."""
        data = self.read(path, HEADER_BYTES).data
        length = read_header(data).key_bytes
        if length > MAX_KEY_BYTES:
            raise Damaged(f"its key has {length} bytes")
        return self.read(path, HEADER_BYTES + length).data[HEADER_BYTES:]

    def cost_ns(self, path: str) -> int:
        """Returns the build time that an entry records; 0 if it cannot be read.  Raises nothing."""
        try:
            return read_header(self.read(path, HEADER_BYTES).data).cost_ns
        except (OSError, Damaged, Untrusted):
            return 0

    def read(self, path: str, limit: int | None = None) -> Read:
        """Returns the first ``limit`` bytes of an entry, or all; also raises ``Damaged`` and ``Untrusted``."""

        def checked(status: os.stat_result) -> int:
            problem = check_file(status, self._owners)
            if problem is not None:
                raise Untrusted(problem)
            if status.st_size > MAX_ENTRY_BYTES:
                raise Damaged(f"it has {status.st_size} bytes")
            return status.st_size if limit is None else limit

        data, status = self._files.read_file(f"{self.layout.entries}/{path}", checked)
        return Read(data, status.st_ino, status.st_mtime_ns)

    def scan(self) -> Iterator[Found]:
        """Yields every entry; entries that vanish or cannot be inspected are left out.  Raises nothing."""
        for shard in shards(self._names(self.layout.entries)):
            yield from self._scan_shard(shard, "")

    def scan_family(self, name: Name) -> Iterator[Found]:
        """Yields the entries of the same program and kind.  Raises nothing."""
        return self._scan_shard(name.shard, name.family)

    def _scan_shard(self, shard: str, prefix: str) -> Iterator[Found]:
        for name in self._names(f"{self.layout.entries}/{shard}"):
            if not name.startswith(prefix) or parse_path(name) is None:
                continue
            path = f"{shard}/{name}"
            with suppress(OSError):
                status = self._files.lstat(f"{self.layout.entries}/{path}")
                if stat.S_ISREG(status.st_mode):
                    yield Found(path, status.st_size, status.st_mtime_ns)

    def _names(self, path: str) -> list[str]:
        try:
            if stat.S_ISDIR(self._files.lstat(path).st_mode):
                return self._files.listdir(path)
        except OSError:
            pass
        return []

    # ---- writing
    def prepare(self) -> None:
        """Makes missing directories; also raises ``UntrustedDirectory``."""
        if self.check():
            return
        self._files.make_directories(self.layout.root)
        for path in self.layout.directories:
            self._files.make_directory(path)
        self.check()

    @whole
    def write(self, place: Place, data: bytes, durability: Durability) -> None:
        """Writes an entry to its place, whole or not at all."""
        temporary = f"{self.layout.temporary}/{os.urandom(16).hex()}"
        synced = durability is not Durability.NONE
        self._files.write_file(temporary, data, lambda: self._rename(temporary, place), synced=synced)
        if durability is Durability.DIR:
            self._sync_directory(f"{self.layout.entries}/{place.name.shard}")
            self._sync_directory(self.layout.entries)

    def _rename(self, temporary: str, place: Place) -> None:
        target = f"{self.layout.entries}/{place.path}"
        for _ in range(_ATTEMPTS):
            try:
                self._files.replace(temporary, target)
            except FileNotFoundError as error:
                missing = error
            else:
                return
            with suppress(FileNotFoundError):
                self._files.make_directory(f"{self.layout.entries}/{place.name.shard}")
        raise missing

    def _sync_directory(self, path: str) -> None:
        descriptor = self._files.open(path, _DIRECTORY)
        try:
            self._files.fsync(descriptor)
        finally:
            self._files.close(descriptor)

    def touch(self, path: str, now_ns: int) -> None:
        """Records a use at a time since the epoch."""
        self._files.utime(f"{self.layout.entries}/{path}", ns=(now_ns, now_ns), follow_symlinks=False)

    # ---- removing
    def unlink(self, path: str) -> None:
        """Removes an entry that may have been removed already."""
        with suppress(FileNotFoundError):
            self._files.unlink(f"{self.layout.entries}/{path}")

    def remove(self, path: str) -> bool:
        """Removes an entry; returns whether it is gone, whoever removed it.  Raises nothing."""
        try:
            self.unlink(path)
        except OSError:
            return False
        return True

    def remove_empty_shards(self) -> None:
        """Removes empty directories.  Raises nothing."""
        for shard in shards(self._names(self.layout.entries)):
            with suppress(OSError):  # not empty
                self._files.rmdir(f"{self.layout.entries}/{shard}")

    def quarantine(self, path: str, inode: int | None) -> None:
        """Moves a damaged entry to quarantine, unless another file has replaced it.  Raises nothing."""
        source, name = f"{self.layout.entries}/{path}", path.rpartition("/")[2]
        with suppress(OSError):
            status = self._files.lstat(source)
            if inode is not None and status.st_ino != inode:
                return
            self._files.make_directory(self.layout.quarantine)
            self._files.replace(source, f"{self.layout.quarantine}/{name}")
            self._bound_quarantine()
            return
        self.remove(path)

    def _bound_quarantine(self) -> None:
        """Keeps the latest files, up to a number and a size."""
        kept = nbytes = 0
        for file in sorted(self._files_in(self.layout.quarantine), key=lambda f: f.used_ns, reverse=True):
            kept, nbytes = kept + 1, nbytes + file.nbytes
            if kept > QUARANTINE_FILES or nbytes > QUARANTINE_BYTES:
                self._files.unlink(file.path)

    def empty_quarantine(self) -> int:
        """Returns how many files were removed.  Raises nothing."""
        return self._unlink_all(self._files_in(self.layout.quarantine))

    def sweep(self) -> int:
        """Removes temporary files of killed writers; returns how many.  If the clock goes back, files count as older.

        Raises nothing.
        """
        stale, now_ns = STALE_S * 1_000_000_000, self._files.time_ns()
        files = self._files_in(self.layout.temporary)
        return self._unlink_all(file for file in files if abs(now_ns - file.used_ns) > stale)

    def forget_announcements(self) -> None:
        """Truncates the ledger.  Raises nothing."""
        with suppress(OSError):
            self._files.unlink(self.layout.announced)

    def _files_in(self, path: str) -> Iterator[Found]:
        for name in self._names(path):
            with suppress(OSError):
                status = self._files.lstat(f"{path}/{name}")
                yield Found(f"{path}/{name}", status.st_size, status.st_mtime_ns)

    def _unlink_all(self, files: Iterator[Found]) -> int:
        count = 0
        for file in files:
            with suppress(OSError):
                self._files.unlink(file.path)
                count += 1
        return count
