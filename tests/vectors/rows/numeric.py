"""Rows of ``numeric``: integer ratios, scalings and conversions."""

from __future__ import annotations

from typing import Final

from vectors.codec import Row
from vectors.seeds import ratios
from vectors.seeds.ratios import align_up, compose_bps, float_to_u64, scale_floor_min
from vyre.policies import arith
from vyre.policies.arith import BPS, PPM, U32_MAX, U64_MAX


def _ppm(part: int, whole: int, denominator_zero_value: int) -> int:
    return arith.ratio(part, whole, PPM, if_zero=denominator_zero_value, cap=U32_MAX)


def _bps(part: int, whole: int, denominator_zero_value: int) -> int:
    return arith.ratio(part, whole, BPS, if_zero=denominator_zero_value, cap=U32_MAX)


def _bps_wide(part: int, whole: int, denominator_zero_value: int) -> int:
    return arith.ratio(part, whole, BPS, if_zero=denominator_zero_value, cap=U64_MAX)


def _compose(left: int, right: int) -> int:
    return compose_bps(left, right)


def _compose_checked(left: int, right: int) -> int | None:
    product = arith.weighted(left, right)
    return product if product <= U64_MAX else None


def _dim_product(dims: tuple[int, int, int]) -> dict[str, int | None]:
    return {"u64": arith.dim_product(dims, U64_MAX), "u32": arith.dim_product(dims, U32_MAX)}


def _scale_floor(base: int, scale_bps: int, min_value: int) -> int:
    return scale_floor_min(base, scale_bps, min_value)


def _scale_round(base: int, scale_bps: int, zero_scale_value: int, max_scale_bps: int) -> int:
    return ratios.scale_round_clamped(base, scale_bps, if_zero=zero_scale_value, max_bps=max_scale_bps)


def _align(value: int, alignment: int, min_value: int) -> int:
    return align_up(value, alignment, min_value)


def _weighted(value: int, basis_points: int) -> int:
    return arith.weighted(value, basis_points)


def _trunc(value: float) -> int:
    return ratios.float_to_u32(value, rounded=False)


def _round(value: float) -> int:
    return ratios.float_to_u32(value, rounded=True)


def _unit(value: float, invalid_value: int) -> int:
    return ratios.float_unit_bps(value, invalid_value)


def _ratio(
    numerator: float, denominator: float, invalid_numerator_value: int, invalid_denominator_value: int, rounded: bool
) -> int:
    return ratios.float_ratio_bps(
        numerator,
        denominator,
        rounded=rounded,
        if_bad_numerator=invalid_numerator_value,
        if_bad_denominator=invalid_denominator_value,
    )


def _ratio_trunc(
    numerator: float, denominator: float, invalid_numerator_value: int, invalid_denominator_value: int
) -> int:
    return _ratio(numerator, denominator, invalid_numerator_value, invalid_denominator_value, rounded=False)


def _ratio_round(
    numerator: float, denominator: float, invalid_numerator_value: int, invalid_denominator_value: int
) -> int:
    return _ratio(numerator, denominator, invalid_numerator_value, invalid_denominator_value, rounded=True)


ROWS: Final = {
    "ratio_parts_per_million_u64": Row(_ppm),
    "ratio_basis_points_u64": Row(_bps),
    "ratio_basis_points_u64_wide": Row(_bps_wide),
    "compose_basis_points_u32": Row(_compose),
    "checked_compose_basis_points_u64": Row(_compose_checked),
    "checked_dim_product": Row(_dim_product),
    "checked_ceil_div_u64": Row(arith.ceil_div),
    "scale_u64_by_basis_points_floor_min": Row(_scale_floor),
    "scale_u64_by_basis_points_round_clamped": Row(_scale_round),
    "align_up_u64": Row(_align, fallible=True),
    "weighted_u64_by_basis_points_u128": Row(_weighted),
    "rounded_f64_to_u64": Row(float_to_u64, fallible=True),
    "finite_f64_to_u32_trunc": Row(_trunc),
    "finite_f64_to_u32_round": Row(_round),
    "finite_f64_unit_basis_points_trunc": Row(_unit),
    "finite_f64_ratio_basis_points_trunc": Row(_ratio_trunc),
    "finite_f64_ratio_basis_points_round": Row(_ratio_round),
}
