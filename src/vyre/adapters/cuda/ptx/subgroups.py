"""Subgroup operations.  The members are the lanes that exist, independent of which ones are active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cuda.ptx.context import WARP, Kernel
from vyre.adapters.cuda.ptx.floating import bits_of
from vyre.adapters.cuda.ptx.operands import Elements, Register, Word
from vyre.adapters.cuda.ptx.values import Value, immediate, in_register
from vyre.adapters.cuda.ptx.writer import CLASS_OF, Writer
from vyre.domain.ir.types import ScalarType

_S = ScalarType
REDUX_FROM: Final = 80
"""The first target with a reduction instruction."""


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


def add(k: Kernel, value: Value) -> Value:
    """Returns the sum over the lanes: floats in ascending order of lanes from +0, integers in any order."""
    if value.dtype.is_float:
        return _ordered(k, value)
    if value.dtype.bits == 32 and k.options.target >= REDUX_FROM:
        operand = in_register(k.w, value)
        return Value(k.w.emit("r", "redux.sync.add.u32", operand, k.member_mask()), value.dtype)
    return _butterfly(k, value) if k.threads % WARP == 0 else _ordered(k, value)


def _exchange(k: Kernel, mode: str, word: Register, operand: Word) -> Register:
    return k.w.emit("r", f"shfl.sync.{mode}.b32", word, operand, 31, k.member_mask())


def _butterfly(k: Kernel, value: Value) -> Value:
    total = Value(in_register(k.w, value), value.dtype)
    for distance in (16, 8, 4, 2, 1):
        other = _by_words(k, total, lambda word, d=distance: _exchange(k, "bfly", word, d))  # type: ignore[misc]
        total = _sum(k.w, total, other)
    return total


def _ordered(k: Kernel, value: Value) -> Value:
    """Adds lane after lane; lanes beyond the last one add nothing."""
    w, dtype = k.w, value.dtype
    value = Value(in_register(w, value), dtype)
    lanes = k.lanes()
    certain = WARP if lanes == WARP else k.threads % WARP
    total = Value(immediate(dtype, 0), dtype, 0)
    for lane in range(lanes if isinstance(lanes, int) else WARP):
        if lane < certain:
            total = _sum(w, total, _by_words(k, value, lambda word, n=lane: _exchange(k, "idx", word, n)))  # type: ignore[misc]
            continue
        exists = w.emit("p", "setp.gt.u32", lanes, lane)
        source = w.emit("r", "selp.b32", lane, 0, exists)
        term = _by_words(k, value, lambda word, s=source: _exchange(k, "idx", word, s))  # type: ignore[misc]
        longer = _sum(w, total, term)
        suffix = f"{'f' if dtype.is_float else 'b'}{dtype.bits}"
        total = Value(w.emit(CLASS_OF[dtype], f"selp.{suffix}", longer.operand, total.operand, exists), dtype)
    return total


def _sum(w: Writer, a: Value, b: Value) -> Value:
    dtype = a.dtype
    operation = f"add.rn.f{dtype.bits}" if dtype.is_float else f"add.u{dtype.bits}"
    return Value(w.emit(CLASS_OF[dtype], operation, in_register(w, a), b.operand), dtype)


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
