"""The user's code that calls the builder: the line that an error names, and the names of the user's variables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

from vyre.domain.errors import BuildError
from vyre.domain.source_location import SourceLocation

_SURFACE_MODULES: Final = frozenset(("vyre.domain.lazy_names",)) | frozenset(
    f"vyre.domain.ir.{name}"
    for name in (
        "types",
        "arguments",
        "numpy_scalars",
        "loop_bounds",
        "grid_loops",
        "switching",
        "definitions_in_use",
        "views",
        "caller",
        "scopes",
        "rebinding",
        "foreign_calls",
        "foreign_use",
        "value",
        "functions",
        "handles",
        "recorder",
        "builder",
        "declared",
        "event_builder",
    )
)
_BETWEEN: Final = frozenset({"numpy", "typing"})
"""Packages whose Python code calls operators of values on behalf of the user's."""


def caller_location() -> SourceLocation:
    """Returns file and line of the innermost frame outside the builder."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _SURFACE_MODULES and frame.f_back is not None:
        frame = frame.f_back
    return SourceLocation(frame.f_code.co_filename, frame.f_lineno)


def outside() -> SourceLocation:
    """Returns file and line of the innermost frame outside the package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and is_ours(frame):
        frame = frame.f_back
    assert frame is not None
    return SourceLocation(frame.f_code.co_filename, frame.f_lineno)


def is_ours(frame: FrameType) -> bool:
    """Returns whether the frame runs code of the package."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "vyre"


def users_line() -> SourceLocation:
    """Returns file and line of the innermost frame of the user's code; slower than ``caller_location``."""
    frame = next(user_frames(), None)
    return caller_location() if frame is None else SourceLocation(frame.f_code.co_filename, frame.f_lineno)


def fail(message: str, fix: str) -> NoReturn:
    """Raises ``BuildError`` at the user's line."""
    raise BuildError(message, fix=fix, loc=users_line()) from None


def users_name(matches: Callable[[object], bool]) -> str | None:
    """Returns the name under which the user's code holds an object that ``matches``, or None.

    The innermost function is searched first, then its callers.  The search walks frames, so only errors call it.
    """
    for frame in user_frames():
        for name, value in frame.f_locals.items():
            if name.isidentifier() and matches(value):
                return name
    return None


def user_frames() -> Iterator[FrameType]:
    """Yields the frames of the user's code, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module not in _SURFACE_MODULES and str(module).partition(".")[0] not in _BETWEEN:
            yield frame
        frame = frame.f_back
