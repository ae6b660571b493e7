"""One small file for each device in a directory that processes share: ``SSSS....json``, S is the digest of its source.

A file is replaced as a whole, so that readers see either the old or the new content; of two writers the later wins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.trust import check_directory
from vyre.adapters.disk.whole_files import WholeFiles
from vyre.domain.errors import UnreadableFile
from vyre.domain.launch_costs import CostSource

MAX_FILE_BYTES: Final = 4 << 20
_FIX: Final = "set VYRE_CACHE_DIR to a directory that you can read and write, or plan with assumed costs."


class SourceFiles:
    """The files in ``directory``, an absolute path.

    ``files``, ``now_ns`` (nanoseconds since the epoch) and ``user`` stand for the operating system.
    """

    def __init__(
        self,
        directory: str,
        *,
        files: FileOperations = REAL_FILES,
        now_ns: Callable[[], int] = time.time_ns,
        user: Callable[[], int] = os.geteuid,
    ) -> None:
        self.directory: Final = directory
        self._files, self._now_ns, self._user = files, now_ns, user()
        self._whole: Final = WholeFiles(files, self._user, MAX_FILE_BYTES)

    def read(self, source: CostSource) -> bytes | None:
        """Returns the content for ``source``, or None if there is none; raises ``UnreadableFile``."""
        path = f"{self.directory}/{name_of(source)}"
        try:
            if not check_directory(self._files, self.directory, self._user):
                return None
            return self._whole.read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from error

    def write(self, source: CostSource, content: bytes) -> None:
        """Replaces the content for ``source``; raises ``UnreadableFile``."""
        try:
            self._whole.write(self.directory, name_of(source), content)
        except OSError as error:
            raise _unreadable(self.directory, error) from error
        with suppress(OSError):  # a file that cannot be removed now is removed another time
            self._whole.remove_stale(self.directory, self._now_ns())


def name_of(source: CostSource) -> str:
    """Returns the name of the file that belongs to ``source``."""
    from blake3 import blake3

    told = "\0".join((source.backend, source.device, source.driver))
    return f"{blake3(told.encode()).hexdigest()}.json"


def _unreadable(path: str, error: OSError) -> UnreadableFile:
    where = error.filename if isinstance(error.filename, str) else path
    return UnreadableFile(f"{where}: {error.strerror or error}", fix=_FIX)
