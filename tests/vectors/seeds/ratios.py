"""Ratios and conversions that only the vectors ask for; see ``vyre.policies.arith``."""

from __future__ import annotations

import math

from vyre.domain.errors import InvalidField
from vyre.policies.arith import BPS, U32_MAX, U64_MAX


def compose_bps(left: int, right: int, cap: int = U32_MAX) -> int:
    """Returns the product of two ratios in basis points, rounded down, at most ``cap``."""
    return min(left * right // BPS, cap)


def scale_floor_min(base: int, bps: int, minimum: int) -> int:
    """Returns ``max(floor(base * bps / 10 000), minimum)``, at most 2^64-1."""
    return min(max(base * bps // BPS, minimum), U64_MAX)


def align_up(value: int, alignment: int, minimum: int = 0) -> int:
    """Returns the least multiple of ``alignment`` that is at least ``max(value, minimum)``.

    Raises ``InvalidField`` for an alignment of 0 or a result above 2^64-1.
    """
    if alignment <= 0:
        raise InvalidField(record="align_up", field="alignment", value=alignment, expected="a positive int")
    aligned = -(-max(value, minimum) // alignment) * alignment
    if aligned > U64_MAX:
        raise InvalidField(record="align_up", field="value", value=value, expected="an int that aligns within 64 bits")
    return aligned


def float_to_u64(value: float) -> int:
    """Rounds like ``round_half_away`` into 0..2^64-1.

    Raises ``InvalidField`` for values outside that range and for values that are not finite.
    """
    if math.isfinite(value):
        rounded = round_half_away(value)
        if 0 <= rounded <= U64_MAX:
            return rounded
    raise InvalidField(record="float_to_u64", field="value", value=value, expected="a finite float in 0..2^64-1")


def round_half_away(value: float) -> int:
    """Returns the integer nearest to a finite float; halves round away from zero."""
    whole = math.floor(abs(value))
    whole += abs(value) - whole >= 0.5
    return whole if value >= 0 else -whole


def float_to_u32(value: float, *, rounded: bool) -> int:
    """Truncates or rounds a float into 0..2^32-1.

    A value that is too large or not finite gives 2^32-1, a negative one 0.
    """
    if not math.isfinite(value):
        return U32_MAX
    return min(max(round_half_away(value) if rounded else math.floor(value), 0), U32_MAX)


def float_ratio_bps(
    numerator: float, denominator: float, *, rounded: bool, if_bad_numerator: int, if_bad_denominator: int
) -> int:
    """Returns ``numerator / denominator`` in basis points as a u32; a numerator of at most 0 gives 0.

    A numerator that is not finite gives ``if_bad_numerator``; a denominator that is not a finite positive number gives
    ``if_bad_denominator``.
    """
    if not math.isfinite(numerator):
        return if_bad_numerator
    if not math.isfinite(denominator) or denominator <= 0:
        return if_bad_denominator
    return float_to_u32(max(numerator, 0.0) / denominator * BPS, rounded=rounded)


def float_unit_bps(value: float, if_invalid: int) -> int:
    """Returns a ratio as basis points, truncated into a u32, or ``if_invalid`` when the ratio is not finite."""
    return float_to_u32(value * BPS, rounded=False) if math.isfinite(value) else if_invalid


def unit(value: float) -> float:
    """Returns ``value`` clamped to 0..1; 0 if it is not finite."""
    return min(value, 1.0) if 0.0 < value < math.inf else 0.0


def scale_round_clamped(base: int, bps: int, *, if_zero: int, max_bps: int) -> int:
    """Returns ``base`` times ``bps`` rounded half up, at most 2^64-1; ``if_zero`` when ``bps`` is 0.

    ``bps`` is first clamped to ``max_bps``; a ``max_bps`` of 0 means no clamp.
    """
    effective = min(bps, max_bps) if max_bps else bps
    return min((base * effective + BPS // 2) // BPS, U64_MAX) if bps else if_zero
