"""``drain_program``: a program that runs once for each item, as one that drains a queue of them in one launch."""

from __future__ import annotations

from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import check_rules, without_calls
from vyre.domain.work_queues.forms import DrainForm
from vyre.domain.work_queues.order import order_obstacle, written_loads
from vyre.domain.work_queues.phased import PhasedDraining
from vyre.domain.work_queues.ring import RingDraining
from vyre.domain.work_queues.roles import CannotDrain, QueueRoles, obstacle


def drain_program(program: Program, roles: QueueRoles, *, ring: bool) -> DrainForm | CannotDrain:
    """Returns what drains a queue with a step program, or why it cannot be drained.

    ``ring``: the queue is a ring of numbered slots, and an item may be processed as soon as it is pushed; else it is
    processed in the phase after.  Raises ``InvalidProgram`` for a program that is not valid.
    """
    check_rules(program).raise_if_invalid()
    program = without_calls(program)
    reason = (
        obstacle(program, roles) or order_obstacle(program, roles) or (written_loads(program, roles) if ring else None)
    )
    if reason is not None:
        return reason
    return (RingDraining if ring else PhasedDraining)(program, roles).form()
