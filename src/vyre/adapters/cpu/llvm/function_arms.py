"""The arms of the selects of a binary64 program that are worth a branch.

Several selects by one predicate share their arms, so that what only lanes with that predicate need is skipped as a
whole: the reduction of a large argument, for example, of which both the quadrant and the rest are results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from vyre.domain.numerics.f64_program import ROOT, F64Program, Op, Place, innermost

Arm: TypeAlias = Place
"""The path from the whole program to an arm: predicates, each with the position (1 or 2) of the operand chosen."""
BRANCH_FROM: Final = 12
"""The number of steps from which on an arm is branched around."""
OTHER_FROM: Final = 4
"""The number of steps that the other arm must have: a choice of a constant is for inputs that are rare."""


class Arms:
    """The arms of a program that are branched around, and the steps that belong to each.

    A step belongs to the innermost such arm that contains all its uses.  Constants belong to no arm: they take no step.
    """

    def __init__(self, program: F64Program) -> None:
        self._steps: Final = program.steps
        self._places: Final = innermost(program.steps, lambda select: program.steps[select].args[0])
        sizes: dict[Arm, int] = {}
        for index, place in enumerate(self._places):
            if self._steps[index].op is not Op.CONST:
                for depth in range(1, len(place) + 1):
                    sizes[place[:depth]] = sizes.get(place[:depth], 0) + 1
        self._branched: Final[set[Arm]] = set()
        for arm, size in sizes.items():
            *outer, (predicate, position) = arm
            other = sizes.get((*outer, (predicate, 3 - position)), 0)
            if size >= BRANCH_FROM and other >= OTHER_FROM and not self._reads_its_own_choice(arm):
                self._branched.add(arm)
        self._regions: Final = [
            next((place[:n] for n in range(len(place), 0, -1) if place[:n] in self._branched), ROOT)
            for place in self._places
        ]

    def members(self, arm: Arm) -> list[int]:
        """Returns the steps of an arm (``ROOT``: of no arm) in order, without those of arms within."""
        return [
            i
            for i, region in enumerate(self._regions)
            if region == arm and (arm == ROOT or self._steps[i].op is not Op.CONST)
        ]

    def of_select(self, index: int) -> Iterator[Arm]:
        """Yields the arms of a step that are branched around; only a select has any."""
        if self._steps[index].op is Op.SELECT:
            for position in (1, 2):
                arm = (*self._places[index], (self._steps[index].args[0], position))
                if arm in self._branched:
                    yield arm

    def reads(self, arm: Arm) -> list[int]:
        """Returns the steps outside of an arm that the arm and the arms within read."""
        inside = self._inside(arm)
        return sorted({arg for index in inside for arg in self._steps[index].args} - inside)

    def results(self, arm: Arm) -> list[int]:
        """Returns the steps of an arm that steps outside of it read."""
        inside = self._inside(arm)
        used = {arg for i, step in enumerate(self._steps) if i not in inside for arg in step.args}
        return sorted(used & inside)

    def _inside(self, arm: Arm) -> set[int]:
        return {
            i for i, place in enumerate(self._places) if place[: len(arm)] == arm and self._steps[i].op is not Op.CONST
        }

    def _reads_its_own_choice(self, arm: Arm) -> bool:
        """Tells whether an arm depends on a select between it and the other arm: it cannot stand before that select."""
        pending, seen = list(self._inside(arm)), set[int]()
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            step = self._steps[index]
            if step.op is Op.SELECT and self._places[index] == arm[:-1] and step.args[0] == arm[-1][0]:
                return True
            pending.extend(step.args)
        return False
