"""All file system calls of the cache, in one record, so that tests can make each of them fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOperations:
    """The functions of ``os`` by name, with their parameters; each may raise ``OSError``."""

    open: Callable[..., int] = os.open
    close: Callable[[int], None] = os.close
    read: Callable[[int, int], bytes] = os.read
    pread: Callable[[int, int, int], bytes] = os.pread
    write: Callable[[int, Any], int] = os.write
    lseek: Callable[[int, int, int], int] = os.lseek
    fstat: Callable[[int], os.stat_result] = os.fstat
    fsync: Callable[[int], None] = os.fsync
    lstat: Callable[..., os.stat_result] = os.lstat
    listdir: Callable[[str], list[str]] = os.listdir
    mkdir: Callable[[str, int], None] = os.mkdir
    rmdir: Callable[[str], None] = os.rmdir
    replace: Callable[[str, str], None] = os.replace
    unlink: Callable[[str], None] = os.unlink
    utime: Callable[..., None] = os.utime


REAL_FILES: Final = FileOperations()
