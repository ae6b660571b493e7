"""``Head``: what a node of an expression does, without its operands; and the types and constants of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.ir.expr import (
    LEAVES,
    PURE,
    Binary,
    BufferLength,
    Call,
    Expr,
    Fma,
    LaunchId,
    Literal,
    Load,
    Pack,
    Select,
    SpecConst,
    SubgroupLane,
    SubgroupSize,
    Unary,
    Var,
)
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
    expr: Expr


Types: TypeAlias = Mapping[str, ScalarType]
"""Types by the names of locals, or of buffers (those of their loaded elements)."""

OPERATORS: Final = PURE - LEAVES - {Call} | {Load}
"""The nodes with operands that an e-graph holds."""
_INTERNED: Final[dict[Head, Head]] = {}


def interned(head: Head) -> Head:
    """Returns the one object that stands for an operator's head; heads of loads are as many as buffers have names."""
    return head if head.node is Load else _INTERNED.setdefault(head, head)


def leaf_head(leaf: Any, locals_: Types) -> Head:
    """Returns the head of an expression without operands; raises ``KeyError`` for a local of unknown type."""
    match leaf:
        case Literal():
            return Head(Literal, leaf.bits, leaf.dtype)
        case Var():
            return Head(Var, leaf.name, locals_[leaf.name])
        case LaunchId():
            return Head(LaunchId, (leaf.kind, leaf.axis), _U32)
        case BufferLength():
            return Head(BufferLength, leaf.buffer, _U32)
        case SpecConst():
            return Head(SpecConst, leaf.name, leaf.default.dtype)
        case SubgroupLane() | SubgroupSize():
            return Head(type(leaf), None, _U32)
    raise KeyError(type(leaf))


def operator_head(node: Any, operands: tuple[ScalarType, ...], elements: Types) -> Head:
    """Returns the head of one of ``OPERATORS`` on operands of these types; ``elements`` are the types of loads.

    The operands must be legal.
    """
    first = operands[0]
    match node:
        case Binary():
            result = binary_result(node.op, first, operands[1])
            assert result is not None
            return Head(Binary, node.op, result, first)
        case Unary():
            result = unary_result(node.op, first)
            assert result is not None
            return Head(Unary, node.op, result, first)
        case Select():
            return Head(Select, None, operands[1], operands[1])
        case Load():
            return Head(Load, node.buffer, elements[node.buffer], first)
        case Fma():
            return Head(Fma, None, first, first)
        case Pack():
            return Head(Pack, node.dtype, _U32, first)
    return Head(type(node), node.dtype, node.dtype.widened, first)


def built(head: Head, operands: list[Expr], loc: SourceLocation | None) -> Expr:
    """Returns the expression of an operator's head with these operands."""
    payload = () if head.payload is None else (head.payload,)
    made: Expr = head.node(*payload, *operands, loc=loc)  # type: ignore[assignment]
    return made


def literal_of(head: Head, loc: SourceLocation | None = None) -> Literal:
    """Returns the literal of a literal's head."""
    return Literal(head.dtype, head.payload, loc=loc)


def folded(head: Head, operands: tuple[int, ...]) -> int | None:
    """Returns the bits of an operator on constant operands, by the rules of ``numerics.scalar``; None for a load."""
    rule = FOLD.get(head.node)
    return None if rule is None else rule(head.payload, head.operand, *operands)
