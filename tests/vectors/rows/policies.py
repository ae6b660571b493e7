"""Rows of the scalar decision policies.

Records carry the vectors' field names, so most rows are the policy itself; the functions here regroup flat inputs and
reduce verdicts to what a file pins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from vectors.codec import Codec, Json, Row, except_for, float_of_bits, matches, snake_case, within
from vectors.seeds.arm_verdicts import BindingSlotSet, can_dispatch_concurrently
from vectors.seeds.async_copy_overlap import CopyOverlapInputs, can_overlap_copy_with_kernel
from vectors.seeds.bindless import BindlessInputs, decide_bindless
from vectors.seeds.cache_invalidation import InvalidationInputs, impacted_entries
from vectors.seeds.device_extraction import AutotuneRecord, EClass, ENode, ExtractionInputs, extract_best_for_device
from vectors.seeds.dispatch_bundle import DispatchDecisions, DispatchPolicyInputs, evaluate_dispatch_policy
from vectors.seeds.dispatch_policy import PrimaryMode, select_primary_execution_mode
from vectors.seeds.dispatch_shape import dispatch_configs_share_launch_shape, input_batch_shapes_match
from vectors.seeds.extraction_cost import ExtractionProfile, NodeCostInputs, NodeHints, device_aware_cost
from vectors.seeds.fusion import (
    CONSERVATIVE_CAPS,
    HIGH_END_CAPS,
    FusionCaps,
    FusionInputs,
    FusionVerdict,
    KernelShape,
    decide_fusion,
)
from vectors.seeds.pipeline_fusion import decide_cross_pipeline_fusion
from vectors.seeds.pipeline_segments import FusionPlanInputs, plan_cross_pipeline_fusion
from vectors.seeds.precision_lowering import (
    DefaultHint,
    F16Eligible,
    PrecisionInputs,
    TranscendentalPolynomial,
    select_precision_lowering,
)
from vectors.seeds.routing import observe, select_sort_backend
from vectors.seeds.shape_history import Fingerprint, ShapeHistory
from vectors.seeds.strategy import Strategy, StrategyInputs, select_strategy
from vectors.seeds.subgroup import (
    ReductionInputs,
    SubgroupCapabilities,
    SubgroupFeatureRange,
    SubgroupOp,
    from_feature_range,
    reduction_offsets,
)
from vyre.policies.caching.cache_eviction import (
    EvictionCounts,
    RetentionInputs,
    eviction_basis_points,
    select_retention_set,
)
from vyre.policies.caching.cache_eviction_heat import HeatEntry, HeatEvictionInputs, entries_to_evict, heat
from vyre.policies.launching.command_reuse import CommandReuseVerdict, decide_command_reuse
from vyre.policies.launching.fixpoint_iterations import FixpointInputs, resolve_fixpoint_iterations
from vyre.policies.launching.param_inlining import (
    DISABLED,
    LARGE_INLINE_DEFAULT,
    SMALL_INLINE_DEFAULT,
    ParamInliningInputs,
    ParamInliningPolicy,
    ParamInliningVerdict,
    decide_param_inlining,
)
from vyre.policies.launching.persistent_kernel import PersistentKernelVerdict, decide_persistent_kernel
from vyre.policies.prediction.trace_jit import TraceJitInputs, decide_trace_jit_speculation

_CODEC: Final = Codec()


def _name(verdict: object) -> str:
    return snake_case(type(verdict).__name__)


def _bindless(inputs: BindlessInputs) -> str:
    return _name(decide_bindless(inputs))


def _copy_overlap(inputs: CopyOverlapInputs) -> str:
    return _name(can_overlap_copy_with_kernel(inputs))


_INLINING: Final = {
    "large_inline_default": LARGE_INLINE_DEFAULT,
    "small_inline_default": SMALL_INLINE_DEFAULT,
    "disabled": DISABLED,
}
_FUSION_CAPS: Final = {"default": CONSERVATIVE_CAPS, "conservative": CONSERVATIVE_CAPS, "high_end": HIGH_END_CAPS}


def _param_inlining(
    bytes_len: int, max_inline_bytes: int, align_bytes: int, allow_padding_to_align: bool
) -> ParamInliningVerdict:
    policy = ParamInliningPolicy(max_inline_bytes, align_bytes, allow_padding_to_align)
    return decide_param_inlining(ParamInliningInputs(bytes_len), policy)


def _inlining_policy(name: str) -> ParamInliningPolicy:
    return _INLINING[name]


def _retention(inputs: RetentionInputs) -> dict[str, list[int]]:
    mask = select_retention_set(inputs)
    after = [0 if i < len(mask) and mask[i] else gain for i, gain in enumerate(inputs.gains)]
    return {"mask": list(map(int, mask)), "gains_after": after}


def _eviction_share(counts: EvictionCounts) -> int:
    return eviction_basis_points(counts)


def _heat(hit_count: int, last_hit_time_s: float, current_time_s: float) -> float:
    return heat(HeatEntry(0, hit_count, last_hit_time_s), current_time_s)


def _coldest(inputs: HeatEvictionInputs) -> tuple[int, ...]:
    return entries_to_evict(inputs)


def _invalidation(
    intervention_mask: tuple[int, ...],
    rule_adj: tuple[int, ...],
    state: tuple[int, ...],
    join_rules: tuple[int, ...],
    n: int,
    lineage_cells: tuple[int, ...],
) -> dict[str, list[int]]:
    found = impacted_entries(InvalidationInputs(intervention_mask, rule_adj, state, join_rules, n, lineage_cells))
    return {"impacted_rules": list(map(int, found.impacted_rules)), "entries": list(map(int, found.entries))}


def _slot_set(insert: tuple[int, ...], probe: tuple[int, ...], other: frozenset[int]) -> dict[str, object]:
    slots, inserted = BindingSlotSet(), []
    for slot in insert:
        slots, new = slots.insert(slot)
        inserted.append(new)
    return {
        "inserted": inserted,
        "contains": [slot in slots for slot in probe],
        "intersects_other": slots.intersects(BindingSlotSet(other)),
        "equals_other": slots == BindingSlotSet(other),
    }


def _history(alphabet: tuple[Fingerprint, ...], sequence: tuple[int, ...]) -> dict[str, object]:
    history = ShapeHistory()
    for index in sequence:
        history = history.record(alphabet[index])
    latest, prediction = history.latest, history.predict_next()
    return {
        "len": len(history),
        "is_empty": not len(history),
        "latest": None if latest is None else list(latest),
        "prediction": None if prediction is None else list(prediction),
        "contains": [fingerprint in history for fingerprint in alphabet],
    }


def _mode(mode: PrimaryMode) -> dict[str, Json]:
    encoded: dict[str, Json] = _CODEC.encode(PrimaryMode, mode)
    return encoded | {"kind": encoded["kind"].removeprefix("run_")}


def _primary_mode(persistent: PersistentKernelVerdict, command_reuse: CommandReuseVerdict) -> dict[str, Json]:
    return _mode(select_primary_execution_mode(persistent, command_reuse))


def _bundle(inputs: DispatchPolicyInputs) -> dict[str, Json]:
    decided = evaluate_dispatch_policy(inputs)
    encoded: dict[str, Json] = _CODEC.encode(DispatchDecisions, decided)
    return encoded | {
        "copy_overlap": None if decided.copy_overlap is None else _name(decided.copy_overlap),
        "bindless": _name(decided.bindless),
        "primary_execution_mode": _mode(decided.primary_execution_mode),
        "audit_events": [event._asdict() for event in decided.audit_events],
    }


def _fusion_plan(inputs: FusionPlanInputs) -> dict[str, object]:
    plan = plan_cross_pipeline_fusion(inputs)
    sound = all(
        _name(can_dispatch_concurrently(inputs.summaries[i], inputs.summaries[j])) == "independent"
        for start, end in plan.segments
        for i in range(start, end)
        for j in range(i + 1, end)
    )
    return {
        "segments": [list(segment) for segment in plan.segments],
        "breaks": [{"earlier": b.earlier, "later": b.later, "reason": b.reason.value} for b in plan.breaks],
        "contains_fused_segment": plan.contains_fused_segment,
        "unsound": not sound,
    }


def _fusion(
    upstream: KernelShape,
    downstream: KernelShape,
    max_shared_memory_bytes: int,
    max_invocations_per_workgroup: int,
    other_consumers: tuple[str, ...],
) -> FusionVerdict:
    caps = FusionCaps(max_shared_memory_bytes, max_invocations_per_workgroup)
    return decide_fusion(FusionInputs(upstream, downstream, caps, other_consumers))


def _fusion_caps(name: str) -> FusionCaps:
    return _FUSION_CAPS[name]


def _routing(segments: tuple[dict[str, int], ...]) -> dict[str, object]:
    keys = ((s["start"] + i % s["modulus"]) % 2**32 for s in segments for i in range(s["count"]))
    found = observe(keys)
    return {
        "len": found.len,
        "unique": found.unique,
        "max_run": found.max_run,
        "sort_backend": select_sort_backend(found).backend.value,
    }


def _facts_hold(expected: Json, actual: Json) -> bool:
    """An error pins, besides its code, yes/no facts of its text: that it names the backend and has a fix."""
    if "error_code" not in expected:
        return matches(expected, actual)
    facts = [fact for name, fact in expected.items() if name != "error_code"]
    return matches(expected["error_code"], actual.get("error_code")) and all(fact is True for fact in facts)


def _refused_alike(expected: Json, actual: Json) -> bool:
    """A refusal that is recorded without a code pins nothing but that there is one."""
    pinned = isinstance(expected, dict) and ("ok" in expected or expected.get("error_code") is not None)
    return matches(expected, actual) if pinned else "ok" not in actual


def _fixpoint(inputs: FixpointInputs) -> int:
    return resolve_fixpoint_iterations(inputs)


def _node_cost(
    supports_tensor_cores: bool,
    supports_f16: bool,
    hot: bool,
    base_cost: int,
    fp16_eligible: bool,
    compile_time_constant: bool,
) -> int:
    profile = ExtractionProfile(supports_tensor_cores, supports_f16, hot)
    return device_aware_cost(NodeCostInputs(profile, base_cost, NodeHints(fp16_eligible, compile_time_constant)))


def _extraction(
    classes: tuple[tuple[dict[str, Any], ...], ...],
    supports_tensor_cores: bool,
    supports_f16: bool,
    hot: bool,
    autotune: AutotuneRecord | None,
    trace_jit: TraceJitInputs | None,
) -> dict[str, object] | None:
    found = extract_best_for_device(
        ExtractionInputs(
            tuple(EClass(tuple(map(_enode, nodes))) for nodes in classes),
            max(len(classes) - 1, 0),
            ExtractionProfile(supports_tensor_cores, supports_f16, hot),
            autotune,
            trace_jit,
        )
    )
    if found is None:
        return None
    return {"cost": found.cost, "node_id": None if found.tie else found.node.id, "tie": found.tie}


def _enode(raw: dict[str, Any]) -> ENode:
    hints = NodeHints(raw["fp16_eligible"], raw["compile_time_constant"])
    return ENode(raw["id"], raw["base_cost"], hints, tuple(raw["children"]))


def _all_ops() -> list[str]:
    return [op.value for op in SubgroupOp]


def _capabilities(found: SubgroupCapabilities) -> dict[str, object]:
    encoded: dict[str, object] = _CODEC.encode(SubgroupCapabilities, found)
    return encoded | {"is_usable": found.is_usable}


def _native(subgroup_size: int) -> dict[str, object]:
    return _capabilities(SubgroupCapabilities.native(subgroup_size))


def _feature_range(reported: SubgroupFeatureRange) -> dict[str, object]:
    return _capabilities(from_feature_range(reported))


def _offsets(inputs: ReductionInputs) -> tuple[int, ...]:
    return reduction_offsets(inputs)


def _strategy(strategies: tuple[Strategy, ...]) -> str | None:
    chosen = select_strategy(StrategyInputs(strategies))
    return None if chosen is None else chosen.name


_HINTS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "default": lambda raw: DefaultHint(),
    "f16_eligible": lambda raw: _CODEC.decode(F16Eligible, raw),
    "transcendental_polynomial": lambda raw: _CODEC.decode(TranscendentalPolynomial, raw),
}


def _precision(has_native_f16: bool, has_transcendental_polynomial_emit: bool, hint: dict[str, Any]) -> dict[str, Json]:
    inputs = PrecisionInputs(has_native_f16, has_transcendental_polynomial_emit, _HINTS[hint["kind"]](hint))
    plan = select_precision_lowering(inputs)
    encoded: dict[str, Json] = _CODEC.encode(None, plan)
    for name in ("max_abs_operand", "argument_bound"):
        if name in encoded:
            encoded[name] = "0x" + struct.pack(">f", float_of_bits(encoded[name])).hex()
    return encoded | {"kind": snake_case(type(plan).__name__)}


FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "bindless": {"decide_bindless": Row(_bindless)},
    "param_inlining": {"decide_param_inlining": Row(_param_inlining), "named_policy": Row(_inlining_policy)},
    "command_reuse": {"decide_command_reuse": Row(decide_command_reuse)},
    "persistent_kernel": {"decide_persistent_kernel": Row(decide_persistent_kernel)},
    "cache_eviction": {
        "select_retention_set": Row(_retention),
        "eviction_basis_points": Row(_eviction_share),
    },
    "cache_eviction_heat": {"heat": Row(_heat, agrees=within(1e-12)), "entries_to_evict": Row(_coldest)},
    "cache_invalidation": {"impacted_entries": Row(_invalidation, agrees=except_for("closure"))},
    "async_copy_overlap": {"can_overlap_copy_with_kernel": Row(_copy_overlap)},
    "arm_independence": {
        "can_dispatch_concurrently": Row(can_dispatch_concurrently),
        "binding_slot_set": Row(_slot_set),
    },
    "trace_jit": {"decide_trace_jit_speculation": Row(decide_trace_jit_speculation)},
    "shape_prediction": {"shape_history": Row(_history)},
    "dispatch_policy": {
        "evaluate_dispatch_policy": Row(_bundle),
        "select_primary_execution_mode": Row(_primary_mode),
    },
    "pipeline_fusion": {"decide_cross_pipeline_fusion": Row(decide_cross_pipeline_fusion)},
    "pipeline_fusion_plan": {"plan_cross_pipeline_fusion": Row(_fusion_plan)},
    "fusion": {"decide_fusion": Row(_fusion), "named_caps": Row(_fusion_caps)},
    "routing": {"observe_and_select": Row(_routing)},
    "fixpoint_iterations": {"resolve_fixpoint_iterations": Row(_fixpoint, fallible=True, agrees=_facts_hold)},
    "extraction_cost": {"device_aware_cost": Row(_node_cost)},
    "device_extraction": {"extract_best_for_device": Row(_extraction)},
    "subgroup": {
        "all_ops": Row(_all_ops),
        "native": Row(_native),
        "from_feature_range": Row(_feature_range),
        "reduction_offsets": Row(_offsets, fallible=True, agrees=_refused_alike),
    },
    "strategy": {"select_strategy": Row(_strategy), "select_precision_lowering": Row(_precision)},
    "dispatch_shape": {
        "dispatch_configs_share_launch_shape": Row(dispatch_configs_share_launch_shape),
        "borrowed_input_batch_shapes_match": Row(input_batch_shapes_match),
    },
}
