"""Which directories and files can hold code that we are going to run: those that nobody else can change."""

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
    """A directory that others can change, or that is none."""


def trusted_owners(user: int) -> frozenset[int]:
    """Who may own what ``user`` relies on."""
    return frozenset((user, ROOT_USER))


def check_directory(files: FileOperations, path: str, user: int) -> bool:
    """Can nobody but ``user`` and the superuser change ``path``, or put another directory in its place?

    That holds if ``path`` and everything above it are directories of one of them, none of them a link, without write
    permission for group and others; above ``path`` a sticky directory will do, in which only owners replace what is
    theirs.  What does not exist yet is fine.  Returns whether ``path`` exists; raises ``UntrustedDirectory``, or
    ``OSError`` if it cannot be found out.
    """
    owners = trusted_owners(user)
    for part in _down_to(path):
        try:
            found = files.lstat(part)
        except FileNotFoundError:
            return False
        _check(part, found, owners, is_last=part == path)
    return True


def check_file(found: os.stat_result, owners: frozenset[int]) -> str | None:
    """Why a file cannot be trusted, or None; guards against changes made below a directory that was checked."""
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    if found.st_uid not in owners:
        return f"it belongs to user {found.st_uid}"
    return "others may write it" if found.st_mode & OTHERS_MAY_WRITE else None


def _down_to(path: str) -> Iterator[str]:
    """``/``, ``/a``, ``/a/b`` for ``/a/b``."""
    yield "/"
    at = path.find("/", 1)
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)
    if path != "/":
        yield path


def _check(path: str, found: os.stat_result, owners: frozenset[int], *, is_last: bool) -> None:
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        raise _refused(path, "is a symbolic link", f"name the directory it leads to, {os.path.realpath(path)}.")
    if not stat.S_ISDIR(mode):
        raise _refused(path, "is no directory", "choose another one.")
    if found.st_uid not in owners:
        raise _refused(path, f"belongs to user {found.st_uid}", "choose a directory of your own.")
    if mode & OTHERS_MAY_WRITE and (is_last or not mode & stat.S_ISVTX):
        raise _refused(path, "can be written by others", f"chmod go-w {path}")


def _refused(path: str, why: str, fix: str) -> UntrustedDirectory:
    return UntrustedDirectory(f"{path} {why}, so a cache there could be changed by others", fix=fix)
