"""Values of expressions, and the LLVM types that hold them.

The lanes of a workgroup run in vectors of W lanes.  A value of such a vector of lanes is uniform, affine or varying.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.frozen import frozen
from vyre.domain.ir.types import ScalarType


class Shape(Enum):
    """The ways in which a value differs between the lanes of a vector."""

    UNIFORM = "all active lanes have the same value"
    AFFINE = "lane k has the value base + k * stride, modulo 2^width"
    VARYING = "every lane has a value of its own"


SCALAR: Final[dict[ScalarType, str]] = {
    ScalarType.U32: "i32",
    ScalarType.I32: "i32",
    ScalarType.U64: "i64",
    ScalarType.I64: "i64",
    ScalarType.F32: "float",
    ScalarType.F64: "double",
    ScalarType.BOOL: "i1",
}
"""The LLVM type of one lane's value of each executable type."""


@frozen
class Value:
    """A value of one vector of lanes.

    ``operand`` is the text of an LLVM operand: a scalar for a uniform value, the scalar base for an affine one (an
    integer type), a vector for a varying one.  ``stride`` is that of an affine value, not 0.  ``number`` is the bit
    pattern of a constant (always uniform).
    """

    dtype: ScalarType
    operand: str
    shape: Shape = Shape.VARYING
    stride: int = 0
    number: int | None = None

    @property
    def is_uniform(self) -> bool:
        """Tells whether all active lanes have the same value."""
        return self.shape is Shape.UNIFORM


class Narrow(NamedTuple):
    """A vector of fewer bits, from which a vector of integers was extended: by its sign, or by zeros."""

    operand: str
    bits: int
    is_signed: bool


def literal(dtype: ScalarType, bits: int) -> Value:
    """Returns a constant of an executable type with these bits."""
    return Value(dtype, literal_text(dtype, bits), Shape.UNIFORM, number=bits)


def literal_text(dtype: ScalarType, bits: int) -> str:
    """Returns the operand text of a constant; floats are written by their bits, so that NaN payloads are kept."""
    match dtype:
        case ScalarType.BOOL:
            return "true" if bits else "false"
        case ScalarType.F32:
            return float_text(bits)
        case ScalarType.F64:
            return f"0x{bits:016X}"
        case _:
            return str(bits)


def float_text(bits: int) -> str:
    """Returns the operand text of an f32: LLVM writes it as the f64 of the same value.

    The payload of a NaN moves to the high bits of the f64's payload, and signalling NaNs stay signalling.
    """
    sign, exponent, fraction = bits >> 31, (bits >> 23) & 0xFF, bits & 0x7F_FFFF
    if exponent == 0xFF:
        wide_exponent, wide_fraction = 0x7FF, fraction << 29
    elif exponent:
        wide_exponent, wide_fraction = exponent - 127 + 1023, fraction << 29
    elif fraction:
        shift = 24 - fraction.bit_length()
        wide_exponent, wide_fraction = 1023 - 126 - shift, ((fraction << shift) & 0x7F_FFFF) << 29
    else:
        wide_exponent, wide_fraction = 0, 0
    return f"0x{sign << 63 | wide_exponent << 52 | wide_fraction:016X}"
