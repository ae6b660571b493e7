"""Expressions: one function per kind of node; operands come first, left to right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vyre.adapters.cuda.ptx import atomics, conversion, division, floating, integer, memory, narrowing, subgroups
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.sites import Site
from vyre.adapters.cuda.ptx.values import Value, counted, in_register, literal
from vyre.adapters.cuda.ptx.writer import CLASS_OF
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    IdKind,
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
from vyre.domain.ir.operators import SUBGROUP, TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.transcendentals import transcendental

_S = ScalarType
_U32: Final = _S.U32
_NOT_SHARED: Final = frozenset({Literal, Var, Atomic})
"""Nodes that are cheap, or that have an effect each time."""
_DIVISIONS: Final = frozenset({BinaryOp.DIV, BinaryOp.MOD})


def evaluate(k: Kernel, expr: Expr) -> Value:
    """Returns the value of an expression, computed at this place.

    An expression object that occurs again in one statement has the same value, and is written once: no assignment or
    store comes between, and known loads are dropped when an atomic has run.  One that contains an atomic runs it again.
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
    return k.locals[expr.name]


def _load(k: Kernel, expr: Load) -> Value:
    if k.buffers[expr.buffer].is_push:
        return memory.push(k, expr.buffer)
    return memory.load(k, expr, evaluate(k, expr.index))


def _length(k: Kernel, expr: BufferLength) -> Value:
    return counted(k.length(expr.buffer))


def _launch_id(k: Kernel, expr: LaunchId) -> Value:
    match expr.kind:
        case IdKind.GLOBAL:
            return counted(k.global_id(expr.axis))
        case IdKind.GROUP:
            return counted(k.group_id(expr.axis))
        case IdKind.LOCAL:
            return counted(k.local_id(expr.axis))
        case IdKind.NUM_GROUPS:
            return counted(k.group_count(expr.axis))


def _lane(k: Kernel, expr: SubgroupLane) -> Value:
    return counted(k.lane())


def _lanes(k: Kernel, expr: SubgroupSize) -> Value:
    return literal(_U32, 32)


def _binary(k: Kernel, expr: Binary) -> Value:
    return _operation(k, expr.op, evaluate(k, expr.left), evaluate(k, expr.right))


def _operation(k: Kernel, op: BinaryOp, left: Value, right: Value) -> Value:
    if left.dtype.is_float:
        return floating.BINARY[op](k.w, left, right)
    if left.dtype is _S.BOOL:
        return _logic(k, op, left, right)
    if right.bits is not None and op in _DIVISIONS and k.options.switches.constant_division:
        return division.divide(k.integers, op, left, right.bits, k.sink)
    rule = integer.BINARY.get(op)
    return _lowered(k, op, left, right) if rule is None else rule(k.integers, left, right)


def _lowered(k: Kernel, op: BinaryOp, left: Value, right: Value) -> Value:
    from vyre.domain.dialects.laws.lowered import lowered  # few programs have such an operator

    return lowered(op, left.dtype, left, right, _Operators(k))


class _Operators:
    """The operators of values of a kernel, for those that are made of others."""

    def __init__(self, k: Kernel) -> None:
        self._k = k

    def literal(self, dtype: ScalarType, bits: int) -> Value:
        return literal(dtype, bits)

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: Value, right: Value) -> Value:
        return _operation(self._k, op, left, right)

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: Value) -> Value:
        return _operation_of_one(self._k, op, operand)


_LOGIC: Final = {
    BinaryOp.AND: ("and.pred", False),
    BinaryOp.OR: ("or.pred", False),
    BinaryOp.NE: ("xor.pred", False),
    BinaryOp.EQ: ("xor.pred", True),
}


def _logic(k: Kernel, op: BinaryOp, left: Value, right: Value) -> Value:
    operation, inverted = _LOGIC[op]
    result = k.w.emit("p", operation, in_register(k.w, left), in_register(k.w, right))
    return Value(k.w.emit("p", "not.pred", result) if inverted else result, _S.BOOL)


def _unary(k: Kernel, expr: Unary) -> Value:
    return _operation_of_one(k, expr.op, evaluate(k, expr.operand))


def _operation_of_one(k: Kernel, op: UnaryOp, operand: Value) -> Value:
    if op in TRANSCENDENTALS:
        return k.functions.call(transcendental(op), operand)
    if operand.dtype.is_float:
        return floating.UNARY[op](k.w, operand)
    if op is UnaryOp.LOGICAL_NOT:
        return Value(k.w.emit("p", "not.pred", in_register(k.w, operand)), _S.BOOL)
    return integer.UNARY[op](k.integers, operand)


def _select(k: Kernel, expr: Select) -> Value:
    condition = in_register(k.w, evaluate(k, expr.condition))
    a, b = evaluate(k, expr.on_true), evaluate(k, expr.on_false)
    if a.dtype is _S.BOOL:
        w = k.w
        chosen = w.emit("p", "and.pred", condition, in_register(w, a))
        other = w.emit("p", "and.pred", w.emit("p", "not.pred", condition), in_register(w, b))
        return Value(w.emit("p", "or.pred", chosen, other), _S.BOOL)
    suffix = f"{'f' if a.dtype.is_float else 'b'}{a.dtype.bits}"
    result = k.w.emit(CLASS_OF[a.dtype], f"selp.{suffix}", a.operand, b.operand, condition)
    return Value(result, a.dtype, number=a.number and b.number)


def _cast(k: Kernel, expr: Cast) -> Value:
    return conversion.cast(k.integers, expr.dtype, evaluate(k, expr.operand))


def _bitcast(k: Kernel, expr: Bitcast) -> Value:
    return conversion.bitcast(k.w, expr.dtype, evaluate(k, expr.operand))


def _narrow(k: Kernel, expr: Narrow) -> Value:
    return narrowing.narrow(k.w, k.options.target, expr.dtype, evaluate(k, expr.operand))


def _pack(k: Kernel, expr: Pack) -> Value:
    return narrowing.pack(k.w, k.options.target, expr.dtype, evaluate(k, expr.operand))


def _unpack(k: Kernel, expr: Unpack) -> Value:
    return narrowing.unpack(k.w, expr.dtype, evaluate(k, expr.operand))


def _wrap_cast(k: Kernel, expr: WrapCast) -> Value:
    return conversion.wrap_cast(k.integers, expr.dtype, evaluate(k, expr.operand))


def _fma(k: Kernel, expr: Fma) -> Value:
    return floating.fma(k.w, evaluate(k, expr.a), evaluate(k, expr.b), evaluate(k, expr.c))


def _atomic(k: Kernel, expr: Atomic) -> Value:
    return atomic(k, expr, used=True)


def atomic(k: Kernel, expr: Atomic, *, used: bool) -> Value:
    """Evaluates the index, the expected value and the value, in this order; memory read before must be read again."""
    index = evaluate(k, expr.index)
    expected = None if expr.expected is None else evaluate(k, expr.expected)
    value = evaluate(k, expr.value)
    if k.w.traced:
        k.w.mark(Site((expr.loc,), expr.buffer))
    result = atomics.atomic(k, expr, index, expected, value, used=used)
    k.known.clear()
    k.atomics += 1
    return result


def _subgroup_reduce(k: Kernel, expr: SubgroupReduce) -> Value:
    row, value = SUBGROUP[expr.op], evaluate(k, expr.value)
    return subgroups.reduce(k, row, value, lambda a, b: _operation(k, row.operator, a, b))


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
