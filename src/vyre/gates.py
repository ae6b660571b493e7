"""Enforcement gates: rules of a session, a registry or the command line that every program must pass before it runs.

    with vyre.open(gates=[gates.no_traps, gates.at_most_bytes(1 << 20)]) as session: ...

A gate is a function of a ``GatedProgram`` that answers ``Allow`` or ``Refuse``.  docs/gates.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.domain.lazy_names import importer

if TYPE_CHECKING:
    from vyre.domain.gates import (
        Allow,
        Answer,
        Gate,
        GatedProgram,
        GateReport,
        MutationClass,
        Refuse,
        at_most_bytes,
        changes_at_most,
        check_gates,
        no_order_dependent_results,
        no_traps,
        only_dialects,
    )

__all__ = [
    "Allow",
    "Answer",
    "Gate",
    "GateReport",
    "GatedProgram",
    "MutationClass",
    "Refuse",
    "at_most_bytes",
    "changes_at_most",
    "check_gates",
    "no_order_dependent_results",
    "no_traps",
    "only_dialects",
]
__getattr__ = importer(__name__, dict.fromkeys(__all__, "vyre.domain.gates"))
