"""Which lowering strategy, and which precision.

``select_strategy``: of the strategies that apply, the highest priority; the pinned tie-break is "last in the list
wins", which under the reference's link-order registration differs between builds.  ``by_name`` sorts by priority and
name first, so that the answer no longer depends on order.  O(n log n).

``select_precision_lowering``: a native f16 or polynomial lowering when the device offers it.  The reference ignores the
error budget; with ``ulp_budget`` 0 ours always answers DefaultF32 (None = the pinned rule).
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

from vyre.policies.record import U32, FloatRange, Reason, record, verdict, why_field


@record
class Strategy:
    """``priority``: 100 native, 50 several instructions, 10 portable, by convention."""

    name: str
    applies: bool
    priority: U32


@record
class StrategyInputs:
    strategies: tuple[Strategy, ...]
    by_name: bool = False


def select_strategy(inputs: StrategyInputs) -> Strategy | None:
    """The applicable strategy of highest priority, or None.

    Ties: the last in the list, or with ``by_name`` the first by name.
    """
    applicable = [s for s in inputs.strategies if s.applies]
    if inputs.by_name:
        return min(applicable, key=lambda s: (-s.priority, s.name), default=None)
    return max(reversed(applicable), key=lambda s: s.priority, default=None)


class PolynomialOp(Enum):
    SIN = "sin"
    COS = "cos"
    EXP = "exp"
    LN = "ln"


@record
class DefaultHint:
    """No analysis result."""


@record
class F16Eligible:
    """All operands are known to stay within ``max_abs_operand``."""

    max_abs_operand: float


@record
class TranscendentalPolynomial:
    """The argument of ``op`` is known to stay within ``argument_bound``."""

    op: PolynomialOp
    argument_bound: float


PrecisionHint: TypeAlias = DefaultHint | F16Eligible | TranscendentalPolynomial


@record
class PrecisionInputs:
    has_native_f16: bool
    has_transcendental_polynomial_emit: bool
    hint: PrecisionHint
    ulp_budget: U32 | None = None


@record
class PrecisionThresholds:
    """Arguments within ``narrow_bound`` take the shorter sine and cosine."""

    narrow_bound: Annotated[float, FloatRange(0.0)] = 0.25


@verdict
class DefaultF32:
    why: Reason = why_field()


@verdict
class NativeF16:
    max_abs_operand: float
    why: Reason = why_field()


@verdict
class PolynomialTranscendental:
    op: PolynomialOp
    argument_bound: float
    degree: int
    why: Reason = why_field()


PrecisionPlan: TypeAlias = DefaultF32 | NativeF16 | PolynomialTranscendental

_DEGREES: dict[PolynomialOp, tuple[int, int]] = {
    PolynomialOp.SIN: (3, 5),
    PolynomialOp.COS: (4, 6),
    PolynomialOp.EXP: (5, 5),
    PolynomialOp.LN: (5, 5),
}
DEFAULT_THRESHOLDS = PrecisionThresholds()


def select_precision_lowering(
    inputs: PrecisionInputs, thresholds: PrecisionThresholds = DEFAULT_THRESHOLDS
) -> PrecisionPlan:
    """The cheapest lowering that the device offers and the budget allows; a NaN bound takes the longer polynomial."""
    if inputs.ulp_budget == 0:
        return DefaultF32(Reason("the error budget allows no approximation"))
    match inputs.hint:
        case F16Eligible(bound) if inputs.has_native_f16:
            return NativeF16(bound, Reason("operands stay within {} and the device has f16", (bound,)))
        case TranscendentalPolynomial(op, bound) if inputs.has_transcendental_polynomial_emit:
            narrow, wide = _DEGREES[op]
            degree = narrow if bound <= thresholds.narrow_bound else wide
            return PolynomialTranscendental(
                op, bound, degree, Reason("{} of arguments within {} needs degree {}", (op.value, bound, degree))
            )
        case _:
            return DefaultF32(Reason("no cheaper lowering is offered"))
