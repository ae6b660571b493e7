"""Bit patterns at which the rules of types differ."""

from __future__ import annotations

from functools import cache
from typing import Final

from vyre.domain.ir.types import ScalarType, bf16, bool_, f16, f32, f64

_F32_BITS: Final = (
    0x0000_0000,  # 0
    0x8000_0000,  # -0
    0x3F80_0000,  # 1
    0xBF80_0000,  # -1
    0x3FC0_0000,  # 1.5
    0xC020_0000,  # -2.5
    0x3EAA_AAAB,  # 1/3
    0x4B80_0001,  # 2^24 + 2
    0x4F00_0000,  # 2^31
    0x0000_0001,  # the smallest subnormal
    0x807F_FFFF,  # the largest subnormal, negative
    0x0080_0000,  # the smallest normal
    0x7F7F_FFFF,  # the largest
    0x7F80_0000,  # infinity
    0xFF80_0000,  # -infinity
    0x7FC0_0001,  # a NaN that is not the canonical one
)
_F64_BITS: Final = (
    0x0000_0000_0000_0000,
    0x8000_0000_0000_0000,
    0x3FF0_0000_0000_0000,  # 1
    0xBFF0_0000_0000_0000,  # -1
    0x3FF8_0000_0000_0000,  # 1.5
    0xC004_0000_0000_0000,  # -2.5
    0x3FD5_5555_5555_5555,  # 1/3
    0x4340_0000_0000_0001,  # 2^53 + 2
    0x43E0_0000_0000_0000,  # 2^63
    0x0000_0000_0000_0001,
    0x800F_FFFF_FFFF_FFFF,
    0x0010_0000_0000_0000,
    0x7FEF_FFFF_FFFF_FFFF,
    0x7FF0_0000_0000_0000,
    0xFFF0_0000_0000_0000,
    0xFFF8_0000_0000_0123,
)
_NARROWED: Final = (
    0x477F_E000,  # 65504, the greatest f16
    0xC77F_EFFF,  # rounds to it
    0x477F_F000,  # 65520, half-way to 2^16: infinite in f16
    0xC780_0000,
    0x3880_0000,  # 2^-14, the least normal f16
    0x387F_FFFF,
    0xB87F_E000,  # half-way below it
    0x387F_C000,  # the greatest subnormal f16
    0x3380_0000,  # 2^-24, the least f16
    0x3300_0000,  # half of it: a tie that goes to zero
    0xB300_0000,
    0xB300_0001,
    0x33C0_0000,  # 1.5 and 2.5 times the least f16
    0xB420_0000,
    0x3F80_1000,  # ties of f16 beside 1, and one bit more
    0xBF80_1001,
    0x3F80_3000,
    0x3F80_8000,  # ties of bf16 beside 1, and one bit more
    0xBF80_8001,
    0x3F81_8000,
    0x7F7F_7FFF,  # rounds to the greatest bf16
    0xFF7F_8000,  # half-way beyond it
    0x0000_8000,  # half of the least bf16
    0x8000_8001,
    0x0001_8000,
    0x7FFF_FFFF,  # NaN whose payloads a carry would leave
    0xFF80_0001,
    0x7F80_1000,
)
HALF_BITS: Final[dict[ScalarType, tuple[int, ...]]] = {
    f16: (0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x3555, 0x4248, 0x7BFF, 0xFBFF, 0x7C00, 0xFE01),
    bf16: (0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xBF81, 0x3EAB, 0x4049, 0x7F7F, 0xFF7F, 0x7F80, 0xFFC1),
}
"""Zeros, subnormals, ordinary numbers, the greatest, infinity and a NaN of the narrow floats."""
_WRAP_BITS: Final[dict[ScalarType, tuple[int, ...]]] = {
    f32: (
        0xBF7F_FFFF,  # above -1
        0x4F80_0000,  # 2^32, and the numbers beside it
        0x4F80_0001,
        0xCF80_0001,
        0xCF7F_FFFF,
        0x5F00_0000,  # 2^63
        0xDF00_0001,
        0x5F80_0001,  # 2^64 + 2^41
        0xDF80_0003,
        0x71FF_FFFF,  # above 2^100
    ),
    f64: (
        0xBFEF_FFFF_FFFF_FFFF,  # above -1
        0x41F0_0000_0010_0000,  # 2^32 + 1
        0xC1EF_FFFF_FFFF_FFFF,
        0x4330_0000_0000_0001,  # 2^52 + 1
        0xC340_0000_0000_0001,
        0x43E0_0000_0000_0001,  # 2^63 + 2048
        0xC3E0_0000_0000_0001,
        0x43F0_0000_0000_0001,  # 2^64 + 4096
        0xC400_0000_0000_0003,
        0x4720_0000_0000_0001,  # 2^115 + 2^63
        0x4730_0000_0000_0001,
        0x7FE0_0000_0000_0000,  # 2^1023
    ),
}
_WORDS: Final = (0x7F, 0x80, 0x81, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x1_0000, 0xFFFF_FF80, 0xFFFF_FF7F, 0xFFFF_7FFF)
FUSED_TERMS: Final[dict[ScalarType, tuple[int, ...]]] = {
    f32: (0x3F80_0001, 0xBF80_0000, 0x0000_0001, 0x7F7F_FFFF, 0x4B80_0001, 0x8000_0000, 0x7F80_0000, 0x7FC0_0001),
    f64: (
        0x3FF0_0000_0000_0001,
        0xBFF0_0000_0000_0000,
        0x0000_0000_0000_0001,
        0x7FEF_FFFF_FFFF_FFFF,
        0x4340_0000_0000_0001,
        0x8000_0000_0000_0000,
        0x3CA0_0000_0000_0000,
        0x7FF8_0000_0000_0123,
    ),
}
"""Operands at which a product and a sum round differently when they are fused."""


@cache
def samples(dtype: ScalarType) -> tuple[int, ...]:
    """Returns bit patterns of a type: the ends of its range, values around zero, and a few arbitrary ones."""
    if dtype is bool_:
        return (0, 1)
    if dtype.is_float:
        return _F32_BITS if dtype is f32 else _F64_BITS
    top, sign = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    noise = 0xDEAD_BEEF_0123_4567 >> (64 - dtype.bits)
    return (0, 1, 2, 3, 7, 31, dtype.bits, noise, top // 3, sign - 1, sign, sign + 1, top - 1, top)


@cache
def wide_samples(dtype: ScalarType) -> tuple[int, ...]:
    """Returns bit patterns of values to be made narrow: those of ``samples``, and the limits and ties of what is
    narrow (f32, u32, i32), or what wraps (f64).
    """
    more = _WRAP_BITS.get(dtype, _WORDS)
    return tuple(dict.fromkeys((*samples(dtype), *more, *(_NARROWED if dtype is f32 else ()))))


@cache
def words_with(dtype: ScalarType) -> tuple[int, ...]:
    """Returns words whose low bits are values of a narrow type, with other bits above them."""
    if dtype.is_float:
        low: tuple[int, ...] = (*HALF_BITS[dtype], *range(0x0123, 0x1_0000, 0x0777))
    else:
        low = (0, 1, 0x55, 0x7F, 0x80, 0x81, 0xFF, 0x7FFF, 0x8000, 0xFFFF)
    return (*low, *(bits | 0xA5C3_0000 for bits in low))
