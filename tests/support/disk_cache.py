"""A cache on disk under test: keys, artifacts, stores, and a file system that fails or stops where it is told to."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from vyre.adapters.disk.artifact_store import DiskArtifactStore
from vyre.adapters.disk.configuration import CacheSettings
from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.policies.journal import DecisionSink
from vyre.ports.artifact_store import Artifact
from vyre.testing.recording_telemetry import RecordingTelemetry

UNUSABLE: Final = "vyre.cache.unusable"
NOBODY: Final = 65534


def key(number: int = 0, *, program: int = 0, **changes: Any) -> ArtifactKey:
    """A key of one program, told apart by its ``spec``."""
    values: dict[str, Any] = {
        "kind": ArtifactKind.CUBIN,
        "program": program.to_bytes(32, "little"),
        "interface": ("x", "out"),
        "spec": number.to_bytes(4, "little"),
        "target": "sm_90",
        "driver": "13.0",
    }
    return ArtifactKey(**values | changes)


def artifact(number: int = 0, nbytes: int = 100, *, program: int = 0, cost_ns: int = 1_000_000) -> Artifact:
    """What is right for ``key(number, program=program)``: content that follows from the key."""
    word = f"{program}/{number};".encode()
    return Artifact(b"metadata of " + word, (word * (nbytes // len(word) + 1))[:nbytes], cost_ns)


def store(
    root: Path,
    *,
    telemetry: RecordingTelemetry | None = None,
    files: FileOperations = REAL_FILES,
    now_ns: Callable[[], int] = time.time_ns,
    user: Callable[[], int] = os.geteuid,
    sink: DecisionSink | None = None,
    **settings: Any,
) -> DiskArtifactStore:
    """A store of its own on ``root``, as another process would have it."""
    return DiskArtifactStore(
        CacheSettings(directory=root, **settings),
        telemetry if telemetry is not None else RecordingTelemetry(),
        files=replace(files, geteuid=user, time_ns=now_ns),
        sink=sink,
    )


def unusable(telemetry: RecordingTelemetry) -> list[dict[str, object]]:
    """The diagnostics that were given."""
    return [event.fields for event in telemetry.events if event.name == UNUSABLE]


@contextmanager
def plain_user_directory() -> Iterator[Path]:
    """A directory of a user who may not do everything: ourselves, or for the superuser somebody else for a while."""
    with tempfile.TemporaryDirectory() as folder:
        me = os.geteuid()
        if me == 0:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            if me == 0:
                os.seteuid(me)


def entry_files(root: Path) -> list[Path]:
    """All entries, found without any code of the cache."""
    return sorted(root.glob("v1/entries/*/*.vya"))


def entry_file(root: Path, of: ArtifactKey | None = None) -> Path:
    """The file of a key, or the only one there is."""
    (found,) = (path for path in entry_files(root) if of is None or of.digest.hex() in path.name)
    return found


class Killed(BaseException):
    """The process is gone: nothing of it runs any more, and no handler may say otherwise."""


class Disk:
    """Files that fail.  ``operations`` counts the calls; ``fail_at`` (from 0) chooses the one that fails with ``code``;
    ``kill_at`` the one after which the process is dead, ``before`` which it is if the call is not made any more.
    ``torn``: a call to write that is the last one writes half.
    """

    def __init__(
        self,
        *,
        fail_at: int | None = None,
        code: int = 0,
        forever: bool = False,
        only: frozenset[str] | None = None,
        kill_at: int | None = None,
        before: bool = False,
        torn: bool = False,
    ) -> None:
        self.operations: list[str] = []
        self._fail_at, self._code, self._forever, self._only = fail_at, code, forever, only
        self._kill_at, self._before, self._torn = kill_at, before, torn
        self._dead = False
        names = {field.name for field in fields(FileOperations)} - {"time_ns", "geteuid"}
        self.files: Final = FileOperations(**{name: self._wrapped(name) for name in names})

    def _wrapped(self, name: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if self._dead:
                raise Killed
            number = len(self.operations)
            self.operations.append(name)
            if number == self._kill_at:
                self._dead = True
                if self._torn and name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                elif not self._before or name == "close":  # the kernel closes what a dead process had open
                    real(*arguments, **options)
                raise Killed
            if self._fails(number, name):
                if name == "close":
                    real(*arguments, **options)
                raise OSError(self._code, os.strerror(self._code), arguments[0])
            return real(*arguments, **options)

        return call

    def _fails(self, number: int, name: str) -> bool:
        if self._fail_at is None or (self._only is not None and name not in self._only):
            return False
        return number >= self._fail_at if self._forever else number == self._fail_at
