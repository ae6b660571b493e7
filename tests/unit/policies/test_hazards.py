"""Examples of hazards, and how long the graph of a thousand accesses takes to build."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.counting import at_most
from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.arm_verdicts import Independent, SerializeRequired, can_dispatch_concurrently
from vectors.seeds.async_copy_overlap import CopyOverlapInputs, Overlap, Serialize, can_overlap_copy_with_kernel
from vectors.seeds.bindless import BindlessInputs, BindlessSupport
from vectors.seeds.dispatch_bundle import DispatchPolicyInputs, evaluate_dispatch_policy
from vectors.seeds.fusion import (
    Accept,
    BufferPlace,
    BufferRelation,
    CrossWorkgroupDependency,
    FusionCaps,
    FusionHazards,
    FusionInputs,
    FusionVerdict,
    KernelShape,
    decide_fusion,
)
from vectors.seeds.pipeline_segments import FusionPlanInputs, plan_cross_pipeline_fusion
from vyre.domain.errors import InvalidField
from vyre.policies.concurrency.hazards import (
    Access,
    AccessMode,
    ConflictReason,
    HazardInputs,
    Interval,
    first_conflict,
    hazard_graph,
)
from vyre.policies.launching.command_reuse import CommandReuseInputs
from vyre.policies.launching.persistent_kernel import PersistentKernelInputs
from vyre.policies.prediction.trace_jit import TraceJitInputs
from vyre.policies.stage_fusion.launch_fusion import AccessRelation

R, W, RW = AccessMode.READ, AccessMode.WRITE, AccessMode.READ_WRITE
LOW, HIGH = ((0, 8),), ((8, 16),)


def predecessors(*accesses: Access) -> tuple[tuple[int, ...], ...]:
    return hazard_graph(HazardInputs(tuple((access,) for access in accesses))).predecessors


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ((R, R, R), ((), (), ())),
        ((W, R, R), ((), (0,), (0,))),
        ((W, W, W), ((), (0,), (1,))),
        ((W, R, R, W), ((), (0,), (0,), (1, 2))),
        ((W, RW, R), ((), (0,), (1,))),
        ((R, W, R, W), ((), (0,), (1,), (2,))),
    ],
)
def test_whole_resources(modes: tuple[AccessMode, ...], expected: tuple[tuple[int, ...], ...]) -> None:
    assert predecessors(*(Access(0, mode) for mode in modes)) == expected


def test_bytes_decide() -> None:
    assert predecessors(Access(0, W, LOW), Access(0, W, HIGH), Access(0, R)) == ((), (), (0, 1))
    assert predecessors(Access(0, W, LOW), Access(1, W, LOW), Access(0, R, HIGH)) == ((), (), ())
    assert predecessors(Access(0, W, (*LOW, *HIGH)), Access(0, R, ((7, 9),))) == ((), (0,))
    assert predecessors(Access(0, W, ()), Access(0, W)) == ((), ())


def test_an_operation_does_not_wait_for_itself() -> None:
    update = (Access(0, R), Access(0, W), Access(1, W))
    graph = hazard_graph(HazardInputs((update, update, (Access(1, R),))))
    assert graph.predecessors == ((), (0,), (1,))
    assert list(graph.edges) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("intervals", [((4, 4),), ((4, 2),), ((0, 4), (3, 5)), ((4, 8), (0, 2))])
def test_intervals_ascend_and_do_not_overlap(intervals: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InvalidField, match=r"Access\.intervals"):
        Access(0, R, intervals)
    with pytest.raises(InvalidField, match=r"BufferPlace\.downstream"):
        BufferPlace("x", 0, downstream=intervals)


def test_a_copy_needs_bytes() -> None:
    with pytest.raises(InvalidField, match=r"CopyOverlapInputs\.copy_bytes"):
        CopyOverlapInputs(0, arm(), (3, 3))
    with pytest.raises(InvalidField, match=r"DispatchPolicyInputs\.copy_bytes"):
        bundle(copy_bytes=(3, 3))


def arm(*ranges: Access, reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> ArmAccess:
    return ArmAccess(frozenset(reads), frozenset(writes), ranges)


def bundle(**changed: Any) -> DispatchPolicyInputs:
    """A copy into slot 2 beside an arm that reads slot 1, and one that reads the upper half of slot 2."""
    inputs = DispatchPolicyInputs(
        persistent=PersistentKernelInputs(1, 0, 0, 0),
        arm_a=arm(reads=(1,)),
        arm_b=arm(Access(2, R, HIGH)),
        copy_dst_slot=2,
        graph=CommandReuseInputs(1, 0, 0, 0),
        bindless=BindlessInputs(0, BindlessSupport.FULL, False),
        trace_jit=TraceJitInputs(0, 0, 0, 0),
    )
    return replace(inputs, **changed)


def test_halves_of_a_buffer_are_independent() -> None:
    left, right = arm(Access(7, RW, LOW)), arm(Access(7, RW, HIGH))
    assert isinstance(can_dispatch_concurrently(left, right), Independent)
    assert can_dispatch_concurrently(left, arm(writes=(7,))) == SerializeRequired(ConflictReason.WRITE_WRITE)
    assert can_dispatch_concurrently(left, arm(reads=(7,))) == SerializeRequired(ConflictReason.READ_AFTER_WRITE)
    after = can_dispatch_concurrently(arm(reads=(7,)), left)
    assert after == SerializeRequired(ConflictReason.WRITE_AFTER_READ)
    assert "[7]" in str(after.why)
    assert plan_cross_pipeline_fusion(FusionPlanInputs((left, right))).segments == ((0, 2),)


def test_a_copy_into_the_other_half_overlaps() -> None:
    reads_low = arm(Access(7, R, LOW))
    assert isinstance(can_overlap_copy_with_kernel(CopyOverlapInputs(7, reads_low, (8, 16))), Overlap)
    for kernel, part, verb in (
        (reads_low, (7, 16), "reads"),
        (reads_low, None, "reads"),
        (arm(Access(7, W, LOW)), None, "writes"),
        (arm(reads=(7,)), (8, 16), "reads"),
        (arm(writes=(7,)), (8, 16), "writes"),
    ):
        verdict = can_overlap_copy_with_kernel(CopyOverlapInputs(7, kernel, part))
        assert isinstance(verdict, Serialize)
        assert verb in str(verdict.why)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"copy_dst_slot": None}, None),
        ({}, Overlap()),
        ({"copy_beside_both_arms": True}, Serialize()),
        ({"copy_beside_both_arms": True, "copy_bytes": (0, 8)}, Overlap()),
        ({"copy_dst_slot": 1, "copy_beside_both_arms": True}, Serialize()),
    ],
)
def test_a_copy_beside_both_arms(changed: dict[str, Any], expected: object) -> None:
    assert evaluate_dispatch_policy(bundle(**changed)).copy_overlap == expected


def fused(outputs: tuple[str, ...], *places: BufferPlace) -> FusionVerdict:
    producer = KernelShape((64, 1, 1), 0, ("x",), ("m",))
    consumer = KernelShape((64, 1, 1), 0, ("m",), outputs)
    relations = (BufferRelation("m", AccessRelation.POINTWISE), BufferRelation("y", AccessRelation.POINTWISE))
    hazards = FusionHazards(relations, places)
    return decide_fusion(FusionInputs(producer, consumer, FusionCaps(0, 64), hazards=hazards))


def test_two_names_for_one_buffer_are_not_fused() -> None:
    assert fused(("y",)) == Accept()
    assert fused(("y",), BufferPlace("x", 5), BufferPlace("y", 5)) == CrossWorkgroupDependency("y")
    assert fused(("y",), BufferPlace("m", 5), BufferPlace("y", 5)) == CrossWorkgroupDependency("y")
    assert fused(("y",), BufferPlace("x", 5), BufferPlace("y", 6)) == Accept()
    apart = (BufferPlace("x", 5, upstream=LOW), BufferPlace("y", 5, downstream=HIGH))
    assert fused(("y",), *apart) == Accept()


Touch = tuple[AccessMode, tuple[Interval, ...]]
WRITERS: list[Touch] = [(W, tuple((16 * i + 2 * k, 16 * i + 2 * k + 1) for k in range(8))) for i in range(500)]
READERS: list[Touch] = [(R, ((0, 8000),))] * 500
THOUSANDS: dict[str, list[Touch]] = {
    "whole": [(W, ((0, 8000),))] * 1000,
    "nested": [(W, ((i, 3000 - i),)) for i in range(1000)],
    "writers, then readers": WRITERS + READERS,
    "readers, then writers": READERS + WRITERS,
    "in turn": [access for pair in zip(WRITERS, READERS, strict=True) for access in pair],
}


@pytest.mark.parametrize("name", THOUSANDS)
def test_no_thousand_accesses_are_much_work(name: str) -> None:
    """The 100 ms that they may take are measured by ``make bench``, and many more calls are another algorithm."""
    inputs = HazardInputs(tuple((Access(0, *access),) for access in THOUSANDS[name]))
    with at_most(calls=1_000_000):
        graph = hazard_graph(inputs)
    assert sum(map(len, graph.predecessors)) == (250_000 if "then" in name else 999)


@pytest.mark.parametrize(("start", "conflict"), [(k, k % 3 == 0) for k in range(15)])
def test_any_interval_of_two_accesses_may_be_shared(start: int, conflict: bool) -> None:
    many = Access(1, W, tuple((k, k + 1) for k in range(0, 15, 3)))
    before = Access(1, R, (*((k, k + 1) for k in range(1, start - 1, 3)), (start, start + 1)))
    for pair in (((many,), (before,)), ((before,), (many,))):
        assert (first_conflict(*pair) is not None) == conflict
