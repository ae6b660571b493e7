"""Which neighbouring stages of a chain run as one launch, by their sizes alone?

A stage reads what the one before it wrote, so a launch needs the input of its first stage and the output and scratch of
all.  O(stages).
"""

from __future__ import annotations

from collections.abc import Sequence

from vyre.policies.record import U64, Reason, record
from vyre.policies.stage_fusion.launch_fusion import LaunchFusionPlan, Stage, _cut, _plan_of


@record
class ChainStage(Stage):
    """A stage of which only the sizes are known; its input is the output of the stage before."""

    input_bytes: U64
    output_bytes: U64


@record
class ChainInputs:
    """A chain of stages, and the most bytes of a launch."""

    stages: tuple[ChainStage, ...]
    max_group_bytes: U64


def plan_launch_fusion(inputs: ChainInputs) -> LaunchFusionPlan:
    """Returns the launches of a chain of stages, judged by their sizes alone.

    Raises ``PlanError``: ``ZeroBudget``, ``DuplicateStage``, ``StageOverBudget``, ``ByteCountOverflow``.
    """
    return _plan_of(_cut(inputs.stages, inputs.max_group_bytes, _Chain(inputs.stages)))


class _Chain:
    """The rule of a chain: each stage reads the output of the one before, which a launch of both need not write out."""

    def __init__(self, stages: Sequence[ChainStage]) -> None:
        self._stages = stages

    def added(self, first: int, place: int) -> int:
        stage = self._stages[place]
        return stage.output_bytes + stage.scratch_bytes + (stage.input_bytes if place == first else 0)

    def avoided(self, first: int, place: int) -> int:
        return self._stages[place - 1].output_bytes

    def obstacle(self, first: int, place: int) -> Reason | None:
        return None
