"""The user's code that calls the builder: the line that an error names, and the names of the user's variables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from functools import wraps
from types import CodeType, FrameType, TracebackType
from typing import Final, NoReturn, ParamSpec, TypeVar

from vyre.domain.errors import BuildError
from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.printable import shown
from vyre.domain.source_location import UNSHOWN, SourceLocation

P = ParamSpec("P")
T = TypeVar("T")
_explain: Final[FunctionAbove[[BaseException], None]] = FunctionAbove("explained_error")
"""Raises the typed error for a mistake that Python reports in the code that records a program, if it is one."""
_SURFACE_MODULES: Final = frozenset(("vyre.domain.lazy_names", "vyre.domain.errors")) | frozenset(
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
        "shared_builder",
        "event_builder",
    )
)
_BETWEEN: Final = frozenset({"numpy", "typing"})
"""Packages whose Python code calls operators of values on behalf of the user's."""


_GIVEN: Final[ContextVar[SourceLocation | None]] = ContextVar("given_location", default=None)

given_location: Final = _GIVEN.get
"""Returns the location that the compiler gave for what it records now, ``with p.at(loc)`` or ``loc=``, or None."""


class At:
    """A ``with`` block in which everything that is recorded, and every error, is at one location."""

    __slots__ = ("_loc", "_token")

    def __init__(self, loc: object) -> None:
        if not isinstance(loc, SourceLocation):
            fail(f"{shown(loc)} is no location", 'give a vyre.ir.SourceLocation("prog.mini", 7, 3).')
        self._loc = loc

    def __enter__(self) -> None:
        self._token: Token[SourceLocation | None] = _GIVEN.set(self._loc)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                _explain(error)
        finally:
            _GIVEN.reset(self._token)


def located(record: Callable[P, T]) -> Callable[P, T]:
    """Returns a function that records something, and has a parameter ``loc``: the location of all that it does."""

    @wraps(record)
    def recorded(*args: P.args, **named: P.kwargs) -> T:
        loc = named.get("loc")
        if loc is None or loc is _GIVEN.get():
            return record(*args, **named)
        with At(loc):
            return record(*args, **named)

    return recorded


def was_entered(error: BaseException) -> bool:
    """Returns whether the function whose call has raised ``error`` had begun to run."""
    trace = None if error.__traceback__ is None else error.__traceback__.tb_next
    while trace is not None and trace.tb_frame.f_code.co_qualname == "located.<locals>.recorded":
        trace = trace.tb_next
    return trace is not None


def caller_location() -> SourceLocation:
    """Returns the location that the compiler gave, else file and line of the innermost frame outside the builder."""
    if (location := _GIVEN.get()) is not None:
        return location
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _SURFACE_MODULES and frame.f_back is not None:
        frame = frame.f_back
    code, line = frame.f_code, frame.f_lineno
    latest = _LATEST[0]
    if latest is None or latest[0] is not code or latest[1] != line:
        latest = _LATEST[0] = (code, line, SourceLocation(code.co_filename, line, None, UNSHOWN))
    return latest[2]


_LATEST: Final[list[tuple[CodeType, int, SourceLocation] | None]] = [None]
"""The line of Python that was asked for last, and its location, which all that it records shares."""


def outside() -> SourceLocation:
    """Returns file and line of the innermost frame outside the package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and is_ours(frame):
        frame = frame.f_back
    assert frame is not None
    return SourceLocation(frame.f_code.co_filename, frame.f_lineno, None, UNSHOWN)


def is_ours(frame: FrameType) -> bool:
    """Returns whether the frame runs code of the package."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "vyre"


def python_line() -> SourceLocation | None:
    """Returns file and line of the innermost frame of the user's code."""
    frame = next(user_frames(), None)
    return None if frame is None else SourceLocation(frame.f_code.co_filename, frame.f_lineno, None, UNSHOWN)


def python_place(loc: SourceLocation | None) -> SourceLocation | None:
    """Returns the line of the user's Python code where a compiler gave ``loc``, else ``loc`` itself."""
    return python_line() if loc is not None and loc is given_location() else loc


def users_line() -> SourceLocation:
    """Returns the location that the compiler gave, else the line of the user's code; slower than
    ``caller_location``.
    """
    return given_location() or python_line() or caller_location()


def fail(message: str, fix: str) -> NoReturn:
    """Raises ``BuildError`` at the user's line."""
    raise BuildError(message, fix=fix, loc=users_line()) from None


def users_name(matches: Callable[[object], bool]) -> str | None:
    """Returns the name under which the user's code holds an object that ``matches``, or None.

    The innermost function is searched first, then its callers.  The search walks frames, so only errors call it.
    Names of a compiler that gives locations say nothing to those who read its errors, so it finds none.
    """
    if given_location() is not None:
        return None
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
