"""The questions of a session to dialects; only programs that call operations import the rest of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vyre.app.dialects.lowered import LoweredProgram

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend
    from vyre.ports.verdict_store import VerdictStore


def lowered_for(
    program: Program,
    config: DispatchConfig,
    backend: Backend,
    verdicts: Callable[[], VerdictStore | None],
    optimize: bool,
) -> LoweredProgram:
    """Returns the program that stands for a valid one on a backend; the very one if it calls nothing.

    ``verdicts`` returns the store of checks of lowerings, or None; ``optimize``: whether the session has an optimizer.
    """
    if not program.definitions:
        return LoweredProgram(program, ())
    from vyre.app.dialects.current import dialect_registry
    from vyre.app.dialects.lowerings import lowerings_of, must_run_as_written
    from vyre.app.dialects.trusted_laws import keep_laws

    chooser = lowerings_of(backend, verdicts)
    lowered = chooser.applied(program, as_written=must_run_as_written(config, optimize=optimize))
    if backend.optimizes is not None:
        keep_laws(program, lowered.program, dialect_registry().snapshot)
    return lowered
