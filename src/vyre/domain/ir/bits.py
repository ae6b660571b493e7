"""Python numbers as the bit patterns of executable types, and back."""

from __future__ import annotations

import struct
from typing import Final

from vyre.domain.ir.types import ScalarType, TypeKind

_FLOAT_FORMAT: Final = {ScalarType.F32: ("<f", "<I"), ScalarType.F64: ("<d", "<Q")}
_CANONICAL_NAN: Final = {ScalarType.F32: 0x7FC0_0000, ScalarType.F64: 0x7FF8_0000_0000_0000}


def value_bits(dtype: ScalarType, value: int | float | bool) -> int:
    """Bit pattern of ``value`` as ``dtype`` (executable). Integers out of range raise ``ValueError``;
    floats round once to nearest even, overflow to infinity, and NaN becomes the canonical one."""
    if dtype.is_float:
        return _float_bits(dtype, value)
    if dtype.kind is TypeKind.BOOL:
        if value is not True and value is not False:
            raise ValueError(f"{value!r} is no bool. Fix: pass True or False")
        return int(value)
    if isinstance(value, float) or int(value) != value:
        raise ValueError(f"{value!r} is no integer. Fix: pass an int, or cast the expression to {dtype.text}")
    low, high = integer_range(dtype)
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit {dtype.text}. Fix: use a value in {low}..{high} or another type")
    return int(value) & ((1 << dtype.bits) - 1)


def _float_bits(dtype: ScalarType, value: int | float | bool) -> int:
    try:
        number = float(value)
    except OverflowError:
        number = float("inf") if value > 0 else float("-inf")
    if number != number:
        return _CANONICAL_NAN[dtype]
    float_format, int_format = _FLOAT_FORMAT[dtype]
    try:
        packed = struct.pack(float_format, number)
    except OverflowError:  # a finite double beyond the f32 range rounds to infinity
        packed = struct.pack(float_format, float("inf") if number > 0 else float("-inf"))
    bits: int = struct.unpack(int_format, packed)[0]
    return bits


def bits_value(dtype: ScalarType, bits: int) -> int | float | bool:
    """Python value of a bit pattern; the inverse of ``value_bits`` but for NaN payloads."""
    if dtype.is_float:
        float_format, int_format = _FLOAT_FORMAT[dtype]
        number: float = struct.unpack(float_format, struct.pack(int_format, bits))[0]
        return number
    if dtype.kind is TypeKind.BOOL:
        return bits != 0
    if dtype.is_signed and bits >> (dtype.bits - 1):
        return bits - (1 << dtype.bits)
    return bits


def integer_range(dtype: ScalarType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1
