"""Values in the emitter: a register or an immediate, with its static type."""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.adapters.cuda.ptx.operands import Immediate, Register, Word, hexadecimal
from vyre.adapters.cuda.ptx.writer import CLASS_OF, MOVE, Writer
from vyre.domain.ir.types import ScalarType

_S = ScalarType
_UNSIGNED: Final = frozenset({_S.U32, _S.U64, _S.BOOL})


class Value:
    """A typed operand.

    ``operand`` is the operand as written in an instruction; ``bits`` is the bit pattern of a literal, else None.
    ``number``: the value is certainly not NaN.  ``half``: of an f32 that is certainly one of f16 or bf16, that value of
    its own type, in a register of class h, in the low bits of one of class r, or in the high bits of one of class f.
    ``rounding``: how else than from the f32 the value of f16 or bf16 is computed to which it rounds.
    """

    __slots__ = ("bits", "dtype", "half", "number", "operand", "rounding")

    def __init__(
        self, operand: Register | Immediate, dtype: ScalarType, bits: int | None = None, *, number: bool = False
    ) -> None:
        self.operand: Register | Immediate = operand
        self.dtype: ScalarType = dtype
        self.bits: int | None = bits
        self.number: bool = number
        self.half: Value | None = None
        self.rounding: Rounding | None = None


class Rounding(NamedTuple):
    """An instruction of f16 or bf16 without its type, and its operands; the operand itself where it is empty."""

    element: ScalarType
    operation: str
    operands: tuple[Value, ...]


def literal(dtype: ScalarType, bits: int) -> Value:
    """Returns a constant of an executable type (bool: 0 or 1)."""
    if dtype in _UNSIGNED:
        return Value(Immediate(bits), dtype, bits, number=True)
    return Value(immediate(dtype, bits), dtype, bits, number=not is_nan_pattern(dtype, bits))


def counted(word: Word) -> Value:
    """Returns a u32 value of a word that is used in index arithmetic."""
    return literal(_S.U32, word) if isinstance(word, int) else Value(word, _S.U32)


def immediate(dtype: ScalarType, bits: int) -> Immediate:
    """Returns the constant of an executable type with a bit pattern."""
    if dtype is _S.F32:
        return Immediate(f"0f{bits:08X}")
    if dtype is _S.F64:
        return Immediate(f"0d{bits:016X}")
    if dtype.is_signed and bits >> (dtype.bits - 1):
        value = bits - (1 << dtype.bits)
        return Immediate(value) if value != -(1 << (dtype.bits - 1)) else hexadecimal(bits)
    return Immediate(bits)


def is_nan_pattern(dtype: ScalarType, bits: int) -> bool:
    """Returns whether a bit pattern is a NaN of a float type; False for other types."""
    if dtype is _S.F32:
        return bits & 0x7FFF_FFFF > 0x7F80_0000
    return dtype is _S.F64 and bits & 0x7FFF_FFFF_FFFF_FFFF > 0x7FF0_0000_0000_0000


def in_register(w: Writer, value: Value) -> Register:
    """Returns the operand as a register, for instructions that take no immediate."""
    if isinstance(value.operand, Register):
        return value.operand
    kind: Final = CLASS_OF[value.dtype]
    return w.emit(kind, MOVE[kind], value.operand)


def copy_of(w: Writer, value: Value) -> Register:
    """Returns a new register that holds the operand's present value."""
    kind: Final = CLASS_OF[value.dtype]
    return w.emit(kind, MOVE[kind], value.operand)
