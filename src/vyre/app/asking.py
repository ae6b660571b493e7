"""``vyre.missing`` says what a backend lacks for a program, without an open session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from vyre.app.capabilities import missing_on
from vyre.app.opening import open as open_session
from vyre.app.selection import AUTO
from vyre.domain.float_mode import in_default_mode

if TYPE_CHECKING:
    from vyre.app.pipeline import Inputs
    from vyre.app.shorthand import Keywords
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import ProgramLike
    from vyre.domain.missing import Missing
    from vyre.ports.backend import BackendCatalog


@in_default_mode
def missing(
    program: ProgramLike,
    backend: str = AUTO,
    inputs: Inputs = (),
    config: DispatchConfig | None = None,
    *,
    catalog: BackendCatalog | None = None,
    **shorthand: Unpack[Keywords],
) -> tuple[Missing, ...]:
    """Returns what a backend lacks for a program or kernel, with the places that need it; empty if it runs.

    ``backend``: its name, or ``auto`` for that which ``vyre.open`` takes.  ``catalog`` replaces the installed backends.
    All else is as for ``Session.missing``.  Raises ``BackendUnavailable`` for a backend that cannot run here, and what
    ``Session.missing`` raises.
    """
    session = open_session(backend, catalog=catalog, cache=False)
    try:
        return missing_on(session, program, inputs, config, shorthand)
    finally:
        session.close()
