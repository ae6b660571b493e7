"""The order in which a backend launches the kernels of a program with grid loops; ``grid_kernels`` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class KernelLoop(NamedTuple):
    """A grid loop: kernels by their numbers, and the word of the hidden buffer that says whether a round runs.

    ``most``: the most rounds there may be; None if that is unknown.
    """

    enter: int
    body: tuple[int | KernelLoop, ...]
    advance: int
    word: int
    most: int | None = None


class KernelPlan(NamedTuple):
    """The order of the kernels of a program with grid loops, and the u32 of its hidden buffer."""

    steps: tuple[int | KernelLoop, ...]
    words: int


class KernelRuns(NamedTuple):
    """How often a run of a program runs its kernels: ``whole`` are by number, and run by all workgroups.

    A single lane does the work of ``single`` others, which begin and end rounds.
    """

    whole: dict[int, int]
    single: int


def kernel_runs(plan: KernelPlan | None, kernels: int) -> KernelRuns | None:
    """Returns how often each of so many kernels runs at most; None if that is unknown."""
    if plan is None:
        return KernelRuns(dict.fromkeys(range(kernels), 1), 0)
    whole: dict[int, int] = {}
    single = 0
    pending = [(step, 1) for step in plan.steps]
    while pending:
        step, times = pending.pop()
        if not isinstance(step, KernelLoop):
            whole[step] = times
        elif step.most is None:
            return None
        else:
            single += times * (1 + step.most)
            pending += [(inner, times * step.most) for inner in step.body]
    return KernelRuns(whole, single)


def command_kernels(plan: KernelPlan) -> tuple[int | None, ...]:
    """Returns the number of the kernel of each command of a list of them, in flat order; None for a loop."""
    kernels: list[int | None] = []

    def visit(steps: Sequence[int | KernelLoop]) -> None:
        for step in steps:
            if isinstance(step, KernelLoop):
                kernels.extend((step.enter, None))
                visit(step.body)
                kernels.append(step.advance)
            else:
                kernels.append(step)

    visit(plan.steps)
    return tuple(kernels)
