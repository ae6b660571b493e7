"""The precision in which vyre-driver computes a function: f16 or a polynomial, where the device offers it.

vyre-driver ignores the error budget, although all backends must return the same results; with ``ulp_budget``, a
lowering is taken only if its known error, in ulps of f32, is within the budget.  None, the default, accepts any error,
as in vyre-driver.
"""

from __future__ import annotations

import math
from typing import Annotated, Final, NamedTuple, TypeAlias

from vyre.domain.identity_enum import IdentityEnum
from vyre.policies.record import U32, FloatRange, Reason, record, verdict, why_field


class PolynomialOp(IdentityEnum):
    """Functions with a polynomial lowering."""

    SIN = "sin"
    COS = "cos"
    EXP = "exp"
    LN = "ln"


@record
class DefaultHint:
    """No result of an analysis."""


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
    """The features of the device and the result of an analysis.

    ``ulp_budget`` is the largest accepted error in ulps of f32; None accepts any error.
    """

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
    """The operation stays in f32."""

    why: Reason = why_field()


@verdict
class NativeF16:
    """The operation is computed in f16."""

    max_abs_operand: float
    why: Reason = why_field()


@verdict
class PolynomialTranscendental:
    """The function is computed by a polynomial of this degree."""

    op: PolynomialOp
    argument_bound: float
    degree: int
    why: Reason = why_field()


PrecisionPlan: TypeAlias = DefaultF32 | NativeF16 | PolynomialTranscendental


class Taylor(NamedTuple):
    """A Taylor polynomial, and its error in ulps of f32 for arguments up to ``limit``.

    The error is the truncation error of the series, which is largest at the limit, plus 4 for the roundings of
    evaluating it.
    """

    degree: int
    limit: float
    ulps: int


POLYNOMIALS: Final[dict[PolynomialOp, tuple[Taylor, Taylor]]] = {
    PolynomialOp.SIN: (Taylor(3, 0.25, 550), Taylor(5, math.pi / 4, 613)),
    PolynomialOp.COS: (Taylor(4, 0.25, 10), Taylor(6, math.pi / 4, 64)),
    PolynomialOp.EXP: (Taylor(5, 1.0, 40_698), Taylor(5, 1.0, 40_698)),
    PolynomialOp.LN: (Taylor(5, 2.0, 1_513_077), Taylor(5, 2.0, 1_513_077)),
}
"""The polynomials for narrow and for wide arguments."""
F16_ULPS: Final = 4096
"""The error of one rounding to the 11 bits of f16: half of 2^13 ulps of f32."""
DEFAULT_THRESHOLDS = PrecisionThresholds()


def select_precision_lowering(
    inputs: PrecisionInputs, thresholds: PrecisionThresholds = DEFAULT_THRESHOLDS
) -> PrecisionPlan:
    """Returns the cheapest lowering that the device offers and the budget allows.

    A bound that is NaN takes the longer polynomial.
    """
    budget = inputs.ulp_budget
    match inputs.hint:
        case F16Eligible(bound) if inputs.has_native_f16:
            if budget is not None and budget < F16_ULPS:
                return DefaultF32(Reason("an error budget of {} ulps is below the {} of f16", (budget, F16_ULPS)))
            return NativeF16(bound, Reason("operands stay within {} and the device has f16", (bound,)))
        case TranscendentalPolynomial(op, bound) if inputs.has_transcendental_polynomial_emit:
            narrow, wide = POLYNOMIALS[op]
            taylor = narrow if bound <= thresholds.narrow_bound else wide
            if budget is not None and not (bound <= taylor.limit and taylor.ulps <= budget):
                numbers = (budget, taylor.degree, bound)
                return DefaultF32(Reason("an error budget of {} ulps does not allow degree {} within {}", numbers))
            return PolynomialTranscendental(
                op, bound, taylor.degree, Reason("{} within {} needs degree {}", (op.value, bound, taylor.degree))
            )
        case _:
            return DefaultF32(Reason("no cheaper lowering is offered"))
