"""Expressions; operands come first, left to right."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm import atomics, conversion, ids, memory, narrowing, operators, subgroups
from vyre.adapters.cpu.llvm.context import AssignedLocal, Kernel
from vyre.adapters.cpu.llvm.instructions import lift
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value, literal
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import SUBGROUP, BinaryOp
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32


def evaluate(k: Kernel, expr: ir.Expr) -> Value:
    """Returns the value of an expression, computed at this place.

    An expression object that occurs again in one statement has the same value, and is written once: no assignment or
    store comes between, and known values are dropped when an atomic has run.  One that contains an atomic runs it
    again.
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
            local = k.locals[name]
            return k.read(local) if isinstance(local, AssignedLocal) else local
        case ir.Load():
            return memory.load(k, expr, evaluate(k, expr.index))
        case ir.BufferLength(buffer):
            count = k.buffers[buffer].count
            return literal(_U32, count) if count else k.uniform(_U32, k.w.pure("trunc i64 {} to i32", k.length(buffer)))
        case ir.LaunchId(kind, axis):
            return ids.launch_id(k, kind, axis)
        case ir.SubgroupLane():
            return ids.subgroup_lane(k)
        case ir.SubgroupSize():
            return literal(_U32, 32)
        case ir.Binary():
            return _binary(k, expr)
        case ir.Unary(op, operand):
            return operators.unary(k, op, evaluate(k, operand))
        case ir.Select(condition, on_true, on_false):
            return operators.select(k, evaluate(k, condition), evaluate(k, on_true), evaluate(k, on_false))
        case ir.Cast(dtype, operand):
            return conversion.cast(k, dtype, evaluate(k, operand))
        case ir.Bitcast(dtype, operand):
            return conversion.bitcast(k, dtype, evaluate(k, operand))
        case ir.Narrow(dtype, operand):
            return narrowing.narrow(k, dtype, evaluate(k, operand))
        case ir.Pack(dtype, operand):
            return narrowing.pack(k, dtype, evaluate(k, operand))
        case ir.Unpack(dtype, operand):
            return narrowing.unpack(k, dtype, evaluate(k, operand))
        case ir.WrapCast(dtype, operand):
            return conversion.wrap_cast(k, dtype, evaluate(k, operand))
        case ir.Fma(a, b, c):
            return operators.fma(k, evaluate(k, a), evaluate(k, b), evaluate(k, c))
        case ir.Atomic():
            return atomic(k, expr, used=True)
        case ir.SubgroupReduce(subgroup, value):
            return subgroups.reduce(k, SUBGROUP[subgroup], evaluate(k, value))
        case ir.SubgroupBallot(condition):
            return subgroups.ballot(k, evaluate(k, condition))
        case ir.SubgroupShuffle(value, lane):
            return subgroups.shuffle(k, evaluate(k, value), evaluate(k, lane))
        case ir.Native():
            return _native(k, expr, [evaluate(k, each) for each in expr.args])
        case ir.Call():
            raise AssertionError("calls are expanded before")


def _binary(k: Kernel, expr: ir.Binary) -> Value:
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


def _native(k: Kernel, expr: ir.Native, operands: list[Value]) -> Value:
    from vyre.domain.dialects.native_text import NativePlace, native_lines  # few programs have native text

    lifted = lift(k, *operands)
    ins, names_of = lifted.ins, dict(zip(map(str, range(len(operands))), lifted.operands, strict=True))
    for target, *parts in native_lines(expr.text):
        assert isinstance(target, NativePlace), "checked"
        form, names, element = "", [], ""
        for part in parts:
            if isinstance(part, str):
                form += part
            elif part.kind == "t":
                element = SCALAR[part.dtype]
                form += ins.type(element)
            else:
                form += "{}"
                names.append(ins.number(element, part.number) if part.kind == "c" else names_of[part.name])
        form = form.removeprefix(" = ")
        if form.startswith("call "):  # all types of a function are one
            function, _, rest = form.partition("(")
            form = f"{function}.{ins.suffix(element)}({rest}"
            k.w.declare(f"declare {form[5:].replace(' {}', '').replace(' false', '')}")
        names_of[target.name] = k.w.pure(form, *names)
    return lifted.value(expr.dtype, names_of["out"])


def atomic(k: Kernel, expr: ir.Atomic, *, used: bool) -> Value:
    """Evaluates the index, the expected value and the value, in this order; memory read before must be read again."""
    index = evaluate(k, expr.index)
    expected = None if expr.expected is None else evaluate(k, expr.expected)
    result = atomics.atomic(k, expr, index, expected, evaluate(k, expr.value), used=used)
    k.known.clear()
    k.atomics += 1
    return result
