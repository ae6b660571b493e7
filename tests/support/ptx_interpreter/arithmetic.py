"""One function for each instruction that computes from registers (PTX ISA, chapter 9).

A value is an array with one element a lane, of the type that the instruction names.  A result that the manual leaves
open, such as the payload of a NaN or a quotient by zero, is one that a program could not mistake for the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from support.ptx_interpreter.memory import Array

Function = Callable[..., Array]


class Operation(NamedTuple):
    """An instruction: the types of its result and its sources, and the function between them."""

    result: str
    sources: tuple[str, ...]
    function: Function


DTYPES: Final = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    "bf16": np.dtype(np.uint16),
}
"""The dtype of every fundamental type."""
_INTEGERS: Final = ("u32", "s32", "u64", "s64")
_FLOATS: Final = ("f32", "f64")


def _bits(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def canonical(x: Array) -> Array:
    """Returns the values with every NaN as the manual's canonical one, all bits but the sign set."""
    ones = _bits(np.zeros(1, x.dtype)) - np.array(1, f"u{x.dtype.itemsize}") >> 1
    found: Array = np.where(np.isnan(x), ones.view(x.dtype), x)
    return found


def _float(function: Function) -> Function:
    return lambda *sources: canonical(function(*sources))


# ---------------------------------------------------------------- integers
def _high_u64(a: Array, b: Array) -> Array:
    low, high = np.uint64(0xFFFF_FFFF), np.uint64(32)
    middle = (a & low) * (b & low) >> high
    one = (a >> high) * (b & low) + middle
    two = (a & low) * (b >> high) + (one & low)
    found: Array = (a >> high) * (b >> high) + (one >> high) + (two >> high)
    return found


def _high_s64(a: Array, b: Array) -> Array:
    x, y = _bits(a), _bits(b)
    zero = np.uint64(0)
    return (_high_u64(x, y) - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)).view(np.int64)


def _wide(dtype: str) -> Function:
    return lambda a, b: a.astype(dtype) * b.astype(dtype)


def _quotient(a: Array, b: Array, *, remainder: bool) -> Array:
    """Truncates toward zero; by zero it gives all ones."""
    signed = a.dtype.kind == "i"
    top, bottom = (np.where(x < 0, -x, x).view(f"u{x.dtype.itemsize}") if signed else x for x in (a, b))
    divisor = np.where(bottom == 0, bottom.dtype.type(1), bottom)
    found = _bits(top % divisor if remainder else top // divisor)
    if signed:
        negative = a < 0 if remainder else (a < 0) != (b < 0)
        found = np.where(negative, found.dtype.type(0) - found, found)
    chosen: Array = np.where(bottom == 0, ~np.zeros(1, found.dtype), found).view(a.dtype)
    return chosen


def _shifted_left(a: Array, amount: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    moved = a << np.minimum(amount, bits - 1).astype(a.dtype)
    return np.where(amount < bits, moved, np.zeros(1, a.dtype))


def _shifted_right(a: Array, amount: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    moved: Array = a >> np.minimum(amount, bits - 1).astype(a.dtype)
    return moved if a.dtype.kind == "i" else np.where(amount < bits, moved, np.zeros(1, a.dtype))


def _funnel(a: Array, b: Array, amount: Array, *, left: bool) -> Array:
    n = (amount & 31).astype(np.uint64)
    both = b.astype(np.uint64) << np.uint64(32) | a
    moved: Array = both << n >> np.uint64(32) if left else both >> n
    return moved.astype(np.uint32)


def _field(a: Array, position: Array, length: Array) -> Array:
    """Extracts a signed bit field, padded with the sign bit of the field."""
    at, size = (position & 255).astype(np.int64), (length & 255).astype(np.int64)
    wide = a.astype(np.int64) >> np.minimum(at, 31)
    unused = 64 - np.minimum(size, 64)
    return np.where(size == 0, 0, wide << np.minimum(unused, 63) >> np.minimum(unused, 63)).astype(np.int32)


def _bit(a: Array, k: int) -> Array:
    bit: Array = a >> a.dtype.type(k) & a.dtype.type(1)
    return bit


def _ones(a: Array) -> Array:
    count = np.zeros(a.shape, np.uint32)
    for k in range(8 * a.dtype.itemsize):
        count += _bit(a, k).astype(np.uint32)
    return count


def _leading_zeros(a: Array) -> Array:
    count = np.full(a.shape, 8 * a.dtype.itemsize, np.uint32)
    for k in range(8 * a.dtype.itemsize):
        count = np.where(_bit(a, k) == 1, np.uint32(8 * a.dtype.itemsize - 1 - k), count)
    return count


def _reversed(a: Array) -> Array:
    last = 8 * a.dtype.itemsize - 1
    found: Array = np.bitwise_or.reduce([_bit(a, k) << a.dtype.type(last - k) for k in range(last + 1)])
    return found


def _selected(a: Array, b: Array, p: Array) -> Array:
    return np.where(p, a, b)


# ---------------------------------------------------------------- floats
def _extreme(a: Array, b: Array, *, greatest: bool) -> Array:
    """A NaN gives way to a number, and +0 is greater than -0."""
    first = a > b if greatest else a < b
    zero = _bits(a) & _bits(b) if greatest else _bits(a) | _bits(b)
    chosen = np.where(a == b, zero.view(a.dtype), np.where(first, a, b))
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, chosen))


def _fused_f32(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in binary64; the sum is rounded to odd there, so that rounding it again is rounding once."""
    x, z = a.astype(np.float64) * b, c.astype(np.float64)
    total = x + z
    part = total - x
    error = (x - (total - part)) + (z - part)
    bits = _bits(total)
    inexact = np.isfinite(total) & (error != 0) & (bits & np.uint64(1) == 0)
    away = (error > 0) == (total > 0)
    step = np.where(away, np.uint64(1), ~np.uint64(0))
    return np.where(inexact, bits + step, bits).view(np.float64).astype(np.float32)


def _fused_f64(a: Array, b: Array, c: Array) -> Array:
    lanes = np.broadcast_arrays(a, b, c)
    return np.array([_fused(*map(float, values)) for values in zip(*lanes, strict=True)], np.float64)


def _fused(a: float, b: float, c: float) -> float:
    if not (isfinite(a) and isfinite(b)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c) if isfinite(c) else None
    if not exact:  # zeros keep their signs, and c is infinite or NaN where there is no exact sum
        return c if exact is None else a * b + c
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def _to_odd_f32(x: Array) -> Array:
    """Rounds binary64 to f32 so that rounding the f32 to fewer bits is rounding once: what is inexact becomes odd."""
    nearest = x.astype(np.float32)
    bits, error = _bits(nearest), x - nearest
    inexact = np.isfinite(nearest) & (error != 0) & (bits & np.uint32(1) == 0)
    away = (nearest == 0) | ((error > 0) == (nearest > 0))
    step = np.where(away, np.uint32(1), ~np.uint32(0))
    return np.where(inexact, bits + step, bits).view(np.float32)


def _of_halves(t: str, function: Function) -> Function:
    """The exact result, or the nearest in binary64, where what a sum loses is far below the places of either type."""
    if t == "f16":
        return lambda a, b: canonical(function(a.astype(np.float64), b.astype(np.float64)).astype(np.float16))
    return lambda a, b: _bfloat(_to_odd_f32(function(_wide_bfloat(a), _wide_bfloat(b)))).astype(np.uint16)


def _wide_bfloat(x: Array) -> Array:
    wide: Array = (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return wide


def _compared(relation: str) -> Function:
    """The relations of floats are false of a NaN, except those that end in ``u``, and ``nan``."""
    if relation in ("num", "nan"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (relation == "nan")
    plain, unordered = _RELATIONS[relation[:2]], len(relation) == 3
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), unordered, plain(a, b))


# ---------------------------------------------------------------- conversions
def _saturated(dtype: np.dtype[Any]) -> Function:
    """Truncates, then clamps; a NaN is 0 for f32 to 32 bits, and the top bit alone elsewhere."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

    def convert(x: Array) -> Array:
        wide = np.trunc(x.astype(np.float64))
        inside = (wide >= float(low)) & (wide < float(high + 1))
        found = np.where(inside, wide, 0).astype(dtype)
        found = np.where(wide < float(low), dtype.type(low), found)
        found = np.where(wide >= float(high + 1), dtype.type(high), found)
        odd = 0 if x.dtype == np.float32 and dtype.itemsize == 4 else 1 << 8 * dtype.itemsize - 1
        return np.where(np.isnan(x), np.array(odd, f"u{dtype.itemsize}").view(dtype), found)

    return convert


def _bfloat(x: Array) -> Array:
    bits = x.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> 16 & 1) >> 16
    return np.where(np.isnan(x), np.uint32(0x7FFF), rounded)


def _cast(dtype: np.dtype[Any]) -> Function:
    return lambda x: x.astype(dtype)


_RELATIONS: Final[dict[str, Function]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _operations() -> Iterator[tuple[str, Operation]]:
    for t in _INTEGERS:
        both, wide = (t, t), f"{t[0]}64"
        yield f"add.{t}", Operation(t, both, np.add)
        yield f"sub.{t}", Operation(t, both, np.subtract)
        yield f"mul.lo.{t}", Operation(t, both, np.multiply)
        yield f"mad.lo.{t}", Operation(t, (t, t, t), lambda a, b, c: a * b + c)
        yield f"div.{t}", Operation(t, both, lambda a, b: _quotient(a, b, remainder=False))
        yield f"rem.{t}", Operation(t, both, lambda a, b: _quotient(a, b, remainder=True))
        yield f"min.{t}", Operation(t, both, np.minimum)
        yield f"max.{t}", Operation(t, both, np.maximum)
        yield f"shr.{t}", Operation(t, (t, "u32"), _shifted_right)
        if t[1:] == "32":
            product = _wide(DTYPES[wide].str)
            yield f"mul.wide.{t}", Operation(wide, both, product)
            yield f"mad.wide.{t}", Operation(wide, (t, t, wide), lambda a, b, c, product=product: product(a, b) + c)
            half = DTYPES[wide].type(32)
            yield (
                f"mul.hi.{t}",
                Operation(t, both, lambda a, b, p=product, h=half, d=DTYPES[t]: (p(a, b) >> h).astype(d)),
            )
        for relation, function in _RELATIONS.items():
            yield f"setp.{relation}.{t}", Operation("pred", both, function)
    yield "mul.hi.u64", Operation("u64", ("u64", "u64"), _high_u64)
    yield "mul.hi.s64", Operation("s64", ("s64", "s64"), _high_s64)
    yield "bfe.s32", Operation("s32", ("s32", "u32", "u32"), _field)
    yield "shf.l.wrap.b32", Operation("b32", ("b32", "b32", "u32"), lambda a, b, c: _funnel(a, b, c, left=True))
    yield "shf.r.wrap.b32", Operation("b32", ("b32", "b32", "u32"), lambda a, b, c: _funnel(a, b, c, left=False))
    for t in ("b32", "b64"):
        yield f"shl.{t}", Operation(t, (t, "u32"), _shifted_left)
        yield f"popc.{t}", Operation("u32", (t,), _ones)
        yield f"clz.{t}", Operation("u32", (t,), _leading_zeros)
        yield f"brev.{t}", Operation(t, (t,), _reversed)
    for t in ("pred", "b16", "b32", "b64"):
        yield f"and.{t}", Operation(t, (t, t), np.bitwise_and)
        yield f"or.{t}", Operation(t, (t, t), np.bitwise_or)
        yield f"xor.{t}", Operation(t, (t, t), np.bitwise_xor)
        yield f"not.{t}", Operation(t, (t,), np.invert)
    for t in ("pred", "b16", "b32", "b64", "u16", "u32", "u64", "s32", "s64", "f32", "f64"):
        yield f"mov.{t}", Operation(t, (t,), lambda a: a)
        if t != "pred":
            yield f"selp.{t}", Operation(t, (t, t, "pred"), _selected)
    yield from _float_operations()
    yield from _half_operations()
    yield from _conversions()


def _float_operations() -> Iterator[tuple[str, Operation]]:
    for t in _FLOATS:
        both = (t, t)
        yield f"add.rn.{t}", Operation(t, both, _float(np.add))
        yield f"sub.rn.{t}", Operation(t, both, _float(np.subtract))
        yield f"mul.rn.{t}", Operation(t, both, _float(np.multiply))
        yield f"div.rn.{t}", Operation(t, both, _float(np.divide))
        yield f"sqrt.rn.{t}", Operation(t, (t,), _float(np.sqrt))
        yield f"rcp.rn.{t}", Operation(t, (t,), _float(lambda a: a.dtype.type(1) / a))
        yield f"neg.{t}", Operation(t, (t,), _float(np.negative))
        yield f"abs.{t}", Operation(t, (t,), _float(np.abs))
        yield f"min.{t}", Operation(t, both, _float(lambda a, b: _extreme(a, b, greatest=False)))
        yield f"max.{t}", Operation(t, both, _float(lambda a, b: _extreme(a, b, greatest=True)))
        yield f"fma.rn.{t}", Operation(t, (t, t, t), _float(_fused_f32 if t == "f32" else _fused_f64))
        for relation in (*_RELATIONS, *(f"{name}u" for name in _RELATIONS), "num", "nan"):
            yield f"setp.{relation}.{t}", Operation("pred", both, _compared(relation))


def _half_operations() -> Iterator[tuple[str, Operation]]:
    for t in ("f16", "bf16"):
        for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            yield f"{name}.rn.{t}", Operation(t, (t, t), _of_halves(t, function))
    yield "setp.nan.f16", Operation("pred", ("f16", "f16"), _compared("nan"))
    nan = _compared("nan")
    yield "setp.nan.bf16", Operation("pred", ("bf16", "bf16"), lambda a, b: nan(_wide_bfloat(a), _wide_bfloat(b)))


def _conversions() -> Iterator[tuple[str, Operation]]:
    whole = ("u16", "s16", *_INTEGERS)
    for source in whole:
        for t in whole:
            if t != source:
                yield f"cvt.{t}.{source}", Operation(t, (source,), _cast(DTYPES[t]))
    for t in _FLOATS:
        for integer in _INTEGERS:
            yield f"cvt.rn.{t}.{integer}", Operation(t, (integer,), _cast(DTYPES[t]))
            yield f"cvt.rzi.{integer}.{t}", Operation(integer, (t,), _saturated(DTYPES[integer]))
        for mode, function in (("rmi", np.floor), ("rpi", np.ceil), ("rni", np.rint), ("rzi", np.trunc)):
            yield f"cvt.{mode}.{t}.{t}", Operation(t, (t,), _float(function))
    for result, source, mode in (
        ("f64", "f32", ""),
        ("f32", "f64", ".rn"),
        ("f32", "f16", ""),
        ("f16", "f32", ".rn"),
    ):
        yield f"cvt{mode}.{result}.{source}", Operation(result, (source,), _float(_cast(DTYPES[result])))
    yield (
        "cvt.rn.bf16x2.f32",
        Operation("b32", ("f32", "f32"), lambda high, low: _bfloat(high) << 16 | _bfloat(low)),
    )


OPERATIONS: Final[dict[str, Operation]] = dict(_operations())
"""Every instruction that computes from registers, by its whole opcode."""


def _incremented(old: int, limit: int) -> int:
    return 0 if old >= limit else old + 1


ATOMICS: Final[dict[str, tuple[tuple[str, ...], Callable[..., int]]]] = {
    "add": (("u32", "s32", "u64"), lambda old, new: old + new),
    "and": (("b32", "b64"), lambda old, new: old & new),
    "or": (("b32", "b64"), lambda old, new: old | new),
    "xor": (("b32", "b64"), lambda old, new: old ^ new),
    "min": (_INTEGERS, min),
    "max": (_INTEGERS, max),
    "inc": (("u32",), _incremented),
    "exch": (("b32", "b64"), lambda old, new: new),
    "cas": (("b32", "b64"), lambda old, expected, new: new if old == expected else old),
}
"""The operations of ``atom`` and ``red``: the types that each accepts, and its function on Python's integers."""
