"""Cost of an e-graph node on a device.

Costs are u64 in an arbitrary unit; scales in basis points.  Pinned rule: half price on hot paths, one and a half on
cold ones, a quarter of that for f16-eligible work on a device with tensor cores, rounded half up.  O(1).

What the reference gets wrong: the hot/cold factor multiplies every node alike and cannot change an argmin, while its
rounding creates ties and free nodes.  ``forbid_zero`` keeps every priced node at 1 or more.
"""

from __future__ import annotations

from vyre.policies import arith
from vyre.policies.record import U64, BasisPoints, record


@record
class ExtractionProfile:
    """What the device has, and whether the term lies on a hot path."""

    supports_tensor_cores: bool
    supports_f16: bool
    hot: bool


@record
class NodeHints:
    """What analysis knows of a node."""

    fp16_eligible: bool = False
    compile_time_constant: bool = False


@record
class ExtractionThresholds:
    hot_bps: BasisPoints = 5_000
    cold_bps: BasisPoints = 15_000
    tensor_bps: BasisPoints = 2_500
    max_scale_bps: BasisPoints = 40_000
    forbid_zero: bool = False


DEFAULT_THRESHOLDS = ExtractionThresholds()


@record
class NodeCostInputs:
    profile: ExtractionProfile
    base_cost: U64
    hints: NodeHints


def device_aware_cost(inputs: NodeCostInputs, thresholds: ExtractionThresholds = DEFAULT_THRESHOLDS) -> int:
    """Cost of the node on the device, 0..2^64-1."""
    profile = inputs.profile
    scale = thresholds.hot_bps if profile.hot else thresholds.cold_bps
    if inputs.hints.fp16_eligible and profile.supports_tensor_cores and profile.supports_f16:
        scale = arith.weighted(scale, thresholds.tensor_bps)
    cost = arith.scale_round_clamped(
        inputs.base_cost, scale, if_zero=inputs.base_cost, max_bps=thresholds.max_scale_bps
    )
    return max(cost, 1) if thresholds.forbid_zero and inputs.base_cost else cost
