"""All that the cache asks the operating system, in one record, so that tests can make each call fail, or lie."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from vyre.domain.frozen import frozen
from vyre.ports.interrupts import whole

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen(kw_only=True)
class FileOperations:
    """The functions of ``os`` by name, with their parameters; each may raise ``OSError``.

    ``time_ns`` is the time since the epoch in nanoseconds, and ``geteuid`` the user; neither fails.
    """

    open: Callable[..., int] = os.open
    close: Callable[[int], None] = os.close
    read: Callable[[int, int], bytes] = os.read
    pread: Callable[[int, int, int], bytes] = os.pread
    write: Callable[[int, Any], int] = os.write
    lseek: Callable[[int, int, int], int] = os.lseek
    fstat: Callable[[int], os.stat_result] = os.fstat
    fsync: Callable[[int], None] = os.fsync
    lstat: Callable[..., os.stat_result] = os.lstat
    listdir: Callable[[str], list[str]] = os.listdir
    mkdir: Callable[[str, int], None] = os.mkdir
    rmdir: Callable[[str], None] = os.rmdir
    replace: Callable[[str, str], None] = os.replace
    unlink: Callable[[str], None] = os.unlink
    utime: Callable[..., None] = os.utime
    time_ns: Callable[[], int] = time.time_ns
    geteuid: Callable[[], int] = os.geteuid

    @whole
    def read_file(self, path: str, wanted: Callable[[os.stat_result], int]) -> tuple[bytes, os.stat_result]:
        """Returns the first bytes of a file that is no link, as many as ``wanted`` says of its facts, and these."""
        descriptor = self.open(path, _READ)
        try:
            status = self.fstat(descriptor)
            left, parts = wanted(status), list[bytes]()
            while left and (part := self.read(descriptor, left)):
                parts.append(part)
                left -= len(part)
        finally:
            self.close(descriptor)
        return b"".join(parts), status

    @whole
    def write_file(self, temporary: str, data: bytes, rename: Callable[[], object], *, synced: bool = False) -> None:
        """Writes a new file, which only this user may read, and calls ``rename``; on failure there is no such file."""
        descriptor = self.open(temporary, _CREATE, 0o600)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[self.write(descriptor, view) :]
                if synced:
                    self.fsync(descriptor)
            finally:
                self.close(descriptor)  # some file systems report only here that the disk is full
            rename()
        except OSError:
            with suppress(OSError):
                self.unlink(temporary)
            raise

    def make_directory(self, path: str) -> None:
        """Makes a directory that is private to the user, unless it exists."""
        with suppress(FileExistsError):
            self.mkdir(path, 0o700)

    def make_directories(self, path: str) -> None:
        """Makes a directory, and those above it, as ``make_directory`` does; ``path`` is absolute."""
        above = ""
        for name in path.split("/")[1:]:
            above += f"/{name}"
            self.make_directory(above)


REAL_FILES: Final = FileOperations()
