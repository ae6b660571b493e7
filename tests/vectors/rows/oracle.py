"""Rows of ``oracle-driver-policies``: the same policies in that file's notation.

Integers may be decimal strings, bit patterns are bare hexadecimal, verdicts are bare names, and None is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vectors.codec import Json, Row, bits_of_float, float_of_bits, matches
from vectors.rows.identity import CODEC as IDENTITY
from vectors.seeds import ratios
from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.arm_verdicts import SerializeRequired, can_dispatch_concurrently
from vectors.seeds.async_copy_overlap import CopyOverlapInputs, can_overlap_copy_with_kernel
from vectors.seeds.bindless import BindlessInputs, BindlessSupport, decide_bindless
from vectors.seeds.dispatch_policy import RunCommandReuse, RunPersistentKernel, select_primary_execution_mode
from vectors.seeds.input_identity import domain_separated_exact_input_key, exact_input_key
from vectors.seeds.ratios import align_up, compose_bps, float_to_u64, scale_floor_min
from vectors.seeds.specialization_keys import map_hash, pipeline_f64, value_hash, versioned_specialization_artifact_key
from vectors.seeds.subgroup import ReductionInputs, reduction_offsets
from vyre.domain.errors import VyreError
from vyre.domain.geometry import LaunchLimits, check_limits, infer_grid
from vyre.domain.launch import padded_count
from vyre.domain.specialization import SpecMap, SpecValue
from vyre.policies import arith
from vyre.policies.arith import BPS, PPM, U32_MAX, U64_MAX
from vyre.policies.caching.cache_eviction import (
    EvictionCounts,
    RetentionInputs,
    eviction_basis_points,
    select_retention_set,
)
from vyre.policies.concurrency.hazards import ConflictReason
from vyre.policies.launching.command_reuse import (
    CommandReuseInputs,
    CommandReuseVerdict,
    PlainLaunches,
    RecordAndReplay,
    decide_command_reuse,
)
from vyre.policies.launching.param_inlining import (
    Inline,
    ParamInliningInputs,
    ParamInliningPolicy,
    decide_param_inlining,
)
from vyre.policies.launching.persistent_kernel import (
    PersistentKernel,
    PersistentKernelInputs,
    PersistentKernelVerdict,
    StandardLaunches,
    decide_persistent_kernel,
)
from vyre.policies.prediction.trace_jit import Speculate, TraceJitInputs, decide_trace_jit_speculation

_CONFLICTS: Final = {
    ConflictReason.WRITE_WRITE: "WriteWriteConflict",
    ConflictReason.READ_AFTER_WRITE: "ReadAfterWrite",
    ConflictReason.WRITE_AFTER_READ: "WriteAfterRead",
}


def _agrees(expected: Json, actual: Json) -> bool:
    """``matches``, but an integer of ours may be written as a decimal string."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(name in actual and _agrees(member, actual[name]) for name, member in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_agrees, expected, actual))
    if type(actual) is int and isinstance(expected, str):
        return expected == str(actual)
    return matches(None if expected == "error" else expected, actual)


def _or_none(answer: Callable[[], Json]) -> Json:
    try:
        return answer()
    except VyreError:
        return None


def _spec_value(given: Json) -> Json:
    kind, value = given
    constant: SpecValue = IDENTITY.decode(SpecValue, {"kind": kind, "value": value})
    number = bits_of_float(pipeline_f64(constant))
    return {"cache_hash": f"{value_hash(constant):016x}", "pipeline_f64_bits": number.removeprefix("0x")}


def _spec_map(given: Json) -> Json:
    inserts = [[name, {"kind": kind, "value": value}] for name, (kind, value) in given]
    constants: SpecMap = IDENTITY.decode(SpecMap, inserts)
    return {"cache_hash": f"{map_hash(constants):016x}", "iteration_order": list(constants)}


def _artifact_key(given: Json) -> Json:
    version, spec_hash, backend = given
    return versioned_specialization_artifact_key(version, spec_hash, backend)


def _exact_key(given: Json) -> Json:
    return exact_input_key([bytes.fromhex(text) for text in given]).hex()


def _domain_key(given: Json) -> Json:
    inputs = [bytes.fromhex(text) for text in given["inputs"]]
    tag, domain, feature = bytes.fromhex(given["tag"]), int(given["domain_id"]), int(given["feature_key"])
    return _or_none(lambda: domain_separated_exact_input_key(tag, domain, feature, inputs).hex())


def _param_inlining(given: Json) -> Json:
    policy = ParamInliningPolicy(given["max_inline_bytes"], given["align_bytes"], given["allow_padding"])
    verdict = decide_param_inlining(ParamInliningInputs(given["bytes"]), policy)
    return {"inline": verdict.padded_bytes} if isinstance(verdict, Inline) else "uniform_buffer"


def _persistent(given: Json) -> Json:
    verdict = decide_persistent_kernel(PersistentKernelInputs(**{name: int(v) for name, v in given.items()}))
    return {"persistent": verdict.savings_ns} if isinstance(verdict, PersistentKernel) else "standard"


def _reuse(given: Json) -> Json:
    verdict = decide_command_reuse(CommandReuseInputs(**{name: int(v) for name, v in given.items()}))
    return {"record_and_replay": verdict.savings_ns} if isinstance(verdict, RecordAndReplay) else "plain"


def _primary_mode(given: Json) -> Json:
    keep, replay = given
    persistent: PersistentKernelVerdict = (
        StandardLaunches() if keep == "standard" else PersistentKernel(int(keep["persistent"]))
    )
    reuse: CommandReuseVerdict = (
        PlainLaunches() if replay == "plain" else RecordAndReplay(int(replay["record_and_replay"]))
    )
    match select_primary_execution_mode(persistent, reuse):
        case RunPersistentKernel(savings):
            return {"persistent": savings}
        case RunCommandReuse(savings):
            return {"command_reuse": savings}
        case _:
            return "plain"


def _trace_jit(given: Json) -> Json:
    verdict = decide_trace_jit_speculation(
        TraceJitInputs(
            given["shader_hit_count"],
            given["confidence_bps"],
            int(given["speculative_cost_ns"]),
            int(given["miss_cost_ns"]),
        )
    )
    return {"speculate": verdict.expected_savings_ns} if isinstance(verdict, Speculate) else "hold"


def _bindless(given: Json) -> Json:
    support = BindlessSupport[given["support"].upper()]
    inputs = BindlessInputs(given["resource_count"], support, given["dynamic_indexing"])
    return type(decide_bindless(inputs)).__name__


def _access(given: Json) -> ArmAccess:
    reads, writes = map(frozenset, given)
    return ArmAccess(reads, writes)


def _arms(given: Json) -> Json:
    verdict = can_dispatch_concurrently(*map(_access, given))
    return _CONFLICTS[verdict.reason] if isinstance(verdict, SerializeRequired) else "independent"


def _copy(given: Json) -> Json:
    slot, kernel = given
    return type(can_overlap_copy_with_kernel(CopyOverlapInputs(slot, _access(kernel)))).__name__


def _ratio(given: Json) -> Json:
    part, whole, zero = map(int, given)
    return {
        "ppm": arith.ratio(part, whole, PPM, if_zero=zero, cap=U32_MAX),
        "u32": arith.ratio(part, whole, BPS, if_zero=zero, cap=U32_MAX),
        "wide": arith.ratio(part, whole, BPS, if_zero=zero, cap=U64_MAX),
    }


def _compose(given: Json) -> Json:
    left, right = map(int, given)
    exact = arith.weighted(left, right)
    return {"u32": compose_bps(left, right), "checked_u64": exact if exact <= U64_MAX else None}


def _scale(given: Json) -> Json:
    base, bps = int(given["base"]), given["scale_bps"]
    return {
        "floor_min1": scale_floor_min(base, bps, 1),
        "round_clamped": ratios.scale_round_clamped(
            base, bps, if_zero=int(given["zero_value"]), max_bps=given["max_bps"]
        ),
        "weighted_u128": arith.weighted(base, bps),
    }


def _float_to_int(given: Json) -> Json:
    value = float_of_bits(given)
    return {
        "u32_round": ratios.float_to_u32(value, rounded=True),
        "u32_trunc": ratios.float_to_u32(value, rounded=False),
        "u64_round": _or_none(lambda: float_to_u64(value)),
        "unit_bps_trunc_invalid42": ratios.float_unit_bps(value, 42),
    }


def _ceil_div(given: Json) -> Json:
    return arith.ceil_div(*map(int, given))


def _dim_product(given: Json) -> Json:
    x, y, z = map(int, given)
    return {"u32": arith.dim_product((x, y, z), U32_MAX), "u64": arith.dim_product((x, y, z), U64_MAX)}


def _align_up(given: Json) -> Json:
    return _or_none(lambda: align_up(*map(int, given)))


def _retention(given: Json) -> Json:
    return list(map(int, select_retention_set(RetentionInputs(tuple(given["gains"]), given["n"], given["k"]))))


def _eviction(given: Json) -> Json:
    return eviction_basis_points(EvictionCounts(*given))


def _reduction_offsets(given: Json) -> Json:
    return _or_none(lambda: list(reduction_offsets(ReductionInputs(given))))


def _infer_grid(given: Json) -> Json:
    return _or_none(lambda: list(infer_grid(given["element_count"], tuple(given["workgroup"]))))


def _power_of_two_tail(given: Json) -> Json:
    """Padded length and number of padding lanes; the lenient form leaves alone what would leave 32 bits."""
    padded = padded_count(given)
    lenient = [padded, padded - given]
    return {"checked": lenient if padded.bit_count() < 2 else None, "lenient": lenient}


def _geometry_ok(given: Json) -> Json:
    grid, workgroup = tuple(given["grid"]), tuple(given["workgroup"])
    limits = LaunchLimits(
        "oracle", given["max_threads_per_block"], tuple(given["max_block_dim"]), tuple(given["max_grid_dim"])
    )

    def check() -> bool:
        check_limits(grid, workgroup, limits)
        return 0 not in grid + workgroup

    return _or_none(check) or False


_ANSWERS: Final[dict[str, Callable[[Json], Json]]] = {
    "spec_value": _spec_value,
    "spec_map": _spec_map,
    "specialization_artifact_key": _artifact_key,
    "exact_input_key": _exact_key,
    "domain_input_key": _domain_key,
    "param_inlining": _param_inlining,
    "persistent_kernel": _persistent,
    "command_reuse": _reuse,
    "primary_mode": _primary_mode,
    "trace_jit": _trace_jit,
    "bindless": _bindless,
    "arm_independence": _arms,
    "copy_overlap": _copy,
    "ratio_bps": _ratio,
    "compose_bps": _compose,
    "scale_bps": _scale,
    "f64_to_int": _float_to_int,
    "ceil_div": _ceil_div,
    "dim_product": _dim_product,
    "align_up": _align_up,
    "retention_set": _retention,
    "eviction_bps": _eviction,
    "subgroup_reduction_offsets": _reduction_offsets,
    "infer_grid": _infer_grid,
    "pow2_tail": _power_of_two_tail,
    "launch_geometry_ok": _geometry_ok,
}
ROWS: Final = {kind: Row(answer, agrees=_agrees) for kind, answer in _ANSWERS.items()}
