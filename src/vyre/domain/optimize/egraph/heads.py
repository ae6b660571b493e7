"""Nodes of expressions without their operands (``Head``), the types and constants of nodes, and their costs.

Costs, by which terms are extracted, are in 1/1024 of a cycle of a lane, where a cycle is the time of a simple operation
on 32 bits.  Those of operators are measured in the code of ``cpu`` and rounded to whole cycles
(``benchmarks/operator_costs.py``; its record is ``benchmarks/results/operator-costs.json``); those of loads,
selections, and conversions of narrow types are estimates.  An operation on 64 bits takes twice that on 32 where no
other cost is given.  None is 0 and none is scaled by a factor, so that a term with more nodes is never as cheap as the
same term with fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BINARY, TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.numerics.constants import FOLD
from vyre.domain.source_location import SourceLocation

_U32: Final = ScalarType.U32


class Opaque(NamedTuple):
    """An expression whose parts an e-graph does not see: its number there, its size written out, and its height."""

    number: int
    size: int
    height: int


class Head(NamedTuple):
    """A node without its operands.

    ``payload`` is the operator, the target type, the bits of a literal, or what tells a leaf from others; ``dtype`` is
    the type of the value, ``operand`` that of the first operand (of the index of a load), None for a leaf.  ``node`` is
    ``Node`` and ``payload`` an ``Opaque`` for an expression that is taken as a leaf.
    """

    node: type[Node]
    payload: Any
    dtype: ScalarType
    operand: ScalarType | None = None


class Entry(NamedTuple):
    """A node of a window: its head, the numbers of the entries of its operands, and the node."""

    head: Head
    operands: tuple[int, ...]
    expr: ir.Expr


Types: TypeAlias = Mapping[str, ScalarType]
"""Types by the names of locals, or of buffers (those of their loaded elements)."""

OPERATORS: Final = ir.PURE - ir.LEAVES - {ir.Call, ir.Native} | {ir.Load}
"""The nodes with operands that an e-graph holds."""
_INTERNED: Final[dict[Head, Head]] = {}


def interned(head: Head) -> Head:
    """Returns the one object that stands for an operator's head; heads of loads are as many as buffers have names."""
    return head if head.node is ir.Load else _INTERNED.setdefault(head, head)


def leaf_head(leaf: Any, locals_: Types) -> Head:
    """Returns the head of an expression without operands; raises ``KeyError`` for a local of unknown type."""
    match leaf:
        case ir.Literal():
            return Head(ir.Literal, leaf.bits, leaf.dtype)
        case ir.Var():
            return Head(ir.Var, leaf.name, locals_[leaf.name])
        case ir.LaunchId():
            return Head(ir.LaunchId, (leaf.kind, leaf.axis), _U32)
        case ir.BufferLength():
            return Head(ir.BufferLength, leaf.buffer, _U32)
        case ir.SpecConst():
            return Head(ir.SpecConst, leaf.name, leaf.default.dtype)
        case ir.SubgroupLane() | ir.SubgroupSize():
            return Head(type(leaf), None, _U32)
    raise KeyError(type(leaf))


def operator_head(node: Any, operands: tuple[ScalarType, ...], elements: Types) -> Head:
    """Returns the head of one of ``OPERATORS`` on operands of these types; ``elements`` are the types of loads.

    The operands must be legal.
    """
    if type(node) is ir.Load:
        return Head(ir.Load, node.buffer, elements[node.buffer], operands[0])
    kind, result = type(node), ir.result_type(node, *operands)
    return Head(kind, ir.DISTINCTIONS[kind](node), result, result if kind is ir.Select else operands[0])


def built(head: Head, operands: list[ir.Expr], loc: SourceLocation | None) -> ir.Expr:
    """Returns the expression of an operator's head with these operands."""
    payload = () if head.payload is None else (head.payload,)
    expr: ir.Expr = head.node(*payload, *operands, loc=loc)  # type: ignore[assignment]
    return expr


def literal_of(head: Head, loc: SourceLocation | None = None) -> ir.Literal:
    """Returns the literal of a literal's head."""
    return ir.Literal(head.dtype, head.payload, loc=loc)


def folded(head: Head, operands: tuple[int, ...]) -> int | None:
    """Returns the bits of an operator on constant operands, by the rules of ``numerics.scalar``; None for a load."""
    rule = FOLD.get(head.node)
    return None if rule is None else rule(head.payload, head.operand, *operands)


CYCLE: Final = 1024
"""The cost of an operation of one cycle."""
LEAF: Final = CYCLE // 16
"""The cost of a literal or a local."""
_NODES: Final[dict[type[Node], int]] = {
    ir.Literal: LEAF,
    ir.Var: LEAF,
    ir.SpecConst: LEAF,
    ir.LaunchId: 2 * LEAF,
    ir.BufferLength: 2 * LEAF,
    ir.SubgroupLane: 2 * LEAF,
    ir.SubgroupSize: LEAF,
    ir.Load: 32 * CYCLE,
    ir.Select: CYCLE,
    ir.Cast: 4 * CYCLE,
    ir.Bitcast: LEAF,
    ir.Narrow: 2 * CYCLE,
    ir.Pack: 2 * CYCLE,
    ir.Unpack: 2 * CYCLE,
    ir.WrapCast: 8 * CYCLE,
}
_BINARY: Final[dict[BinaryOp, int]] = {
    BinaryOp.DIV: 28,
    BinaryOp.MOD: 28,
    BinaryOp.MUL_HIGH: 12,
    BinaryOp.ABS_DIFF: 3,
    BinaryOp.SATURATING_ADD: 4,
    BinaryOp.SATURATING_SUB: 3,
    BinaryOp.SATURATING_MUL: 10,
}
_FLOAT_BINARY: Final[dict[BinaryOp, int]] = {BinaryOp.DIV: 4, BinaryOp.MIN: 6, BinaryOp.MAX: 6}
_FLOAT: Final = 2
"""The cost of other operators on floats."""
_UNARY: Final[dict[UnaryOp, int]] = {
    UnaryOp.CTZ: 3,
    UnaryOp.REVERSE_BITS: 2,
    UnaryOp.FLOOR: 2,
    UnaryOp.CEIL: 2,
    UnaryOp.TRUNC: 2,
    UnaryOp.ROUND_EVEN: 2,
    UnaryOp.ROUND: 6,
    UnaryOp.SIGN: 5,
    UnaryOp.SQRT: 12,
    UnaryOp.RECIPROCAL: 4,
    UnaryOp.INVERSE_SQRT: 20,
    **dict.fromkeys(TRANSCENDENTALS, 150),
}
_WIDE: Final[dict[tuple[object, bool], int]] = {
    (BinaryOp.DIV, False): 370,
    (BinaryOp.MOD, False): 370,
    (BinaryOp.SATURATING_MUL, False): 38,
    (BinaryOp.DIV, True): 19,
    (UnaryOp.SQRT, True): 43,
}
"""The costs with 64 bits that are not twice those with 32, by whether the type is a float."""
_RESIZED: Final = CYCLE


def cost_of(head: Head) -> int:
    """Returns the cost of a node without its operands, in 1/1024 of a cycle, at least 1."""
    if head.operand is None:
        return head.payload.size * CYCLE if head.node is Node else _NODES[head.node]
    if head.node is ir.Cast:
        return _of_cast(head.operand, head.dtype)
    if head.node is ir.Binary:
        table, other = (_FLOAT_BINARY, _FLOAT) if head.operand.is_float else (_BINARY, 1)
        cycles = table.get(head.payload) or (other if BINARY[head.payload].lowers_to is None else _parts(head.payload))
    elif head.node is ir.Unary:
        cycles = _UNARY.get(head.payload, 1)
    elif head.node is ir.Fma:
        cycles = _FLOAT
    else:
        return _NODES[head.node]
    if head.operand.bits == 64:
        cycles = _WIDE.get((head.payload, head.operand.is_float), 2 * cycles)
    return cycles * CYCLE


def _parts(op: BinaryOp) -> int:
    """Returns the number of the operators of which an operator is made that has no cost of its own."""
    from vyre.domain.dialects.laws.lowered import lowering  # few programs have such an operator

    return sum(type(node) not in (ir.Literal, ir.Var) for node in unique_nodes([lowering(op, ScalarType.U32)]))


def _of_cast(source: ScalarType, target: ScalarType) -> int:
    """Returns the cost of a cast: nearly none if it keeps the bits, little if it only resizes an integer."""
    if source is target or (source.is_integer and target.is_integer and source.bits == target.bits):
        return LEAF
    return _RESIZED if source.is_integer and target.is_integer else _NODES[ir.Cast]
