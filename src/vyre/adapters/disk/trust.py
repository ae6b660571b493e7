"""Trust in directories and files whose code will be run: no other user may be able to change them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

from vyre.adapters.disk.file_operations import FileOperations
from vyre.domain.errors import UnreadableFile

ROOT_USER: Final = 0
OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class UntrustedDirectory(UnreadableFile):
    """A path that is not a directory, or that other users can change."""


def trusted_owners(user: int) -> frozenset[int]:
    """Returns the ids of users who may own files that ``user`` relies on."""
    return frozenset((user, ROOT_USER))


def check_directory(files: FileOperations, path: str, user: int) -> bool:
    """Checks that only ``user`` and the superuser can change ``path``, or replace it by another directory.

    That holds if ``path`` and all its parents are directories of one of them, none of them a link, without write
    permission for group and others; a parent may also be sticky, because in a sticky directory only owners replace
    their files.  A path that does not exist yet passes.  Returns whether ``path`` exists; raises
    ``UntrustedDirectory``, or ``OSError`` if it cannot be inspected.
    """
    owners = trusted_owners(user)
    for part in _down_to(path):
        try:
            status = files.lstat(part)
        except FileNotFoundError:
            return False
        _check(part, status, owners, is_last=part == path)
    return True


def check_file(status: os.stat_result, owners: frozenset[int]) -> str | None:
    """Returns why a file cannot be trusted, or None; guards against changes made below a directory that was checked."""
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    if status.st_uid not in owners:
        return f"it belongs to user {status.st_uid}"
    return "others may write it" if status.st_mode & OTHERS_MAY_WRITE else None


def _down_to(path: str) -> Iterator[str]:
    """Yields ``/``, ``/a``, ``/a/b`` for ``/a/b``."""
    yield "/"
    end = path.find("/", 1)
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)
    if path != "/":
        yield path


def _check(path: str, status: os.stat_result, owners: frozenset[int], *, is_last: bool) -> None:
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise _refused(path, "is a symbolic link", f"name the directory it leads to, {os.path.realpath(path)}.")
    if not stat.S_ISDIR(mode):
        raise UntrustedDirectory(f"the cache cannot be kept in {path}, which is no directory", fix="name a directory.")
    if status.st_uid not in owners:
        raise _refused(path, f"belongs to user {status.st_uid}", "choose a directory of your own.")
    if mode & OTHERS_MAY_WRITE and (is_last or not mode & stat.S_ISVTX):
        raise _refused(path, "can be written by others", f"chmod go-w {path}")


def _refused(path: str, why: str, fix: str) -> UntrustedDirectory:
    return UntrustedDirectory(f"{path} {why}, so a cache there could be changed by others", fix=fix)
