"""Rows of waves, their barriers, their memory and their execution, over token/fact graphs too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from vectors.codec import Json, PlanCodec, Row
from vectors.seeds.frontier_execution import (
    FrontierExecutionInputs,
    FrontierExecutionPlan,
    FrontierInputs,
    FrontierPlan,
    WaveEnvelope,
    fused_wave_bytes,
    plan_frontier,
    plan_frontier_execution,
)
from vectors.seeds.frontier_ir import FrontierWaves, FrontierWaveSizes, waves_from_frontier_ir
from vectors.seeds.megakernel_plan_cache import MegakernelPlanCache
from vectors.seeds.token_fact_plan import TokenFactProfile, plan_token_fact
from vyre.policies.frontiers.frontier_ir import FrontierIr, FrontierIrPlan, NodeDependencies, plan_frontier_ir
from vyre.policies.frontiers.waves import BarrierInputs, BarrierPlan, Dependencies, plan_barriers

Given: TypeAlias = dict[str, Any]


def _envelope(raw: Json) -> WaveEnvelope:
    return WaveEnvelope(**raw) if isinstance(raw, dict) else WaveEnvelope(*raw)


def _dependencies(raw: Json) -> tuple[tuple[int, int], ...]:
    """Pairs, or objects that name their members."""
    return tuple((each["before"], each["after"]) if isinstance(each, dict) else tuple(each) for each in raw)


CODEC: Final = PlanCodec({WaveEnvelope: _envelope, Dependencies: _dependencies, NodeDependencies: _dependencies})


def _identified(given: Given) -> Given:
    """Inputs name the device only; every line has a cache of its own, so that the rest of the identity is free."""
    rest = {name: member for name, member in given.items() if name != "device"}
    return rest | {"identity": {"graph_layout_hash": 0, "analysis_kind": "Dataflow", "device": given["device"]}}


def _encode_barriers(plan: BarrierPlan) -> Given:
    return {"groups": [{"waves": list(group)} for group in plan.groups], "global_barriers": plan.global_barriers}


def _encode_frontier(plan: FrontierPlan) -> Given:
    encoded: Given = CODEC.encode(FrontierPlan, plan)
    return encoded | {"barriers": _encode_barriers(plan.barriers)}


def _encode_execution(plan: FrontierExecutionPlan) -> Given:
    return _encode_frontier(plan.frontier) | {"execution": CODEC.encode(object, plan.execution)}


def _barriers(inputs: BarrierInputs) -> Given:
    return _encode_barriers(plan_barriers(inputs))


def _frontier(inputs: FrontierInputs) -> Given:
    return _encode_frontier(plan_frontier(inputs))


def _execution(given: Given) -> Given:
    inputs = CODEC.decode(FrontierExecutionInputs, _identified(given))
    return _encode_execution(plan_frontier_execution(inputs, MegakernelPlanCache().get_or_plan_execution))


def _frontier_ir(ir: FrontierIr) -> Given:
    encoded: Given = CODEC.encode(FrontierIrPlan, plan_frontier_ir(ir))
    return encoded


def _frontier_waves(sizes: FrontierWaveSizes) -> Given:
    made = waves_from_frontier_ir(sizes)
    encoded: Given = CODEC.encode(FrontierWaves, made)
    return encoded | {"dependencies": [{"before": before, "after": after} for before, after in made.dependencies]}


def _token_fact(given: Given) -> Given:
    profile = CODEC.decode(TokenFactProfile, _identified(given))
    plan = plan_token_fact(profile, MegakernelPlanCache().get_or_plan_execution)
    return {
        "plan": {
            "frontier": _encode_execution(plan.waves),
            "work_queue": CODEC.encode(object, plan.work_queue),
            "resident_payload_bytes": plan.resident_payload_bytes,
            "resident_work_queue_bytes": plan.work_queue.resident_bytes,
            "total_required_bytes": plan.total_required_bytes,
        },
        "graph_reuse": CODEC.encode(object, plan.graph_reuse),
        "resident_graph_bytes": plan.resident_graph_bytes,
        "graph_upload_bytes": plan.graph_reuse.upload_bytes,
        "avoided_graph_upload_bytes": plan.graph_reuse.avoided_upload_bytes,
        "total_resident_bytes": plan.total_required_bytes,
    }


FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "megakernel_barrier": {"plan_megakernel_barriers": Row(_barriers, fallible=True)},
    "megakernel_frontier": {
        "plan_megakernel_frontier_memory": Row(_frontier, fallible=True),
        "megakernel_frontier_fused_wave_budget_bytes": Row(fused_wave_bytes, fallible=True),
    },
    "megakernel_frontier_execution": {"plan_cuda_frontier_megakernel_execution": Row(_execution, fallible=True)},
    "frontier_typed_ir": {
        "plan_frontier_typed_ir": Row(_frontier_ir, fallible=True),
        "adapt_frontier_typed_ir_to_cuda": Row(_frontier_waves, fallible=True),
    },
    "token_fact_frontier_execution": {
        "plan_cuda_token_fact_frontier_execution_envelope": Row(_token_fact, fallible=True)
    },
}
