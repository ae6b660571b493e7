"""Conversion of Python numbers to the bit patterns of executable types, and back."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from vyre.domain.float_mode import FACTORS, PROBE, PRODUCT, in_default_mode
from vyre.domain.ir.numpy_scalars import python_number
from vyre.domain.ir.types import ScalarType, TypeKind
from vyre.domain.printable import shown

_FLOAT_FORMAT: Final = {ScalarType.F32: ("<f", "<I"), ScalarType.F64: ("<d", "<Q")}
_INFINITY: Final = {ScalarType.F32: 0x7F80_0000, ScalarType.F64: 0x7FF0_0000_0000_0000}
_TAKEN: Final[dict[TypeKind, tuple[tuple[type, ...], str]]] = {
    TypeKind.UNSIGNED: ((int,), "an int"),
    TypeKind.SIGNED: ((int,), "an int"),
    TypeKind.FLOAT: ((int, float), "a number"),
    TypeKind.BOOL: ((bool,), "a bool"),
}
_RANGES: Final = {
    dtype: (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)
    for dtype in ScalarType
    if dtype.is_integer
}
_CANONICAL_NAN: Final = {ScalarType.F32: 0x7FC0_0000, ScalarType.F64: 0x7FF8_0000_0000_0000}


def value_bits(dtype: ScalarType, value: int | float | bool) -> int:
    """Returns the bit pattern of ``value`` as the executable type ``dtype``.

    Integers out of range raise ``ValueError``.  Floats round once to nearest even and overflow to infinity; NaN
    becomes the canonical NaN.
    """
    if type(value) is int and (range_ := _RANGES.get(dtype)) is not None and range_[0] <= value <= range_[1]:
        return value if value >= 0 else value + (1 << dtype.bits)
    if dtype.is_float:
        return _float_bits(dtype, value)
    if dtype.kind is TypeKind.BOOL:
        if value is not True and value is not False:
            raise ValueError(f"{shown(value)} is no bool. Fix: pass True or False.")
        return int(value)
    if isinstance(value, float) or int(value) != value:
        raise ValueError(
            f"{value!r} is no integer. Fix: pass an int, or compute in floats and .cast({dtype.text}) the result."
        )
    low, high = integer_range(dtype)
    if not low <= value <= high:
        other = "a signed type such as i32" if value < 0 else "a wider type"
        raise ValueError(f"{shown(value)} does not fit {dtype.text}. Fix: use a value in {low}..{high}, or {other}.")
    return int(value) & ((1 << dtype.bits) - 1)


def argument_bits(dtype: ScalarType, value: object) -> int:
    """Returns the bit pattern of a number that a caller passes for a parameter or a constant of an executable type.

    Accepts Python's and NumPy's numbers of the kind of ``dtype``: bools for ``bool``, ints for integers, ints and
    floats for floats.  Raises ``ValueError`` for any other value, and for a value that does not fit, including a
    finite number that would become infinite.
    """
    number: Any = python_number(value)
    kinds, wanted = _TAKEN[dtype.kind]
    fits = isinstance(number, kinds) and (type(number) is not bool or dtype.kind is TypeKind.BOOL)
    if not fits:
        raise ValueError(
            f"{dtype.text} takes {wanted}, got {type(value).__name__}. Fix: pass {wanted} of Python or NumPy."
        )
    if dtype.is_float:
        bits = _float_bits(dtype, number)
        if bits & ~(1 << dtype.bits - 1) == _INFINITY[dtype] and (isinstance(number, int) or math.isfinite(number)):
            raise ValueError(
                f"{shown(number)} is beyond the largest {dtype.text}. Fix: pass a number that fits, or inf."
            )
        return bits
    return value_bits(dtype, number)


def _float_bits(dtype: ScalarType, value: int | float | bool) -> int:
    if PROBE * FACTORS != PRODUCT:
        return in_default_mode(_float_bits)(dtype, value)
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
    """Returns the Python value of a bit pattern: the inverse of ``value_bits`` except for NaN payloads."""
    if dtype.is_float:
        if PROBE * FACTORS != PRODUCT:
            return in_default_mode(bits_value)(dtype, bits)
        float_format, int_format = _FLOAT_FORMAT[dtype]
        number: float = struct.unpack(float_format, struct.pack(int_format, bits))[0]
        return number
    if dtype.kind is TypeKind.BOOL:
        return bits != 0
    if dtype.is_signed and bits >> (dtype.bits - 1):
        return bits - (1 << dtype.bits)
    return bits


def integer_range(dtype: ScalarType) -> tuple[int, int]:
    """Returns the least and the greatest value of an integer type."""
    return _RANGES[dtype]
