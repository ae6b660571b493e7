"""Casts, bitcasts, loads and stores of elements.  NaN becomes canonical here and nowhere else."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vyre.adapters.lanes.narrowing import bfloat_word, half_bits
from vyre.adapters.lanes.types import LANE_DTYPE, UnaryRule
from vyre.domain.ir.types import ScalarType

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


_SIGNIFICAND: Final = np.uint64((1 << 52) - 1)
_HIDDEN_BIT: Final = np.uint64(1 << 52)


def _wrapped(x: Any) -> Any:
    """Returns finite binary64 numbers truncated toward zero, modulo 2^64, as uint64; infinities and NaN give 0.

    A number is its significand, an integer below 2^53, shifted to the left by its exponent less 1075, or to the
    right.  A shift by 64 or more to the left, which infinities and NaN have, and one by 53 or more to the right leave
    nothing.  Subnormals are such a case, so the hidden bit that they lack does not matter.
    """
    bits = np.asarray(x).view(np.uint64)
    shift = (bits >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64) - np.int64(1075)
    significand = bits & _SIGNIFICAND | _HIDDEN_BIT
    left = np.clip(shift, 0, 63).view(np.uint64)
    right = np.clip(-shift, 0, 63).view(np.uint64)
    magnitude = np.where(shift > 63, np.uint64(0), significand << left >> right)
    return np.where(bits >> np.uint64(63) != 0, np.negative(magnitude), magnitude)


def wrap_cast(source: ScalarType, target: ScalarType) -> UnaryRule:
    """Returns the rule of ``WrapCast`` from f32 or f64 to an integer type: truncated toward zero, modulo 2^width."""
    dtype = LANE_DTYPE[target]
    limit = LANE_DTYPE[source].type(2.0**63)

    def rule(x: Any) -> Any:
        # NumPy's conversion to int64 truncates what has a place there, and integers are converted modulo 2^width.
        if (np.absolute(x) < limit).all():
            return x.astype(np.int64).astype(dtype, copy=False)
        return _wrapped(x.astype(np.float64)).astype(dtype)[()]

    return rule


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
    if element is _S.BOOL8:
        # Not the truth of the elements: NumPy takes any byte other than 0 for true, and copies it as it is.
        return lambda x: np.not_equal(x.view(np.uint8), np.uint8(0))
    if element.is_executable and element is not _S.BOOL:
        return _unchanged
    return _converter(element.widened)


def store_convert(element: ScalarType) -> UnaryRule:
    """Returns the conversion from lanes of ``element.widened`` to raw elements (dtype ``element.numpy_name``)."""
    if element is _S.F16:
        return lambda x: half_bits(x).astype(np.uint16).view(np.float16)
    if element is _S.BF16:
        return lambda x: np.right_shift(bfloat_word(x), np.uint32(16)).astype(np.uint16)
    if element.is_float:
        return _canonicalised(element)
    if element is _S.BOOL8 or (element.is_executable and element is not _S.BOOL):
        return _unchanged
    dtype = np.dtype(element.numpy_name)
    return lambda x: x.astype(dtype)
