"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from vyre.domain.errors import UnreadableFile


def read_file(path: Path) -> bytes:
    """The content; raises ``UnreadableFile`` naming the path."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror or error}") from None


def write_files(contents: Mapping[Path, bytes], *, durable: bool = False) -> None:
    """Write every file beside its target and rename them only when all are complete on disk.

    On any failure before the first renaming the targets keep what they had, and no temporary file stays.
    ``durable``: the new names too are on disk when this returns.  Raises ``UnreadableFile``.
    """
    with ExitStack() as cleanup:
        written: list[tuple[Path, Path]] = []
        for target, data in contents.items():
            try:
                written.append((_write_temporary(target, data, cleanup), target))
            except OSError as error:
                raise _unwritable(target, error) from None
        for temporary, target in written:
            try:
                temporary.replace(target)
                if durable:
                    _sync_directory(target.parent)
            except OSError as error:
                raise _unwritable(target, error) from None


def _sync_directory(directory: Path) -> None:
    """Directories can be opened, and need it, on POSIX systems only."""
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
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    cleanup.callback(temporary.unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
    return temporary


def _unwritable(target: Path, error: OSError) -> UnreadableFile:
    return UnreadableFile(
        f"cannot write {target}: {error.strerror or error}", fix="choose a path in an existing, writable directory."
    )
