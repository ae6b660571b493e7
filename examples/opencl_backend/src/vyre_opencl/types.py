"""The C types of values and elements, and literals by their bits."""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.ir import Literal, ScalarType

_S = ScalarType

VALUE: Final[dict[ScalarType, str]] = {
    _S.U32: "uint",
    _S.I32: "int",
    _S.U64: "ulong",
    _S.I64: "long",
    _S.F32: "float",
    _S.F64: "double",
    _S.BOOL: "bool",
}
"""The C type of a value of an executable type."""
ELEMENT: Final[dict[ScalarType, str]] = {
    **VALUE,
    _S.BOOL: "uint",
    _S.BOOL8: "uchar",
    _S.U8: "uchar",
    _S.U16: "ushort",
    _S.I8: "char",
    _S.I16: "short",
    _S.F16: "ushort",
    _S.BF16: "ushort",
}
"""The C type of an element in memory."""
UNSIGNED: Final = {_S.U32: "uint", _S.I32: "uint", _S.U64: "ulong", _S.I64: "ulong"}
"""The unsigned C type of an integer type, in which sums, differences and products wrap."""


class Value(NamedTuple):
    """A C expression without effects, which is a name or a constant, and the type of its value."""

    text: str
    dtype: ScalarType


def literal(value: Literal) -> str:
    """Returns a C expression for a literal."""
    bits = value.bits
    match value.dtype:
        case ScalarType.U32:
            return f"{bits}u"
        case ScalarType.I32:
            return f"(int){bits:#x}u"
        case ScalarType.U64:
            return f"{bits}ul"
        case ScalarType.I64:
            return f"(long){bits:#x}ul"
        case ScalarType.F32:
            return f"as_float({bits:#x}u)"
        case ScalarType.F64:
            return f"as_double({bits:#x}ul)"
        case ScalarType.BOOL:
            return "true" if bits else "false"
        case other:
            raise AssertionError(f"no value has the type {other.text}")


def from_element(element: ScalarType, text: str) -> str:
    """Returns the value of an element with the C expression ``text``."""
    match element:
        case ScalarType.F16 | ScalarType.BF16:
            return f"vy_unpack_{element.text}({text})"
        case ScalarType.BOOL | ScalarType.BOOL8:
            return f"({text} != 0)"
        case _:
            return f"({VALUE[element.widened]}){text}"


def to_element(element: ScalarType, text: str) -> str:
    """Returns the element that a store of the value ``text`` writes: narrowed, a NaN with its one bit pattern."""
    match element:
        case ScalarType.F16 | ScalarType.BF16:
            return f"(ushort)vy_pack_{element.text}({text})"
        case ScalarType.F32:
            return f"as_float(vy_bits_f32({text}))"
        case ScalarType.F64:
            return f"as_double(vy_bits_f64({text}))"
        case ScalarType.BOOL | ScalarType.BOOL8:
            return f"({text} ? 1 : 0)"
        case _:
            return f"({ELEMENT[element]}){text}"
