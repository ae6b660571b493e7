"""Integer ratios, scalings and conversions that the policies share.

A basis point (bps) is 1/10 000, a ppm 1/1 000 000.  Integer arithmetic is exact.  A result is clamped only where it is
written into a field of fixed width; parameters named ``cap`` give that field's largest value.  All O(1).
"""

from __future__ import annotations

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
