"""Launch costs in a directory that processes share: ``costs-v1/SSSS....json``, where S is the digest of their source.

A file is replaced as a whole, so that readers see either the old or the new costs; of two writers the later wins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.trust import check_directory
from vyre.adapters.disk.whole_files import WholeFiles
from vyre.adapters.files import read_file
from vyre.domain.errors import ForeignCosts, MalformedJson, UnreadableFile
from vyre.domain.launch_costs import CostSource, LaunchCosts, from_text, to_text

DIRECTORY: Final = "costs-v1"
MAX_FILE_BYTES: Final = 4 << 20
_FIX: Final = "set VYRE_CACHE_DIR to a directory that you can read and write, or plan with assumed costs."


class DiskCostStore:
    """``CostStore`` below ``root``, an absolute path.

    ``files``, ``now_ns`` (nanoseconds since the epoch) and ``user`` stand for the operating system.
    """

    def __init__(
        self,
        root: str,
        *,
        files: FileOperations = REAL_FILES,
        now_ns: Callable[[], int] = time.time_ns,
        user: Callable[[], int] = os.geteuid,
    ) -> None:
        self.directory: Final = f"{root}/{DIRECTORY}"
        self._files, self._now_ns, self._user = files, now_ns, user()
        self._whole: Final = WholeFiles(files, self._user, MAX_FILE_BYTES)

    def load(self, source: CostSource, /) -> LaunchCosts | None:
        """Implements ``CostStore.load``; raises ``UnreadableFile``, ``MalformedJson`` and ``ForeignCosts``."""
        path = f"{self.directory}/{name_of(source)}"
        try:
            if not check_directory(self._files, self.directory, self._user):
                return None
            data = self._whole.read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from error
        found = _parsed(data)
        if found.source != source:
            raise ForeignCosts(expected=str(source), actual=str(found.source))
        return found

    def save(self, costs: LaunchCosts, /) -> None:
        """Implements ``CostStore.save``; raises ``UnreadableFile``."""
        content = (to_text(costs) + "\n").encode()
        try:
            self._whole.write(self.directory, name_of(costs.source), content)
        except OSError as error:
            raise _unreadable(self.directory, error) from error
        with suppress(OSError):  # a file that cannot be removed now is removed another time
            self._whole.remove_stale(self.directory, self._now_ns())


def name_of(source: CostSource) -> str:
    """Returns the name of the file that holds the costs of ``source``."""
    from blake3 import blake3

    told = "\0".join((source.backend, source.device, source.driver))
    return f"{blake3(told.encode()).hexdigest()}.json"


def costs_of_file(path: Path) -> LaunchCosts:
    """Returns the costs in a file that the user names; raises ``UnreadableFile`` and ``MalformedJson``, which name
    it.
    """
    try:
        return _parsed(read_file(path, max_bytes=MAX_FILE_BYTES))
    except MalformedJson as error:
        raise MalformedJson(error.message.removeprefix(f"{error.path}: "), fix=error.fix, path=str(path)) from None


def _parsed(data: bytes) -> LaunchCosts:
    try:
        return from_text(data.decode().removesuffix("\n"))
    except UnicodeDecodeError:
        raise MalformedJson(
            "not launch costs: it is not text", fix="measure them again, or plan with assumed ones."
        ) from None


def _unreadable(path: str, error: OSError) -> UnreadableFile:
    where = error.filename if isinstance(error.filename, str) else path
    return UnreadableFile(f"{where}: {error.strerror or error}", fix=_FIX)
