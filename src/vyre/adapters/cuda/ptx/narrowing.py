"""Values of narrow types without memory: rounding to them, their stored bits, and values from such bits."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.ptx import halves
from vyre.adapters.cuda.ptx.conversion import halfword_of_bf16, loaded
from vyre.adapters.cuda.ptx.operands import Register
from vyre.adapters.cuda.ptx.values import Rounding, Value, immediate, in_register, literal
from vyre.adapters.cuda.ptx.writer import Writer
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_S = ScalarType
PACKING_FROM: Final = 80
"""The first target that converts to bf16, two numbers in one instruction."""


def narrow(w: Writer, target: int, element: ScalarType, x: Value) -> Value:
    """Returns the value that a load of an ``element`` gives after a store of ``x``; a NaN keeps being one.

    ``target`` is the number of the sm.
    """
    if x.bits is not None:
        return literal(x.dtype, scalar.narrow(element, x.bits))
    match element:
        case _S.F16 | _S.BF16 if (half := halves.rounded(w, element, x)) is not None:
            value = loaded(w, element, half if element is _S.F16 else w.emit("r", "cvt.u32.u16", half))
            value.half = Value(half, element)
            value.rounding = Rounding(element, "", (value.half,))
        case _S.F16:
            half = w.emit("h", "cvt.rn.f16.f32", x.operand)
            value = loaded(w, element, half)
            value.number = x.number
        case _S.BF16:
            value = _rounded_to_bf16(w, target, x)
            value.half = Value(value.operand, element)
        case _:
            return _low_bits(w, element, in_register(w, x))
    return value


def _low_bits(w: Writer, element: ScalarType, x: Register) -> Value:
    """Extends the low bits of an integer as ``element`` says."""
    if element.is_signed:
        return Value(w.emit("r", "bfe.s32", x, 0, element.bits), element.widened)
    return Value(w.emit("r", "and.b32", x, (1 << element.bits) - 1), element.widened)


def _rounded_to_bf16(w: Writer, target: int, x: Value) -> Value:
    if target >= PACKING_FROM:
        word = w.emit("r", "cvt.rn.bf16x2.f32", x.operand, immediate(_S.F32, 0))  # the upper half is a bf16, so an f32
        return Value(w.emit("f", "mov.b32", word), _S.F32, number=x.number)
    word = w.emit("r", "shl.b32", halfword_of_bf16(w, x), 16)
    rounded = w.emit("f", "mov.b32", word)
    if x.number:
        return Value(rounded, _S.F32, number=True)
    nan = w.emit("p", "setp.nan.f32", x.operand, x.operand)
    return Value(w.emit("f", "selp.f32", x.operand, rounded, nan), _S.F32)


def pack(w: Writer, target: int, element: ScalarType, x: Value) -> Value:
    """Returns the bits of an ``element`` that holds ``x``, as a u32."""
    if x.bits is not None:
        return literal(_S.U32, scalar.pack(element, x.bits))
    if (half := halves.rounded(w, element, x)) is not None:
        return Value(w.emit("r", "cvt.u32.u16", halves.canonical(w, element, half)), _S.U32)
    match element:
        case _S.F16:
            bits = w.emit("r", "cvt.u32.u16", w.emit("h", "cvt.rn.f16.f32", x.operand))
        case _S.BF16 if target >= PACKING_FROM:
            bits = w.emit("r", "cvt.rn.bf16x2.f32", immediate(_S.F32, 0), x.operand)
        case _S.BF16:
            bits = halfword_of_bf16(w, x)
        case _:
            return Value(w.emit("r", "and.b32", in_register(w, x), (1 << element.bits) - 1), _S.U32)
    if x.number:
        return Value(bits, _S.U32)
    nan = w.emit("p", "setp.nan.f32", x.operand, x.operand)
    return Value(w.emit("r", "selp.b32", halves.NAN[element], bits, nan), _S.U32)


def unpack(w: Writer, element: ScalarType, word: Value) -> Value:
    """Returns the value of an ``element`` that holds the low bits of a u32."""
    if word.bits is not None:
        return literal(element.widened, scalar.unpack(element, word.bits))
    match element:
        case _S.F16:
            return loaded(w, element, w.emit("h", "cvt.u16.u32", word.operand))
        case _S.BF16:
            value = loaded(w, element, in_register(w, word))
            value.half = Value(value.operand, element)  # the register of the word may be assigned to
            return value
        case _:
            return _low_bits(w, element, in_register(w, word))
