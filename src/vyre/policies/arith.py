"""Integer ratios, scalings and conversions that the policies share.

Basis points are 1/10 000, ppm 1/1 000 000.  Everything is exact integer arithmetic; results are clamped only where they
are written into a field of fixed width, which is what ``cap`` is for.  All O(1).
"""

from __future__ import annotations

import math
from typing import Final

from vyre.domain.errors import InvalidField

BPS: Final = 10_000
PPM: Final = 1_000_000
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1


def ratio(part: int, whole: int, scale: int, *, if_zero: int, cap: int) -> int:
    """``min(floor(part * scale / whole), cap)``; ``if_zero`` when ``whole`` is 0."""
    return min(part * scale // whole, cap) if whole else if_zero


def compose_bps(left: int, right: int, cap: int = U32_MAX) -> int:
    """Product of two ratios in basis points, rounded down, at most ``cap``."""
    return min(left * right // BPS, cap)


def weighted(value: int, bps: int) -> int:
    """``floor(value * bps / 10 000)``."""
    return value * bps // BPS


def scale_round_clamped(base: int, bps: int, *, if_zero: int, max_bps: int) -> int:
    """``base`` times ``bps`` rounded half up, at most 2^64-1; ``if_zero`` when ``bps`` is 0.

    ``bps`` is first clamped to ``max_bps``, of which 0 means no clamp.
    """
    effective = min(bps, max_bps) if max_bps else bps
    return min((base * effective + BPS // 2) // BPS, U64_MAX) if bps else if_zero


def scale_floor_min(base: int, bps: int, minimum: int) -> int:
    """``max(floor(base * bps / 10 000), minimum)``, at most 2^64-1."""
    return min(max(base * bps // BPS, minimum), U64_MAX)


def ceil_div(value: int, divisor: int) -> int | None:
    """``ceil(value / divisor)``; None for a divisor of 0."""
    return -(-value // divisor) if divisor else None


def dim_product(dims: tuple[int, int, int], cap: int) -> int | None:
    """Product of three extents; None above ``cap``."""
    product = dims[0] * dims[1] * dims[2]
    return product if product <= cap else None


def align_up(value: int, alignment: int, minimum: int = 0) -> int:
    """Least multiple of ``alignment`` not below ``max(value, minimum)``.

    Raises ``InvalidField`` for an alignment of 0 or a result above 2^64-1.
    """
    if alignment <= 0:
        raise InvalidField(record="align_up", field="alignment", value=alignment, expected="a positive int")
    aligned = -(-max(value, minimum) // alignment) * alignment
    if aligned > U64_MAX:
        raise InvalidField(record="align_up", field="value", value=value, expected="an int that aligns within 64 bits")
    return aligned


def next_power_of_two(value: int) -> int:
    """Least power of two not below ``value``; 1 for 0."""
    return 1 << max(value - 1, 0).bit_length()


def round_half_away(value: float) -> int:
    """Nearest integer of a finite float, halves away from zero."""
    whole = math.floor(abs(value))
    whole += abs(value) - whole >= 0.5
    return whole if value >= 0 else -whole


def float_to_u64(value: float) -> int:
    """``round_half_away`` into 0..2^64-1; raises ``InvalidField`` outside it and for non-finite values."""
    if math.isfinite(value):
        rounded = round_half_away(value)
        if 0 <= rounded <= U64_MAX:
            return rounded
    raise InvalidField(record="float_to_u64", field="value", value=value, expected="a finite float in 0..2^64-1")


def float_to_u32(value: float, *, rounded: bool) -> int:
    """Truncated or rounded into 0..2^32-1; too large or not finite gives 2^32-1, negative gives 0."""
    if not math.isfinite(value):
        return U32_MAX
    return min(max(round_half_away(value) if rounded else math.floor(value), 0), U32_MAX)


def float_ratio_bps(
    numerator: float, denominator: float, *, rounded: bool, if_bad_numerator: int, if_bad_denominator: int
) -> int:
    """``numerator / denominator`` in basis points as u32; a non-finite numerator and a denominator that is not a
    finite positive number give the caller's values, a numerator up to 0 gives 0."""
    if not math.isfinite(numerator):
        return if_bad_numerator
    if not math.isfinite(denominator) or denominator <= 0:
        return if_bad_denominator
    return float_to_u32(max(numerator, 0.0) / denominator * BPS, rounded=rounded)


def float_unit_bps(value: float, if_invalid: int) -> int:
    """A ratio as basis points, truncated into u32; ``if_invalid`` when it is not finite."""
    return float_to_u32(value * BPS, rounded=False) if math.isfinite(value) else if_invalid


def unit(value: float) -> float:
    """``value`` clamped to 0..1; 0 if it is not finite."""
    return min(value, 1.0) if 0.0 < value < math.inf else 0.0
