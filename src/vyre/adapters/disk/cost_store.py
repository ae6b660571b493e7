"""Launch costs in a directory that processes share: ``costs-v1``, with a file for each source."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.source_files import MAX_FILE_BYTES, SourceFiles
from vyre.adapters.files import read_file
from vyre.domain.errors import ForeignCosts, MalformedJson
from vyre.domain.launch_costs import CostSource, LaunchCosts, from_text, to_text

DIRECTORY: Final = "costs-v1"


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
        self._files: Final = SourceFiles(self.directory, files=files, now_ns=now_ns, user=user)

    def load(self, source: CostSource, /) -> LaunchCosts | None:
        """Implements ``CostStore.load``; raises ``UnreadableFile``, ``MalformedJson`` and ``ForeignCosts``."""
        data = self._files.read(source)
        if data is None:
            return None
        found = from_text(data.removesuffix(b"\n"))
        if found.source != source:
            raise ForeignCosts(expected=str(source), actual=str(found.source))
        return found

    def save(self, costs: LaunchCosts, /) -> None:
        """Implements ``CostStore.save``; raises ``UnreadableFile``."""
        self._files.write(costs.source, (to_text(costs) + "\n").encode())


def costs_of_file(path: Path) -> LaunchCosts:
    """Returns the costs in a file that the user names; raises ``UnreadableFile`` and ``MalformedJson``, which name
    it.
    """
    try:
        return from_text(read_file(path, max_bytes=MAX_FILE_BYTES).removesuffix(b"\n"))
    except MalformedJson as error:
        raise MalformedJson(error.message.removeprefix(f"{error.path}: "), fix=error.fix, path=str(path)) from None
