"""Ratios that only the vectors ask for; see ``vyre.policies.arith``."""

from __future__ import annotations

from vyre.policies.arith import BPS, U32_MAX, U64_MAX


def compose_bps(left: int, right: int, cap: int = U32_MAX) -> int:
    """Returns the product of two ratios in basis points, rounded down, at most ``cap``."""
    return min(left * right // BPS, cap)


def scale_floor_min(base: int, bps: int, minimum: int) -> int:
    """Returns ``max(floor(base * bps / 10 000), minimum)``, at most 2^64-1."""
    return min(max(base * bps // BPS, minimum), U64_MAX)
