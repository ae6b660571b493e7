"""Values at which arithmetic goes wrong, by type, and buffers that are filled with them."""

from __future__ import annotations

import random
from typing import Final

from vyre.domain.ir.bits import value_bits
from vyre.domain.ir.types import ScalarType, TypeKind

_EDGES: Final = (0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF)
_FLOATS: Final = (
    *(0.0, 1.0, -0.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, 3.141592653589793, 10.0, -7.25, 1e-3),
    *(float("inf"), float("-inf"), 2.0**23 + 0.5, 2.0**24 + 1, 2.0**31, -(2.0**31), 2.0**32, 2.0**53 + 1),
    *(2.0**63, -(2.0**63), 2.0**64, 65504.0, 65520.0, 88.7, -103.9, 1e-40, 5e-324, 1e300, 2.0**-149, 2.0**-126),
)
_NAN_BITS: Final = {
    ScalarType.F32: (0x7FC0_0000, 0x7FC0_0001, 0xFFC1_2345, 0x7F80_0001, 0xFFA5_5555),
    ScalarType.F64: (
        *(0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001, 0xFFF8_1234_5678_9ABC),
        *(0x7FF0_0000_0000_0001, 0xFFF4_0000_0000_0000),
    ),
}


def _integers(dtype: ScalarType) -> tuple[int, ...]:
    top = 1 << dtype.bits
    near_limits = (top - 1, top - 2, top >> 1, (top >> 1) - 1, (top >> 1) + 1, top // 3)
    return tuple(dict.fromkeys(value % top for value in (*_EDGES, *near_limits, -3, -7)))


def _witnesses(dtype: ScalarType) -> tuple[int, ...]:
    if dtype.kind is TypeKind.BOOL:
        return (0, 1)
    if dtype.is_float:
        return (*dict.fromkeys(value_bits(dtype, value) for value in _FLOATS), *_NAN_BITS[dtype])
    return _integers(dtype)


WITNESSES: Final = {dtype: _witnesses(dtype) for dtype in ScalarType if dtype.is_executable}
"""Bit patterns by executable type, simple ones first."""


def buffer_bytes(seed: int, element: ScalarType, count: int) -> bytes:
    """Returns ``count`` elements as stored: witnesses, small numbers and any bits, in equal shares."""
    source = random.Random(seed)
    return b"".join([_element_bits(source, element).to_bytes(element.size, "little") for _ in range(count)])


def _element_bits(source: random.Random, element: ScalarType) -> int:
    top = 1 << element.bits
    family = source.randrange(3)
    if family == 0:
        return source.randrange(top)
    if element.kind is TypeKind.BOOL:
        return source.choice((0, 1, 2, top >> 1))
    if element in WITNESSES:
        if family == 1:
            return source.choice(WITNESSES[element])
        return value_bits(element, source.randrange(-8, 9) / 2 if element.is_float else source.randrange(10))
    return source.choice((0, 1, 2, 3, top - 1, top >> 1, (top >> 1) - 1, 0x3C00 % top, 0x7C00 % top, 0x7E01 % top))
