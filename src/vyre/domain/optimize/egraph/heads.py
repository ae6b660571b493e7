"""``Head``: what a node of an expression does, without its operands; and the types and constants of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import binary_result, unary_result
from vyre.domain.ir.types import ScalarType
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
    first = operands[0]
    match node:
        case ir.Binary():
            result = binary_result(node.op, first, operands[1])
            assert result is not None
            return Head(ir.Binary, node.op, result, first)
        case ir.Unary():
            result = unary_result(node.op, first)
            assert result is not None
            return Head(ir.Unary, node.op, result, first)
        case ir.Select():
            return Head(ir.Select, None, operands[1], operands[1])
        case ir.Load():
            return Head(ir.Load, node.buffer, elements[node.buffer], first)
        case ir.Fma():
            return Head(ir.Fma, None, first, first)
        case ir.Pack():
            return Head(ir.Pack, node.dtype, _U32, first)
    return Head(type(node), node.dtype, node.dtype.widened, first)


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
