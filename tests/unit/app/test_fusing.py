"""Launches cut into groups: which policies are asked, on which facts, and what becomes of their verdicts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import vyre
from support.optimizer.stage_chains import Array, call
from vyre.app.fusing import FusedGroup, FusionLimits, plan_groups
from vyre.domain.fusion.stages import JoinedStages, StageBarrier, StageCall
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.journal import Decision
from vyre.policies.stage_fusion.launch_fusion import AccessRelation, DataflowInputs, plan_dataflow
from vyre.testing import cuda_machine

S = ScalarType
N = 1000


class Sink:
    """Keeps the decisions."""

    keeps = True

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def note(self, decision: Decision, /) -> None:
        self.decisions.append(decision)

    @property
    def asked(self) -> Counter[object]:
        return Counter(decision.policy for decision in self.decisions)


def scaled(reach: int = 0) -> Program:
    with ProgramBuilder("scaled", workgroup=256) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        i = p.let(p.global_id(), "i")
        with p.if_(i < y.length):
            y[i] = x[i + reach] * 2.0
    return p.build()


def stage(source: str, target: str, program: Program | None = None, count: int = N) -> StageCall:
    memory = [Array(name, 4, 4 * count) for name in (source, target)]
    return call(program or scaled(), memory, grid=-(-count // 256))


def chain(length: int, count: int = N) -> list[StageCall]:
    return [stage(f"t{k}", f"t{k + 1}", count=count) for k in range(length)]


def ranges(groups: tuple[FusedGroup, ...]) -> list[tuple[int, int]]:
    return [(group.stages.start, group.stages.stop) for group in groups]


def test_the_policy_of_launches_is_asked_with_the_facts_of_the_stages() -> None:
    sink = Sink()
    stages = [*chain(2), stage("a", "b")]
    (group,) = plan_groups(stages, ["t1"], sink=sink)
    assert group.joined is not None and group.joined.unallocated == {"t1"}
    assert sink.asked == {plan_dataflow: 1}
    (dataflow,) = (d.arguments[0] for d in sink.decisions if d.policy is plan_dataflow)
    assert isinstance(dataflow, DataflowInputs)
    assert [b.kept for b in dataflow.buffers] == [True, False, True, True, True]
    relations = [use.relation for each in dataflow.stages for use in each.uses if use.mode is AccessMode.READ]
    assert relations == [AccessRelation.POINTWISE] * 3


def test_a_stage_that_reads_neighbours_begins_a_launch() -> None:
    stages = [stage("a", "b"), stage("b", "c", scaled(reach=1)), stage("c", "d")]
    groups = plan_groups(stages)
    assert ranges(groups) == [(0, 1), (1, 3)]
    assert "between workgroups" in groups[1].why
    (together,) = plan_groups(stages, limits=FusionLimits(grid_barriers=True))
    assert together.joined is not None
    assert together.joined.barriers == (StageBarrier.GRID, StageBarrier.NONE)


def test_stages_marked_alone_stay_as_they_are() -> None:
    groups = plan_groups(chain(5), alone={2: "it has a timeout"})
    assert ranges(groups) == [(0, 2), (2, 3), (3, 5)]
    assert [group.joined is None for group in groups] == [False, True, False]
    assert groups[1].why == "it has a timeout" and groups[2].why == "of the stage before: it has a timeout"


def test_a_temporary_that_a_later_group_reads_is_stored() -> None:
    groups = plan_groups(chain(4), ["t1", "t2", "t3"], alone={3: "it has a timeout"})
    assert ranges(groups) == [(0, 3), (3, 4)]
    assert isinstance(groups[0].joined, JoinedStages)
    assert groups[0].joined.unallocated == {"t1", "t2"}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (FusionLimits(most_stages=2), [(0, 2), (2, 4)]),
        (FusionLimits(most_live=0), [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (FusionLimits(most_lanes=128), [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (FusionLimits(most_groups=(3, 1, 1)), [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (FusionLimits(most_nbytes=3 * 4 * N), [(0, 2), (2, 4)]),
    ],
)
def test_limits_bound_a_group(limits: FusionLimits, expected: list[tuple[int, int]]) -> None:
    assert ranges(plan_groups(chain(4), limits=limits)) == expected


def test_large_stages_that_share_nothing_stay_apart() -> None:
    few = [stage("a", "b"), stage("c", "d")]
    many = [stage("a", "b", count=10**7), stage("c", "d", count=10**7)]
    assert ranges(plan_groups(few)) == [(0, 2)]
    assert ranges(plan_groups(many)) == [(0, 1), (1, 2)]
    assert ranges(plan_groups(many, limits=FusionLimits(eager=True))) == [(0, 2)]


def test_workgroup_memory_beyond_the_limit_ends_a_group() -> None:
    with ProgramBuilder("shared", workgroup=256) as p:
        x, y = p.input("x", S.F32), p.inout("y", S.F32)
        shared = p.workgroup("shared", S.F32, 256)
        shared[p.local_id()] = x[p.global_id()]
        p.barrier()
        y[p.global_id()] = shared[255 - p.local_id()]
    stages = [stage("a", "b", p.build()), stage("b", "c", p.build())]
    assert ranges(plan_groups(stages)) == [(0, 2)]
    groups = plan_groups(stages, limits=FusionLimits(shared_nbytes=1500))
    assert ranges(groups) == [(0, 1), (1, 2)] and "2048 bytes" in groups[1].why


def test_what_cannot_be_compared_begins_a_launch() -> None:
    with ProgramBuilder("bytes", workgroup=256) as p:
        x = p.inout("x", S.U8)
        x[p.global_id()] = x[p.global_id()] + 1
    stages = [*chain(2), call(p.build(), [Array("t2", 1, 4 * N)], grid=16), stage("c", "d")]
    groups = plan_groups(stages)
    assert ranges(groups)[0] == (0, 2)
    assert "instead of 4 bytes" in groups[1].why


def test_no_stages_are_no_groups() -> None:
    assert plan_groups([]) == ()


def test_memory_of_another_library_is_not_joined() -> None:
    """Two arrays may be the same memory: the second step reads what the first one wrote under another name."""
    with cuda_machine(export_fake=True).open() as session:
        held = session.resident(np.arange(N, dtype=np.float32))
        same, out = session.adopt(held), session.resident(np.zeros(N, np.float32))
        source = session.resident(np.arange(N, dtype=np.float32))
        steps = [
            vyre.Step(scaled(), {"x": source, "y": held}),
            vyre.Step(scaled(reach=1), {"x": same, "y": out}),
        ]
        with pytest.raises(vyre.UnsupportedFeature, match="memory of another library"):
            session.sequence(steps, modes={"fused": True})()
        session.sequence(steps)()
        assert out.download()[7] == 32.0
        for array in (same, held, out, source):
            array.close()
