"""The sessions of the ``with`` blocks around the running code."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.app.session import Session

ENTERED: Final[ContextVar[tuple[Session, ...]]] = ContextVar("vyre_sessions", default=())


def enter(session: Session) -> None:
    """Makes a session that of the ``with`` block which begins."""
    ENTERED.set((*ENTERED.get(), session))


def leave(session: Session) -> None:
    """Ends the ``with`` block of a session."""
    entered = ENTERED.get()
    for index in range(len(entered) - 1, -1, -1):
        if entered[index] is session:
            ENTERED.set(entered[:index] + entered[index + 1 :])
            return
