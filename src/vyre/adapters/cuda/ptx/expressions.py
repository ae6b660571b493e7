"""Expressions; operands come first, left to right."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.ptx import atomics, conversion, floating, integer, memory, subgroups
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.halves import rounding_of
from vyre.adapters.cuda.ptx.values import Value, counted, in_register, literal
from vyre.adapters.cuda.ptx.writer import CLASS_OF
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import SUBGROUP, TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.transcendentals import transcendental

_S = ScalarType
_U32: Final = _S.U32
_DIVISIONS: Final = frozenset({BinaryOp.DIV, BinaryOp.MOD})


def evaluate(k: Kernel, expr: ir.Expr) -> Value:
    """Returns the value of an expression, computed at this place.

    An expression object that occurs again in one statement has the same value, and is written once: no assignment or
    store comes between, and known loads are dropped when an atomic has run.  One that contains an atomic runs it again.
    """
    if isinstance(expr, ir.Literal | ir.Var | ir.Atomic):  # cheap, or with an effect each time
        return _written(k, expr)
    key = id(expr)
    value = k.known.get(key)
    if value is None:
        before = k.atomics
        value = _written(k, expr)
        if k.atomics == before:
            k.known[key] = value
    return value


def _written(k: Kernel, expr: ir.Expr) -> Value:
    match expr:
        case ir.Literal(dtype, bits):
            return literal(dtype, bits)
        case ir.SpecConst(name, default):
            return evaluate(k, k.spec.get(name, default))
        case ir.Var(name):
            return k.locals[name]
        case ir.Load(buffer, index):
            return memory.push(k, buffer) if k.buffers[buffer].is_push else memory.load(k, expr, evaluate(k, index))
        case ir.BufferLength(buffer):
            return counted(k.length(buffer))
        case ir.LaunchId(kind, axis):
            numbers = {
                ir.IdKind.GLOBAL: k.global_id,
                ir.IdKind.GROUP: k.group_id,
                ir.IdKind.LOCAL: k.local_id,
                ir.IdKind.NUM_GROUPS: k.group_count,
            }
            return counted(numbers[kind](axis))
        case ir.SubgroupLane():
            return counted(k.lane())
        case ir.SubgroupSize():
            return literal(_U32, 32)
        case ir.Binary(op, left, right):
            return _operation(k, op, evaluate(k, left), evaluate(k, right))
        case ir.Unary(op, operand):
            return _operation_of_one(k, op, evaluate(k, operand))
        case ir.Select():
            return _select(k, expr)
        case ir.Cast(dtype, operand):
            return conversion.cast(k.integers, dtype, evaluate(k, operand))
        case ir.Bitcast(dtype, operand):
            return conversion.bitcast(k.w, dtype, evaluate(k, operand))
        case ir.Narrow(dtype, operand):
            return conversion.narrow(k.w, k.options.target, dtype, evaluate(k, operand))
        case ir.Pack(dtype, operand):
            return conversion.pack(k.w, k.options.target, dtype, evaluate(k, operand))
        case ir.Unpack(dtype, operand):
            return conversion.unpack(k.w, dtype, evaluate(k, operand))
        case ir.WrapCast(dtype, operand):
            return conversion.wrap_cast(k.integers, dtype, evaluate(k, operand))
        case ir.Fma(a, b, c):
            return floating.fma(k.w, evaluate(k, a), evaluate(k, b), evaluate(k, c))
        case ir.Atomic():
            return atomic(k, expr, used=True)
        case ir.SubgroupReduce(subgroup, value):
            row = SUBGROUP[subgroup]
            return subgroups.reduce(k, row, evaluate(k, value), lambda a, b: _operation(k, row.operator, a, b))
        case ir.SubgroupBallot(condition):
            return subgroups.ballot(k, evaluate(k, condition))
        case ir.SubgroupShuffle(value, lane):
            return subgroups.shuffle(k, evaluate(k, value), evaluate(k, lane))
        case ir.Native():
            return _native(k, expr, [evaluate(k, each) for each in expr.args])
        case ir.Call():
            raise AssertionError("calls are expanded before")


def _operation(k: Kernel, op: BinaryOp, left: Value, right: Value) -> Value:
    if left.dtype.is_float:
        result = floating.BINARY[op](k.w, left, right)
        result.rounding = rounding_of(k.options.target, op, left, right)
        return result
    if left.dtype is _S.BOOL:
        return _logic(k, op, left, right)
    if right.bits is not None and op in _DIVISIONS and k.options.switches.constant_division:
        return integer.divide(k.integers, op, left, right.bits, k.sink)
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


def _operation_of_one(k: Kernel, op: UnaryOp, operand: Value) -> Value:
    if op in TRANSCENDENTALS:
        return k.functions.call(transcendental(op), operand)
    if operand.dtype.is_float:
        return floating.UNARY[op](k.w, operand)
    if op is UnaryOp.LOGICAL_NOT:
        return Value(k.w.emit("p", "not.pred", in_register(k.w, operand)), _S.BOOL)
    return integer.UNARY[op](k.integers, operand)


def _select(k: Kernel, expr: ir.Select) -> Value:
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


def _native(k: Kernel, expr: ir.Native, operands: list[Value]) -> Value:
    from vyre.domain.dialects.native_text import NativePlace, native_lines  # few programs have native text

    registers = {str(number): in_register(k.w, operand) for number, operand in enumerate(operands)}

    def fill(part: str | NativePlace) -> str:
        if isinstance(part, str):
            return part
        if part.kind == "v" and part.name not in registers:
            registers[part.name] = k.w.register(CLASS_OF[expr.dtype if part.name == "out" else part.dtype])
        return registers[part.name] if part.kind == "v" else str(operands[int(part.name)].operand)

    for line in native_lines(expr.text):
        k.w.line("".join(map(fill, line)))
    return Value(registers["out"], expr.dtype)


def atomic(k: Kernel, expr: ir.Atomic, *, used: bool) -> Value:
    """Evaluates the index, the expected value and the value, in this order; memory read before must be read again."""
    index = evaluate(k, expr.index)
    expected = None if expr.expected is None else evaluate(k, expr.expected)
    value = evaluate(k, expr.value)
    k.w.mark((expr.loc,), expr.buffer)
    result = atomics.atomic(k, expr, index, expected, value, used=used)
    k.known.clear()
    k.atomics += 1
    return result
