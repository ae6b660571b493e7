"""Stores of measurements of devices, in directories that processes share: launch costs in ``costs-v1``, and times of
waves in ``waves-v1``, with a small file for each device.

The name of a file is ``SSSS....json``, where S is the digest of its source.  A file is replaced as a whole, so that
readers see either the old or the new content; of two writers the later wins.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.whole_files import WholeFiles
from vyre.adapters.files import read_file
from vyre.domain import launch_costs, wave_times
from vyre.domain.errors import ForeignCosts, MalformedJson, UnreadableFile
from vyre.domain.launch_costs import CostSource, LaunchCosts
from vyre.domain.wave_times import WaveTimes

COSTS_DIRECTORY: Final = "costs-v1"
WAVES_DIRECTORY: Final = "waves-v1"
MAX_FILE_BYTES: Final = 4 << 20
_FIX: Final = "set VYRE_CACHE_DIR to a directory that you can read and write, or plan with assumed costs."


class OfSource(Protocol):
    """Measurements that were taken on one device."""

    @property
    def source(self) -> CostSource:
        """Returns the device, and what drives it."""


T = TypeVar("T", bound=OfSource)


class SourceFiles(Generic[T]):
    """The tables in ``directory``, an absolute path; ``files`` stands for the operating system."""

    def __init__(
        self, directory: str, from_text: Callable[[bytes], T], to_text: Callable[[T], str], files: FileOperations
    ) -> None:
        self.directory: Final = directory
        self._from_text, self._to_text = from_text, to_text
        self._whole: Final = WholeFiles(files, MAX_FILE_BYTES)

    def load(self, source: CostSource, /) -> T | None:
        """Returns the table of ``source``, or None if there is none.

        Raises ``UnreadableFile``, ``MalformedJson`` and ``ForeignCosts``.
        """
        name = name_of(source)
        try:
            data = self._whole.content(self.directory, name)
        except OSError as error:
            raise _unreadable(f"{self.directory}/{name}", error) from error
        if data is None:
            return None
        table = self._from_text(data.removesuffix(b"\n"))
        if table.source != source:
            raise ForeignCosts(expected=str(source), actual=str(table.source))
        return table

    def save(self, table: T, /) -> None:
        """Replaces the table of its source; raises ``UnreadableFile``."""
        try:
            self._whole.replace(self.directory, name_of(table.source), f"{self._to_text(table)}\n".encode())
        except OSError as error:
            raise _unreadable(self.directory, error) from error


class DiskCostStore(SourceFiles[LaunchCosts]):
    """``CostStore`` below ``root``, an absolute path; ``files`` stands for the operating system."""

    def __init__(self, root: str, *, files: FileOperations = REAL_FILES) -> None:
        super().__init__(f"{root}/{COSTS_DIRECTORY}", launch_costs.from_text, launch_costs.to_text, files)


class DiskWaveTimeStore(SourceFiles[WaveTimes]):
    """``WaveTimeStore`` below ``root``, an absolute path; ``files`` stands for the operating system."""

    def __init__(self, root: str, *, files: FileOperations = REAL_FILES) -> None:
        super().__init__(f"{root}/{WAVES_DIRECTORY}", wave_times.from_text, wave_times.to_text, files)


def costs_of_file(path: Path) -> LaunchCosts:
    """Returns the costs in a file that the user names; raises ``UnreadableFile`` and ``MalformedJson``, which name
    it.
    """
    try:
        return launch_costs.from_text(read_file(path, max_bytes=MAX_FILE_BYTES).removesuffix(b"\n"))
    except MalformedJson as error:
        raise MalformedJson(error.message.removeprefix(f"{error.path}: "), fix=error.fix, path=str(path)) from None


def name_of(source: CostSource) -> str:
    """Returns the name of the file that belongs to ``source``."""
    from blake3 import blake3

    told = "\0".join((source.backend, source.device, source.driver))
    return f"{blake3(told.encode()).hexdigest()}.json"


def _unreadable(path: str, error: OSError) -> UnreadableFile:
    where = error.filename if isinstance(error.filename, str) else path
    return UnreadableFile(f"{where}: {error.strerror or error}", fix=_FIX)
