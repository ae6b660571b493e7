"""What does the host see of a convergence loop?  The device iterates, the host waits once and reads one flag.  O(1)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from vyre.domain.errors import PlanError
from vyre.policies.record import U32, record, verdict

FLAG_BYTES: Final = 4
"""Bytes of a changed flag, which is one 32-bit word."""


@record
class ConvergenceInputs:
    """A convergence loop.

    ``requested_host_iteration_polls`` is how often the host wants to read the flag while the loop runs.
    """

    max_device_iterations: U32
    changed_flag_bytes: U32
    requested_host_iteration_polls: U32


class ReadbackPolicy(Enum):
    """When the host reads the flag: only once, after the loop."""

    FINAL_FLAG_ONLY = "final_flag_only"


@verdict
class ConvergencePlan:
    """One wait and one flag read back, whatever the number of iterations."""

    max_device_iterations: int
    host_sync_points: int = 1
    changed_flag_readback_bytes: int = FLAG_BYTES
    host_iteration_polls: int = 0
    readback_policy: ReadbackPolicy = ReadbackPolicy.FINAL_FLAG_ONLY


def plan_convergence(inputs: ConvergenceInputs) -> ConvergencePlan:
    """Returns the contract of a loop of at most ``max_device_iterations``.

    Raises ``PlanError``: ``EmptyIterationBudget``, ``InvalidChangedFlagWidth``, ``HostPolledConvergence``.
    """
    if inputs.max_device_iterations == 0:
        raise PlanError("EmptyIterationBudget")
    if inputs.changed_flag_bytes != FLAG_BYTES:
        raise PlanError(
            "InvalidChangedFlagWidth", fix=f"a flag takes {FLAG_BYTES} bytes.", bytes=inputs.changed_flag_bytes
        )
    if inputs.requested_host_iteration_polls:
        raise PlanError(
            "HostPolledConvergence",
            fix="read the flag once, after the loop.",
            polls=inputs.requested_host_iteration_polls,
        )
    return ConvergencePlan(inputs.max_device_iterations)
