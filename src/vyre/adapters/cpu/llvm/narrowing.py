"""Narrow values: ``pack``, ``unpack`` and ``narrow``; loads and stores of narrow elements share the first two.

A half is converted by integer arithmetic and one addition: not every CPU converts halves, and those that convert bf16
flush subnormal numbers.  A processor that computes with halves converts them, too.  Then an operator of f32 whose
operands are halves is that of halves where its result becomes one: 24 bits of precision are at least 2 * 11 + 2, so
that two roundings are as one.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm import floating
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.instructions import Instructions, Lifted, lift
from vyre.adapters.cpu.llvm.values import Value, literal
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_S = ScalarType
F32_INFINITY: Final = 0x7F80_0000
F16_INFINITY: Final = 0x7C00
F16_NAN: Final = 0x7E00
BF16_NAN: Final = 0x7FC0
_ROUNDED_ONCE: Final = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, UnaryOp.SQRT})
_REBIAS: Final = (127 - 15) << 23
"""The exponent field of an f32 is greater by this than that of an f16 of equal value."""


def pack(k: Kernel, dtype: ScalarType, a: Value) -> Value:
    """Returns as a u32 the bits that a store of ``a``, of ``dtype.widened``, into a ``dtype`` element writes."""
    if a.number is not None:
        return literal(_S.U32, scalar.pack(dtype, a.number))
    lifted = lift(k, a)
    if dtype is _S.F16 and k.options.halves:
        ins, half = lifted.ins, _rounded(k, lifted.ins, a)
        nan = ins.compare("uno", "half", half, half)
        bits = ins.select("i16", nan, ins.number("i16", F16_NAN), ins.bits("half", half))
        return lifted.value(_S.U32, ins.convert("zext", "i16", "i32", bits))
    return lifted.value(_S.U32, pack_bits(lifted.ins, dtype, lifted.operands[0]))


def unpack(k: Kernel, dtype: ScalarType, a: Value) -> Value:
    """Returns the value that a load of a ``dtype`` element with the low bits of the u32 ``a`` gives."""
    if a.number is not None:
        return literal(dtype.widened, scalar.unpack(dtype, a.number))
    lifted = lift(k, a)
    if dtype is _S.F16 and k.options.halves:
        ins, (word,) = lifted.ins, lifted.operands
        return _widened(k, lifted, ins.from_bits("half", ins.convert("trunc", "i32", "i16", word)))
    return lifted.value(dtype.widened, unpack_bits(lifted.ins, dtype, lifted.operands[0]))


def narrow(k: Kernel, dtype: ScalarType, a: Value) -> Value:
    """Returns the value that a load gives after a store of ``a``, of ``dtype.widened``, into a ``dtype`` element."""
    if dtype is _S.F16 and k.options.halves and a.number is None:
        lifted = lift(k, a)
        return _widened(k, lifted, _rounded(k, lifted.ins, a))
    return unpack(k, dtype, pack(k, dtype, a))


def _widened(k: Kernel, lifted: Lifted, half: str) -> Value:
    wide = lifted.ins.convert("fpext", "half", "float", half)
    k.halves[wide] = half
    return lifted.value(_S.F32, wide)


def note_rounding(k: Kernel, ins: Instructions, op: BinaryOp | UnaryOp, result: Value, *operands: Value) -> None:
    """Notes that the result of an operator of halves may become a half by one rounding."""
    if k.options.halves and op in _ROUNDED_ONCE and result.dtype is _S.F32:
        halves = tuple(half for operand in operands if (half := _half(k, ins, operand)) is not None)
        if len(halves) == len(operands):
            k.roundings[result.operand] = op, halves


def _half(k: Kernel, ins: Instructions, a: Value) -> str | None:
    """Returns an f32 that is certainly a half as one, a scalar or a vector as ``ins`` takes it."""
    if a.number is not None:
        bits = scalar.pack(_S.F16, a.number)
        return ins.half(bits) if scalar.unpack(_S.F16, bits) == a.number else None
    half = k.halves.get(a.operand)
    return k.splat("half", half) if half is not None and a.is_uniform and ins.lanes is not None else half


def _rounded(k: Kernel, ins: Instructions, a: Value) -> str:
    """Returns an f32 rounded to a half; ``ins`` takes it as it is."""
    if a.operand not in k.roundings:
        return ins.convert("fptrunc", "float", "half", a.operand)
    op, operands = k.roundings[a.operand]
    if isinstance(op, BinaryOp):
        return floating.binary(ins, op, "half", *operands)
    return floating.unary(ins, op, "half", *operands)


def pack_bits(ins: Instructions, target: ScalarType, a: str) -> str:
    """Returns as an i32 the bits that a store of ``a``, an element of ``target.widened``, writes."""
    match target:
        case _S.U8 | _S.I8 | _S.U16 | _S.I16:
            return ins.do("and", "i32", a, ins.number("i32", (1 << target.bits) - 1))
        case _S.F16:
            return _pack_f16(ins, ins.bits("float", a))
        case _S.BF16:
            return _pack_bf16(ins, ins.bits("float", a))
        case _:
            raise AssertionError(f"{target} is not narrow")


def unpack_bits(ins: Instructions, target: ScalarType, word: str) -> str:
    """Returns as an element of ``target.widened`` the narrow value in the low bits of an i32."""
    match target:
        case _S.U8 | _S.U16:
            return ins.do("and", "i32", word, ins.number("i32", (1 << target.bits) - 1))
        case _S.I8 | _S.I16:
            above = ins.number("i32", 32 - target.bits)
            return ins.do("ashr", "i32", ins.do("shl", "i32", word, above), above)
        case _S.F16:
            return ins.from_bits("float", _unpack_f16(ins, word))
        case _S.BF16:
            return ins.from_bits("float", ins.do("shl", "i32", word, ins.number("i32", 16)))
        case _:
            raise AssertionError(f"{target} is not narrow")


def _pack_bf16(ins: Instructions, bits: str) -> str:
    def number(value: int) -> str:
        return ins.number("i32", value)

    # A bf16 is the upper half of an f32: to round to even, add just under half a place, or half if it is odd.
    odd = ins.do("and", "i32", ins.do("lshr", "i32", bits, number(16)), number(1))
    biased = ins.do("add", "i32", ins.do("add", "i32", bits, number(0x7FFF)), odd)
    rounded = ins.do("lshr", "i32", biased, number(16))
    magnitude = ins.do("and", "i32", bits, number(0x7FFF_FFFF))
    nan = ins.compare("ugt", "i32", magnitude, number(F32_INFINITY))
    return ins.select("i32", nan, number(BF16_NAN), rounded)


def _pack_f16(ins: Instructions, bits: str) -> str:
    def number(value: int) -> str:
        return ins.number("i32", value)

    magnitude = ins.do("and", "i32", bits, number(0x7FFF_FFFF))
    # Numbers from 2^-14 on: drop 13 bits of the fraction, to even, and rebias the exponent.  A carry runs into the
    # exponent, as it should, and what leaves the range becomes infinite.
    odd = ins.do("and", "i32", ins.do("lshr", "i32", magnitude, number(13)), number(1))
    biased = ins.do("add", "i32", ins.do("add", "i32", magnitude, number(0xFFF - _REBIAS)), odd)
    normal = ins.call("umin", "i32", ins.do("lshr", "i32", biased, number(13)), number(F16_INFINITY))
    # Smaller ones: the last place of numbers in [1/2, 1) is 2^-24, the least positive f16.
    half = 0x3F00_0000
    sum_with_half = ins.do("fadd", "float", ins.from_bits("float", magnitude), ins.real("float", 0.5))
    subnormal = ins.do("sub", "i32", ins.bits("float", sum_with_half), number(half))
    is_small = ins.compare("ult", "i32", magnitude, number((127 - 14) << 23))
    value = ins.select("i32", is_small, subnormal, normal)
    sign = ins.do("and", "i32", ins.do("lshr", "i32", bits, number(16)), number(0x8000))
    nan = ins.compare("ugt", "i32", magnitude, number(F32_INFINITY))
    return ins.select("i32", nan, number(F16_NAN), ins.do("or", "i32", value, sign))


def _unpack_f16(ins: Instructions, word: str) -> str:
    def number(value: int) -> str:
        return ins.number("i32", value)

    magnitude = ins.do("and", "i32", word, number(0x7FFF))
    sign = ins.do("shl", "i32", ins.do("and", "i32", word, number(0x8000)), number(16))
    moved = ins.do("shl", "i32", magnitude, number(13))
    # The greatest exponent field stands for infinity and NaN in both formats.
    special = ins.compare("uge", "i32", magnitude, number(F16_INFINITY))
    rebias = ins.select("i32", special, number(2 * _REBIAS), number(_REBIAS))
    normal = ins.do("add", "i32", moved, rebias)
    counted = ins.do("fmul", "float", ins.convert("sitofp", "i32", "float", magnitude), ins.real("float", 2.0**-24))
    is_small = ins.compare("ult", "i32", magnitude, number(0x400))
    value = ins.select("i32", is_small, ins.bits("float", counted), normal)
    return ins.do("or", "i32", value, sign)
