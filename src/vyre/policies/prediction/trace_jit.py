"""Is a predicted specialization compiled before it is requested?

Units: nanoseconds and basis points (10 000 = certain).  Rule: the kernel is hot, the prediction confident, and
``floor(miss * confidence / 10 000) > cost``.  O(1).

vyre-driver has the same rule, which charges background work as if it were foreground latency, so it hardly ever fires
when a miss is mostly one compile.  If ``speculative_spec_cost_ns`` is the *opportunity* cost of the compile thread (0
when idle), the rule is useful.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.policies.record import U32, BasisPoints, Nanoseconds, Reason, record, verdict, why_field


@record
class TraceJitInputs:
    """Hits of the kernel so far, confidence of the predicted shape, cost of compiling it, cost of a miss."""

    shader_hit_count: U32
    prediction_confidence_bps: BasisPoints
    speculative_spec_cost_ns: Nanoseconds
    miss_cost_ns: Nanoseconds


@record
class TraceJitThresholds:
    """The least hits and the least confidence, both inclusive."""

    hot_hits: U32 = 8
    min_confidence_bps: BasisPoints = 6_000


@verdict
class HoldSteady:
    """Nothing is compiled ahead."""

    why: Reason = why_field()


@verdict
class Speculate:
    """The specialization is compiled ahead; ``expected_savings_ns`` is positive."""

    expected_savings_ns: int
    why: Reason = why_field()


TraceJitVerdict: TypeAlias = HoldSteady | Speculate
DEFAULT_THRESHOLDS = TraceJitThresholds()


def decide_trace_jit_speculation(
    inputs: TraceJitInputs, thresholds: TraceJitThresholds = DEFAULT_THRESHOLDS
) -> TraceJitVerdict:
    """Returns ``Speculate`` iff the kernel is hot, the prediction confident, and the expected stall exceeds the
    cost.
    """
    hits, confidence = inputs.shader_hit_count, inputs.prediction_confidence_bps
    if hits < thresholds.hot_hits:
        return HoldSteady(Reason("{} hit(s) are below the {} of a hot kernel", (hits, thresholds.hot_hits)))
    if confidence < thresholds.min_confidence_bps:
        return HoldSteady(Reason("a confidence of {} bps is below {} bps", (confidence, thresholds.min_confidence_bps)))
    expected, cost = inputs.miss_cost_ns * confidence // 10_000, inputs.speculative_spec_cost_ns
    if expected > cost:
        return Speculate(
            expected - cost, Reason("an expected stall of {} ns exceeds the cost of {} ns", (expected, cost))
        )
    return HoldSteady(Reason("an expected stall of {} ns does not exceed the cost of {} ns", (expected, cost)))
