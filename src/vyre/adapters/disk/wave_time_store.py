"""Measured times of waves in a directory that processes share: ``waves-v1``, with a file for each source."""

from __future__ import annotations

from typing import Final

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.source_files import SourceFiles
from vyre.domain.wave_times import WaveTimes, from_text, to_text

DIRECTORY: Final = "waves-v1"


class DiskWaveTimeStore(SourceFiles[WaveTimes]):
    """``WaveTimeStore`` below ``root``, an absolute path; ``files`` stands for the operating system."""

    def __init__(self, root: str, *, files: FileOperations = REAL_FILES) -> None:
        super().__init__(f"{root}/{DIRECTORY}", from_text, to_text, files)
