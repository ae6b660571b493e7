"""The session on which a called kernel runs: that of the innermost ``with session:``, else one of the process.

``with session:`` counts in the thread, or the asynchronous task, that wrote it; other threads run their kernels on the
default session.  That one is opened by the first kernel that needs it, is shared by all threads and is closed when the
interpreter exits.  A forked child opens a default session of its own.
"""

from __future__ import annotations

import atexit
import os
from contextvars import ContextVar, Token
from threading import Lock
from typing import TYPE_CHECKING, Final

from vyre.app.forks import tell_in_forks

if TYPE_CHECKING:
    from vyre.app.session import Session

_ENTERED: Final[ContextVar[tuple[Session, ...]]] = ContextVar("vyre_sessions", default=())


def enter(session: Session) -> Token[tuple[Session, ...]]:
    """Makes a session that of the ``with`` block which begins."""
    return _ENTERED.set((*_ENTERED.get(), session))


def leave(session: Session) -> None:
    """Ends the ``with`` block of a session."""
    entered = _ENTERED.get()
    for index in range(len(entered) - 1, -1, -1):
        if entered[index] is session:
            _ENTERED.set(entered[:index] + entered[index + 1 :])
            return


def current_session() -> Session:
    """Returns the session on which a called kernel runs."""
    entered = _ENTERED.get()
    return entered[-1] if entered else _DEFAULT.get()


class _DefaultSession:
    """The session of the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._session: Session | None = None
        tell_in_forks(self)

    def get(self) -> Session:
        session = self._session
        if session is None or session.closed:
            session = self._opened()
        return session

    def _opened(self) -> Session:
        with self._lock:
            if self._session is None or self._session.closed:
                from vyre.app.opening import open as open_session

                self._session = open_session()
                atexit.register(self._close, os.getpid(), self._session)
            return self._session

    def inherited(self) -> None:
        """Forgets the session of the parent, in a forked child."""
        self._lock = Lock()
        self._session = None

    def _close(self, process: int, session: Session) -> None:
        if os.getpid() == process:
            session.close()


_DEFAULT: Final = _DefaultSession()
