"""The gates of a session and of the registry, asked about a valid program before it is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.domain.gates import Gate, asked

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program
    from vyre.ports.support import Telemetry


def admit(program: Program, gates: tuple[Gate, ...], telemetry: Telemetry) -> None:
    """Asks the gates, and for a program with definitions those of the registry, about a valid program.

    A note of a gate is the event ``vyre.gate.note``.  Raises ``RefusedByGate``.
    """
    if program.definitions:
        from vyre.app.dialects.current import dialect_registry  # few programs call operations

        gates = (*gates, *dialect_registry().gates)
    if not gates:
        return
    report = asked(program, gates)
    for gate, note in report.notes:
        telemetry.event("vyre.gate.note", gate=gate, program=program.name, note=note)
    report.require()
