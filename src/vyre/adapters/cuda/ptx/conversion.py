"""Casts, bit casts, and the conversions between memory, values and narrow types without memory."""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.adapters.cuda.decisions.ptxas_hazard_table import Fence
from vyre.adapters.cuda.ptx import halves
from vyre.adapters.cuda.ptx.floating import ONE, bits_of, canonical, new
from vyre.adapters.cuda.ptx.integer import IntegerWriter
from vyre.adapters.cuda.ptx.operands import Immediate, Register, hexadecimal
from vyre.adapters.cuda.ptx.values import Rounding, Value, immediate, in_register, literal
from vyre.adapters.cuda.ptx.writer import Writer
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_S = ScalarType


def cast(x: IntegerWriter, target: ScalarType, a: Value) -> Value:
    """Returns the value converted to another executable type."""
    w, source = x.w, a.dtype
    if source is target:
        return a
    if target is _S.BOOL:
        return _to_bool(w, a)
    if source is _S.BOOL:
        return _from_bool(w, target, a)
    if source.is_float:
        return _float_to_float(w, target, a) if target.is_float else _float_to_integer(w, target, a)
    if target.is_float:
        kind = f"{'s' if source.is_signed else 'u'}{source.bits}"
        return new(w, target, f"cvt.rn.f{target.bits}.{kind}", in_register(w, a), number=True)
    return _integer_to_integer(x, target, a)


def _to_bool(w: Writer, a: Value) -> Value:
    """Writes ``x != 0``: NaN is true, -0 is false."""
    x = in_register(w, a)
    if a.dtype.is_float:
        return new(w, _S.BOOL, f"setp.neu.f{a.dtype.bits}", x, immediate(a.dtype, 0))
    return new(w, _S.BOOL, f"setp.ne.u{a.dtype.bits}", x, 0)


def _from_bool(w: Writer, target: ScalarType, a: Value) -> Value:
    one, zero = immediate(target, ONE.get(target, 1)), immediate(target, 0)
    kind = f"f{target.bits}" if target.is_float else f"b{target.bits}"
    return new(w, target, f"selp.{kind}", one, zero, in_register(w, a), number=True)


def _integer_to_integer(x: IntegerWriter, target: ScalarType, a: Value) -> Value:
    if a.bits is not None:
        value = a.bits
        if a.dtype.is_signed and value >> (a.dtype.bits - 1):
            value -= 1 << a.dtype.bits
        return literal(target, value & ((1 << target.bits) - 1))
    if target.bits == a.dtype.bits:
        return Value(a.operand, target)
    if target.bits == 32:
        return Value(x.fences.around(x.w, Fence.NARROWING, x.w.emit("r", "cvt.u32.u64", a.operand)), target)
    return new(x.w, target, "cvt.s64.s32" if a.dtype.is_signed else "cvt.u64.u32", a.operand)


def _float_to_float(w: Writer, target: ScalarType, a: Value) -> Value:
    if target is _S.F64:
        return new(w, target, "cvt.f64.f32", in_register(w, a), number=a.number)
    return new(w, target, "cvt.rn.f32.f64", in_register(w, a), number=a.number)


def _float_to_integer(w: Writer, target: ScalarType, a: Value) -> Value:
    """Truncates and saturates; NaN gives 0, which the instruction itself guarantees only from f32 to 32 bits."""
    x, f = in_register(w, a), f"f{a.dtype.bits}"
    converted = new(w, target, f"cvt.rzi.{'s' if target.is_signed else 'u'}{target.bits}.{f}", x)
    if a.number or (a.dtype is _S.F32 and target.bits == 32):
        return converted
    nan = w.emit("p", f"setp.nan.{f}", x, x)
    return new(w, target, f"selp.b{target.bits}", 0, converted.operand, nan)


_LARGEST_CONVERTIBLE: Final = immediate(_S.F32, 0x5F00_0000)
"""2^63 as an f32: from there on the f32 are multiples of 2^40."""
_BIAS: Final = {_S.F32: 127, _S.F64: 1023}


def wrap_cast(x: IntegerWriter, target: ScalarType, a: Value) -> Value:
    """Truncates toward zero, modulo 2^width; infinities and NaN give 0."""
    if a.bits is not None:
        return literal(target, scalar.wrap_cast(a.dtype, target, a.bits))
    if a.dtype is _S.F32 and target.bits == 32:
        w = x.w
        low = w.emit("r", "cvt.u32.u64", w.emit("rd", "cvt.rzi.s64.f32", a.operand))
        low = x.fences.around(w, Fence.NARROWING, low)
        known = w.emit("p", "setp.lt.f32", w.emit("f", "abs.f32", a.operand), _LARGEST_CONVERTIBLE)
        return new(w, target, "selp.b32", low, 0, known)
    return _shifted_mantissa(x, target, a)


def _shifted_mantissa(x: IntegerWriter, target: ScalarType, a: Value) -> Value:
    """Shifts the mantissa to its place by both the distance to the left and that to the right.

    The wrong one of the two is a huge unsigned count, which shifts everything out, as does the distance of infinities,
    NaN, zeros and subnormal numbers.
    """
    w, size = x.w, a.dtype.bits
    places = 23 if size == 32 else 52
    pattern, kind = bits_of(w, a), "r" if size == 32 else "rd"
    exponent = w.emit(kind, f"shr.u{size}", pattern, places)
    if size == 64:
        exponent = w.emit("r", "cvt.u32.u64", exponent)
    exponent = w.emit("r", "and.b32", exponent, 2 * _BIAS[a.dtype] + 1)
    fraction = w.emit(kind, f"and.b{size}", pattern, hexadecimal((1 << places) - 1))
    mantissa = w.emit(kind, f"or.b{size}", fraction, hexadecimal(1 << places))
    if size == 32:
        mantissa = w.emit("rd", "cvt.u64.u32", mantissa)
    point = _BIAS[a.dtype] + places
    left = w.emit("rd", "shl.b64", mantissa, w.emit("r", "sub.u32", exponent, point))
    right = w.emit("rd", "shr.u64", mantissa, w.emit("r", "sub.u32", w.emit("r", "mov.b32", point), exponent))
    magnitude = w.emit("rd", "or.b64", left, right)
    negated = w.emit("rd", "sub.u64", w.emit("rd", "mov.b64", 0), magnitude)
    negative = w.emit("p", f"setp.lt.s{size}", pattern, 0)
    whole = w.emit("rd", "selp.b64", negated, magnitude, negative)
    if target.bits == 64:
        return Value(whole, target)
    return Value(x.fences.around(w, Fence.NARROWING, w.emit("r", "cvt.u32.u64", whole)), target)


def bitcast(w: Writer, target: ScalarType, a: Value) -> Value:
    """Returns the same bits as another type; NaN is made canonical first."""
    if target is a.dtype:
        return canonical(w, a) if a.dtype.is_float else a
    if not a.dtype.is_float and not target.is_float:
        return Value(a.operand, target) if a.bits is None else literal(target, a.bits)
    if target.is_float:
        return new(w, target, f"mov.b{target.bits}", in_register(w, a))
    return Value(bits_of(w, canonical(w, a)), target)


# ---- memory
class Access(NamedTuple):
    """The form of an element in memory instructions: the instruction's suffix, and the class of the register."""

    suffix: str
    kind: str


ACCESS: Final[dict[ScalarType, Access]] = {
    _S.U32: Access("b32", "r"),
    _S.I32: Access("b32", "r"),
    _S.BOOL: Access("b32", "r"),
    _S.U64: Access("b64", "rd"),
    _S.I64: Access("b64", "rd"),
    _S.F32: Access("f32", "f"),
    _S.F64: Access("f64", "fd"),
    _S.U8: Access("u8", "r"),
    _S.I8: Access("s8", "r"),
    _S.U16: Access("u16", "r"),
    _S.I16: Access("s16", "r"),
    _S.F16: Access("b16", "h"),
    _S.BF16: Access("u16", "r"),
    _S.BOOL8: Access("u8", "r"),
}


def loaded(w: Writer, element: ScalarType, raw: Register) -> Value:
    """Returns the value of an element from the register that it was loaded into."""
    match element:
        case _S.BOOL | _S.BOOL8:
            return new(w, _S.BOOL, "setp.ne.u32", raw, 0)
        case _S.F16:
            value = new(w, _S.F32, "cvt.f32.f16", raw)
        case _S.BF16:
            value = new(w, _S.F32, "mov.b32", w.emit("r", "shl.b32", raw, 16))
        case _:
            return Value(raw, element.widened)
    value.half = Value(raw, element)
    return value


def storable(w: Writer, element: ScalarType, value: Value) -> Register:
    """Returns a register with the bits to store, which are observable from now on."""
    match element:
        case _S.BOOL | _S.BOOL8:
            return w.emit("r", "selp.b32", 1, 0, in_register(w, value))
        case _S.F16 | _S.BF16 if (half := halves.rounded(w, element, value)) is not None:
            stored = halves.canonical(w, element, half)
            return stored if element is _S.F16 else w.emit("r", "cvt.u32.u16", stored)
        case _S.F16:
            half = w.emit("h", "cvt.rn.f16.f32", in_register(w, value))
            if value.number:
                return half
            nan = w.emit("p", "setp.nan.f32", value.operand, value.operand)
            return w.emit("h", "selp.b16", halves.NAN[element], half, nan)
        case _S.BF16:
            return _bf16(w, value)
        case _S.F32 | _S.F64:
            return in_register(w, canonical(w, value))
        case _:
            return in_register(w, value)


def halfword_of_bf16(w: Writer, value: Value) -> Register:
    """Returns the bits of a number rounded to bf16: the pattern plus 0x7FFF and the bit that becomes the last one."""
    bits = bits_of(w, value)
    last = w.emit("r", "and.b32", w.emit("r", "shr.u32", bits, 16), 1)
    rounded = w.emit("r", "add.u32", w.emit("r", "add.u32", bits, Immediate("0x7FFF")), last)
    return w.emit("r", "shr.u32", rounded, 16)


def _bf16(w: Writer, value: Value) -> Register:
    upper = halfword_of_bf16(w, value)
    if value.number:
        return upper
    x = in_register(w, value)
    nan = w.emit("p", "setp.nan.f32", x, x)
    return w.emit("r", "selp.b32", halves.NAN[_S.BF16], upper, nan)


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
