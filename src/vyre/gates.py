"""Enforcement gates: rules of a session, a registry or the command line that every program must pass before it runs.

    with vyre.open(gates=[gates.no_traps, gates.at_most_bytes(1 << 20)]) as session: ...

A gate is a function of a ``GatedProgram`` that answers ``Allow`` or ``Refuse``.  docs/gates.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.domain.gates import (
        Allow as Allow, Answer as Answer, Gate as Gate, GatedProgram as GatedProgram, GateReport as GateReport,
        MutationClass as MutationClass, Refuse as Refuse, at_most_bytes as at_most_bytes,
        changes_at_most as changes_at_most, check_gates as check_gates,
        no_order_dependent_results as no_order_dependent_results, no_traps as no_traps, only_dialects as only_dialects,
    )
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
# isort: on
# fmt: on
