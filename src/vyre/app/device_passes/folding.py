"""The pass ``folding`` with its rules applied on a device: the same program and counts as on the host."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vyre.app.device_passes import folding_kernels as folding
from vyre.app.device_passes.evaluation import evaluation
from vyre.app.device_passes.node_lines import LINES, Line
from vyre.domain.ir.expr import Cast, Expr, Literal, Unary
from vyre.domain.ir.operators import COMMUTING, COUNTED, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType
from vyre.domain.optimize.flat_facts import levels, node_types, padded
from vyre.domain.optimize.flat_program import (
    LITERAL,
    NODE_KINDS,
    NONE,
    FlatProgram,
    Row,
    flatten,
    unflatten,
    with_first_operands,
)
from vyre.domain.optimize.folding import absorbing, neutral
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.walking import with_unique_locals

if TYPE_CHECKING:
    from vyre.app.device_passes.rounds import Rounds, Words


def fold(program: Program, counts: Counts, rounds: Rounds) -> Program:
    """Returns what ``vyre.domain.optimize.folding`` returns, and counts the same."""
    flat = flatten(with_unique_locals(program))
    if not flat.exprs:
        return program
    order = levels(flat)
    with rounds.held({"nodes": _nodes(flat), "bits": flat.node_bits}) as memory:
        inputs = {"order": order.items, **memory}
        width = {"width": np.uint32(len(flat.exprs))}
        for first, stop in zip(order.start[:-1].tolist(), order.start[1:].tolist(), strict=True):
            span = {"first": np.uint32(first), "count": np.uint32(stop - first)}
            rounds.once(folding.fold_nodes.program, stop - first, {**inputs, **span, "rules": _rules()})
            if first:
                rounds.once(evaluation(), stop - first, {**inputs, **span, **width})
        kept = rounds.once(
            folding.keep_legal.program,
            flat.rows,
            {"rows": _rows(flat), "roots": padded(flat.roots.items), **memory, "kept": np.zeros(flat.rows, np.uint32)},
        )["kept"]
        nodes, bits = memory["nodes"].download(), memory["bits"].download()
    for line, name in ((Line.FOLDED, "folded"), (Line.SIMPLIFIED, "simplified")):
        if number := int(nodes[line].sum()):
            counts[name] += number
    folded = _expressions(flat, nodes, bits)
    start, items = flat.roots.start.tolist(), flat.roots.items.tolist()
    roots = [
        [(flat.exprs if kept[row] else folded)[node] for node in items[start[row] : start[row + 1]]]
        for row in range(flat.rows)
    ]
    if all(new is flat.exprs[node] for new, node in zip((expr for row in roots for expr in row), items, strict=True)):
        return program
    return unflatten(flat, roots)


def _nodes(flat: FlatProgram) -> Words:
    """Returns the matrix of the nodes."""
    nodes = np.zeros((LINES, len(flat.exprs)), np.uint32)
    nodes[Line.KIND], nodes[Line.TAG], nodes[Line.NAME] = flat.node_kind, flat.node_tag, flat.node_name
    nodes[Line.TYPE] = node_types(flat)
    start, items = flat.operands
    for place, line in enumerate((Line.A, Line.B, Line.C)):
        has = np.diff(start) > place
        nodes[line] = NONE
        nodes[line, has] = items[start[:-1][has] + place]
    lengths = np.array([buffer.count for buffer in flat.program.buffers], np.uint32)
    names = flat.node_kind == folding.BUFFER_LENGTH
    nodes[Line.COUNT, names] = lengths[flat.node_name[names]]
    nodes[Line.BECOMES] = np.arange(len(flat.exprs), dtype=np.uint32)
    return nodes


def _rows(flat: FlatProgram) -> Words:
    """Returns the matrix of the rows."""
    counts = np.zeros(flat.rows, np.uint32)
    stores = flat.row_kind == Row.STORE
    lengths = np.array([buffer.count for buffer in flat.program.buffers], np.uint32)
    counts[stores] = lengths[flat.row_buffer[stores]]
    return np.stack([flat.row_kind, flat.roots.start[:-1], counts])


@cache
def _rules() -> npt.NDArray[np.uint64]:
    """Returns what the pass knows of operators with a literal operand."""
    rules = np.zeros((4, (max(op.value for op in BinaryOp) + 1) * folding.TYPES), np.uint64)
    for op in BinaryOp:
        for dtype in EXECUTABLE_TYPES:
            slot = op.value * folding.TYPES + dtype.value
            has = folding.COMMUTES * (op in COMMUTING) | folding.IS_COUNTED * (op in COUNTED)
            if dtype is not ScalarType.BOOL:
                if (same := neutral(op, dtype)) is not None:
                    has |= folding.HAS_NEUTRAL
                    rules[folding.NEUTRAL, slot] = same
                if (literals := absorbing(op, dtype)) is not None:
                    has |= folding.HAS_ABSORBING
                    rules[folding.ABSORBING, slot], rules[folding.ABSORBED, slot] = literals
            rules[folding.RULES, slot] = has
    return rules


def _expressions(flat: FlatProgram, nodes: Words, bits: npt.NDArray[np.uint64]) -> list[Expr]:
    """Returns what each node becomes; the very expression where nothing of it has changed."""
    exprs: list[Expr] = []
    operands = list(zip(*[nodes[line].tolist() for line in (Line.A, Line.B, Line.C)], strict=True))
    kinds, types, becomes = nodes[Line.KIND].tolist(), nodes[Line.TYPE].tolist(), nodes[Line.BECOMES].tolist()
    before, values = flat.node_kind.tolist(), bits.tolist()
    for node, expr in enumerate(flat.exprs):
        if becomes[node] != node:
            exprs.append(exprs[becomes[node]])
        elif kinds[node] == LITERAL:
            exprs.append(expr if before[node] == LITERAL else _literal(types[node], values[node], expr))
        elif kinds[node] == _UNARY and before[node] != _UNARY:
            exprs.append(Unary(UnaryOp.LOGICAL_NOT, exprs[operands[node][0]], loc=expr.loc))
        else:
            below: list[Any] = [None if operand == NONE else exprs[operand] for operand in operands[node]]
            if type(expr) is Cast and below[0] is not expr.operand:
                exprs.append(Cast(expr.dtype, below[0], loc=expr.loc))
            else:
                exprs.append(with_first_operands(expr, below))
    return exprs


def _literal(tag: int, bits: int, expr: Expr) -> Literal:
    return Literal(ScalarType(tag), bits, loc=expr.loc)


_UNARY = NODE_KINDS[Unary]
