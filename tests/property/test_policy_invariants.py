"""Invariants of the decisions about launching, fusing and speculating, in the order of their description."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.records import integers, records
from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.arm_verdicts import BindingSlotSet, Independent, SerializeRequired, can_dispatch_concurrently
from vectors.seeds.async_copy_overlap import CopyOverlapInputs, Overlap, can_overlap_copy_with_kernel
from vectors.seeds.bindless import Bindless, BindlessInputs, BindlessSupport, decide_bindless
from vectors.seeds.dispatch_bundle import DispatchPolicyInputs, evaluate_dispatch_policy
from vectors.seeds.dispatch_policy import (
    RunCommandReuse,
    RunPersistentKernel,
    RunPlainLaunches,
    select_primary_execution_mode,
)
from vectors.seeds.fused_speculation import RaceWinner, counter_tail, parse_counter_tail, race_variants
from vectors.seeds.fusion import (
    Accept,
    BufferRelation,
    FusionCaps,
    FusionHazards,
    FusionInputs,
    KernelShape,
    SharedMemoryBudget,
    WorkgroupSizeMismatch,
    decide_fusion,
)
from vectors.seeds.pipeline_fusion import Fuse, KeepSeparate, decide_cross_pipeline_fusion
from vectors.seeds.pipeline_segments import FusionPlanInputs, plan_cross_pipeline_fusion
from vectors.seeds.shape_history import ShapeHistory
from vectors.seeds.speculate import (
    PairedWindow,
    SpeculationReport,
    SpeculatorSettings,
    SpeculatorState,
    VariantRaceInputs,
)
from vectors.seeds.speculation import SpeculationChoice, SpeculationObservation, decide_speculation
from vyre.policies.concurrency.hazards import ConflictReason
from vyre.policies.launching.command_reuse import CommandReuseInputs, RecordAndReplay, decide_command_reuse
from vyre.policies.launching.param_inlining import (
    Inline,
    ParamInliningInputs,
    ParamInliningPolicy,
    UniformBuffer,
    decide_param_inlining,
)
from vyre.policies.launching.persistent_kernel import PersistentKernel, PersistentKernelInputs, decide_persistent_kernel
from vyre.policies.prediction.shape_prediction import WINDOW
from vyre.policies.prediction.trace_jit import HoldSteady, Speculate, TraceJitInputs, decide_trace_jit_speculation
from vyre.policies.stage_fusion.launch_fusion import AccessRelation

U32 = integers(0, 2**32 - 1)
SMALL_TIMES = st.integers(0, 2**40)


def savings(verdict: object) -> int:
    """Predicted savings, 0 for the plain choice."""
    return int(getattr(verdict, "savings_ns", getattr(verdict, "expected_savings_ns", 0)))


def best_of(one: Any, other: Any, **choice: Any) -> Any:
    """The record that takes each field from ``one`` and ``other`` by ``choice`` (``max`` or ``min``), else from
    ``one``."""
    return replace(one, **{name: pick(getattr(one, name), getattr(other, name)) for name, pick in choice.items()})


# bindless


@given(records(BindlessInputs), U32)
def test_more_resources_never_leave_the_table(inputs: BindlessInputs, count: int) -> None:
    if isinstance(decide_bindless(inputs), Bindless):
        assert isinstance(decide_bindless(replace(inputs, resource_count=max(count, inputs.resource_count))), Bindless)


@given(records(BindlessInputs))
def test_table_support(inputs: BindlessInputs) -> None:
    full, static, none = (replace(inputs, support=s) for s in BindlessSupport)
    assert not isinstance(decide_bindless(none), Bindless)
    assert decide_bindless(full) == decide_bindless(replace(full, dynamic_indexing=not inputs.dynamic_indexing))
    if isinstance(decide_bindless(static), Bindless):
        assert isinstance(decide_bindless(full), Bindless)


# param_inlining


@given(records(ParamInliningInputs), records(ParamInliningPolicy), U32)
def test_padding(inputs: ParamInliningInputs, policy: ParamInliningPolicy, larger: int) -> None:
    verdict = decide_param_inlining(inputs, policy)
    assert str(verdict.why)
    if isinstance(verdict, UniformBuffer):
        return
    padded = verdict.padded_bytes
    assert padded % policy.align_bytes == 0
    assert 0 <= padded - inputs.bytes_len < policy.align_bytes
    assert padded <= policy.max_inline_bytes
    assert decide_param_inlining(ParamInliningInputs(padded), policy) == verdict
    roomier = replace(policy, max_inline_bytes=max(larger, policy.max_inline_bytes))
    assert decide_param_inlining(inputs, roomier) == Inline(padded)


# command_reuse


@given(records(CommandReuseInputs), records(CommandReuseInputs))
def test_replaying_is_monotone(inputs: CommandReuseInputs, other: CommandReuseInputs) -> None:
    verdict = decide_command_reuse(inputs)
    assert isinstance(verdict, RecordAndReplay) == (savings(verdict) > 0)
    better = best_of(
        inputs,
        other,
        repeat_count=max,
        per_launch_overhead_ns=max,
        record_overhead_ns=min,
        replay_overhead_ns=min,
    )
    assert savings(decide_command_reuse(better)) >= savings(verdict)


REUSE = records(
    CommandReuseInputs, **{f.name: SMALL_TIMES for f in fields(CommandReuseInputs) if f.name.endswith("_ns")}
)


@given(REUSE, st.integers(1, 1000))
def test_replaying_scales_with_time_and_compares_both_totals(inputs: CommandReuseInputs, factor: int) -> None:
    launch, record, replay = inputs.per_launch_overhead_ns, inputs.record_overhead_ns, inputs.replay_overhead_ns
    scaled = replace(
        inputs,
        per_launch_overhead_ns=launch * factor,
        record_overhead_ns=record * factor,
        replay_overhead_ns=replay * factor,
    )
    found = savings(decide_command_reuse(inputs))
    assert savings(decide_command_reuse(scaled)) == factor * found
    if inputs.repeat_count > 1:
        assert found == max(inputs.repeat_count * launch - (record + inputs.repeat_count * replay), 0)


# persistent_kernel


@given(records(PersistentKernelInputs), records(PersistentKernelInputs))
def test_residence_is_monotone(inputs: PersistentKernelInputs, other: PersistentKernelInputs) -> None:
    verdict = decide_persistent_kernel(inputs)
    assert isinstance(verdict, PersistentKernel) == (savings(verdict) > 0)
    better = best_of(inputs, other, batch_size=max, per_launch_overhead_ns=max, persistent_setup_overhead_ns=min)
    assert savings(decide_persistent_kernel(better)) >= savings(verdict)
    assert decide_persistent_kernel(replace(inputs, per_item_kernel_ns=other.per_item_kernel_ns)) == verdict


@given(st.integers(2, 2**32 - 1), SMALL_TIMES, SMALL_TIMES, st.integers(1, 1000))
def test_residence_scales_with_time_and_compares_both_totals(batch: int, launch: int, setup: int, factor: int) -> None:
    found = savings(decide_persistent_kernel(PersistentKernelInputs(batch, launch, 0, setup)))
    scaled = PersistentKernelInputs(batch, launch * factor, 0, setup * factor)
    assert savings(decide_persistent_kernel(scaled)) == factor * found
    assert found == max(batch * launch - setup, 0)


# arm_independence (by byte interval: test_hazards)

SLOTS = st.frozensets(st.integers(0, 6), max_size=4)
ARMS = st.builds(ArmAccess, reads=SLOTS, writes=SLOTS)
SWAPPED = {
    ConflictReason.WRITE_WRITE: ConflictReason.WRITE_WRITE,
    ConflictReason.READ_AFTER_WRITE: ConflictReason.WRITE_AFTER_READ,
    ConflictReason.WRITE_AFTER_READ: ConflictReason.READ_AFTER_WRITE,
}


def both(a: ArmAccess, b: ArmAccess) -> ArmAccess:
    return ArmAccess(a.reads | b.reads, a.writes | b.writes)


@given(ARMS, ARMS)
def test_independence_is_symmetric(a: ArmAccess, b: ArmAccess) -> None:
    there, back = can_dispatch_concurrently(a, b), can_dispatch_concurrently(b, a)
    conflicts = [bool(x & y) for x, y in ((a.writes, b.writes), (a.writes, b.reads), (a.reads, b.writes))]
    assert isinstance(there, Independent) == isinstance(back, Independent) == (not any(conflicts))
    if sum(conflicts) == 1 and isinstance(there, SerializeRequired) and isinstance(back, SerializeRequired):
        assert back.reason is SWAPPED[there.reason]


@given(ARMS, ARMS, ARMS, st.permutations(range(7)))
def test_more_slots_never_free_an_arm_and_names_do_not_matter(
    a: ArmAccess, b: ArmAccess, more: ArmAccess, names: list[int]
) -> None:
    verdict = can_dispatch_concurrently(a, b)
    if isinstance(verdict, SerializeRequired):
        assert isinstance(can_dispatch_concurrently(both(a, more), b), SerializeRequired)
        assert isinstance(can_dispatch_concurrently(a, both(b, more)), SerializeRequired)

    def renamed(arm: ArmAccess) -> ArmAccess:
        return ArmAccess(frozenset(names[s] for s in arm.reads), frozenset(names[s] for s in arm.writes))

    assert can_dispatch_concurrently(renamed(a), renamed(b)) == verdict


@given(ARMS)
def test_an_arm_without_accesses_is_independent(arm: ArmAccess) -> None:
    empty = ArmAccess(frozenset(), frozenset())
    assert isinstance(can_dispatch_concurrently(empty, arm), Independent)
    assert isinstance(can_dispatch_concurrently(arm, empty), Independent)


@given(st.lists(st.integers(0, 5)), st.frozensets(st.integers(0, 5)))
def test_slot_sets(inserted: list[int], other: frozenset[int]) -> None:
    slots = BindingSlotSet()
    for slot in inserted:
        grown, new = slots.insert(slot)
        assert new == (slot not in slots)
        slots = grown
    assert slots == BindingSlotSet(frozenset(inserted))
    assert slots.intersects(BindingSlotSet(other)) == bool(other & set(inserted))


# async_copy_overlap


@given(st.integers(0, 6), ARMS, ARMS)
def test_a_copy_is_an_arm_that_writes_its_destination(slot: int, kernel: ArmAccess, more: ArmAccess) -> None:
    alone = isinstance(can_overlap_copy_with_kernel(CopyOverlapInputs(slot, kernel)), Overlap)
    copy = ArmAccess(frozenset(), frozenset({slot}))
    assert alone == isinstance(can_dispatch_concurrently(copy, kernel), Independent)
    assert alone or not isinstance(can_overlap_copy_with_kernel(CopyOverlapInputs(slot, both(kernel, more))), Overlap)


# pipeline_fusion


@given(ARMS, ARMS)
def test_pipelines_fuse_iff_they_are_independent(earlier: ArmAccess, later: ArmAccess) -> None:
    found = can_dispatch_concurrently(earlier, later)
    expected = KeepSeparate(found.reason) if isinstance(found, SerializeRequired) else Fuse()
    assert decide_cross_pipeline_fusion(earlier, later) == expected


@given(st.lists(ARMS, max_size=8))
def test_segments_are_independent_and_maximal(summaries: list[ArmAccess]) -> None:
    plan = plan_cross_pipeline_fusion(FusionPlanInputs(tuple(summaries)))
    assert [i for start, end in plan.segments for i in range(start, end)] == list(range(len(summaries)))

    def independent(i: int, j: int) -> bool:
        return isinstance(can_dispatch_concurrently(summaries[i], summaries[j]), Independent)

    for start, end in plan.segments:
        assert all(independent(i, j) for i in range(start, end) for j in range(i + 1, end))
        assert end == len(summaries) or not all(independent(i, end) for i in range(start, end))
    assert plan.contains_fused_segment == any(end - start > 1 for start, end in plan.segments)
    assert [b.later for b in plan.breaks] == [start for start, _ in plan.segments[1:]]


# fusion

NAMES = st.lists(st.sampled_from("abcd"), max_size=3).map(tuple)
SHAPES = st.builds(
    KernelShape,
    workgroup_size=st.sampled_from([(64, 1, 1), (32, 2, 1)]),
    shared_memory_bytes=st.integers(0, 100),
    inputs=NAMES,
    outputs=NAMES,
)
FUSIONS = st.builds(
    FusionInputs,
    upstream=SHAPES,
    downstream=SHAPES,
    caps=st.builds(FusionCaps, st.integers(0, 200), st.sampled_from([32, 64, 128])),
    other_consumers=NAMES,
)
POINTWISE = FusionHazards(tuple(BufferRelation(name, AccessRelation.POINTWISE) for name in "abcd"))


@given(FUSIONS, st.integers(0, 300), U32)
def test_accepted_fusions_have_an_intermediate_and_survive_larger_caps(
    inputs: FusionInputs, shared: int, lanes: int
) -> None:
    verdict = decide_fusion(inputs)
    assert str(verdict.why)
    if isinstance(verdict, Accept):
        fused = set(inputs.upstream.outputs) & set(inputs.downstream.inputs)
        assert fused and not fused & set(inputs.other_consumers)
    larger = FusionCaps(
        max(shared, inputs.caps.max_shared_memory_bytes), max(lanes, inputs.caps.max_invocations_per_workgroup)
    )
    roomier = decide_fusion(replace(inputs, caps=larger))
    if not isinstance(verdict, SharedMemoryBudget | WorkgroupSizeMismatch):
        assert roomier == verdict


@given(FUSIONS)
def test_fusion_does_not_depend_on_the_order_of_names(inputs: FusionInputs) -> None:
    up, down = inputs.upstream, inputs.downstream
    backwards = replace(
        inputs,
        upstream=replace(up, inputs=up.inputs[::-1], outputs=up.outputs[::-1] * 2),
        downstream=replace(down, inputs=down.inputs[::-1] * 2, outputs=down.outputs[::-1]),
        other_consumers=inputs.other_consumers[::-1],
    )
    unknown = FusionHazards(())
    for hazards in (None, POINTWISE, unknown):
        assert decide_fusion(replace(backwards, hazards=hazards)) == decide_fusion(replace(inputs, hazards=hazards))
    assert decide_fusion(replace(inputs, hazards=POINTWISE)) == decide_fusion(inputs)
    assert not isinstance(decide_fusion(replace(inputs, hazards=unknown)), Accept)


# trace_jit


@given(records(TraceJitInputs), records(TraceJitInputs))
def test_speculative_compiles_are_monotone(inputs: TraceJitInputs, other: TraceJitInputs) -> None:
    verdict = decide_trace_jit_speculation(inputs)
    assert isinstance(verdict, Speculate) == (savings(verdict) > 0)
    better = best_of(
        inputs,
        other,
        shader_hit_count=max,
        prediction_confidence_bps=max,
        speculative_spec_cost_ns=min,
        miss_cost_ns=max,
    )
    assert savings(decide_trace_jit_speculation(better)) >= savings(verdict)


@given(records(TraceJitInputs))
def test_cold_or_doubtful_kernels_wait(inputs: TraceJitInputs) -> None:
    hot = replace(inputs, shader_hit_count=8, prediction_confidence_bps=6_000)
    gain = inputs.miss_cost_ns * 6_000 // 10_000 - inputs.speculative_spec_cost_ns
    assert savings(decide_trace_jit_speculation(hot)) == max(gain, 0)
    for cold in (replace(hot, shader_hit_count=7), replace(hot, prediction_confidence_bps=5_999)):
        assert isinstance(decide_trace_jit_speculation(cold), HoldSteady)


# shape_prediction


def history(items: list[int]) -> ShapeHistory:
    built = ShapeHistory()
    for item in items:
        built = built.record((item,))
    return built


@given(st.lists(st.integers(0, 2), max_size=40))
def test_prediction_is_from_the_window_only(items: list[int]) -> None:
    h = history(items)
    assert h == history(items[-WINDOW:])
    assert len(h) == min(len(items), WINDOW)
    assert h.latest == ((items[-1],) if items else None)
    predicted = h.predict_next()
    assert predicted is None or predicted in h


@given(st.integers(1, 15), st.integers(0, 40))
def test_cycles_of_distinct_items_are_predicted(period: int, more: int) -> None:
    seen = period + 1 + more
    assert history([i % period for i in range(seen)]).predict_next() == (seen % period,)


# speculation

ORDER = [SpeculationChoice.REJECT, SpeculationChoice.KEEP_RACING, SpeculationChoice.ADOPT]


def rank(observation: SpeculationObservation) -> int:
    return ORDER.index(decide_speculation(observation).choice)


@given(records(SpeculationObservation), integers(8, 2**32 - 1), integers(0, 2**64 - 1))
def test_compile_cost_and_dispatches_are_monotone(o: SpeculationObservation, more: int, compile_ns: int) -> None:
    raced = replace(o, baseline_dispatches=max(o.baseline_dispatches, 8), speculative_dispatches=8)
    costlier = replace(raced, side_compile_cost_ns=max(compile_ns, o.side_compile_cost_ns))
    assert rank(costlier) <= rank(raced)
    assert rank(replace(raced, speculative_dispatches=more)) >= rank(raced)


@given(records(SpeculationObservation))
def test_adopting_needs_the_saving(o: SpeculationObservation) -> None:
    if decide_speculation(o).choice is SpeculationChoice.ADOPT:
        effective = o.speculative_mean_ns + o.side_compile_cost_ns // o.speculative_dispatches
        assert 100 * effective <= 85 * o.baseline_mean_ns


# speculate

REPORTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30)


@given(records(SpeculationReport), st.binary(max_size=40).map(lambda b: b[: len(b) // 4 * 4]), integers(0, 2**32 - 1))
def test_reports_survive_their_tail(report: SpeculationReport, before: bytes, percent: int) -> None:
    assert parse_counter_tail(before + counter_tail(report)) == report
    assert parse_counter_tail(before + b"x" + counter_tail(report)) is None
    if report.attempted:
        assert report.commit_rate_ppm == report.committed * 10**6 // report.attempted
    assert report.worthwhile(percent) == (report.commit_rate_ppm >= percent * 10_000)


@given(st.integers(0, 200), st.booleans(), REPORTS)
def test_the_average_stays_between_what_was_seen(
    threshold_pct: int, reachable: bool, reports: list[tuple[int, int]]
) -> None:
    state = SpeculatorState.start(SpeculatorSettings(threshold_pct, reachable_band=reachable))
    seen = [state.ema_ppm]
    for committed, rolled_back in reports:
        report = SpeculationReport(committed, rolled_back)
        after = state.record(report)
        if report.attempted == 0:
            assert after is state
            continue
        seen.append(report.commit_rate_ppm)
        assert min(seen) - 3 <= after.ema_ppm <= max(seen)
        assert after.samples == state.samples + 1
        if state.settings.off_ppm <= after.ema_ppm < state.settings.on_ppm:
            assert after.enabled == state.enabled
        state = after


@given(records(VariantRaceInputs))
def test_the_winner_is_faster_and_ties_are_conservative(inputs: VariantRaceInputs) -> None:
    result = race_variants(inputs)
    gain = inputs.conservative_total_ns - inputs.speculative_total_ns
    assert result.saved_ns == abs(gain)
    assert (result.winner is RaceWinner.SPECULATIVE) == (gain > 0)


@given(st.lists(records(VariantRaceInputs, **{n: st.integers(0, 10**6) for n in VariantRaceInputs.__annotations__})))
def test_windows_keep_exact_means(pairs: list[VariantRaceInputs]) -> None:
    window = PairedWindow()
    for pair in pairs:
        window = window.record(pair)
    seen, n = window.observation, max(len(pairs), 1)
    assert seen.baseline_dispatches == seen.speculative_dispatches == len(pairs)
    assert seen.baseline_mean_ns == sum(p.conservative_dispatch_ns for p in pairs) // n
    assert seen.speculative_mean_ns == sum(p.speculative_dispatch_ns for p in pairs) // n
    assert seen.side_compile_cost_ns == sum(p.speculative_compile_ns for p in pairs)


# dispatch_policy


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


@given(records(PersistentKernelInputs), records(PersistentKernelInputs), records(CommandReuseInputs))
def test_unprofitable_inputs_are_alike(
    one: PersistentKernelInputs, other: PersistentKernelInputs, graph: CommandReuseInputs
) -> None:
    replay = decide_command_reuse(graph)
    idle = [decide_persistent_kernel(replace(inputs, batch_size=1)) for inputs in (one, other)]
    assert select_primary_execution_mode(idle[0], replay) == select_primary_execution_mode(idle[1], replay)
    plain = [decide_command_reuse(replace(graph, repeat_count=count)) for count in (0, 1)]
    keep = decide_persistent_kernel(one)
    assert select_primary_execution_mode(keep, plain[0]) == select_primary_execution_mode(keep, plain[1])
