"""Exit codes of the command, by class of error."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from vyre.adapters.terminal import READER_GONE
from vyre.domain.errors import (
    BackendUnavailable,
    BuildError,
    DeviceLimitExceeded,
    InvalidConfig,
    InvalidField,
    InvalidInput,
    MalformedBundle,
    MalformedJson,
    MalformedText,
    MalformedWire,
    RefusedByGate,
    UnexpectedDigest,
    UnreadableFile,
    UnsupportedFeature,
    UnusableBundle,
    UnusableCosts,
    VyreError,
)
from vyre.domain.program_report import InvalidProgram


class Exit(IntEnum):
    """The exit codes of ``vyre``."""

    OK = 0
    WRONG = 1
    """The program is invalid or refused by a gate, or a result is wrong."""
    USAGE = 2
    """Options or arguments are wrong, or an input cannot be read."""
    UNAVAILABLE = 3
    """The backend is not available here, or does not support the request."""
    FAILED = 4
    """The execution failed."""
    INTERRUPTED = 130
    READER_GONE = READER_GONE
    """The reader of the output closed the pipe."""


MEANINGS: Final = {
    Exit.OK: "it worked",
    Exit.WRONG: "the program is invalid or refused by a gate, or a result is wrong",
    Exit.USAGE: "wrong options or arguments, or an input cannot be read",
    Exit.UNAVAILABLE: "the backend is not available here, or does not support this",
    Exit.FAILED: "the run failed or took too long, or the output was lost",
    Exit.INTERRUPTED: "it was interrupted",
    Exit.READER_GONE: "the reader of the output closed the pipe",
}
"""The description of each exit code in ``--help``."""


_EXIT_OF: Final[dict[type[VyreError], Exit]] = {
    InvalidProgram: Exit.WRONG,
    MalformedText: Exit.WRONG,
    MalformedWire: Exit.WRONG,
    MalformedJson: Exit.WRONG,
    MalformedBundle: Exit.WRONG,
    UnexpectedDigest: Exit.WRONG,
    RefusedByGate: Exit.WRONG,
    BuildError: Exit.WRONG,
    UnreadableFile: Exit.USAGE,
    InvalidInput: Exit.USAGE,
    InvalidConfig: Exit.USAGE,
    InvalidField: Exit.USAGE,
    UnusableCosts: Exit.USAGE,
    BackendUnavailable: Exit.UNAVAILABLE,
    UnsupportedFeature: Exit.UNAVAILABLE,
    DeviceLimitExceeded: Exit.UNAVAILABLE,
    UnusableBundle: Exit.UNAVAILABLE,
    VyreError: Exit.FAILED,
}


def exit_code(error: VyreError) -> Exit:
    """Returns the code of the nearest listed class of the error."""
    return next(_EXIT_OF[cls] for cls in type(error).__mro__ if cls in _EXIT_OF)
