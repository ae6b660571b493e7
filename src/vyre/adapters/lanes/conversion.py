"""Casts, bitcasts, loads and stores of elements.  NaN becomes canonical here and nowhere else."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vyre.adapters.lanes.types import LANE_DTYPE, UnaryRule
from vyre.domain.ir.types import ScalarType, TypeKind

_S = ScalarType

_CANONICAL_NAN: Final[dict[ScalarType, Any]] = {
    _S.F32: np.uint32(0x7FC0_0000).view(np.float32),
    _S.F64: np.uint64(0x7FF8_0000_0000_0000).view(np.float64),
}


def _unchanged(x: Any) -> Any:
    return x


def _canonicalised(dtype: ScalarType) -> UnaryRule:
    nan = _CANONICAL_NAN[dtype]

    def rule(x: Any) -> Any:
        # A maximum keeps NaN, and is the cheapest check that there is none.
        if x.size and np.isnan(np.maximum.reduce(x, axis=None)):
            return np.where(np.isnan(x), nan, x)
        return x

    return rule


# ------------------------------------------------------------------------------ casts


def _converter(target: ScalarType) -> UnaryRule:
    """Returns NumPy's own conversion: modular between integers, rounded once to floats, != 0 to bool."""
    dtype = LANE_DTYPE[target]
    return lambda x: x.astype(dtype)


def _saturating(target: ScalarType) -> UnaryRule:
    """Returns the conversion from float to integer: truncated, saturated, NaN to 0."""
    dtype = LANE_DTYPE[target]
    info = np.iinfo(dtype)
    low, high = dtype.type(info.min), dtype.type(info.max)
    # In binary64 the least value and the first value beyond the range are exact, for all four types.
    floor, ceiling = np.float64(info.min), np.float64(2.0**target.bits if info.min == 0 else 2.0 ** (target.bits - 1))

    def rule(x: Any) -> Any:
        wide = x.astype(np.float64)
        inside = (wide >= floor) & (wide < ceiling)
        if inside.all():
            return wide.astype(dtype)
        # NaN gives 0.  Values below the range give its limit, also those in (-1, 0), since 0 is the limit there.
        converted = np.where(inside, wide, np.float64(0)).astype(dtype)
        return np.where(wide >= ceiling, high, np.where(wide < floor, low, converted))

    return rule


def cast(source: ScalarType, target: ScalarType) -> UnaryRule:
    """Returns the rule of ``Cast`` between two executable types."""
    if source is target:
        return _unchanged
    return _saturating(target) if source.is_float and target.is_integer else _converter(target)


def bitcast(source: ScalarType, target: ScalarType) -> UnaryRule:
    """Returns the rule of ``Bitcast`` between executable types of one width."""
    dtype = LANE_DTYPE[target]
    if not source.is_float:
        return lambda x: x.view(dtype)
    canonical = _canonicalised(source)
    return lambda x: canonical(x).view(dtype)


# ------------------------------------------------------------------------------ elements in memory


def load_convert(element: ScalarType) -> UnaryRule:
    """Returns the conversion from raw elements (dtype ``element.numpy_name``) to lanes of ``element.widened``."""
    if element is _S.BF16:
        return lambda x: np.left_shift(x, np.uint32(16), dtype=np.uint32).view(np.float32)
    if element.is_executable and element is not _S.BOOL:
        return _unchanged
    return _converter(element.widened)


_HALF_NAN: Final = np.uint16(0x7E00).view(np.float16)
_BF16_NAN: Final = np.uint16(0x7FC0)


def _to_f16(x: Any) -> Any:
    unordered = np.isnan(x)
    half = x.astype(np.float16)
    return np.where(unordered, _HALF_NAN, half) if unordered.any() else half


def _to_bf16(x: Any) -> Any:
    word = x.view(np.uint32)
    # The upper half of f32, rounded to even: add just under half a place, or half of it if the place is odd.
    odd = word >> np.uint32(16) & np.uint32(1)
    rounded = (word + (np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    unordered = np.isnan(x)
    return np.where(unordered, _BF16_NAN, rounded) if unordered.any() else rounded


def store_convert(element: ScalarType) -> UnaryRule:
    """Returns the conversion from lanes of ``element.widened`` to raw elements (dtype ``element.numpy_name``)."""
    if element is _S.F16:
        return _to_f16
    if element is _S.BF16:
        return _to_bf16
    if element.is_float:
        return _canonicalised(element)
    if element.is_executable and element.kind is not TypeKind.BOOL:
        return _unchanged
    dtype = np.dtype(element.numpy_name)
    return lambda x: x.astype(dtype)
