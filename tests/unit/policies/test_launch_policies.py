"""Invariants of the decisions about one launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records import records
from vyre.domain.errors import InvalidProgram
from vyre.policies.arm_independence import (
    ArmAccess,
    BindingSlotSet,
    Independent,
    SerializeRequired,
    can_dispatch_concurrently,
)
from vyre.policies.async_copy_overlap import CopyOverlapInputs, Overlap, can_overlap_copy_with_kernel
from vyre.policies.bindless import (
    Bindless,
    BindlessInputs,
    BindlessSupport,
    Parameters,
    PointerTable,
    ResourceTableInputs,
    Unsupported,
    decide_bindless,
    plan_resource_table,
)
from vyre.policies.command_reuse import CommandReuseInputs, RecordAndReplay, decide_command_reuse
from vyre.policies.dispatch_policy import (
    DispatchPolicyInputs,
    RunCommandReuse,
    RunPersistentKernel,
    RunPlainLaunches,
    evaluate_dispatch_policy,
)
from vyre.policies.dispatch_shape import (
    LaunchConfig,
    dispatch_configs_share_launch_shape,
    input_batch_shapes_match,
    launch_shape_key,
)
from vyre.policies.fixpoint_iterations import FixpointInputs, resolve_fixpoint_iterations
from vyre.policies.hazards import ConflictReason
from vyre.policies.param_inlining import (
    Inline,
    ParamInliningInputs,
    ParamInliningPolicy,
    UniformBuffer,
    decide_param_inlining,
)
from vyre.policies.persistent_kernel import PersistentKernel, PersistentKernelInputs, decide_persistent_kernel
from vyre.policies.pipeline_fusion import (
    Fuse,
    FusionPlanInputs,
    decide_cross_pipeline_fusion,
    plan_cross_pipeline_fusion,
)
from vyre.policies.trace_jit import (
    HoldSteady,
    Speculate,
    TraceJitInputs,
    TraceJitThresholds,
    decide_trace_jit_speculation,
)

SLOTS = st.frozensets(st.integers(0, 6), max_size=4)
ARMS = st.builds(ArmAccess, reads=SLOTS, writes=SLOTS)


def savings(verdict: object) -> int:
    """Predicted savings, 0 for the plain choice."""
    return int(getattr(verdict, "savings_ns", getattr(verdict, "expected_savings_ns", 0)))


@given(records(BindlessInputs))
def test_bindless(inputs: BindlessInputs) -> None:
    chosen = isinstance(decide_bindless(inputs), Bindless)
    full = replace(inputs, support=BindlessSupport.FULL)
    assert not isinstance(decide_bindless(replace(inputs, support=BindlessSupport.UNSUPPORTED)), Bindless)
    assert decide_bindless(full) == decide_bindless(replace(full, dynamic_indexing=not inputs.dynamic_indexing))
    if chosen:
        assert isinstance(decide_bindless(replace(inputs, resource_count=2**32 - 1)), Bindless)
        assert isinstance(decide_bindless(full), Bindless)


@pytest.mark.parametrize(("count", "chosen"), [(23, False), (24, True)])
def test_bindless_boundary(count: int, chosen: bool) -> None:
    inputs = BindlessInputs(count, BindlessSupport.FULL, False)
    assert isinstance(decide_bindless(inputs), Bindless) == chosen


TABLE = ResourceTableInputs(10, BindlessSupport.FULL, False, 20, 100, 5, 10, 50)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Parameters()),
        ({"dynamic_indexing": True}, PointerTable()),
        ({"dynamic_indexing": True, "support": BindlessSupport.STATIC}, Unsupported()),
        ({"parameter_budget_bytes": 99}, PointerTable()),
        ({"parameter_budget_bytes": 99, "support": BindlessSupport.STATIC}, PointerTable()),
        ({"parameter_budget_bytes": 99, "support": BindlessSupport.UNSUPPORTED}, Unsupported()),
        ({"expected_updates": 6}, PointerTable()),
        ({"expected_updates": 6, "support": BindlessSupport.UNSUPPORTED}, Parameters()),
    ],
)
def test_resource_tables(changed: dict[str, Any], expected: object) -> None:
    verdict = plan_resource_table(replace(TABLE, **changed))
    assert verdict == expected
    assert str(verdict.why)


@given(records(ParamInliningInputs), records(ParamInliningPolicy), st.integers(0, 2**32 - 1))
def test_param_inlining(inputs: ParamInliningInputs, policy: ParamInliningPolicy, larger: int) -> None:
    verdict = decide_param_inlining(inputs, policy)
    if isinstance(verdict, Inline):
        padded = verdict.padded_bytes
        assert padded % policy.align_bytes == 0
        assert 0 <= padded - inputs.bytes_len < policy.align_bytes
        assert padded <= policy.max_inline_bytes
        assert decide_param_inlining(ParamInliningInputs(padded), policy) == verdict
        roomier = replace(policy, max_inline_bytes=max(larger, policy.max_inline_bytes))
        assert decide_param_inlining(inputs, roomier) == verdict
    else:
        assert isinstance(verdict, UniformBuffer)
    assert str(verdict.why)


@given(records(CommandReuseInputs), records(CommandReuseInputs))
def test_command_reuse_is_monotone(inputs: CommandReuseInputs, other: CommandReuseInputs) -> None:
    better = CommandReuseInputs(
        max(inputs.repeat_count, other.repeat_count),
        max(inputs.per_launch_overhead_ns, other.per_launch_overhead_ns),
        min(inputs.record_overhead_ns, other.record_overhead_ns),
        min(inputs.replay_overhead_ns, other.replay_overhead_ns),
    )
    verdict = decide_command_reuse(inputs)
    assert isinstance(verdict, RecordAndReplay) == (savings(verdict) > 0)
    assert savings(decide_command_reuse(better)) >= savings(verdict)


@given(records(PersistentKernelInputs), records(PersistentKernelInputs))
def test_persistent_kernel_is_monotone(inputs: PersistentKernelInputs, other: PersistentKernelInputs) -> None:
    better = PersistentKernelInputs(
        max(inputs.batch_size, other.batch_size),
        max(inputs.per_launch_overhead_ns, other.per_launch_overhead_ns),
        other.per_item_kernel_ns,
        min(inputs.persistent_setup_overhead_ns, other.persistent_setup_overhead_ns),
    )
    verdict = decide_persistent_kernel(inputs)
    assert isinstance(verdict, PersistentKernel) == (savings(verdict) > 0)
    assert savings(decide_persistent_kernel(better)) >= savings(verdict)
    assert decide_persistent_kernel(replace(inputs, per_item_kernel_ns=other.per_item_kernel_ns)) == verdict


SWAPPED = {
    ConflictReason.WRITE_WRITE: ConflictReason.WRITE_WRITE,
    ConflictReason.READ_AFTER_WRITE: ConflictReason.WRITE_AFTER_READ,
    ConflictReason.WRITE_AFTER_READ: ConflictReason.READ_AFTER_WRITE,
}


@given(ARMS, ARMS)
def test_arms(a: ArmAccess, b: ArmAccess) -> None:
    there, back = can_dispatch_concurrently(a, b), can_dispatch_concurrently(b, a)
    assert isinstance(there, Independent) == isinstance(back, Independent)
    conflicts = [bool(x & y) for x, y in ((a.writes, b.writes), (a.writes, b.reads), (a.reads, b.writes))]
    assert isinstance(there, Independent) == (not any(conflicts))
    if sum(conflicts) == 1 and isinstance(there, SerializeRequired) and isinstance(back, SerializeRequired):
        assert back.reason is SWAPPED[there.reason]
    assert isinstance(decide_cross_pipeline_fusion(a, b), Fuse) == isinstance(there, Independent)


@given(st.lists(st.integers(0, 5)), st.frozensets(st.integers(0, 5)))
def test_slot_sets(inserted: list[int], other: frozenset[int]) -> None:
    slots = BindingSlotSet()
    for slot in inserted:
        grown, new = slots.insert(slot)
        assert new == (slot not in slots)
        slots = grown
    assert slots == BindingSlotSet(frozenset(inserted))
    assert slots.intersects(BindingSlotSet(other)) == bool(other & set(inserted))


@given(st.integers(0, 6), ARMS, ARMS)
def test_copy_overlap(slot: int, kernel: ArmAccess, more: ArmAccess) -> None:
    alone = isinstance(can_overlap_copy_with_kernel(CopyOverlapInputs(slot, kernel)), Overlap)
    copy = ArmAccess(frozenset(), frozenset({slot}))
    assert alone == isinstance(can_dispatch_concurrently(copy, kernel), Independent)
    both = ArmAccess(kernel.reads | more.reads, kernel.writes | more.writes)
    assert alone or not isinstance(can_overlap_copy_with_kernel(CopyOverlapInputs(slot, both)), Overlap)


@given(st.lists(ARMS, max_size=8))
def test_fusion_segments_are_independent_and_maximal(summaries: list[ArmAccess]) -> None:
    plan = plan_cross_pipeline_fusion(FusionPlanInputs(tuple(summaries)))
    assert [i for start, end in plan.segments for i in range(start, end)] == list(range(len(summaries)))

    def independent(i: int, j: int) -> bool:
        return isinstance(can_dispatch_concurrently(summaries[i], summaries[j]), Independent)

    for start, end in plan.segments:
        assert all(independent(i, j) for i in range(start, end) for j in range(i + 1, end))
        assert end == len(summaries) or not all(independent(i, end) for i in range(start, end))
    assert plan.contains_fused_segment == any(end - start > 1 for start, end in plan.segments)
    assert [b.later for b in plan.breaks] == [start for start, _ in plan.segments[1:]]


@given(records(TraceJitInputs), records(TraceJitInputs))
def test_trace_jit_is_monotone(inputs: TraceJitInputs, other: TraceJitInputs) -> None:
    better = TraceJitInputs(
        max(inputs.shader_hit_count, other.shader_hit_count),
        max(inputs.prediction_confidence_bps, other.prediction_confidence_bps),
        min(inputs.speculative_spec_cost_ns, other.speculative_spec_cost_ns),
        max(inputs.miss_cost_ns, other.miss_cost_ns),
    )
    verdict = decide_trace_jit_speculation(inputs)
    assert isinstance(verdict, Speculate) == (savings(verdict) > 0)
    assert savings(decide_trace_jit_speculation(better)) >= savings(verdict)


def test_trace_jit_boundaries_qualify() -> None:
    at = TraceJitInputs(8, 6_000, 0, 100)
    assert decide_trace_jit_speculation(at) == Speculate(60)
    for field in ("shader_hit_count", "prediction_confidence_bps"):
        below = replace(at, **{field: getattr(at, field) - 1})
        assert isinstance(decide_trace_jit_speculation(below), HoldSteady)
    assert isinstance(decide_trace_jit_speculation(at, TraceJitThresholds(hot_hits=9)), HoldSteady)


@given(records(DispatchPolicyInputs, arm_a=ARMS, arm_b=ARMS, copy_bytes=st.none()))
def test_the_bundle_is_its_parts(inputs: DispatchPolicyInputs) -> None:
    decided = evaluate_dispatch_policy(inputs)
    assert decided.persistent == decide_persistent_kernel(inputs.persistent)
    assert decided.arm_independence == can_dispatch_concurrently(inputs.arm_a, inputs.arm_b)
    assert decided.command_reuse == decide_command_reuse(inputs.graph)
    assert decided.bindless == decide_bindless(inputs.bindless)
    assert decided.trace_jit == decide_trace_jit_speculation(inputs.trace_jit)
    keep, replay = savings(decided.persistent), savings(decided.command_reuse)
    assert savings(decided.primary_execution_mode) == max(keep, replay)
    match decided.primary_execution_mode:
        case RunPersistentKernel():
            assert keep > replay
        case RunCommandReuse():
            assert replay >= keep > -1
        case RunPlainLaunches():
            assert keep == replay == 0
    positive = (decided.persistent, decided.command_reuse, decided.trace_jit)
    assert len(decided.audit_events) == sum(savings(v) > 0 for v in positive) + isinstance(decided.bindless, Bindless)
    assert evaluate_dispatch_policy(inputs) == decided
    parts = (decided.persistent, decided.arm_independence, decided.command_reuse, decided.bindless, decided.trace_jit)
    assert all(str(verdict.why) for verdict in (*parts, decided.primary_execution_mode))


SIMILAR = records(
    LaunchConfig,
    profile=st.none() | st.sampled_from(["a", "b"]),
    label=st.none() | st.just("x"),
    workgroup_override=st.none() | st.just((1, 1, 1)),
    grid_override=st.none(),
    max_output_bytes=st.none() | st.integers(0, 1),
    ulp_budget=st.none() | st.integers(0, 1),
    fixpoint_iterations=st.none() | st.integers(0, 2),
)


@given(SIMILAR, SIMILAR, SIMILAR)
def test_launch_shapes_are_an_equivalence(a: LaunchConfig, b: LaunchConfig, c: LaunchConfig) -> None:
    share = dispatch_configs_share_launch_shape
    assert share(a, b) == share(b, a)
    assert share(a, a) == (a.fixpoint_iterations != 0)
    assert share(a, c) or not (share(a, b) and share(b, c))
    assert share(a, replace(a, timeout_ms=77, label="other")) == share(a, a)
    assert share(a, b) == (launch_shape_key(a) is not None and launch_shape_key(a) == launch_shape_key(b))


@given(st.lists(st.lists(st.integers(0, 2), max_size=2).map(tuple), max_size=4).map(tuple))
def test_batch_shapes(lengths: tuple[tuple[int, ...], ...]) -> None:
    assert input_batch_shapes_match(lengths) == (len(set(lengths)) <= 1)


def test_fixpoint_iterations() -> None:
    assert resolve_fixpoint_iterations(FixpointInputs(None, "b")) == 1
    assert resolve_fixpoint_iterations(FixpointInputs(7, "b")) == 7
    with pytest.raises(InvalidProgram, match=r"`b`.*Fix: "):
        resolve_fixpoint_iterations(FixpointInputs(0, "b"))
