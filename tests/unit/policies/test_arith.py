"""Boundaries of the shared integer arithmetic; the vectors have the rest."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from vectors.seeds.ratios import align_up, float_ratio_bps, float_to_u32, float_to_u64, float_unit_bps, unit
from vyre.policies.arith import U64_MAX, dim_product


def test_products_up_to_the_cap() -> None:
    assert dim_product((2, 3, 4), 24) == 24
    assert dim_product((2, 3, 4), 23) is None


def test_nothing_is_aligned() -> None:
    assert align_up(0, 8) == 0
    assert align_up(0, 8, 1) == 8
    assert align_up(U64_MAX - 7, 8) == U64_MAX - 7


def test_the_largest_float() -> None:
    assert float_to_u64(2.0**64 - 2048) == U64_MAX - 2047


def test_ratios_of_floats_are_never_negative() -> None:
    options: dict[str, Any] = {"rounded": False, "if_bad_numerator": 7, "if_bad_denominator": 8}
    assert float_ratio_bps(-1e308, 1e-10, **options) == 0  # although the quotient is not finite
    assert float_ratio_bps(-1.0, 2.0, **options) == float_ratio_bps(0.0, 2.0, **options) == 0
    assert float_to_u32(-0.4, rounded=True) == float_to_u32(-0.6, rounded=False) == 0


def test_shares_are_truncated() -> None:
    assert float_unit_bps(0.00019, 0) == 1


@pytest.mark.parametrize(
    ("value", "clamped"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1.5, "1.0"),
        (-0.5, "0.0"),
        (0.0, "0.0"),
        (-0.0, "0.0"),  # one zero, so that equal shares have equal bits
        (inf, "0.0"),
        (-inf, "0.0"),
        (nan, "0.0"),
    ],
)
def test_shares_lie_between_0_and_1(value: float, clamped: str) -> None:
    assert repr(unit(value)) == clamped
