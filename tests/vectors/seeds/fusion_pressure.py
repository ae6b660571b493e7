"""How much would a frontier wave gain from running in one kernel with the others?

Units: nanoseconds, bytes; pressures and densities are shares in 0..1.  The score of a sample is

    0.55 * cost * (0.65 + 0.35 * density) + 0.25 * readback + 0.15 * launch + 0.05 * density,

clamped to 0..1, where cost and readback are relative to the largest among the samples and launch is ``overhead /
(overhead + cost)``.  O(samples * steps).

vyre-driver hides this score in a time-stepping loop, which only makes it return a part of the score.  Here the default
of one step of length 1 returns the score itself, and other steps return vyre-driver's values.  The weights are
vyre-driver's and are not measured.
"""

from __future__ import annotations

import math
from typing import Final

from vectors.seeds.ratios import unit
from vectors.seeds.topology import FrontierSample
from vyre.domain.errors import PlanError
from vyre.policies.record import U32, record


@record
class FusionPressureInputs:
    """Samples, and the ``n_steps`` steps of length ``dt`` in which the result approaches the score.

    The target rises linearly over the steps; one step of length 1, the default, returns the score.
    """

    samples: tuple[FrontierSample, ...]
    launch_overhead_ns: float
    n_steps: U32 = 1
    dt: float = 1.0


@record
class FusionPressureWeights:
    """Weights of the score; a cost is weighted ``cost_floor`` at density 0 and ``cost_floor + cost_slope`` at density
    1.
    """

    cost: float = 0.55
    cost_floor: float = 0.65
    cost_slope: float = 0.35
    readback: float = 0.25
    launch: float = 0.15
    frontier: float = 0.05


DEFAULT_WEIGHTS: Final = FusionPressureWeights()


def fusion_pressures(
    inputs: FusionPressureInputs, weights: FusionPressureWeights = DEFAULT_WEIGHTS
) -> tuple[float, ...]:
    """Returns how much each sample would gain from fusing its waves, in 0..1.

    The score is a weighted sum of cost and read-back relative to the largest among the samples, the launch share of the
    time, and the density.  The sums run in a fixed order, so results are the same everywhere to the last bit.
    O(samples * steps).

    Raises ``PlanError``: ``InvalidStep``, ``InvalidLaunchOverhead``, ``InvalidCost``, ``InvalidFrontierDensity``.
    """
    _check_pressures(inputs)
    samples, overhead = inputs.samples, inputs.launch_overhead_ns
    max_cost = max((s.dispatch_cost_ns for s in samples), default=0.0)
    max_readback = max((s.readback_bytes for s in samples), default=0)
    if inputs.n_steps == 0 or not (max_cost or max_readback or overhead):
        return (0.0,) * len(samples)
    per_cost = 1.0 / max_cost if max_cost else 0.0
    per_readback = 1.0 / float(max_readback) if max_readback else 0.0
    step = min(inputs.dt, 1.0)
    return tuple(_approach(_score(s, overhead, per_cost, per_readback, weights), inputs.n_steps, step) for s in samples)


def _check_pressures(inputs: FusionPressureInputs) -> None:
    if not _is_duration(inputs.dt):
        raise PlanError("InvalidStep", value=inputs.dt)
    if not _is_duration(inputs.launch_overhead_ns):
        raise PlanError("InvalidLaunchOverhead", value=inputs.launch_overhead_ns)
    for index, sample in enumerate(inputs.samples):
        if not _is_duration(sample.dispatch_cost_ns):
            raise PlanError("InvalidCost", index=index, value=sample.dispatch_cost_ns)
        if not 0.0 <= sample.frontier_density <= 1.0:
            raise PlanError("InvalidFrontierDensity", index=index, value=sample.frontier_density)


def _is_duration(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _score(
    sample: FrontierSample, overhead: float, per_cost: float, per_readback: float, w: FusionPressureWeights
) -> float:
    cost, density = sample.dispatch_cost_ns, sample.frontier_density
    total = overhead + cost
    launch = unit(overhead / total) if total else 0.0
    return unit(
        w.cost * (cost * per_cost * (w.cost_floor + w.cost_slope * density))
        + w.readback * (float(sample.readback_bytes) * per_readback)
        + w.launch * launch
        + w.frontier * density
    )


def _approach(score: float, steps: int, length: float) -> float:
    value = 0.0
    for k in range(1, steps + 1):
        value += length * (k / steps * score - value)
    return unit(value)
