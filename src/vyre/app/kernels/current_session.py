"""The session on which a called kernel runs: that of the innermost ``with session:``, else one of the process.

``with session:`` counts in the thread, or the asynchronous task, that wrote it, and in tasks that are made inside;
other threads run their kernels on the default session.  In a generator it counts while the generator runs, and not
while it is suspended and its caller goes on, unless that is a ``contextlib.contextmanager`` or a fixture of pytest,
which enter for their callers.  The default session is opened, as ``vyre.open()`` does, by the first kernel that needs
it, is shared by all threads and is closed when the interpreter exits.  A forked child opens a default session of its
own; in a ``with`` block of its parent its calls raise ``DispatchFailed``, as all uses of that session do.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Final

from vyre.adapters.forks import process_lock, tell_in_forks
from vyre.app.kernels.entered import ENTERED, innermost
from vyre.app.services import WIRING
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.kernels.launches import LaunchSession
    from vyre.app.session import Session


def current_session() -> LaunchSession:
    """Returns the session on which a called kernel runs."""
    entered = ENTERED.get()
    return (innermost(entered) if entered else None) or (WIRING.get().kernels or _DEFAULT.get)()


class DefaultSession:
    """The session of the process, or of a container that is applied: it is opened with its first use."""

    def __init__(self) -> None:
        self._lock = process_lock()
        self._session: Session | None = None
        tell_in_forks(self)

    def get(self) -> Session:
        """Returns the session, which is open."""
        session = self._session
        if session is None or session.closed:
            session = self._opened()
        return session

    def _opened(self) -> Session:
        with self._lock, sealed:
            if self._session is None or self._session.closed:
                from vyre.app.opening import open as open_session

                self._session = open_session()
                atexit.register(self._close, os.getpid(), self._session)
            return self._session

    def close(self) -> None:
        """Closes the session, if it was opened."""
        if self._session is not None:
            self._session.close()

    def inherited(self) -> None:
        """Forgets the session of the parent, in a forked child."""
        self._session = None

    def _close(self, process: int, session: Session) -> None:
        if os.getpid() == process:
            session.close()


_DEFAULT: Final = DefaultSession()
