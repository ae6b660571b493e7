"""Integer ratios, scalings and conversions that the policies share.

A basis point (bps) is 1/10 000, a ppm 1/1 000 000.  Integer arithmetic is exact.  A result is clamped only where it is
written into a field of fixed width; parameters named ``cap`` give that field's largest value.  All O(1).
"""

from __future__ import annotations

import math
from typing import Final

BPS: Final = 10_000
"""Basis points in 1."""
PPM: Final = 1_000_000
"""Parts per million in 1."""
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1


def ratio(part: int, whole: int, scale: int, *, if_zero: int, cap: int) -> int:
    """Returns ``min(floor(part * scale / whole), cap)``, or ``if_zero`` when ``whole`` is 0."""
    return min(part * scale // whole, cap) if whole else if_zero


def weighted(value: int, bps: int) -> int:
    """Returns ``floor(value * bps / 10 000)``."""
    return value * bps // BPS


def scale_round_clamped(base: int, bps: int, *, if_zero: int, max_bps: int) -> int:
    """Returns ``base`` times ``bps`` rounded half up, at most 2^64-1; ``if_zero`` when ``bps`` is 0.

    ``bps`` is first clamped to ``max_bps``; a ``max_bps`` of 0 means no clamp.
    """
    effective = min(bps, max_bps) if max_bps else bps
    return min((base * effective + BPS // 2) // BPS, U64_MAX) if bps else if_zero


def ceil_div(value: int, divisor: int) -> int | None:
    """Returns ``ceil(value / divisor)``, or None for a divisor of 0."""
    return -(-value // divisor) if divisor else None


def dim_product(dims: tuple[int, int, int], cap: int) -> int | None:
    """Returns the product of three extents, or None if it exceeds ``cap``."""
    product = dims[0] * dims[1] * dims[2]
    return product if product <= cap else None


def next_power_of_two(value: int) -> int:
    """Returns the least power of two that is at least ``value``; 1 for 0."""
    return 1 << max(value - 1, 0).bit_length()


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
