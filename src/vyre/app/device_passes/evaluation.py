"""The kernel that computes operators on literals, made of the tables of the operators: one case for each, by types.

Operands and results are bits in 64-bit words, as ``vyre.domain.numerics.scalar`` has them.  The kernel computes each
operator by that operator.  A float result that is NaN is the canonical NaN, which ``bitcast`` gives; the few rules that
keep the bits of a NaN act on the bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

from vyre.app.device_passes.node_lines import Line
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Binary, Bitcast, Cast, Expr, Fma, Literal, Narrow, Pack, Unary, Unpack, WrapCast
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import (
    BINARY,
    FLOATS,
    UNARY,
    BinaryOp,
    Result,
    RightOperand,
    UnaryOp,
    bitcast_is_legal,
    wrap_cast_is_legal,
)
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType
from vyre.domain.ir.value import Value
from vyre.domain.optimize.flat_program import NODE_KINDS

Case: TypeAlias = tuple[type[Node], int, ScalarType, Expr]
"""A class of expressions, the tag of one, the type of its first operand, and the bits of the result as a u64."""
_U32, _U64, _BOOL = ScalarType.U32, ScalarType.U64, ScalarType.BOOL


def key_of(kind: int, tag: int, dtype: int) -> int:
    """Returns what ``Line.TODO`` is for an expression: its class and tag, and the type of its first operand."""
    return (kind + 1) << 16 | tag << 8 | dtype


def _value(bits: Expr, dtype: ScalarType) -> Expr:
    """Returns the value of bits."""
    if dtype is _U64:
        return bits
    if dtype is _BOOL:
        return Binary(BinaryOp.NE, bits, Literal(_U64, 0))
    if dtype.bits == 64:
        return Bitcast(dtype, bits)
    word = Cast(_U32, bits)
    return word if dtype is _U32 else Bitcast(dtype, word)


def _bits(value: Expr, dtype: ScalarType) -> Expr:
    """Returns the bits of a value; those of any NaN are the canonical ones."""
    if dtype is _U64:
        return value
    if dtype.bits == 64:
        return Bitcast(_U64, value)
    return Cast(_U64, value if dtype is _U32 or dtype is _BOOL else Bitcast(_U32, value))


def _u64(bits: int) -> Expr:
    return Literal(_U64, bits)


def _cases(a: Expr, b: Expr, c: Expr) -> Iterator[Case]:
    """Yields all operators on three words of operands."""
    for op, row in BINARY.items():
        for dtype in row.operands:
            right = Cast(_U32, b) if row.right is RightOperand.SHIFT else _value(b, dtype)
            result = Binary(op, _value(a, dtype), right)
            yield Binary, op.value, dtype, _bits(result, _BOOL if row.result is Result.BOOL else dtype)
    for unary, of_one in UNARY.items():
        for dtype in of_one.operands:
            sign = 1 << (dtype.bits - 1)
            if dtype.is_float and unary is UnaryOp.NEGATE:
                expr: Expr = Binary(BinaryOp.BIT_XOR, a, _u64(sign))
            elif dtype.is_float and unary is UnaryOp.ABS:
                expr = Binary(BinaryOp.BIT_AND, a, _u64(sign - 1))
            else:
                expr = _bits(Unary(unary, _value(a, dtype)), _BOOL if of_one.result is Result.BOOL else dtype)
            yield Unary, unary.value, dtype, expr
    yield from _conversions(a)
    for dtype in FLOATS:
        yield Fma, 0, dtype, _bits(Fma(_value(a, dtype), _value(b, dtype), _value(c, dtype)), dtype)


def _conversions(a: Expr) -> Iterator[Case]:
    for target in EXECUTABLE_TYPES:
        for source in EXECUTABLE_TYPES:
            value = _value(a, source)
            yield Cast, target.value, source, a if source is target else _bits(Cast(target, value), target)
            if bitcast_is_legal(source, target):
                yield Bitcast, target.value, source, _bits(value, source)
            if wrap_cast_is_legal(source, target):
                yield WrapCast, target.value, source, _bits(WrapCast(target, value), target)
    for narrow in NARROW_TYPES:
        wide = narrow.widened
        yield Narrow, narrow.value, wide, _bits(Narrow(narrow, _value(a, wide)), wide)
        yield Pack, narrow.value, wide, _bits(Pack(narrow, _value(a, wide)), _U32)
        unpacked = _bits(Unpack(narrow, Cast(_U32, a)), wide)
        if narrow is ScalarType.BF16:  # a load keeps the bits of a NaN
            unpacked = Binary(BinaryOp.SHL, Binary(BinaryOp.BIT_AND, a, _u64(0xFFFF)), Literal(_U32, 16))
        yield Unpack, narrow.value, _U32, unpacked


@cache
def evaluation() -> Program:
    """Returns the program that gives ``count`` nodes from ``order[first]`` on the bits that ``Line.TODO`` asks for."""
    p = ProgramBuilder("evaluate_literals", workgroup=64)
    with p:
        order, nodes = p.input("order", _U32), p.inout("nodes", _U32)
        bits = p.inout("bits", _U64)
        first, count, width = p.param("first", _U32), p.param("count", _U32), p.param("width", _U32)
        lane = p.global_id()
        with p.if_(lane < count):
            node = p.let(order[first + lane], "node")
            key = p.let(nodes[node + width * int(Line.TODO)], "key")
            with p.if_(key != 0):
                words = [
                    p.let(bits[nodes[node + width * int(line)]], name)
                    for line, name in ((Line.A, "a"), (Line.B, "b"), (Line.C, "c"))
                ]
                with p.switch(key) as cases:
                    for kind, tag, dtype, expr in _cases(*[word.expr for word in words]):
                        with cases.case(key_of(NODE_KINDS[kind], tag, dtype.value)):
                            bits[node] = Value(expr, _U64)
    return p.build()
