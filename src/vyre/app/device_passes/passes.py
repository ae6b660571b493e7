"""``DevicePasses``: the passes of the optimizer that run as kernels, and the session that runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from vyre.adapters.forks import process_lock
from vyre.app.device_passes.dead_code import remove_dead_code
from vyre.app.device_passes.folding import fold
from vyre.app.device_passes.numbering import share
from vyre.app.device_passes.rounds import Rounds
from vyre.domain.device import EngineKind
from vyre.domain.errors import VyreError
from vyre.domain.ir.expr import Native
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import Counts, Pass
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.session import Session

_ON_DEVICE: Final[Mapping[str, Callable[[Program, Counts, Rounds], Program]]] = {
    "folding": fold,
    "numbering": share,
    "dead_code": remove_dead_code,
}
_WALKS: Final = 256
"""The lanes that walk over a program on an engine that runs many of them at once."""


def passes_on(session: Session, walks: int | None = None) -> Mapping[str, Pass]:
    """Returns the passes that run as kernels on a session, by name.

    Each gives the program and the counts of the pass of the host, whose version it has.  ``walks``: the most lanes that
    walk over a program, each over a part of it; None: as many as suit the engine.
    """
    if walks is None:
        walks = 1 if session._lease.backend.optimizes is EngineKind.NATIVE else _WALKS
    rounds = Rounds(session, walks)

    def on_device(name: str, run: Callable[[Program, Counts, Rounds], Program]) -> Pass:
        return Pass(name, PASSES[name].version, lambda program, counts: run(program, counts, rounds))

    return {name: on_device(name, run) for name, run in _ON_DEVICE.items()}


class DevicePasses:
    """Runs the passes of which there are kernels on the device of a session that asks for it.

    The kernels of the passes run in another session on the same backend, since a program is optimized while the session
    of its owner is busy with it.  Where that session fails, the host runs the pass, since the result is the same, and
    what the owner asked for is the program and not the pass.  May be used from any thread, after ``bind``.
    """

    def __init__(self) -> None:
        self._open: Callable[[], Session] | None = None
        self._lock = process_lock()
        self._session: Session | None = None
        self._passes: Mapping[str, Pass] = {}

    def bind(self, open_session: Callable[[], Session]) -> None:
        """Sets the function that opens another session on the backend."""
        self._open = open_session

    def __call__(self) -> Mapping[str, Pass]:
        """Returns the passes that run on the device, by name."""
        return {name: self._or_host(name) for name in _ON_DEVICE}

    def _or_host(self, name: str) -> Pass:
        """Returns a pass that runs on the device, or on the host if the device fails."""
        host = PASSES[name]

        def run(program: Program, counts: Counts) -> Program:
            pass_counts: Counts = Counter()
            if Native in node_facts(program).types:  # its text and its number of operands have no columns
                return host.run(program, counts)
            try:
                result = self._all()[name].run(program, pass_counts)
            except VyreError:
                return host.run(program, counts)
            counts.update(pass_counts)
            return result

        return host._replace(run=run)

    def _all(self) -> Mapping[str, Pass]:
        with self._lock, sealed:
            if self._session is None:
                assert self._open is not None
                self._session = self._open()
                self._passes = passes_on(self._session)
            return self._passes

    def close(self) -> None:
        """Closes the session of the kernels; idempotent."""
        with self._lock, sealed:
            session, self._session = self._session, None
        if session is not None:
            session.close()
