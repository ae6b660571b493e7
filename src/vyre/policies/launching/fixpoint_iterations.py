"""How many times a dispatch runs back to back before its outputs are read.

Absent means once; an explicit 0 is refused rather than silently repaired.  O(1).

The reference has this right.
"""

from __future__ import annotations

from vyre.domain.dispatch import launches_of
from vyre.domain.errors import InvalidProgram
from vyre.policies.record import U32, record


@record
class FixpointInputs:
    """``backend`` appears in the error message."""

    fixpoint_iterations: U32 | None
    backend: str


def resolve_fixpoint_iterations(inputs: FixpointInputs) -> int:
    """Iterations to run, at least 1; raises ``InvalidProgram`` for an explicit 0."""
    count = inputs.fixpoint_iterations
    if count == 0:
        raise InvalidProgram(
            f"backend `{inputs.backend}` was asked for 0 fixpoint iterations", fix="leave the field unset for one run."
        )
    return launches_of(count)
