"""Laws of conversions between types, of narrow values, and of arithmetic in a wider type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.dialects.laws.law import Law, laws
from vyre.domain.ir.operators import INTEGERS
from vyre.domain.ir.types import NARROW_TYPES, ScalarType

_SAME_WIDTH: Final = """
    cast.same: cast<T>(x) = x
    bitcast.same: bitcast<T>(x) = x
    bitcast.unsigned_and_back: bitcast<T>(bitcast<U>(x)) = x
    bitcast.signed_and_back: bitcast<T>(bitcast<S>(x)) = x
    bitcast.through: bitcast<S>(bitcast<U>(x)) = bitcast<S>(x)
    cast.as_bitcast_unsigned: cast<U>(x) <=> bitcast<U>(x)
    cast.as_bitcast_signed: cast<S>(x) <=> bitcast<S>(x)
    bitcast.add: bitcast<U>(x + y) <=> bitcast<U>(x) + bitcast<U>(y)
    bitcast.sub: bitcast<U>(x - y) <=> bitcast<U>(x) - bitcast<U>(y)
    bitcast.mul: bitcast<U>(x * y) <=> bitcast<U>(x) * bitcast<U>(y)
    bitcast.and: bitcast<U>(x & y) <=> bitcast<U>(x) & bitcast<U>(y)
    bitcast.or: bitcast<U>(x | y) <=> bitcast<U>(x) | bitcast<U>(y)
    bitcast.xor: bitcast<U>(x ^ y) <=> bitcast<U>(x) ^ bitcast<U>(y)
    bitcast.bitnot: bitcast<U>(bitnot(x)) <=> bitnot(bitcast<U>(x))
    bitcast.negate: bitcast<U>(neg(x)) <=> neg(bitcast<U>(x))
    bitcast.popcount: bitcast<U>(popcount(x)) <=> popcount(bitcast<U>(x))
    bitcast.clz: bitcast<U>(clz(x)) <=> clz(bitcast<U>(x))
    bitcast.ctz: bitcast<U>(ctz(x)) <=> ctz(bitcast<U>(x))
    bitcast.equal: bitcast<U>(x) == bitcast<U>(y) = x == y
    bitcast.rotated: bitcast<U>(rotl(x, n)) <=> rotl(bitcast<U>(x), n)
    cast.integral: trunc(cast<F>(x)) = cast<F>(x)
    cast.integral_floor: floor(cast<F>(x)) = cast<F>(x)
    cast.integral_ceil: ceil(cast<F>(x)) = cast<F>(x)
    cast.integral_round: round(cast<F>(x)) = cast<F>(x)
    cast.integral_round_even: round_even(cast<F>(x)) = cast<F>(x)
    cast.finite: is_finite(cast<F>(x)) = true
    cast.number: is_nan(cast<F>(x)) = false
"""
_ARITHMETIC: Final = (("add", "+"), ("sub", "-"), ("mul", "*"), ("and", "&"), ("or", "|"), ("xor", "^"))
_FLOAT_ARITHMETIC: Final = (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))
_COMPARISONS: Final = (("eq", "=="), ("ne", "!="), ("lt", "<"), ("gt", ">"), ("le", "<="), ("ge", ">="))
_WIDE: Final = {ScalarType.U32: "u64", ScalarType.I32: "i64"}


def _widened(narrow: str, wide: str) -> Iterator[str]:
    """Yields laws of 32-bit integers that are extended to 64 bits."""
    yield f"cast.{wide}_and_back: cast<{narrow}>(cast<{wide}>(x)) = x"
    yield f"cast.{wide}_to_f64: cast<f64>(cast<{wide}>(x)) = cast<f64>(x)"
    yield f"cast.{wide}_to_f32: cast<f32>(cast<{wide}>(x)) = cast<f32>(x)"
    yield f"cast.{narrow}_through_f64: cast<{narrow}>(cast<f64>(x)) = x"
    yield f"cast.{narrow}_f64_to_f32: cast<f32>(cast<f64>(x)) = cast<f32>(x)"
    for name, op in _ARITHMETIC:
        yield f"cast.{wide}_{name}: cast<{narrow}>(cast<{wide}>(x) {op} cast<{wide}>(y)) <=> x {op} y"
    for name, op in _ARITHMETIC[3:]:
        yield f"cast.{wide}_of_{name}: cast<{wide}>(x) {op} cast<{wide}>(y) <=> cast<{wide}>(x {op} y)"
    for name in ("min", "max"):
        yield f"cast.{wide}_of_{name}: {name}(cast<{wide}>(x), cast<{wide}>(y)) <=> cast<{wide}>({name}(x, y))"
    for name, op in _COMPARISONS:
        yield f"cast.{wide}_{name}: cast<{wide}>(x) {op} cast<{wide}>(y) <=> x {op} y"
    yield f"mulhi.{wide}: cast<{narrow}>(cast<{wide}>(x) * cast<{wide}>(y) >> WIDTH_U32) <=> mulhi(x, y)"
    yield f"average.{wide}: cast<{narrow}>(cast<{wide}>(x) + cast<{wide}>(y) >> 1u) <=> (x & y) + ((x ^ y) >> 1u)"
    yield f"cast.{wide}_negate: cast<{narrow}>(neg(cast<{wide}>(x))) <=> neg(x)"
    yield f"cast.{wide}_bitnot: cast<{narrow}>(bitnot(cast<{wide}>(x))) <=> bitnot(x)"


def _narrowed(wide: str, narrow: str) -> Iterator[str]:
    """Yields laws of 64-bit integers of which the low half is taken."""
    for name, op in _ARITHMETIC:
        yield f"cast.{narrow}_{name}: cast<{narrow}>(x) {op} cast<{narrow}>(y) <=> cast<{narrow}>(x {op} y)"
    yield f"cast.{narrow}_negate: neg(cast<{narrow}>(x)) <=> cast<{narrow}>(neg(x))"
    yield f"cast.{narrow}_bitnot: bitnot(cast<{narrow}>(x)) <=> cast<{narrow}>(bitnot(x))"


def _wide_floats() -> Iterator[str]:
    """Yields laws of f32 values that are taken to f64, which rounds nothing, and back."""
    yield "cast.f64_and_back: cast<f32>(cast<f64>(x)) = x"
    for name, op in _FLOAT_ARITHMETIC:  # 53 >= 2 * 24 + 2: the second rounding is innocuous
        yield f"cast.f64_{name}: cast<f32>(cast<f64>(x) {op} cast<f64>(y)) <=> x {op} y"
    yield "cast.f64_sqrt: cast<f32>(sqrt(cast<f64>(x))) <=> sqrt(x)"
    for name, op in _COMPARISONS:
        yield f"cast.f64_{name}: cast<f64>(x) {op} cast<f64>(y) <=> x {op} y"
    for name in ("neg", "abs", "floor", "ceil", "trunc", "round", "round_even", "sign"):
        yield f"cast.f64_of_{name}: {name}(cast<f64>(x)) <=> cast<f64>({name}(x))"
    for name in ("min", "max"):
        yield f"cast.f64_of_{name}: {name}(cast<f64>(x), cast<f64>(y)) <=> cast<f64>({name}(x, y))"
    for name in ("is_nan", "is_inf", "is_finite"):
        yield f"cast.f64_{name}: {name}(cast<f64>(x)) <=> {name}(x)"
    yield "cast.f64_to_i32: cast<i32>(cast<f64>(x)) = cast<i32>(x)"
    yield "cast.f64_to_u64: cast<u64>(cast<f64>(x)) = cast<u64>(x)"


_NARROW_FLOATS: Final = """
    cast.f32_negate: cast<f32>(neg(x)) <=> neg(cast<f32>(x))
    cast.f32_abs: cast<f32>(abs(x)) <=> abs(cast<f32>(x))
    cast.f32_min: cast<f32>(min(x, y)) <=> min(cast<f32>(x), cast<f32>(y))
    cast.f32_max: cast<f32>(max(x, y)) <=> max(cast<f32>(x), cast<f32>(y))
"""


def _narrow_values(target: ScalarType) -> Iterator[str]:
    """Yields laws of the operations of one narrow type, on values of the type that its loads give."""
    t = target.text
    yield f"narrow.{t}_twice: narrow<{t}>(narrow<{t}>(x)) = narrow<{t}>(x)"
    yield f"narrow.{t}_as_storage: unpack<{t}>(pack<{t}>(x)) <=> narrow<{t}>(x)"
    yield f"pack.{t}_narrowed: pack<{t}>(narrow<{t}>(x)) = pack<{t}>(x)"
    if target.is_float:
        yield f"narrow.{t}_negate: narrow<{t}>(neg(x)) <=> neg(narrow<{t}>(x))"
        yield f"narrow.{t}_abs: narrow<{t}>(abs(x)) <=> abs(narrow<{t}>(x))"
        yield f"narrow.{t}_is_nan: is_nan(narrow<{t}>(x)) = is_nan(x)"
        return
    suffix, mask, room = ("i" if target.is_signed else "u"), (1 << target.bits) - 1, 32 - target.bits
    for name, op in _ARITHMETIC:
        yield f"narrow.{t}_{name}: narrow<{t}>(narrow<{t}>(x) {op} y) = narrow<{t}>(x {op} y)"
    yield f"pack.{t}_as_mask: pack<{t}>(x) <=> bitcast<u32>(x) & {mask}u"
    if target.is_signed:
        yield f"narrow.{t}_as_shifts: narrow<{t}>(x) <=> (x << {room}u) >> {room}u"
    else:
        yield f"narrow.{t}_as_mask: narrow<{t}>(x) <=> x & {mask}{suffix}"


def _unpacked(target: ScalarType) -> Iterator[str]:
    """Yields laws of words of which the low bits are a value of a narrow type."""
    t, mask = target.text, (1 << target.bits) - 1
    yield f"unpack.{t}_masked: unpack<{t}>(x & {mask}u) = unpack<{t}>(x)"
    if target is ScalarType.BF16:
        yield "unpack.bf16_as_shift: unpack<bf16>(x) <=> bitcast<f32>(x << 16u)"
    if target.is_float:
        return
    yield f"unpack.{t}_and_pack: pack<{t}>(unpack<{t}>(x)) <=> x & {mask}u"
    yield f"narrow.{t}_unpacked: narrow<{t}>(unpack<{t}>(x)) = unpack<{t}>(x)"


def conversion_laws() -> Iterator[Law]:
    """Yields the laws of this module."""
    yield from laws(INTEGERS, _SAME_WIDTH, holes={"n": ScalarType.U32})
    for narrow, wide in _WIDE.items():
        yield from laws(frozenset({narrow}), "\n".join(_widened(narrow.text, wide)))
        wide_type = ScalarType.U64 if wide == "u64" else ScalarType.I64
        yield from laws(frozenset({wide_type}), "\n".join(_narrowed(wide, narrow.text)))
    yield from laws(frozenset({ScalarType.F32}), "\n".join(_wide_floats()))
    yield from laws(frozenset({ScalarType.F64}), _NARROW_FLOATS)
    for target in NARROW_TYPES:
        yield from laws(frozenset({target.widened}), "\n".join(_narrow_values(target)))
        yield from laws(frozenset({ScalarType.U32}), "\n".join(_unpacked(target)))
