"""Integer arithmetic, bits, comparisons and predicates, as PTX defines them.

A result that PTX leaves unspecified, such as that of a division by zero, is a poison value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, Operation, Rule, Table, bits_of, unsigned
from vyre.adapters.lanes import binary, unary
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType

_SIGNED: Final = ("s16", "s32", "s64")
_UNSIGNED: Final = ("u16", "u32", "u64")
_INTEGERS: Final = _UNSIGNED + _SIGNED
_BITS: Final = ("b16", "b32", "b64")
_WIDE: Final = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_SCALAR_TYPE: Final = {"u32": ScalarType.U32, "s32": ScalarType.I32, "u64": ScalarType.U64, "s64": ScalarType.I64}
POISON: Final = 0xDEAD_BEEF_DEAD_BEEF
"""The bits of results that PTX leaves unspecified."""


def poison(kind: str) -> Any:
    """Returns the poison value of a type."""
    word = unsigned(kind)
    return word.type(POISON & (1 << bits_of(kind)) - 1).view(LANE_DTYPE[kind])


# ------------------------------------------------------------------------------ arithmetic


def _divide(kind: str, ufunc: Callable[[Any, Any], Any]) -> Rule:
    undefined = poison(kind)
    least = np.iinfo(LANE_DTYPE[kind]).min

    def rule(a: Any, b: Any) -> Any:
        open_result = np.equal(b, 0)
        if least:
            open_result = open_result | (np.equal(a, least) & np.equal(b, -1))
        result = ufunc(a, b)
        return np.where(open_result, undefined, result) if open_result.any() else result

    return rule


def _truncated_quotient(a: Any, b: Any) -> Any:
    # The dividend less the remainder divides exactly, so that rounding down is truncation.
    return np.floor_divide(np.subtract(a, np.fmod(a, b)), b)


def _widening(ufunc: Callable[..., Any], kind: str) -> Rule:
    dtype = LANE_DTYPE[_WIDE[kind]]
    return lambda a, b: ufunc(a, b, dtype=dtype)


def _multiply_high(kind: str) -> Rule:
    if kind in _SCALAR_TYPE:
        return binary(BinaryOp.MUL_HIGH, _SCALAR_TYPE[kind])
    wide, narrow = LANE_DTYPE[_WIDE[kind]], LANE_DTYPE[kind]
    shift = wide.type(16)
    return lambda a, b: np.right_shift(np.multiply(a, b, dtype=wide), shift).astype(narrow)


def _multiply_add(multiply: Rule) -> Rule:
    return lambda a, b, c: np.add(multiply(a, b), c)


def _saturated(ufunc: Callable[..., Any]) -> Rule:
    limits = np.iinfo(np.int32)
    return lambda a, b: np.clip(ufunc(a, b, dtype=np.int64), limits.min, limits.max).astype(np.int32)


def _sum_of_differences(a: Any, b: Any, c: Any) -> Any:
    return np.add(np.subtract(np.maximum(a, b), np.minimum(a, b)), c)


def _arithmetic() -> Table:
    table: Table = {}
    for kind in _INTEGERS:
        word = "u" + kind[1:]  # sums and low halves of products do not depend on the sign
        two = (kind, kind)
        table[f"add.{kind}"] = Operation(word, (word, word), np.add)
        table[f"sub.{kind}"] = Operation(word, (word, word), np.subtract)
        table[f"mul.lo.{kind}"] = Operation(word, (word, word), np.multiply)
        table[f"mad.lo.{kind}"] = Operation(word, (word, word, word), _multiply_add(np.multiply))
        table[f"mul.hi.{kind}"] = Operation(kind, two, _multiply_high(kind))
        table[f"mad.hi.{kind}"] = Operation(kind, (kind, kind, kind), _multiply_add(_multiply_high(kind)))
        table[f"div.{kind}"] = Operation(
            kind, two, _divide(kind, _truncated_quotient if kind in _SIGNED else np.floor_divide)
        )
        table[f"rem.{kind}"] = Operation(kind, two, _divide(kind, np.fmod))
        table[f"min.{kind}"] = Operation(kind, two, np.minimum)
        table[f"max.{kind}"] = Operation(kind, two, np.maximum)
        table[f"sad.{kind}"] = Operation(kind, (kind, kind, kind), _sum_of_differences)
        if kind in _WIDE:
            wide = _WIDE[kind]
            product = _widening(np.multiply, kind)
            table[f"mul.wide.{kind}"] = Operation(wide, two, product)
            table[f"mad.wide.{kind}"] = Operation(wide, (kind, kind, wide), _multiply_add(product))
    for kind in _SIGNED:
        table[f"abs.{kind}"] = Operation(kind, (kind,), np.absolute)
        table[f"neg.{kind}"] = Operation(kind, (kind,), np.negative)
    table["add.sat.s32"] = Operation("s32", ("s32", "s32"), _saturated(np.add))
    table["sub.sat.s32"] = Operation("s32", ("s32", "s32"), _saturated(np.subtract))
    return table


# ------------------------------------------------------------------------------ bits


def _shift(ufunc: Callable[[Any, Any], Any], kind: str) -> Rule:
    dtype = LANE_DTYPE[kind]
    width = np.uint32(bits_of(kind))
    # NumPy shifts everything out when the count reaches the width, as PTX does.
    return lambda a, count: ufunc(a, np.minimum(count, width).astype(dtype))


_HALF: Final = np.uint64(32)


def _funnel(*, left: bool, wrap: bool) -> Rule:
    def rule(low: Any, high: Any, count: Any) -> Any:
        pair = np.left_shift(high, _HALF, dtype=np.uint64) | low
        distance = (count & np.uint32(31)) if wrap else np.minimum(count, np.uint32(32))
        distance = distance.astype(np.uint64)
        if left:
            return (np.left_shift(pair, distance) >> _HALF).astype(np.uint32)
        return np.right_shift(pair, distance).astype(np.uint32)

    return rule


def _low_ones(count: Any, word: np.dtype[Any]) -> Any:
    """Returns words with the ``count`` lowest bits set; all bits if the word has no more."""
    one = word.type(1)
    return np.left_shift(one, count.astype(word)) - one


_BYTE: Final = np.uint32(0xFF)


def _extract(kind: str) -> Rule:
    word, dtype = unsigned(kind), LANE_DTYPE[kind]
    bits = np.uint32(bits_of(kind))
    is_signed = kind[0] == "s"

    def rule(a: Any, position: Any, length: Any) -> Any:
        source = a.view(word)
        start, wanted = np.minimum(position & _BYTE, bits), length & _BYTE
        taken = np.minimum(wanted, bits - start)
        mask = _low_ones(taken, word)
        field = np.right_shift(source, start.astype(word)) & mask
        if is_signed:
            last = np.minimum(start + wanted - np.uint32(1), bits - np.uint32(1))
            sign = np.right_shift(source, last.astype(word)) & word.type(1)
            negative = (sign != 0) & (wanted != 0)
            field = np.where(negative, field | ~mask, field)
        return field.view(dtype)

    return rule


def _insert(kind: str) -> Rule:
    word = unsigned(kind)
    bits = np.uint32(bits_of(kind))

    def rule(field: Any, into: Any, position: Any, length: Any) -> Any:
        start = np.minimum(position & _BYTE, bits).astype(word)
        mask = np.left_shift(_low_ones(np.minimum(length & _BYTE, bits), word), start)
        return (into & ~mask) | (np.left_shift(field, start) & mask)

    return rule


def _counted(op: UnaryOp, kind: str) -> Rule:
    rule = unary(op, _SCALAR_TYPE["u" + kind[1:]])
    return lambda x: rule(x).astype(np.uint32)


def _not(kind: str) -> Rule:
    return np.logical_not if kind == "pred" else np.bitwise_not


def _bits() -> Table:
    table: Table = {}
    for kind in ("pred", *_BITS):
        for name, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
            table[f"{name}.{kind}"] = Operation(kind, (kind, kind), ufunc)
        table[f"not.{kind}"] = Operation(kind, (kind,), _not(kind))
    for kind in _BITS:
        table[f"shl.{kind}"] = Operation(kind, (kind, "u32"), _shift(np.left_shift, kind))
    for kind in _BITS + _INTEGERS:
        table[f"shr.{kind}"] = Operation(kind, (kind, "u32"), _shift(np.right_shift, kind))
    for side in "lr":
        for mode in ("wrap", "clamp"):
            rule = _funnel(left=side == "l", wrap=mode == "wrap")
            table[f"shf.{side}.{mode}.b32"] = Operation("b32", ("b32", "b32", "u32"), rule)
    for kind in ("u32", "s32", "u64", "s64"):
        table[f"bfe.{kind}"] = Operation(kind, (kind, "u32", "u32"), _extract(kind))
    for kind in ("b32", "b64"):
        table[f"bfi.{kind}"] = Operation(kind, (kind, kind, "u32", "u32"), _insert(kind))
        table[f"popc.{kind}"] = Operation("u32", (kind,), _counted(UnaryOp.POPCOUNT, kind))
        table[f"clz.{kind}"] = Operation("u32", (kind,), _counted(UnaryOp.CLZ, kind))
        table[f"brev.{kind}"] = Operation(kind, (kind,), unary(UnaryOp.REVERSE_BITS, _SCALAR_TYPE["u" + kind[1:]]))
    return table


# ------------------------------------------------------------------------------ comparisons and selection

ORDERED: Final[dict[str, Rule]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES: Final = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_JOINING: Final[dict[str, Rule]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparisons(kind: str, relations: dict[str, Rule]) -> Table:
    """Returns ``setp`` of a type: each relation alone, and joined with a predicate."""
    table: Table = {}
    for name, compare in relations.items():
        table[f"setp.{name}.{kind}"] = Operation("pred", (kind, kind), compare)
        for word, join in _JOINING.items():
            table[f"setp.{name}.{word}.{kind}"] = Operation("pred", (kind, kind, "pred"), _joined(compare, join))
    return table


def _joined(compare: Rule, join: Rule) -> Rule:
    return lambda a, b, p: join(compare(a, b), p)


def _select(a: Any, b: Any, p: Any) -> Any:
    return np.where(p, a, b)


def _comparisons() -> Table:
    table: Table = {}
    for kind in _SIGNED:
        table |= comparisons(kind, ORDERED)
    for kind in _UNSIGNED:
        table |= comparisons(kind, ORDERED | {name: ORDERED[same] for name, same in _UNSIGNED_NAMES.items()})
    for kind in _BITS:
        table |= comparisons(kind, {name: ORDERED[name] for name in ("eq", "ne")})
    for kind in (*_BITS, *_INTEGERS, "f32", "f64"):
        table[f"selp.{kind}"] = Operation(kind, (kind, kind, "pred"), _select)
    return table


TABLE: Final[Table] = _arithmetic() | _bits() | _comparisons()
