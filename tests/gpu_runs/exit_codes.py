"""Exit codes of the command."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """PASSED also stands for "no GPU here, and none was required".  UNUSABLE: a GPU or a driver is there and does
    not work.  ABSENT: neither is, and ``--require-gpu`` was given."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    UNUSABLE = 3
    ABSENT = 4
