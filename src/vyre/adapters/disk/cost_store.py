"""Launch costs in a directory that processes share: ``costs-v1``, with a file for each source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.source_files import MAX_FILE_BYTES, SourceFiles
from vyre.adapters.files import read_file
from vyre.domain.errors import MalformedJson
from vyre.domain.launch_costs import LaunchCosts, from_text, to_text

DIRECTORY: Final = "costs-v1"


class DiskCostStore(SourceFiles[LaunchCosts]):
    """``CostStore`` below ``root``, an absolute path; ``files`` stands for the operating system."""

    def __init__(self, root: str, *, files: FileOperations = REAL_FILES) -> None:
        super().__init__(f"{root}/{DIRECTORY}", from_text, to_text, files)


def costs_of_file(path: Path) -> LaunchCosts:
    """Returns the costs in a file that the user names; raises ``UnreadableFile`` and ``MalformedJson``, which name
    it.
    """
    try:
        return from_text(read_file(path, max_bytes=MAX_FILE_BYTES).removesuffix(b"\n"))
    except MalformedJson as error:
        raise MalformedJson(error.message.removeprefix(f"{error.path}: "), fix=error.fix, path=str(path)) from None
