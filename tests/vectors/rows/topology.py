"""Rows of the kernel topology, its memory plans, fusion pressures and the plan cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from vectors.codec import Json, PlanCodec, Row
from vectors.seeds.device_keys import device_key
from vectors.seeds.fusion_pressure import fusion_pressures
from vectors.seeds.launch_diagnosis import DeviceEnvelope
from vectors.seeds.megakernel_plan_cache import MegakernelPlanCache
from vectors.seeds.plan_cache import (
    ExecutionLookup,
    MegakernelAnalysisKind,
    MegakernelDeviceKey,
    MegakernelPlanCacheKey,
    PlanIdentity,
    TopologyLookup,
    WavePressures,
    plan_key,
)
from vectors.seeds.telemetry_samples import sample_from_telemetry
from vectors.seeds.topology import (
    FrontierSample,
    GraphSize,
    MemoryDemand,
    TopologyDecision,
    TopologyInputs,
    WaveMemory,
    select,
)
from vectors.seeds.wave_execution import execution_plan, memory_plan
from vyre.domain.errors import PlanError

CODEC: Final = PlanCodec()


def _select(inputs: TopologyInputs) -> dict[str, Json]:
    found = select(inputs)
    encoded: dict[str, Json] = CODEC.encode(TopologyDecision, found)
    return encoded | {"stable_explanation": found.log_line}


KEY_IDENTITY: Final = PlanIdentity(5, MegakernelAnalysisKind.DATAFLOW, MegakernelDeviceKey(9, 0, 32, True, True, 1024))
"""Whose keys the file holds: its inputs name the pressures only."""


def _key_buckets(pressures: WavePressures) -> dict[str, Json]:
    key = plan_key(KEY_IDENTITY, pressures)
    identity: dict[str, Json] = CODEC.encode(PlanIdentity, key.identity)
    return identity | {name: getattr(key, name) for name in MegakernelPlanCacheKey._fields if name != "identity"}


PROFILES: Final = {
    "blackwell_sm120_default": DeviceEnvelope(
        sm_major=12,
        sm_minor=0,
        max_threads_per_block=1024,
        shared_memory_per_block_bytes=101_376,
        supports_cooperative_launch=True,
        supports_tensor_cores=True,
    )
}
"""Devices that the file names."""


def _device_key(profile: str) -> MegakernelDeviceKey:
    return device_key(PROFILES[profile], warp_size=32)


def _trace(max_entries: int, ops: tuple[Any, ...]) -> dict[str, Json]:
    cache = MegakernelPlanCache(max_entries)
    results = [_OPERATIONS[op["op"]](cache, op) for op in ops]
    return {"results": results, "stats": CODEC.encode(object, cache.stats)}


def _clear(cache: MegakernelPlanCache, _: dict[str, Json]) -> None:
    cache.clear()


def _look_up_topology(cache: MegakernelPlanCache, op: dict[str, Json]) -> Json:
    memory = CODEC.decode(MemoryDemand, op["memory"])
    found = cache.get_or_select_topology(
        TopologyLookup(graph=CODEC.decode(GraphSize, op["graph"]), memory=memory, **_wave(op))
    )
    return {"ok": CODEC.encode(object, found)}


def _look_up_execution(cache: MegakernelPlanCache, op: dict[str, Json]) -> Json:
    members = op["graph"] | {f.name: op[f.name] for f in fields(WaveMemory) if f.name in op}
    lookup = ExecutionLookup(wave=CODEC.decode(WaveMemory, members), **_wave(op))
    try:
        return {"ok": CODEC.encode(object, cache.get_or_plan_execution(lookup))}
    except PlanError as error:
        return CODEC.failure(error)


def _wave(op: dict[str, Json]) -> dict[str, Any]:
    """What both lookups ask."""
    return {
        "identity": CODEC.decode(PlanIdentity, {f.name: op[f.name] for f in fields(PlanIdentity)}),
        "sample": CODEC.decode(FrontierSample, op["sample"]),
        "launch_overhead_ns": CODEC.decode_float(op["launch_overhead_ns"]),
        "fusion_pressure": CODEC.decode_float(op["fusion_pressure"]),
    }


_OPERATIONS: Final[Mapping[str, Callable[[MegakernelPlanCache, dict[str, Json]], Json]]] = {
    "get_or_select_topology": _look_up_topology,
    "get_or_plan_execution": _look_up_execution,
    "clear": _clear,
}

FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "megakernel_execution": {
        "select_megakernel_topology": Row(_select),
        "select_megakernel_topology_stable": Row(_select),
        "plan_megakernel_memory_budget": Row(memory_plan, fallible=True),
        "plan_megakernel_execution": Row(execution_plan, fallible=True),
    },
    "megakernel_scheduler": {
        "sample_from_telemetry": Row(sample_from_telemetry),
        "schedule_megakernel_from_samples": Row(fusion_pressures, fallible=True),
    },
    "megakernel_plan_cache": {
        "key_buckets": Row(_key_buckets),
        "trace": Row(_trace),
        "device_key_from_caps": Row(_device_key),
    },
}
