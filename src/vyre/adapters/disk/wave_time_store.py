"""Measured times of waves in a directory that processes share: ``waves-v1``, with a file for each source."""

from __future__ import annotations

from typing import Final

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.source_files import SourceFiles
from vyre.domain.errors import ForeignCosts
from vyre.domain.launch_costs import CostSource
from vyre.domain.wave_times import WaveTimes, from_text, to_text

DIRECTORY: Final = "waves-v1"


class DiskWaveTimeStore:
    """``WaveTimeStore`` below ``root``, an absolute path; ``files`` stands for the operating system."""

    def __init__(self, root: str, *, files: FileOperations = REAL_FILES) -> None:
        self._files: Final = SourceFiles(f"{root}/{DIRECTORY}", files=files)

    def load(self, source: CostSource, /) -> WaveTimes | None:
        """Implements ``WaveTimeStore.load``; raises ``UnreadableFile``, ``MalformedJson`` and ``ForeignCosts``."""
        data = self._files.read(source)
        if data is None:
            return None
        found = from_text(data.removesuffix(b"\n"))
        if found.source != source:
            raise ForeignCosts(expected=str(source), actual=str(found.source))
        return found

    def save(self, table: WaveTimes, /) -> None:
        """Implements ``WaveTimeStore.save``; raises ``UnreadableFile``."""
        self._files.write(table.source, (to_text(table) + "\n").encode())
