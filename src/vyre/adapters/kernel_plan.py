"""The order in which a backend launches the kernels of a program with grid loops; ``grid_kernels`` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class KernelLoop(NamedTuple):
    """A grid loop: kernels by their numbers, and the word of the hidden buffer that says whether a round runs."""

    enter: int
    body: tuple[int | KernelLoop, ...]
    advance: int
    word: int


class KernelPlan(NamedTuple):
    """The order of the kernels of a program with grid loops, and the u32 of its hidden buffer."""

    steps: tuple[int | KernelLoop, ...]
    words: int


def command_kernels(plan: KernelPlan) -> tuple[int | None, ...]:
    """Returns the number of the kernel of each command of a list of them, in flat order; None for a loop."""
    found: list[int | None] = []

    def visit(steps: Sequence[int | KernelLoop]) -> None:
        for step in steps:
            if isinstance(step, KernelLoop):
                found.extend((step.enter, None))
                visit(step.body)
                found.append(step.advance)
            else:
                found.append(step)

    visit(plan.steps)
    return tuple(found)
