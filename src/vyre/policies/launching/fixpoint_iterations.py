"""How many times does a dispatch run back to back before its outputs are read?

An absent count means once; an explicit 0 is refused rather than silently repaired.  O(1).

As in vyre-driver.
"""

from __future__ import annotations

from vyre.domain.dispatch import launches_of
from vyre.domain.program_report import InvalidProgram
from vyre.policies.record import U32, record


@record
class FixpointInputs:
    """A dispatch's iteration count; ``backend`` appears in the error message."""

    fixpoint_iterations: U32 | None
    backend: str


def resolve_fixpoint_iterations(inputs: FixpointInputs) -> int:
    """Returns the number of iterations, at least 1; raises ``InvalidProgram`` for an explicit 0."""
    count = inputs.fixpoint_iterations
    if count == 0:
        raise InvalidProgram(
            f"backend `{inputs.backend}` was asked for 0 fixpoint iterations", fix="leave the field unset for one run."
        )
    return launches_of(count)
