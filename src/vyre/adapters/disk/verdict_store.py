"""Verdicts on lowerings in a directory that processes share: ``lowerings-v1/KKKK....json``, K the digest of their key.

A file is replaced as a whole; of two writers the later wins, and both found the same.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Final

from blake3 import blake3

from vyre.adapters.disk.complaints import Complaints
from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.whole_files import WholeFiles
from vyre.domain.dialects.lowering import LoweringKey, LoweringVerdict, verdict_of_text, verdict_text
from vyre.domain.errors import MalformedJson, UnreadableFile
from vyre.ports.support import Telemetry

DIRECTORY: Final = "lowerings-v1"
MAX_FILE_BYTES: Final = 1 << 20
_SUFFIX: Final = ".json"
_FIX: Final = "set VYRE_CACHE_DIR to a directory that you can read and write; lowerings are checked again until then."


class DiskVerdictStore:
    """``VerdictStore`` below ``root``, an absolute path; ``files`` stands for the operating system.

    A failure of the disk is reported once per cause, as the event ``vyre.lowering.unusable``, and never raised.
    """

    def __init__(self, root: str, telemetry: Telemetry, *, files: FileOperations = REAL_FILES) -> None:
        self.directory: Final = f"{root}/{DIRECTORY}"
        self._whole: Final = WholeFiles(files, MAX_FILE_BYTES)
        self._complaints = Complaints(telemetry, "vyre.lowering.unusable", self.directory)

    def get(self, key: LoweringKey, /) -> LoweringVerdict | None:
        """Implements ``VerdictStore.get``; a file that belongs to another key is none."""
        verdict = self._read(name_of(key))
        return verdict if verdict is not None and verdict.key == key else None

    def of_operation(self, operation: str, backend: str, /) -> tuple[LoweringVerdict, ...]:
        """Implements ``VerdictStore.of_operation``; reads every file."""
        try:
            names = self._whole.names(self.directory)
        except (OSError, UnreadableFile) as error:
            self._complaints.of_error(error, _FIX)
            return ()
        verdicts = [self._read(name) for name in names if name.endswith(_SUFFIX)]
        return tuple([v for v in verdicts if v and (v.key.operation, v.key.backend) == (operation, backend)])

    def _read(self, name: str) -> LoweringVerdict | None:
        try:
            data = self._whole.content(self.directory, name)
            return None if data is None else verdict_of_text(data.removesuffix(b"\n"))
        except (OSError, UnreadableFile, MalformedJson) as error:
            self._complaints.of_error(error, _FIX)
        return None

    def put(self, verdict: LoweringVerdict, /) -> bool:
        try:
            self._whole.replace(self.directory, name_of(verdict.key), f"{verdict_text(verdict)}\n".encode())
        except (OSError, UnreadableFile) as error:
            self._complaints.of_error(error, _FIX)
            return False
        return True


def name_of(key: LoweringKey) -> str:
    """Returns the name of the file that holds the verdict of a key."""
    return f"{blake3(chr(0).join(astuple(key)).encode()).hexdigest()}{_SUFFIX}"
