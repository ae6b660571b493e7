"""Atomic writing of files: a file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from vyre.domain.errors import UnreadableFile
from vyre.ports.interrupts import whole

_PART: Final = 1 << 24
MAX_BYTES: Final = 1 << 32
"""Limit on files that are read as a whole; reading a device may never end."""


def read_file(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Returns the content of a file; raises ``UnreadableFile`` naming the path, also for more than ``max_bytes``."""
    try:
        with path.open("rb") as file:
            parts, size = [], 0
            while part := file.read(min(_PART, max_bytes + 1 - size)):
                parts.append(part)
                size += len(part)
    except (OSError, ValueError) as error:  # ValueError: no path at all, such as one with a NUL in it
        raise UnreadableFile(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if size > max_bytes:
        raise UnreadableFile(f"cannot read {path}: it has more than {max_bytes} bytes", fix="name another file.")
    return b"".join(parts)


def write_files(contents: Mapping[Path, bytes], *, durable: bool = False) -> None:
    """Writes every file beside its target, and renames them only when all are complete on disk.

    On any failure before the first renaming the targets keep their content, and no temporary file stays. ``durable``:
    the new names too are on disk when this returns.  A symbolic link stays one; a target that is not a regular file,
    such as a device or a pipe, is written directly, after the others.  Raises ``UnreadableFile``.
    """
    for data, place in _write_regular(contents, durable):
        try:
            place.write_bytes(data)
        except OSError as error:
            raise _unwritable(place, error) from None


def exists(path: Path) -> bool:
    """Returns whether there is anything at a path: not where its name is too long, or nobody may look there."""
    return os.path.exists(path)  # noqa: PTH110  # that of ``Path`` raises


def is_directory(path: Path) -> bool:
    """Returns whether there is a directory at a path, as ``exists`` does."""
    return os.path.isdir(path)  # noqa: PTH112  # that of ``Path`` raises


@whole
def _write_regular(contents: Mapping[Path, bytes], durable: bool) -> list[tuple[bytes, Path]]:
    """Writes the regular files; returns the others, for which the caller may have to wait."""
    with ExitStack() as cleanup:
        written: list[tuple[Path, Path]] = []
        streams: list[tuple[bytes, Path]] = []
        for target, data in contents.items():
            try:
                place = target.resolve()
                if place.exists() and not place.is_file() and not place.is_dir():
                    streams.append((data, place))
                else:
                    written.append((_write_temporary(place, data, cleanup), place))
            except (OSError, RuntimeError, ValueError) as error:
                raise _unwritable(target, error) from None
        for temporary, place in written:
            try:
                temporary.replace(place)
                if durable:
                    _sync_directory(place.parent)
            except OSError as error:
                raise _unwritable(place, error) from None
    return streams


def _sync_directory(directory: Path) -> None:
    """Syncs a directory, which only POSIX systems need and allow."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_temporary(target: Path, data: bytes, cleanup: ExitStack) -> Path:
    if target.is_dir():
        raise IsADirectoryError(None, "it is a directory")
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    cleanup.callback(temporary.unlink, missing_ok=True)
    with temporary.open("xb") as file:  # the operating system gives it the permissions of any new file
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return temporary


def _unwritable(target: Path, error: Exception) -> UnreadableFile:
    return UnreadableFile(
        f"cannot write {target}: {getattr(error, 'strerror', None) or error}",
        fix="choose a path in an existing, writable directory.",
    )
