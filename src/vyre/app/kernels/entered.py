"""The sessions of the ``with`` blocks around the running code."""

from __future__ import annotations

import sys
from contextvars import ContextVar, copy_context
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.app.kernels.launches import LaunchSession

ENTERED: Final[ContextVar[tuple[tuple[LaunchSession, FrameType | None], ...]]] = ContextVar("vyre_sessions", default=())
"""The sessions, each with the frame of the generator that entered it, if one did."""
_FOR_CALLERS: Final = ("contextlib", "_pytest.fixtures")
_GENERATOR: Final = CO_GENERATOR | CO_ASYNC_GENERATOR


def enter(session: LaunchSession) -> None:
    """Makes a session that of the ``with`` block which begins."""
    frame = sys._getframe(2)
    suspends = frame.f_code.co_flags & _GENERATOR and not _serves_a_context(frame)
    _set((*ENTERED.get(), (session, frame if suspends else None)))


def _serves_a_context(frame: FrameType) -> bool:
    """Returns whether a generator enters for its caller: that of a ``contextlib.contextmanager``, or a fixture."""
    return frame.f_back is not None and frame.f_back.f_globals.get("__name__") in _FOR_CALLERS


def innermost(entered: tuple[tuple[LaunchSession, FrameType | None], ...]) -> LaunchSession | None:
    """Returns the session of the innermost block, without those of generators that are suspended."""
    for session, frame in reversed(entered):
        if frame is None or frame.f_back is not None:
            return session
    return None


def leave(session: LaunchSession) -> None:
    """Ends the ``with`` block of a session."""
    entered = ENTERED.get()
    for index in range(len(entered) - 1, -1, -1):
        if entered[index][0] is session:
            _set(entered[:index] + entered[index + 1 :])
            return


def _set(sessions: tuple[tuple[LaunchSession, FrameType | None], ...]) -> None:
    kept = copy_context()  # a finaliser that runs inside may set a variable, and CPython then use what it has freed
    ENTERED.set(sessions)
    del kept
