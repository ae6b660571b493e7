"""Subgroup operations.  The members are the lanes that exist, independent of which ones are active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.adapters.cuda.ptx.context import WARP, Kernel
from vyre.adapters.cuda.ptx.floating import bits_of
from vyre.adapters.cuda.ptx.operands import Elements, Register, Word
from vyre.adapters.cuda.ptx.values import Value, counted, in_register, literal
from vyre.adapters.cuda.ptx.writer import CLASS_OF, Writer
from vyre.domain.ir.operators import BinaryOp, Span, SubgroupRow
from vyre.domain.ir.types import ScalarType

_S = ScalarType
REDUX_FROM: Final = 80
"""The first target with a reduction instruction."""
_REDUX: Final = {
    BinaryOp.ADD: "add.u32",
    BinaryOp.BIT_AND: "and.b32",
    BinaryOp.BIT_OR: "or.b32",
    BinaryOp.BIT_XOR: "xor.b32",
}
"""The reductions that do not depend on the sign."""
Fold: TypeAlias = Callable[[Value, Value], Value]


def ballot(k: Kernel, condition: Value) -> Value:
    """Returns the mask of the lanes where the condition holds, as u32."""
    mask = k.member_mask()
    return Value(k.w.emit("r", "vote.sync.ballot.b32", in_register(k.w, condition), mask), _S.U32)


def shuffle(k: Kernel, value: Value, lane: Value) -> Value:
    """Returns the value of another lane; 0 if there is no such lane (the instruction would wrap)."""
    w = k.w
    exists = w.emit("p", "setp.lt.u32", in_register(w, lane), k.lanes())
    source = w.emit("r", "selp.b32", lane.operand, 0, exists)
    return _by_words(k, value, lambda word: w.emit("r", "selp.b32", _exchange(k, "idx", word, source), 0, exists))


def reduce(k: Kernel, row: SubgroupRow, value: Value, fold: Fold) -> Value:
    """Returns the values of the lanes folded: sums of floats in ascending order of lanes, all else in any order."""
    w, dtype, operator = k.w, value.dtype, row.operator
    operand = in_register(w, value)
    value = Value(operand, dtype)
    if dtype is _S.BOOL:
        kind = "any" if operator is BinaryOp.OR else "all"
        return Value(w.emit("p", f"vote.sync.{kind}.pred", operand, k.member_mask()), dtype)
    if dtype.is_float and operator is BinaryOp.ADD:
        return _ordered(k, row, value, fold)
    if row.span is not Span.ALL:
        return _scan(k, row, value, fold)
    if dtype.is_integer and dtype.bits == 32 and k.options.target >= REDUX_FROM:
        name = _REDUX.get(operator) or f"{operator.name.lower()}.{'s' if dtype.is_signed else 'u'}32"
        return Value(w.emit("r", f"redux.sync.{name}", operand, k.member_mask()), dtype)
    return _butterfly(k, value, fold) if k.threads % WARP == 0 else _ordered(k, row, value, fold)


def _exchange(k: Kernel, mode: str, word: Register, operand: Word) -> Register:
    return k.w.emit("r", f"shfl.sync.{mode}.b32", word, operand, 0 if mode == "up" else 31, k.member_mask())


def _moved(k: Kernel, mode: str, value: Value, operand: Word) -> Value:
    return _by_words(k, value, lambda word: _exchange(k, mode, word, operand))


def _butterfly(k: Kernel, total: Value, fold: Fold) -> Value:
    for distance in (16, 8, 4, 2, 1):
        total = fold(total, _moved(k, "bfly", total, distance))
    return total


def _scan(k: Kernel, row: SubgroupRow, value: Value, fold: Fold) -> Value:
    """Folds the lanes below, of twice as many in each step."""
    w, dtype, total = k.w, value.dtype, value
    own, start = in_register(w, counted(k.lane())), literal(dtype, row.start(dtype))

    def below(distance: int) -> Value:
        exists = w.emit("p", "setp.ge.u32", own, distance)
        return _either(w, exists, _moved(k, "up", total, distance), start)

    if row.span is Span.EXCLUSIVE:
        total = below(1)
    for distance in (1, 2, 4, 8, 16):
        total = fold(below(distance), total)
    return total


def _ordered(k: Kernel, row: SubgroupRow, value: Value, fold: Fold) -> Value:
    """Folds lane after lane, in each lane as many as belong to its span."""
    w, dtype, lanes = k.w, value.dtype, k.lanes()
    existing = lanes if isinstance(lanes, int) else k.threads % WARP
    """The lanes that every subgroup has."""
    certain, end = existing, lanes
    if row.span is not Span.ALL:
        own = in_register(w, counted(k.lane()))
        certain, end = 0, own if row.span is Span.EXCLUSIVE else w.emit("r", "add.u32", own, 1)
    total = literal(dtype, row.start(dtype))
    for lane in range(lanes if isinstance(lanes, int) else WARP):
        if lane < certain:
            total = fold(total, _moved(k, "idx", value, lane))
            continue
        counts = w.emit("p", "setp.gt.u32", end, lane)
        source = lane if lane < existing else w.emit("r", "selp.b32", lane, 0, counts)
        total = _either(w, counts, fold(total, _moved(k, "idx", value, source)), total)
    return total


def _either(w: Writer, condition: Register, on_true: Value, on_false: Value) -> Value:
    dtype = on_true.dtype
    suffix = f"{'f' if dtype.is_float else 'b'}{dtype.bits}"
    return Value(w.emit(CLASS_OF[dtype], f"selp.{suffix}", on_true.operand, on_false.operand, condition), dtype)


def _by_words(k: Kernel, value: Value, move: Callable[[Register], Register]) -> Value:
    """Moves a value of any executable type in 32-bit words."""
    w, dtype = k.w, value.dtype
    if dtype is _S.BOOL:
        word = w.emit("r", "selp.b32", 1, 0, in_register(w, value))
        return Value(w.emit("p", "setp.ne.u32", move(word), 0), dtype)
    if dtype.bits == 32:
        if dtype is _S.F32:
            return Value(w.emit("f", "mov.b32", move(bits_of(w, value))), dtype)
        return Value(move(in_register(w, value)), dtype)
    wide = bits_of(w, value) if dtype is _S.F64 else in_register(w, value)
    low = w.emit("r", "cvt.u32.u64", wide)
    high = w.emit("r", "cvt.u32.u64", w.emit("rd", "shr.u64", wide, 32))
    moved = Elements(move(low), move(high))
    return Value(w.emit(CLASS_OF[dtype], "mov.b64", moved), dtype)
