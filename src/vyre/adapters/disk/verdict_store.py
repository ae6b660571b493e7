"""Verdicts on lowerings in a directory that processes share: ``lowerings-v1/KKKK....json``, K the digest of their key.

A file is replaced as a whole; of two writers the later wins, and both found the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from vyre.adapters.disk.complaints import Complaints
from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.trust import check_directory
from vyre.adapters.disk.whole_files import WholeFiles
from vyre.domain.dialects.lowering import LoweringKey, LoweringVerdict, verdict_of_text, verdict_text
from vyre.domain.errors import MalformedJson, UnreadableFile

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry

DIRECTORY: Final = "lowerings-v1"
MAX_FILE_BYTES: Final = 1 << 20
_SUFFIX: Final = ".json"
_FIX: Final = "set VYRE_CACHE_DIR to a directory that you can read and write; lowerings are checked again until then."


class DiskVerdictStore:
    """``VerdictStore`` below ``root``, an absolute path.

    A failure of the disk is reported once per cause, as the event ``vyre.lowering.unusable``, and never raised.
    ``files``, ``now_ns`` (nanoseconds since the epoch) and ``user`` stand for the operating system.
    """

    def __init__(
        self,
        root: str,
        telemetry: Telemetry,
        *,
        files: FileOperations = REAL_FILES,
        now_ns: Callable[[], int] = time.time_ns,
        user: Callable[[], int] = os.geteuid,
    ) -> None:
        self.directory: Final = f"{root}/{DIRECTORY}"
        self._files, self._now_ns, self._user = files, now_ns, user()
        self._whole: Final = WholeFiles(files, self._user, MAX_FILE_BYTES)
        self._complaints = Complaints(telemetry, "vyre.lowering.unusable", self.directory)

    def get(self, key: LoweringKey, /) -> LoweringVerdict | None:
        """Implements ``VerdictStore.get``; a file that belongs to another key is none."""
        found = self._read(name_of(key))
        return found if found is not None and found.key == key else None

    def of_operation(self, operation: str, backend: str, /) -> tuple[LoweringVerdict, ...]:
        """Implements ``VerdictStore.of_operation``; reads every file."""
        try:
            known = check_directory(self._files, self.directory, self._user)
            names = sorted(self._files.listdir(self.directory)) if known else []
        except OSError as error:
            self._complaints.of_error(error, _FIX)
            return ()
        except UnreadableFile as refusal:
            self._complaints.say(refusal.message, refusal.fix)
            return ()
        found = [self._read(name) for name in names if name.endswith(_SUFFIX)]
        return tuple(
            [each for each in found if each and (each.key.operation, each.key.backend) == (operation, backend)]
        )

    def _read(self, name: str) -> LoweringVerdict | None:
        try:
            if not check_directory(self._files, self.directory, self._user):
                return None
            return verdict_of_text(self._whole.read(f"{self.directory}/{name}").removesuffix(b"\n"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._complaints.of_error(error, _FIX)
        except (UnreadableFile, MalformedJson) as refusal:
            self._complaints.say(refusal.message, refusal.fix)
        return None

    def put(self, verdict: LoweringVerdict, /) -> bool:
        """Implements ``VerdictStore.put``."""
        try:
            self._whole.write(self.directory, name_of(verdict.key), f"{verdict_text(verdict)}\n".encode())
        except OSError as error:
            self._complaints.of_error(error, _FIX)
            return False
        except UnreadableFile as refusal:
            self._complaints.say(refusal.message, refusal.fix)
            return False
        with suppress(OSError):  # a file that cannot be removed now is removed another time
            self._whole.remove_stale(self.directory, self._now_ns())
        return True


def name_of(key: LoweringKey) -> str:
    """Returns the name of the file that holds the verdict of a key."""
    return f"{blake3(chr(0).join(astuple(key)).encode()).hexdigest()}{_SUFFIX}"
