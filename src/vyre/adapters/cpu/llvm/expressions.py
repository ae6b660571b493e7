"""Expressions: one function per kind of node; operands come first, left to right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vyre.adapters.cpu.llvm import atomics, conversion, ids, memory, narrowing, operators, subgroups
from vyre.adapters.cpu.llvm.context import Kernel, Slot
from vyre.adapters.cpu.llvm.values import Shape, Value, literal
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    LaunchId,
    Literal,
    Load,
    Narrow,
    Pack,
    Select,
    SpecConst,
    SubgroupBallot,
    SubgroupLane,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
    Unpack,
    Var,
    WrapCast,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import SUBGROUP, BinaryOp
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32
_NOT_SHARED: Final = frozenset({Literal, Var, Atomic})
"""Nodes that are cheap, or that have an effect each time."""


def evaluate(k: Kernel, expr: Expr) -> Value:
    """Returns the value of an expression, computed at this place.

    An expression object that occurs again in one statement has the same value, and is written once: no assignment or
    store comes between, and known values are dropped when an atomic has run.  One that contains an atomic runs it
    again.
    """
    kind = type(expr)
    if kind in _NOT_SHARED:
        return _RULES[kind](k, expr)
    key = id(expr)
    found = k.known.get(key)
    if found is None:
        before = k.atomics
        found = _RULES[kind](k, expr)
        if k.atomics == before:
            k.known[key] = found
    return found


def _literal(k: Kernel, expr: Literal) -> Value:
    return literal(expr.dtype, expr.bits)


def _spec(k: Kernel, expr: SpecConst) -> Value:
    return _literal(k, k.spec.get(expr.name, expr.default))


def _var(k: Kernel, expr: Var) -> Value:
    local = k.locals[expr.name]
    return k.read(local) if isinstance(local, Slot) else local


def _load(k: Kernel, expr: Load) -> Value:
    return memory.load(k, expr, evaluate(k, expr.index))


def _length(k: Kernel, expr: BufferLength) -> Value:
    count = k.buffers[expr.buffer].count
    if count:
        return literal(_U32, count)
    return k.uniform(_U32, k.w.pure("trunc i64 {} to i32", k.length(expr.buffer)))


def _launch_id(k: Kernel, expr: LaunchId) -> Value:
    return ids.launch_id(k, expr.kind, expr.axis)


def _lane(k: Kernel, expr: SubgroupLane) -> Value:
    return ids.subgroup_lane(k)


def _lanes(k: Kernel, expr: SubgroupSize) -> Value:
    return literal(_U32, 32)


def _binary(k: Kernel, expr: Binary) -> Value:
    left = evaluate(k, expr.left)
    right = evaluate(k, expr.right)
    result = operators.binary(k, expr.op, left, right)
    if result.shape is Shape.VARYING and result.dtype is ScalarType.BOOL:
        _note(k, expr.op, left, right, result)
    return result


def _note(k: Kernel, op: BinaryOp, left: Value, right: Value, result: Value) -> None:
    """Notes how a condition of the lanes can be tested for all of them at once."""
    if op is BinaryOp.GT:
        op, left, right = BinaryOp.LT, right, left
    if op is BinaryOp.LT and left.stride == 1 and right.is_uniform:
        k.note_bound(result.operand, left.dtype, left.operand, right.operand)
    elif op is BinaryOp.AND and left.shape is right.shape is Shape.VARYING:
        k.note_both(result.operand, left.operand, right.operand)


def _unary(k: Kernel, expr: Unary) -> Value:
    return operators.unary(k, expr.op, evaluate(k, expr.operand))


def _select(k: Kernel, expr: Select) -> Value:
    condition = evaluate(k, expr.condition)
    on_true = evaluate(k, expr.on_true)
    return operators.select(k, condition, on_true, evaluate(k, expr.on_false))


def _cast(k: Kernel, expr: Cast) -> Value:
    return conversion.cast(k, expr.dtype, evaluate(k, expr.operand))


def _bitcast(k: Kernel, expr: Bitcast) -> Value:
    return conversion.bitcast(k, expr.dtype, evaluate(k, expr.operand))


def _narrow(k: Kernel, expr: Narrow) -> Value:
    return narrowing.narrow(k, expr.dtype, evaluate(k, expr.operand))


def _pack(k: Kernel, expr: Pack) -> Value:
    return narrowing.pack(k, expr.dtype, evaluate(k, expr.operand))


def _unpack(k: Kernel, expr: Unpack) -> Value:
    return narrowing.unpack(k, expr.dtype, evaluate(k, expr.operand))


def _wrap_cast(k: Kernel, expr: WrapCast) -> Value:
    return conversion.wrap_cast(k, expr.dtype, evaluate(k, expr.operand))


def _fma(k: Kernel, expr: Fma) -> Value:
    a, b = evaluate(k, expr.a), evaluate(k, expr.b)
    return operators.fma(k, a, b, evaluate(k, expr.c))


def _atomic(k: Kernel, expr: Atomic) -> Value:
    return atomic(k, expr, used=True)


def atomic(k: Kernel, expr: Atomic, *, used: bool) -> Value:
    """Evaluates the index, the expected value and the value, in this order; memory read before must be read again."""
    index = evaluate(k, expr.index)
    expected = None if expr.expected is None else evaluate(k, expr.expected)
    result = atomics.atomic(k, expr, index, expected, evaluate(k, expr.value), used=used)
    k.known.clear()
    k.atomics += 1
    return result


def _subgroup_reduce(k: Kernel, expr: SubgroupReduce) -> Value:
    return subgroups.reduce(k, SUBGROUP[expr.op], evaluate(k, expr.value))


def _ballot(k: Kernel, expr: SubgroupBallot) -> Value:
    return subgroups.ballot(k, evaluate(k, expr.condition))


def _shuffle(k: Kernel, expr: SubgroupShuffle) -> Value:
    value = evaluate(k, expr.value)
    return subgroups.shuffle(k, value, evaluate(k, expr.lane))


_RULES: Final[dict[type[Node], Callable[[Kernel, Any], Value]]] = {
    Literal: _literal,
    SpecConst: _spec,
    Var: _var,
    Load: _load,
    BufferLength: _length,
    LaunchId: _launch_id,
    SubgroupLane: _lane,
    SubgroupSize: _lanes,
    Binary: _binary,
    Unary: _unary,
    Select: _select,
    Cast: _cast,
    Bitcast: _bitcast,
    Narrow: _narrow,
    Pack: _pack,
    Unpack: _unpack,
    WrapCast: _wrap_cast,
    Fma: _fma,
    Atomic: _atomic,
    SubgroupReduce: _subgroup_reduce,
    SubgroupBallot: _ballot,
    SubgroupShuffle: _shuffle,
}
