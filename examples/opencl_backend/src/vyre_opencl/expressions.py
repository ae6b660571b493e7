"""Expressions: every node becomes one C variable, so that operands are evaluated once and from left to right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vyre.ir import (
    Atomic,
    Binary,
    BinaryOp,
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
    Native,
    Pack,
    ScalarType,
    Select,
    SubgroupLane,
    SubgroupSize,
    Unary,
    UnaryOp,
    Unpack,
    Var,
    WrapCast,
    binary_result,
    children,
    unary_result,
)
from vyre.lowering import TRANSCENDENTALS, NativePlace, lowered, native_lines
from vyre_opencl import memory, operators
from vyre_opencl.functions import definition, function_name
from vyre_opencl.types import VALUE, Value, literal
from vyre_opencl.writer import Writer, unsupported

U32 = ScalarType.U32
_IDS: Final = {
    IdKind.GLOBAL: "get_global_id",
    IdKind.GROUP: "get_group_id",
    IdKind.LOCAL: "get_local_id",
    IdKind.NUM_GROUPS: "get_num_groups",
}
LOCAL_LINEAR: Final = (
    "(uint)(get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2)))"
)
"""The linear id of a lane in its workgroup."""


def evaluate(w: Writer, exprs: Iterable[Expr]) -> list[Value]:
    """Writes the operands of one statement and returns their values.

    A node that several operands share is evaluated once if nothing before its second use can change its value.
    """
    statement = _Statement(w)
    return [statement.value(expr) for expr in exprs]


class _Statement:
    """The expressions of one statement."""

    def __init__(self, w: Writer) -> None:
        self._w: Final = w
        self._known: Final[dict[int, Value]] = {}
        self._lasting: Final[dict[int, bool]] = {}

    def value(self, expr: Expr) -> Value:
        known = self._known.get(id(expr))
        if known is not None:
            return known
        found = self._write(expr)
        if type(expr) is Atomic:
            self._known.clear()  # a load after it may give another value, and an atomic is never shared
        elif self._lasts(expr):
            self._known[id(expr)] = found
        return found

    def _lasts(self, expr: Expr) -> bool:
        """Returns whether no atomic is among the nodes of an expression."""
        found = self._lasting.get(id(expr))
        if found is None:
            found = type(expr) is not Atomic and all(map(self._lasts, children(expr)))
            self._lasting[id(expr)] = found
        return found

    def _write(self, expr: Expr) -> Value:
        w = self._w
        match expr:
            case Literal():
                return Value(literal(expr), expr.dtype)
            case Var(name):
                # An assignment is a statement of its own, so the variable keeps its value in this one.
                return w.locals[name]
            case BufferLength(buffer):
                return Value(w.places[buffer].count, U32)
            case LaunchId(kind, axis):
                return Value(f"(uint){_IDS[kind]}({axis})", U32)
            case SubgroupSize():
                return Value("32u", U32)
            case SubgroupLane():
                return w.keep(f"{LOCAL_LINEAR} % 32u", U32)
            case Load(buffer, index):
                return memory.load(w, w.places[buffer], self.value(index))
            case Atomic():
                return self._atomic(expr)
            case _:
                return self._computed(expr, [self.value(child) for child in children(expr)])

    def _atomic(self, expr: Atomic) -> Value:
        index = self.value(expr.index)
        expected = None if expr.expected is None else self.value(expr.expected)
        return memory.atomic(self._w, expr.op, self._w.places[expr.buffer], index, expected, self.value(expr.value))

    def literal(self, dtype: ScalarType, bits: int) -> Value:
        return Value(literal(Literal(dtype, bits)), dtype)

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: Value, right: Value) -> Value:
        if op not in operators.OWN:
            return lowered(op, dtype, left, right, self)
        result = binary_result(op, dtype, count)
        assert result is not None, "validated"
        return self._w.keep(operators.binary(op, dtype, left.text, right.text), result)

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: Value) -> Value:
        result = unary_result(op, dtype)
        assert result is not None, "validated"
        if op in TRANSCENDENTALS:
            self._w.functions[function_name(op)] = definition(op)
            return self._w.keep(f"{function_name(op)}({operand.text})", result)
        return self._w.keep(operators.unary(op, dtype, operand.text), result)

    def _computed(self, expr: Expr, operands: list[Value]) -> Value:
        """Writes a node whose value depends on its operands alone."""
        w, texts = self._w, [operand.text for operand in operands]
        source = operands[0].dtype if operands else U32
        match expr:
            case Binary(op):
                return self.binary(op, source, operands[1].dtype, *operands)
            case Unary(op):
                return self.unary(op, source, operands[0])
            case Select():
                return w.keep(f"{texts[0]} ? {texts[1]} : {texts[2]}", operands[1].dtype)
            case Cast(target):
                return w.keep(operators.cast(source, target, texts[0]), target)
            case Bitcast(target):
                return w.keep(operators.bitcast(source, target, texts[0]), target)
            case Narrow(target):
                packed = w.keep(operators.pack(target, texts[0]), U32)
                return w.keep(operators.unpack(target, packed.text), target.widened)
            case Pack(target):
                return w.keep(operators.pack(target, texts[0]), U32)
            case Unpack(target):
                return w.keep(operators.unpack(target, texts[0]), target.widened)
            case WrapCast(target):
                whole = w.keep(f"vy_wrap({texts[0]})", ScalarType.U64)
                return w.keep(operators.cast(ScalarType.U64, target, whole.text), target)
            case Fma():
                return w.keep(operators.fma(source, *texts), source)
            case Native():
                return self._native(expr, texts)
            case _:
                raise unsupported(type(expr).__name__)

    def _native(self, expr: Native, texts: list[str]) -> Value:
        """Writes the checked text of an operation: each line makes a variable of its own."""
        w, made = self._w, dict(zip(map(str, range(len(texts))), texts, strict=True))

        def fill(part: str | NativePlace) -> str:
            if isinstance(part, str):
                return part
            if part.kind == "t":
                return VALUE[part.dtype]
            bits = part.number & ((1 << part.dtype.bits) - 1)
            return f"({literal(Literal(part.dtype, bits))})" if part.kind == "c" else made[part.name]

        for line in native_lines(expr.text):
            target, *rest = [part for part in line if part]
            assert isinstance(target, NativePlace), "checked"
            written = "".join(map(fill, rest)).removeprefix(" = ").removesuffix(";")
            made[target.name] = w.keep(written, expr.dtype if target.name == "out" else target.dtype).text
        return Value(made["out"], expr.dtype)
