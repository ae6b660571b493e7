"""Errors as exit codes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from vyre.domain.errors import (
    BackendUnavailable,
    BuildError,
    InvalidConfig,
    InvalidField,
    InvalidInput,
    InvalidProgram,
    MalformedBundle,
    MalformedJson,
    MalformedText,
    MalformedWire,
    UnexpectedDigest,
    UnreadableFile,
    UnsupportedFeature,
    UnusableBundle,
    UnusableCosts,
    VyreError,
)


class Exit(IntEnum):
    OK = 0
    WRONG = 1
    """Invalid program, or a result that is not the right one."""
    USAGE = 2
    """Wrong options or arguments, or input that cannot be read."""
    UNAVAILABLE = 3
    """No such backend here, or it does not support what was asked."""
    FAILED = 4
    """The execution failed."""
    INTERRUPTED = 130


_EXIT_OF: Final[dict[type[VyreError], Exit]] = {
    InvalidProgram: Exit.WRONG,
    MalformedText: Exit.WRONG,
    MalformedWire: Exit.WRONG,
    MalformedJson: Exit.WRONG,
    MalformedBundle: Exit.WRONG,
    UnexpectedDigest: Exit.WRONG,
    BuildError: Exit.WRONG,
    UnreadableFile: Exit.USAGE,
    InvalidInput: Exit.USAGE,
    InvalidConfig: Exit.USAGE,
    InvalidField: Exit.USAGE,
    UnusableCosts: Exit.USAGE,
    BackendUnavailable: Exit.UNAVAILABLE,
    UnsupportedFeature: Exit.UNAVAILABLE,
    UnusableBundle: Exit.UNAVAILABLE,
    VyreError: Exit.FAILED,
}


def exit_code(error: VyreError) -> Exit:
    """The code of the nearest listed class of the error."""
    return next(_EXIT_OF[cls] for cls in type(error).__mro__ if cls in _EXIT_OF)
