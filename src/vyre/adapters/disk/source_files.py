"""Tables of one kind, with a small file for each device in a directory that processes share.

The name of a file is ``SSSS....json``, where S is the digest of its source.  A file is replaced as a whole, so that
readers see either the old or the new content; of two writers the later wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from vyre.adapters.disk.file_operations import FileOperations
from vyre.adapters.disk.whole_files import WholeFiles
from vyre.domain.errors import ForeignCosts, UnreadableFile
from vyre.domain.launch_costs import CostSource

MAX_FILE_BYTES: Final = 4 << 20
_FIX: Final = "set VYRE_CACHE_DIR to a directory that you can read and write, or plan with assumed costs."


class OfSource(Protocol):
    """Measurements that were taken on one device."""

    @property
    def source(self) -> CostSource:
        """Returns the device, and what drives it."""
        ...


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


def name_of(source: CostSource) -> str:
    """Returns the name of the file that belongs to ``source``."""
    from blake3 import blake3

    told = "\0".join((source.backend, source.device, source.driver))
    return f"{blake3(told.encode()).hexdigest()}.json"


def _unreadable(path: str, error: OSError) -> UnreadableFile:
    where = error.filename if isinstance(error.filename, str) else path
    return UnreadableFile(f"{where}: {error.strerror or error}", fix=_FIX)
