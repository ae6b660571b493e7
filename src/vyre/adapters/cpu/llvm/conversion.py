"""Conversions between types: casts, bit patterns and canonical NaN."""

from __future__ import annotations

from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.floating import infinity_bits, magnitude_bits
from vyre.adapters.cpu.llvm.instructions import FRACTION, WORD, Instructions, lift, width
from vyre.adapters.cpu.llvm.values import SCALAR, Narrow, Shape, Value, literal
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_BOOL = ScalarType.BOOL


def cast(k: Kernel, dtype: ScalarType, a: Value) -> Value:
    """Returns the value of ``a`` in another executable type.

    Integers are taken modulo 2^width, floats become integers by truncation and saturation, numbers become floats by one
    rounding, and anything becomes bool by ``x != 0``, NaN being true.
    """
    if a.dtype is dtype:
        return a
    if a.number is not None:
        return literal(dtype, scalar.cast(a.dtype, dtype, a.number))
    if a.dtype.is_integer and dtype.is_integer and dtype.bits <= a.dtype.bits and a.shape is not Shape.VARYING:
        # Modulo 2^width an affine value stays affine; one that is extended may wrap at some lane.
        base = lift(k, k.uniform(a.dtype, a.operand))
        return k.affine(dtype, cast_bits(base.ins, a.dtype, dtype, base.operands[0]), a.stride)
    lifted = lift(k, a)
    result = lifted.value(dtype, cast_bits(lifted.ins, a.dtype, dtype, lifted.operands[0]))
    if dtype is _BOOL and a.shape is Shape.AFFINE:
        k.masks.note_unequal(result.operand, equal=False)
    if a.dtype is _BOOL and dtype.is_integer and a.shape is Shape.VARYING:
        k.narrow[result.operand] = Narrow(a.operand, 1, is_signed=False)
    return result


def wrap_cast(k: Kernel, dtype: ScalarType, a: Value) -> Value:
    """Returns a float as an integer: truncated toward zero, modulo 2^width; infinities and NaN give 0."""
    if a.number is not None:
        return literal(dtype, scalar.wrap_cast(a.dtype, dtype, a.number))
    lifted = lift(k, a)
    return lifted.value(dtype, wrapped_bits(lifted.ins, SCALAR[a.dtype], SCALAR[dtype], lifted.operands[0]))


def bitcast(k: Kernel, dtype: ScalarType, a: Value) -> Value:
    """Returns the bits of ``a`` under another type of its width; a NaN becomes the canonical one."""
    if a.number is not None:
        return literal(dtype, scalar.bitcast(a.dtype, dtype, a.number))
    if a.dtype.is_integer and dtype.is_integer:
        return cast(k, dtype, a)
    lifted = lift(k, a)
    ins, bits = lifted.ins, lifted.operands[0]
    if a.dtype.is_float:
        bits = canonical_bits(ins, SCALAR[a.dtype], bits)
    return lifted.value(dtype, ins.from_bits(SCALAR[dtype], bits) if dtype.is_float else bits)


# ------------------------------------------------------------------------------ on elements


def cast_bits(ins: Instructions, source: ScalarType, target: ScalarType, a: str) -> str:
    """Returns the value of an element of another executable type."""
    if source is target:
        return a
    from_type, to_type = SCALAR[source], SCALAR[target]
    if target is _BOOL:
        if source.is_float:  # NaN is true
            return ins.compare("une", from_type, a, ins.real(from_type, 0.0))
        return ins.compare("ne", from_type, a, ins.number(from_type, 0))
    if source is _BOOL:
        if target.is_float:
            return ins.select(to_type, a, ins.real(to_type, 1.0), ins.real(to_type, 0.0))
        return ins.convert("zext", from_type, to_type, a)
    if source.is_float:
        if target.is_float:
            return ins.convert("fpext" if width(to_type) > width(from_type) else "fptrunc", from_type, to_type, a)
        return _saturated(ins, from_type, to_type, a, signed=target.is_signed)
    if target.is_float:
        return _rounded(ins, from_type, to_type, a, signed=source.is_signed)
    if width(to_type) <= width(from_type):
        return ins.convert("trunc", from_type, to_type, a)
    return ins.convert("sext" if source.is_signed else "zext", from_type, to_type, a)


def _rounded(ins: Instructions, source: str, target: str, a: str, *, signed: bool) -> str:
    """Returns an integer as the nearest float."""
    op = "sitofp" if signed else "uitofp"
    if source != "i64" or target != "float" or ins.lanes is None:
        return ins.convert(op, source, target, a)
    # Some CPUs convert vectors of 64 bits by way of binary64 and round twice.  That is right if no number of 54 bits
    # and more has a bit below the eleven lowest, except for one that says whether there were any.
    number = ins.number
    low = ins.do("and", "i64", a, number("i64", 0x7FF))
    sticky = ins.do("and", "i64", ins.do("add", "i64", low, number("i64", 0x7FF)), number("i64", 0x800))
    high = ins.do("and", "i64", a, number("i64", -0x800))
    magnitude = ins.call("abs", "i64", a, flags=", i1 false") if signed else a
    is_long = ins.compare("uge", "i64", magnitude, number("i64", 1 << 53))
    exact = ins.select("i64", is_long, ins.do("or", "i64", high, sticky), a)
    return ins.convert("fptrunc", "double", "float", ins.convert(op, "i64", "double", exact))


def _saturated(ins: Instructions, source: str, target: str, a: str, *, signed: bool) -> str:
    """Returns a float as an integer: truncated toward zero, clamped to the range, 0 for NaN."""
    op = "fptosi" if signed else "fptoui"
    if ins.lanes is None:
        return ins.convert_by(f"{op}.sat", source, target, a)
    # LLVM converts vectors with saturation lane by lane; without saturation the operand must be in range.
    bits = width(target)
    above, below = (2.0 ** (bits - 1), -(2.0 ** (bits - 1))) if signed else (2.0**bits, 0.0)
    least, greatest = (1 << (bits - 1), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    is_high = ins.compare("oge", source, a, ins.real(source, above))
    not_low = ins.compare("oge", source, a, ins.real(source, below))
    inside = ins.compare("olt", source, a, ins.real(source, above))
    usable = ins.select(source, ins.do("and", "i1", not_low, inside), a, ins.real(source, 0.0))
    result = ins.convert(op, source, target, ins.do("freeze", source, usable))
    result = ins.select(target, is_high, ins.number(target, greatest), result)
    if not signed:  # what is below is 0 already
        return result
    is_low = ins.compare("olt", source, a, ins.real(source, below))
    return ins.select(target, is_low, ins.number(target, least), result)


def wrapped_bits(ins: Instructions, source: str, target: str, a: str) -> str:
    """Returns a float as an integer: truncated toward zero, modulo 2^width; infinities and NaN give 0."""
    bits = max(width(source), width(target))
    word, fraction = f"i{bits}", FRACTION[source]
    pattern = ins.convert("zext", WORD[source], word, ins.bits(source, a))

    def number(value: int) -> str:
        return ins.number(word, value)

    mantissa = ins.do("or", word, ins.do("and", word, pattern, number((1 << fraction) - 1)), number(1 << fraction))
    exponent_mask = (1 << (width(source) - 1 - fraction)) - 1
    exponent = ins.do("and", word, ins.do("lshr", word, pattern, number(fraction)), number(exponent_mask))
    # The value is mantissa * 2^(exponent - bias): subnormal numbers, whose mantissa is another one, are below 1, and
    # the exponent of infinities and NaN moves every bit beyond the width.
    bias = (exponent_mask >> 1) + fraction
    left, right = ins.do("sub", word, exponent, number(bias)), ins.do("sub", word, number(bias), exponent)

    def shifted(op: str, count: str) -> str:
        moved = ins.do(op, word, mantissa, ins.do("and", word, count, number(bits - 1)))
        return ins.select(word, ins.compare("ult", word, count, number(bits)), moved, number(0))

    magnitude = ins.do("or", word, shifted("shl", left), shifted("lshr", right))
    top = ins.number(WORD[source], width(source) - 1)
    sign = ins.convert("sext", WORD[source], word, ins.do("ashr", WORD[source], ins.bits(source, a), top))
    result = ins.do("sub", word, ins.do("xor", word, magnitude, sign), sign)
    return ins.convert("trunc", word, target, result)


def canonical_bits(ins: Instructions, element: str, a: str) -> str:
    """Returns the bit pattern of a float, with that of every NaN replaced by the canonical one.

    The comparison and the choice are between integers: LLVM takes a choice between floats that only changes the payload
    of a NaN for superfluous.
    """
    word, infinity = WORD[element], infinity_bits(element)
    quiet = infinity | 1 << (FRACTION[element] - 1)
    nan = ins.compare("ugt", word, magnitude_bits(ins, element, a), ins.number(word, infinity))
    return ins.select(word, nan, ins.number(word, quiet), ins.bits(element, a))
