"""Tuning records in a directory that processes share.

    tuning-v1/PP/PPPP....DDDD....jsonl      P: digest of the program; D: digest of the file's content

A file is written once, named by its content, and holds one record a line; the content of the store is the merge of all
files, so writers cannot lose what others write and no lock is needed.  When a program has too many files, their merge
is written first and they are removed afterwards; a reader that misses a file that it listed lists again.  A line that
does not verify is skipped and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from blake3 import blake3

from vyre.adapters.disk.complaints import Complaints
from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.whole_files import WholeFiles
from vyre.adapters.forks import process_lock
from vyre.domain.errors import MalformedJson, UnreadableFile
from vyre.domain.tuning import TuningKey, TuningRecord, from_line, merge, to_line
from vyre.ports.interrupts import sealed
from vyre.ports.support import Telemetry
from vyre.ports.tuning_store import TuningStoreStats

DIRECTORY: Final = "tuning-v1"
MOST_FILES: Final = 16
"""Number of files of one program beyond which they are merged."""
MOST_PROGRAMS: Final = 64
"""Programs in one of the 256 parts of the directory; beyond it the one that was tuned longest ago is removed."""
MAX_FILE_BYTES: Final = 64 << 20
_ATTEMPTS: Final = 16
"""Number of times that files may vanish before a reader returns what exists."""
_PART: Final = re.compile(r"[0-9a-f]{2}")
_NAME: Final = re.compile(r"([0-9a-f]{64})\.[0-9a-f]{64}\.jsonl")
_FIX: Final = "set VYRE_CACHE_DIR to a directory that you can read and write, on a disk with space, or tune without it."


class DiskTuningStore:
    """``TuningStore`` below ``root``, an absolute path; ``files`` stands for the operating system.

    A failure of the disk is reported once per cause, as the event ``vyre.tuning.unusable``, and never raised.
    """

    def __init__(self, root: str, telemetry: Telemetry, *, files: FileOperations = REAL_FILES) -> None:
        self._directory: Final = f"{root}/{DIRECTORY}"
        self._telemetry, self._files = telemetry, files
        self._whole: Final = WholeFiles(files, MAX_FILE_BYTES)
        self._lock = process_lock()
        self._counts: Counter[str] = Counter()
        self._complaints = Complaints(telemetry, "vyre.tuning.unusable", self._directory)

    # ---- the port
    def get(self, key: TuningKey, /) -> Sequence[TuningRecord]:
        self._count("reads")
        return tuple(record for record in self._records_of(key.program) if record.key == key)

    def put(self, records: Sequence[TuningRecord], /) -> bool:
        by_program = sorted(records, key=lambda record: record.key.program)
        try:
            for program, group in groupby(by_program, key=lambda record: record.key.program):
                self._write(program, merge(group))
        except (OSError, UnreadableFile) as error:
            self._complaints.of_error(error, _FIX)
        else:
            self._count("puts")
            return True
        self._count("failed")
        return False

    def stats(self) -> TuningStoreStats:
        with self._lock, sealed:
            return TuningStoreStats(**{name: self._counts[name] for name in TuningStoreStats._fields})

    # ---- reading
    def records(self) -> Iterator[TuningRecord]:
        """Yields every stored record, program by program."""
        for part in sorted(filter(_PART.fullmatch, self._names(self._directory))):
            for program in sorted(self._files_by_program(f"{self._directory}/{part}")):
                yield from self._records_of(program)

    def _records_of(self, program: str) -> tuple[TuningRecord, ...]:
        for _ in range(_ATTEMPTS):
            files, is_whole = self._read_files(program)
            if is_whole:
                break
        return merge(*files.values())

    def _read_files(self, program: str) -> tuple[dict[str, list[TuningRecord]], bool]:
        """Returns the content of each readable file, and whether no file was removed meanwhile."""
        part = self._part(program)
        files, is_whole = {}, True
        for name in self._files_by_program(part).get(program, ()):
            try:
                files[name] = self._parse(self._whole.read(f"{part}/{name}"))
            except FileNotFoundError:
                is_whole = False
            except OSError as error:
                self._complaints.of_error(error, _FIX)
        return files, is_whole

    def _parse(self, data: bytes) -> list[TuningRecord]:
        records = []
        for line in data.splitlines():
            try:
                records.append(from_line(line))
            except MalformedJson:
                self._count("corrupt")
        return records

    def _files_by_program(self, part: str) -> dict[str, list[str]]:
        files: dict[str, list[str]] = {}
        for name in self._names(part):
            if matched := _NAME.fullmatch(name):
                files.setdefault(matched[1], []).append(name)
        return files

    def _names(self, path: str) -> list[str]:
        """Returns file names; none for a directory that does not exist, or may not be used, which is reported."""
        try:
            return self._whole.names(path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, UnreadableFile) as error:
            self._complaints.of_error(error, _FIX)
        return []

    # ---- writing
    def _write(self, program: str, records: tuple[TuningRecord, ...]) -> None:
        part = self._part(program)
        try:
            self._put_file(part, program, records)
        except FileNotFoundError:  # another process removed the directory
            self._put_file(part, program, records)
        with suppress(OSError, UnreadableFile):  # files that cannot be removed now are removed another time
            files = self._files_by_program(part)
            if len(files.get(program, ())) > MOST_FILES:
                self._compact(part, program)
            if len(files) > MOST_PROGRAMS:
                self._forget(part, files, program)

    def _put_file(self, part: str, program: str, records: tuple[TuningRecord, ...]) -> str:
        """Writes a file, whole or not at all, and returns its name."""
        content = "".join(f"{to_line(record)}\n" for record in records).encode()
        name = f"{program}.{blake3(content).hexdigest()}.jsonl"
        self._whole.write(part, name, content)
        return name

    def _compact(self, part: str, program: str) -> None:
        """Replaces all readable files by one; unreadable ones are left alone."""
        files, _ = self._read_files(program)
        kept = self._put_file(part, program, merge(*files.values()))
        self._remove(part, [name for name in files if name != kept])
        self._whole.remove_stale(part)

    def _forget(self, part: str, files: dict[str, list[str]], latest: str) -> None:
        """Removes the program whose last file is the oldest, except ``latest``."""

        def written_ns(program: str) -> int:
            return max(self._files.lstat(f"{part}/{name}").st_mtime_ns for name in files[program])

        self._remove(part, files[min(files.keys() - {latest}, key=written_ns)])

    def _remove(self, part: str, names: Sequence[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self._files.unlink(f"{part}/{name}")

    def _part(self, program: str) -> str:
        return f"{self._directory}/{program[:2]}"

    # ---- telling
    def _count(self, what: str) -> None:
        with self._lock, sealed:
            self._counts[what] += 1
        self._telemetry.count(f"vyre.tuning.{what}")
