"""Bit patterns worth trying, and lane arrays made of them."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vyre.adapters.lanes.types import Dense
from vyre.domain.ir.types import ScalarType, bool_
from vyre.domain.numerics import scalar

_F64_VALUES: Final = (
    *(0.5, 1.0, 1.5, 2.5, 65504.0, 65520.0, 1e-40, 3.4028235677973366e38, 1.0 + 2.0**-24, 1e308, 5e-324, 2.3e-308),
    *(0.49999999999999994, 2.0**52 + 1, 2.0**53 - 1, 2.0**31, 2.0**31 - 0.5, 2.0**31 + 1, 2.0**32, 2.0**32 - 0.5),
    *(2.0**63, 2.0**63 - 1024, 2.0**64, 2.0**64 - 2048),
)
# Integers next to limits; f32 patterns: specials, halves, neighbours of integer limits and of binade borders.
EDGES: Final[dict[int, tuple[int, ...]]] = {
    1: (0, 1, 0x7F, 0x80, 0xFF),
    2: (0, 1, 0x03FF, 0x0400, 0x3C00, 0x3F80, 0x7BFF, 0x7C00, 0x7C01, 0x7F80, 0x7F81, 0x7FFF, 0x8000, 0xFC00, 0xFFFF),
    4: (
        *(0, 1, 2, 3, 5, 7, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x00010000),
        *(0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC00001, 0x7F7FFFFF, 0x007FFFFF, 0x00800000),
        *(0x3F800000, 0xBF800000, 0x3F000000, 0xBF000000, 0x3EFFFFFF, 0xBEFFFFFF, 0x40200000, 0xC0200000, 0x40490FDB),
        *(0x4B000001, 0x4B7FFFFF, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0xCF000001, 0x4F7FFFFF, 0x4F800000),
        *(0x5EFFFFFF, 0x5F000000, 0xDF000000, 0x5F7FFFFF, 0x5F800000, 0x477FE000, 0x477FF000, 0x33000000, 0x33000001),
    ),
    8: (
        *(0, 1, 2, 3, 31, 63, 64, 65, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1),
        *(0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000123),
        *(struct.unpack("<Q", struct.pack("<d", sign * value))[0] for value in _F64_VALUES for sign in (1, -1)),
    ),
}


def patterns(dtype: ScalarType, count: int, seed: int) -> list[int]:
    """The edge patterns of a type and ``count`` random ones (for floats most have a moderate exponent)."""
    if dtype is bool_:
        return [0, 1]
    rng = random.Random(f"{dtype.text} {seed}")
    found = [*EDGES[dtype.size], *(rng.getrandbits(dtype.bits) for _ in range(count))]
    if dtype.is_float and dtype.size >= 4:
        shift, bias = (52, 1023) if dtype.size == 8 else (23, 127)
        for _ in range(count):
            exponent = rng.randrange(bias - 40, bias + 40)
            found.append(rng.getrandbits(1) << (dtype.bits - 1) | exponent << shift | rng.getrandbits(shift))
    return found


def lanes_of(dtype: ScalarType, bits: Sequence[int]) -> NDArray[Any]:
    """Lanes of an executable type from bit patterns."""
    if dtype is bool_:
        return np.array(bits, dtype=np.bool_)
    return np.array(bits, dtype=f"u{dtype.size}").view(dtype.numpy_name)


def observed(dtype: ScalarType, lanes: Dense) -> list[int]:
    """Bit patterns as memory would show them: NaN canonical.  Checks the dtype of the lanes."""
    expected = np.dtype(np.bool_) if dtype is bool_ else np.dtype(dtype.numpy_name)
    assert lanes.dtype == expected, f"lanes of {dtype.text} came as {lanes.dtype}"
    if dtype is bool_:
        return [int(bit) for bit in np.ravel(lanes)]
    words = np.ascontiguousarray(lanes).view(f"u{dtype.size}").reshape(-1).tolist()
    return [scalar.canonical(dtype, word) for word in words]


def f32_value(bits: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def f64_value(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def f32_bits(value: float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits


def f64_bits(value: float) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits
