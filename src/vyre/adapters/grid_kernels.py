"""The order of the kernels of a program with grid loops, from its plan of grid barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vyre.adapters.kernel_plan import KernelLoop, KernelPlan

if TYPE_CHECKING:
    from vyre.domain.grid_sync import Step
    from vyre.domain.ir.program import Program


def kernel_plan(program: Program, kernels: int) -> KernelPlan | None:
    """Returns the order of so many kernels of a program; None if they run one after the other, each once."""
    if kernels == 1:
        return None
    from vyre.domain.grid_sync import Rounds, grid_control, plan_grid_sync

    control = grid_control(program)
    if control is None:
        return None
    numbers = iter(range(kernels))

    def numbered(steps: Sequence[Step]) -> tuple[int | KernelLoop, ...]:
        return tuple(
            KernelLoop(next(numbers), numbered(step.body), next(numbers), step.word, step.most)
            if isinstance(step, Rounds)
            else next(numbers)
            for step in steps
        )

    return KernelPlan(numbered(plan_grid_sync(program)), control.count)
