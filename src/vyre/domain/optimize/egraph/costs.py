"""What each operator costs, by type: the table by which terms are extracted.

Costs are in 1/1024 of a cycle of a lane, rounded to what tells the choices apart: throughput on current GPUs, where an
operation on 64 bits takes twice that on 32.  None is 0 and none is scaled by a factor, so that a term with more nodes
is never as cheap as the same term with fewer.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.expr import (
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Fma,
    LaunchId,
    Literal,
    Load,
    Narrow,
    Pack,
    Select,
    SpecConst,
    SubgroupLane,
    SubgroupSize,
    Unary,
    Unpack,
    Var,
    WrapCast,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.heads import Head

CYCLE: Final = 1024
"""The cost of an operation of one cycle."""
LEAF: Final = CYCLE // 16
"""The cost of a literal or a local."""
_NODES: Final[dict[type[Node], int]] = {
    Literal: LEAF,
    Var: LEAF,
    SpecConst: LEAF,
    LaunchId: 2 * LEAF,
    BufferLength: 2 * LEAF,
    SubgroupLane: 2 * LEAF,
    SubgroupSize: LEAF,
    Load: 32 * CYCLE,
    Select: CYCLE,
    Fma: CYCLE,
    Cast: 2 * CYCLE,
    Bitcast: LEAF,
    Narrow: 2 * CYCLE,
    Pack: 2 * CYCLE,
    Unpack: 2 * CYCLE,
    WrapCast: 8 * CYCLE,
}
_BINARY: Final[dict[BinaryOp, int]] = {
    BinaryOp.ABS_DIFF: 2,
    BinaryOp.SATURATING_ADD: 3,
    BinaryOp.SATURATING_SUB: 3,
    BinaryOp.SATURATING_MUL: 6,
}
_INTEGER: Final[dict[BinaryOp, int]] = {BinaryOp.MUL: 2, BinaryOp.MUL_HIGH: 3, BinaryOp.DIV: 24, BinaryOp.MOD: 26}
_UNARY: Final[dict[UnaryOp, int]] = {
    UnaryOp.POPCOUNT: 2,
    UnaryOp.CLZ: 2,
    UnaryOp.CTZ: 3,
    UnaryOp.REVERSE_BITS: 2,
    UnaryOp.FLOOR: 2,
    UnaryOp.CEIL: 2,
    UnaryOp.TRUNC: 2,
    UnaryOp.ROUND_EVEN: 2,
    UnaryOp.ROUND: 4,
    UnaryOp.SIGN: 4,
    UnaryOp.SQRT: 8,
    UnaryOp.RECIPROCAL: 6,
    UnaryOp.INVERSE_SQRT: 14,
    **dict.fromkeys(TRANSCENDENTALS, 40),
}
_FLOAT_QUOTIENT: Final = 8


def cost_of(head: Head) -> int:
    """Returns the cost of a node without its operands, in 1/1024 of a cycle, at least 1."""
    if head.operand is None:
        return head.payload.size * CYCLE if head.node is Node else _NODES[head.node]
    if head.node is Binary:
        cycles = _binary_cycles(head.payload, head.operand)
    elif head.node is Unary:
        cycles = _UNARY.get(head.payload, 1)
    elif head.node is Cast and _is_free(head.operand, head.dtype):
        return LEAF
    else:
        return _NODES[head.node]
    return cycles * CYCLE * (2 if head.operand.bits == 64 else 1)


def _binary_cycles(op: BinaryOp, operand: ScalarType) -> int:
    if operand.is_float:
        return _FLOAT_QUOTIENT if op is BinaryOp.DIV else 1
    return _INTEGER.get(op) or _BINARY.get(op, 1)


def _is_free(source: ScalarType, target: ScalarType) -> bool:
    """Returns whether a cast keeps the bits."""
    return source is target or (source.is_integer and target.is_integer and source.bits == target.bits)
