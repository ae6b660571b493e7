"""Functions that round lanes to a narrow type, and that move its bits to and from the low part of a u32.

The roundings use whole-array operations whose time does not depend on the values; NumPy's own conversion to float16
takes some thirty times as long for lanes that become subnormal or infinite, because it raises a status flag for each.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vyre.adapters.lanes.types import UnaryRule
from vyre.domain.ir.types import ScalarType

_S = ScalarType

_SIGN: Final = np.uint32(0x8000_0000)
_EXPONENT: Final = np.uint32(0x7F80_0000)
_HALF_NAN: Final = np.uint32(0x7E00)
_BFLOAT_NAN: Final = np.uint32(0x7FC0_0000)

_LEAST_NORMAL: Final = np.float32(2.0**-14)
"""The least normal number of f16: below it the last place does not move."""
_BEYOND: Final = np.float32(2.0**16)
"""The first number beyond the range of f16, if its exponents went on; a number that rounds to it becomes infinite."""
_TO_INFINITY: Final = np.float32(2.0**112)
"""Takes 2^16 beyond the range of f32, and everything below it to a normal number."""
_FROM_INFINITY: Final = np.float32(2.0**-112)
_PLACES: Final = np.uint32(13 << 23)
"""A factor of 2^13 adds this to the bits of an f32; the significand of f32 has 13 bits more than that of f16."""


def _has_nan(x: Any) -> bool:
    # A maximum keeps NaN, and is the cheapest check that there is none.
    return bool(x.size and np.isnan(np.maximum.reduce(x, axis=None)))


def _magnitude_and_anchor(x: Any) -> tuple[Any, Any]:
    """Returns new arrays ``(a, m)``: |x|, at most 2^16, and a power of two to add to it that rounds the sum at the
    last place of f16.

    The last place of f16 for a number in [p, 2p), p a power of two, is p * 2^-10; below 2^-14 it is 2^-24, as for p =
    2^-14.  The last place of f32 in [m, 2m) is m * 2^-23, the same for m = p * 2^13.  So a + m in f32 is a rounded to
    the last place of f16, to nearest even as everything in f32 (m is an even multiple of the place), plus m.
    """
    a = np.absolute(x, out=np.empty(x.shape, np.float32))
    np.minimum(a, _BEYOND, out=a)
    bits = np.bitwise_and(a.view(np.uint32), _EXPONENT, out=np.empty(x.shape, np.uint32))
    m = bits.view(np.float32)
    np.maximum(m, _LEAST_NORMAL, out=m)
    np.add(bits, _PLACES, out=bits)
    return a, m


def half_bits(x: Any) -> Any:
    """Returns the bits of float32 lanes rounded to f16, as new uint32; NaN gives 0x7E00."""
    a, m = _magnitude_and_anchor(x)
    np.add(a, m, out=a)
    result, anchor = a.view(np.uint32), m.view(np.uint32)
    # The sum lies as many places above m as the significand has; the exponent field of f16 comes from that of m.  A
    # number of the subnormal kind has the field 0, one of [2^e, 2^(e+1)) the field e + 15, of which the hidden bit of
    # its significand is one, and m = 2^(e + 13) has the field e + 140.
    np.subtract(result, anchor, out=result)
    np.right_shift(anchor, np.uint32(13), out=anchor)
    np.add(result, anchor, out=result)
    np.subtract(result, np.uint32(126 << 10), out=result)
    sign = np.right_shift(x.view(np.uint32), np.uint32(16), out=anchor)
    np.bitwise_and(sign, np.uint32(0x8000), out=sign)
    np.bitwise_or(result, sign, out=result)
    if _has_nan(x):
        np.copyto(result, _HALF_NAN, where=np.isnan(x))
    return result[()]


def _narrow_half(x: Any) -> Any:
    result, m = _magnitude_and_anchor(x)
    np.add(result, m, out=result)
    np.subtract(result, m, out=result)
    np.multiply(result, _TO_INFINITY, out=result)
    np.multiply(result, _FROM_INFINITY, out=result)
    # A bitwise or, because a zero must have the sign of x, too.
    sign = np.bitwise_and(x.view(np.uint32), _SIGN, out=m.view(np.uint32))
    bits = result.view(np.uint32)
    np.bitwise_or(bits, sign, out=bits)
    return result[()]


def bfloat_word(x: Any) -> Any:
    """Returns float32 lanes rounded to bf16, as the new uint32 bits of f32 with the lower half 0; NaN gives
    0x7FC00000.
    """
    result = np.empty(x.shape, np.uint32)
    _round_to_bfloat(x, result)
    return result[()]


def _round_to_bfloat(x: Any, result: Any) -> None:
    word = x.view(np.uint32)
    # The upper half of f32, rounded to even: add just under half a place, or half of it if the place is odd.
    np.right_shift(word, np.uint32(16), out=result)
    np.bitwise_and(result, np.uint32(1), out=result)
    np.add(result, np.uint32(0x7FFF), out=result)
    np.add(result, word, out=result)
    np.bitwise_and(result, np.uint32(0xFFFF_0000), out=result)
    if _has_nan(x):
        np.copyto(result, _BFLOAT_NAN, where=np.isnan(x))


def _narrow_bfloat(x: Any) -> Any:
    result = np.empty(x.shape, np.float32)
    _round_to_bfloat(x, result.view(np.uint32))
    return result[()]


# ------------------------------------------------------------------------------ rules


def _low_bits(target: ScalarType) -> UnaryRule:
    mask = np.uint32((1 << target.bits) - 1)
    return lambda x: np.bitwise_and(x.view(np.uint32), mask)


def _sign_extended(target: ScalarType) -> UnaryRule:
    distance = np.int32(32 - target.bits)
    return lambda x: np.right_shift(np.left_shift(x.view(np.int32), distance), distance)


_NARROW: Final[dict[ScalarType, UnaryRule]] = {
    _S.U8: _low_bits(_S.U8),
    _S.U16: _low_bits(_S.U16),
    _S.I8: _sign_extended(_S.I8),
    _S.I16: _sign_extended(_S.I16),
    _S.F16: _narrow_half,
    _S.BF16: _narrow_bfloat,
}
_PACK: Final[dict[ScalarType, UnaryRule]] = {
    _S.U8: _low_bits(_S.U8),
    _S.U16: _low_bits(_S.U16),
    _S.I8: _low_bits(_S.I8),
    _S.I16: _low_bits(_S.I16),
    _S.F16: half_bits,
    _S.BF16: lambda x: np.right_shift(bfloat_word(x), np.uint32(16)),
}
_UNPACK: Final[dict[ScalarType, UnaryRule]] = {
    _S.U8: _low_bits(_S.U8),
    _S.U16: _low_bits(_S.U16),
    _S.I8: _sign_extended(_S.I8),
    _S.I16: _sign_extended(_S.I16),
    _S.F16: lambda word: word.astype(np.uint16).view(np.float16).astype(np.float32),
    _S.BF16: lambda word: np.left_shift(word, np.uint32(16)).view(np.float32),
}


def narrow(target: ScalarType) -> UnaryRule:
    """Returns the rule of ``Narrow``: the value that a load of a ``target`` element gives after a store of the lane."""
    return _NARROW[target]


def pack(target: ScalarType) -> UnaryRule:
    """Returns the rule of ``Pack``: the stored bits, zero-extended to uint32; a NaN has the canonical ones."""
    return _PACK[target]


def unpack(target: ScalarType) -> UnaryRule:
    """Returns the rule of ``Unpack``: the value of the low bits of uint32 lanes as an element of type ``target``."""
    return _UNPACK[target]
