"""Atomic writing of small files in directories that no other user can change."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Final

from vyre.adapters.disk.file_operations import FileOperations
from vyre.adapters.disk.trust import check_directory, check_file, trusted_owners

TEMPORARY: Final = ".tmp"
"""Suffix of files that are being written."""
STALE_S: Final = 3600
"""Age in seconds at which such a file is abandoned."""


class WholeFiles:
    """Reads and writes files with at most ``max_bytes`` each; paths are absolute.

    Every method raises ``OSError``, and ``UntrustedDirectory`` for a directory that other users can change.
    """

    def __init__(self, files: FileOperations, max_bytes: int) -> None:
        self._files, self._user, self._max_bytes = files, files.geteuid(), max_bytes

    def names(self, directory: str) -> list[str]:
        """Returns the names of all files in ``directory``, sorted; none if it does not exist."""
        return sorted(self._files.listdir(directory)) if check_directory(self._files, directory, self._user) else []

    def content(self, directory: str, name: str) -> bytes | None:
        """Returns the content of a file in ``directory``, None if there is none; raises as ``read`` does."""
        try:
            known = check_directory(self._files, directory, self._user)
            return self.read(f"{directory}/{name}") if known else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes:
        """Returns the content; raises ``PermissionError`` for a file that others may write, and for one that is too
        long.
        """

        def checked(status: os.stat_result) -> int:
            problem = check_file(status, trusted_owners(self._user))
            if problem is None and status.st_size > self._max_bytes:
                problem = f"it has {status.st_size} bytes"
            if problem is not None:
                raise OSError(errno.EPERM, problem, path)
            return status.st_size

        return self._files.read_file(path, checked)[0]

    def write(self, directory: str, name: str, content: bytes) -> None:
        """Writes ``name`` in ``directory``, which is made if it does not exist, replacing a file of that name."""
        files = self._files
        if len(content) > self._max_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), directory)
        self.prepare(directory)
        temporary = f"{directory}/{os.urandom(16).hex()}{TEMPORARY}"
        files.write_file(temporary, content, lambda: files.replace(temporary, f"{directory}/{name}"))

    def replace(self, directory: str, name: str, content: bytes) -> None:
        """Writes a file as ``write`` does, and removes what writers that were killed have left."""
        self.write(directory, name, content)
        with suppress(OSError):  # a file that cannot be removed now is removed another time
            self.remove_stale(directory)

    def prepare(self, directory: str) -> None:
        """Makes ``directory``, private to the user, unless it exists."""
        if check_directory(self._files, directory, self._user):
            return
        self._files.make_directories(directory)
        check_directory(self._files, directory, self._user)

    def remove_stale(self, directory: str) -> None:
        """Removes temporary files of writers that were killed.  If the clock goes back, files count as older."""
        now_ns = self._files.time_ns()
        for name in self._files.listdir(directory):
            path = f"{directory}/{name}"
            if name.endswith(TEMPORARY):
                with suppress(FileNotFoundError):
                    if abs(now_ns - self._files.lstat(path).st_mtime_ns) > STALE_S * 1_000_000_000:
                        self._files.unlink(path)
