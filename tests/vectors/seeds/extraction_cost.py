"""What does an e-graph node cost on a device?

Costs are u64 in an arbitrary unit; scales are in basis points.  Rule: half the base cost on hot paths, one and a half
of it on cold ones, and a quarter of that for f16-eligible work on a device with tensor cores, rounded half up.  O(1).

vyre-driver has the same rule.  Its hot/cold factor multiplies every node alike and so cannot change which term is
cheapest, while the rounding creates ties and free nodes.  ``forbid_zero`` keeps every cost at 1 or more.
"""

from __future__ import annotations

from vectors.seeds import ratios
from vyre.policies import arith
from vyre.policies.record import U64, BasisPoints, record


@record
class ExtractionProfile:
    """The features of the device, and whether the term lies on a hot path."""

    supports_tensor_cores: bool
    supports_f16: bool
    hot: bool


@record
class NodeHints:
    """Results of analysis about a node."""

    fp16_eligible: bool = False
    compile_time_constant: bool = False


@record
class ExtractionThresholds:
    """Scales in basis points.

    ``forbid_zero`` prices every node with a base cost at 1 or more.
    """

    hot_bps: BasisPoints = 5_000
    cold_bps: BasisPoints = 15_000
    tensor_bps: BasisPoints = 2_500
    max_scale_bps: BasisPoints = 40_000
    forbid_zero: bool = False


DEFAULT_THRESHOLDS = ExtractionThresholds()


@record
class NodeCostInputs:
    """A node's base cost and hints, and the device."""

    profile: ExtractionProfile
    base_cost: U64
    hints: NodeHints


def device_aware_cost(inputs: NodeCostInputs, thresholds: ExtractionThresholds = DEFAULT_THRESHOLDS) -> int:
    """Returns the cost of the node on the device, 0..2^64-1."""
    profile = inputs.profile
    scale = thresholds.hot_bps if profile.hot else thresholds.cold_bps
    if inputs.hints.fp16_eligible and profile.supports_tensor_cores and profile.supports_f16:
        scale = arith.weighted(scale, thresholds.tensor_bps)
    cost = ratios.scale_round_clamped(
        inputs.base_cost, scale, if_zero=inputs.base_cost, max_bps=thresholds.max_scale_bps
    )
    return max(cost, 1) if thresholds.forbid_zero and inputs.base_cost else cost
