"""Ratios and conversions that only the vectors ask for; see ``vyre.policies.arith``."""

from __future__ import annotations

import math

from vyre.domain.errors import InvalidField
from vyre.policies.arith import BPS, U32_MAX, U64_MAX, round_half_away


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
