"""Boundaries of the shared integer arithmetic; the vectors have the rest."""

from __future__ import annotations

from vyre.policies.arith import U64_MAX, align_up, dim_product, float_to_u64


def test_products_up_to_the_cap() -> None:
    assert dim_product((2, 3, 4), 24) == 24
    assert dim_product((2, 3, 4), 23) is None


def test_nothing_is_aligned() -> None:
    assert align_up(0, 8) == 0
    assert align_up(0, 8, 1) == 8
    assert align_up(U64_MAX - 7, 8) == U64_MAX - 7


def test_the_largest_float() -> None:
    assert float_to_u64(2.0**64 - 2048) == U64_MAX - 2047
