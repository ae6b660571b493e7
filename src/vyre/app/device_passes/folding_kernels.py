"""The kernels that fold the constants of a flattened program, by the rules of ``vyre.domain.optimize.folding``."""

from __future__ import annotations

from typing import Final, Literal

from vyre.app.device_passes.node_lines import Line
from vyre.app.device_passes.pass_kernel import pass_function, pass_kernel
from vyre.app.device_passes.reach_kernels import KIND
from vyre.domain.frontend.annotations import In, InOut
from vyre.domain.frontend.intrinsics import global_id
from vyre.domain.ir import expr
from vyre.domain.ir.expr import IMPURE
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType, u32, u64
from vyre.domain.optimize.flat_program import LITERAL, NODE_KINDS, NONE, Row
from vyre.domain.optimize.folding import SUBGROUP_LANES

NEUTRAL, ABSORBING, ABSORBED, RULES = range(4)
"""The lines of ``rules``, which has a column for each operator and each type of a literal operand: the literal with
which the operator gives the other operand, the one with which it gives the same for all, what that is, and ``HAS_``.
"""
HAS_NEUTRAL: Final = 1
HAS_ABSORBING: Final = 2
COMMUTES: Final = 4
IS_COUNTED: Final = 8
TYPES: Final = 32
"""The columns of ``rules`` for each operator; the tags of all types of values are less."""
ROW_ROOTS, ROW_BUFFER_COUNT = 1, 2
"""The lines of ``rows`` behind ``KIND`` in ``keep_legal``: where the roots of a row begin, and how many elements the
buffer has that it writes, 0 if that is open.
"""

BINARY: Final = NODE_KINDS[expr.Binary]
UNARY: Final = NODE_KINDS[expr.Unary]
SELECT: Final = NODE_KINDS[expr.Select]
CAST: Final = NODE_KINDS[expr.Cast]
BITCAST: Final = NODE_KINDS[expr.Bitcast]
FMA: Final = NODE_KINDS[expr.Fma]
VAR: Final = NODE_KINDS[expr.Var]
BUFFER_LENGTH: Final = NODE_KINDS[expr.BufferLength]
SUBGROUP_SIZE: Final = NODE_KINDS[expr.SubgroupSize]
OF_LITERALS: Final = tuple(NODE_KINDS[kind] for kind in (expr.Narrow, expr.Pack, expr.Unpack, expr.WrapCast))
"""Operators of one operand that do nothing but compute."""
ALWAYS_KEPT: Final = tuple(sorted(NODE_KINDS[kind] for kind in IMPURE))
AND, OR, EQ, NE = BinaryOp.AND.value, BinaryOp.OR.value, BinaryOp.EQ.value, BinaryOp.NE.value
NOT: Final = UnaryOp.LOGICAL_NOT.value
BOOL, I32, I64, U32, U64 = (
    kind.value for kind in (ScalarType.BOOL, ScalarType.I32, ScalarType.I64, ScalarType.U32, ScalarType.U64)
)
INTEGERS: Final = (I32, I64, U32, U64)


@pass_function
def is_wide(tag):  # type: ignore[no-untyped-def]
    """Returns whether an integer type has 64 bits."""
    return tag in (I64, U64)


@pass_function
def final(nodes, node):  # type: ignore[no-untyped-def]
    """Returns the node that stands for an operand."""
    result = node
    if node != NONE:
        result = nodes[Line.BECOMES, node]
    return result


@pass_function
def becomes(nodes, node, other):  # type: ignore[no-untyped-def]
    """Lets another node stand for one."""
    nodes[Line.BECOMES, node] = other
    nodes[Line.SIMPLIFIED, node] += 1


@pass_function
def set_literal(nodes, bits, node, value):  # type: ignore[no-untyped-def]
    """Makes a node a literal."""
    nodes[Line.KIND, node] = LITERAL
    nodes[Line.TAG, node] = nodes[Line.TYPE, node]
    nodes[Line.FOLDED, node] += 1
    bits[node] = value


@pass_function
def evaluate(nodes, node):  # type: ignore[no-untyped-def]
    """Has the operator of a node computed, whose operands are literals."""
    nodes[Line.TODO, node] = (
        (nodes[Line.KIND, node] + 1) << 16 | nodes[Line.TAG, node] << 8 | nodes[Line.TYPE, nodes[Line.A, node]]
    )
    nodes[Line.KIND, node] = LITERAL
    nodes[Line.TAG, node] = nodes[Line.TYPE, node]
    nodes[Line.FOLDED, node] += 1


@pass_function
def negate(nodes, node, operand):  # type: ignore[no-untyped-def]
    """Makes a node, or what stands for it, the negation of a truth value."""
    if nodes[Line.KIND, operand] == UNARY and nodes[Line.TAG, operand] == NOT:
        becomes(nodes, node, nodes[Line.A, operand])
    else:
        nodes[Line.KIND, node] = UNARY
        nodes[Line.TAG, node] = NOT
        nodes[Line.A, node] = operand
        nodes[Line.B, node] = NONE


@pass_function
def fold_with_literal(rules, nodes, bits, node, other, literal, is_left):  # type: ignore[no-untyped-def]
    """Folds an operator of which one operand is a literal."""
    op = nodes[Line.TAG, node]
    dtype = nodes[Line.TYPE, literal]
    value = bits[literal]
    slot = op * TYPES + dtype
    has = rules[RULES, slot]
    is_free = nodes[Line.IMPURE, other] == 0
    if not is_left or (has & COMMUTES) != 0:
        if dtype == BOOL:
            holds = value != 0
            if op in (AND, OR):
                if holds == (op == AND):
                    becomes(nodes, node, other)
                elif is_free:
                    set_literal(nodes, bits, node, value)
            elif op in (EQ, NE):
                if holds == (op == EQ):
                    becomes(nodes, node, other)
                else:
                    nodes[Line.SIMPLIFIED, node] += 1
                    negate(nodes, node, other)
        elif ((has & HAS_NEUTRAL) != 0 and value == rules[NEUTRAL, slot]) or (
            (has & IS_COUNTED) != 0 and (value & u64(63 if is_wide(nodes[Line.TYPE, other]) else 31)) == 0
        ):
            becomes(nodes, node, other)
        elif (has & HAS_ABSORBING) != 0 and value == rules[ABSORBING, slot] and is_free:
            set_literal(nodes, bits, node, rules[ABSORBED, slot])


@pass_function
def is_same(nodes, bits, one, other):  # type: ignore[no-untyped-def]
    """Returns whether two operands are the same literal, local or node."""
    same = one == other
    kind = nodes[Line.KIND, one]
    if not same and kind == nodes[Line.KIND, other]:
        if kind == VAR:
            same = nodes[Line.NAME, one] == nodes[Line.NAME, other]
        elif kind == LITERAL:
            same = nodes[Line.TAG, one] == nodes[Line.TAG, other] and bits[one] == bits[other]
    return same


@pass_function
def fold_select(nodes, bits, node):  # type: ignore[no-untyped-def]
    """Folds a choice between two values."""
    condition, yes, no = nodes[Line.A, node], nodes[Line.B, node], nodes[Line.C, node]
    if nodes[Line.KIND, condition] == LITERAL:
        holds = bits[condition] != 0
        if nodes[Line.IMPURE, no if holds else yes] == 0:
            becomes(nodes, node, yes if holds else no)
    elif is_same(nodes, bits, yes, no) and nodes[Line.IMPURE, condition] == 0 and nodes[Line.IMPURE, no] == 0:
        becomes(nodes, node, yes)


@pass_function
def fold_cast(nodes, node):  # type: ignore[no-untyped-def]
    """Folds a conversion, and those below it that it makes superfluous."""
    dtype = nodes[Line.TYPE, node]
    looks = True
    while looks:
        looks = False
        a = nodes[Line.A, node]
        middle = nodes[Line.TYPE, a]
        if nodes[Line.KIND, a] == LITERAL:
            evaluate(nodes, node)
        elif middle == dtype:
            becomes(nodes, node, a)
        elif nodes[Line.KIND, a] == CAST and dtype in INTEGERS and middle in INTEGERS:
            source = nodes[Line.TYPE, nodes[Line.A, a]]
            if is_wide(middle) or not is_wide(dtype):
                if source == dtype:
                    becomes(nodes, node, nodes[Line.A, a])
                elif source in INTEGERS:
                    nodes[Line.SIMPLIFIED, node] += 1
                    nodes[Line.A, node] = nodes[Line.A, a]
                    looks = True


@pass_kernel
def fold_nodes(
    order: In[u32], rules: In[u64, Literal[2]], nodes: InOut[u32, Literal[2]], bits: InOut[u64], first: u32, count: u32
) -> None:
    """Folds ``count`` nodes from ``order[first]`` on, whose operands have been folded, one on each lane.

    Operators on literals are left to ``evaluation``.
    """
    lane = global_id()
    if lane < count:
        node = order[first + lane]
        kind = nodes[Line.KIND, node]
        a, b, c = (
            final(nodes, nodes[Line.A, node]),
            final(nodes, nodes[Line.B, node]),
            final(nodes, nodes[Line.C, node]),
        )
        nodes[Line.A, node] = a
        nodes[Line.B, node] = b
        nodes[Line.C, node] = c
        is_literal_a = a != NONE and nodes[Line.KIND, a] == LITERAL
        is_literal_b = b != NONE and nodes[Line.KIND, b] == LITERAL
        if kind == BUFFER_LENGTH:
            if nodes[Line.COUNT, node] != 0:
                set_literal(nodes, bits, node, u64(nodes[Line.COUNT, node]))
        elif kind == SUBGROUP_SIZE:
            set_literal(nodes, bits, node, u64(SUBGROUP_LANES))
        elif kind == BINARY:
            if is_literal_a and is_literal_b:
                evaluate(nodes, node)
            elif is_literal_a or is_literal_b:
                other, literal = (b if is_literal_a else a), (a if is_literal_a else b)
                fold_with_literal(rules, nodes, bits, node, other, literal, is_literal_a)
        elif kind == UNARY:
            if is_literal_a:
                evaluate(nodes, node)
            elif nodes[Line.TAG, node] == NOT:
                negate(nodes, node, a)
        elif kind == SELECT:
            fold_select(nodes, bits, node)
        elif kind == CAST:
            fold_cast(nodes, node)
        elif kind == BITCAST:
            if is_literal_a:
                evaluate(nodes, node)
            elif nodes[Line.TYPE, a] == nodes[Line.TYPE, node]:
                becomes(nodes, node, a)
        elif kind == FMA:
            if is_literal_a and is_literal_b and nodes[Line.KIND, c] == LITERAL:
                evaluate(nodes, node)
        elif kind in OF_LITERALS and is_literal_a:
            evaluate(nodes, node)
        stays = nodes[Line.BECOMES, node]
        impure = nodes[Line.IMPURE, stays]
        if stays == node and nodes[Line.KIND, node] != LITERAL:
            impure = 1 if kind in ALWAYS_KEPT else 0
            for line in (Line.A, Line.B, Line.C):
                operand = nodes[line, node]
                if operand != NONE:
                    impure = impure | nodes[Line.IMPURE, operand]
        nodes[Line.IMPURE, node] = impure


@pass_kernel
def keep_legal(
    rows: In[u32, Literal[2]], roots: In[u32], nodes: In[u32, Literal[2]], bits: In[u64], kept: InOut[u32]
) -> None:
    """Finds the rows that must keep their expressions: stores behind the end of a buffer, and loops with the step 0."""
    row = global_id()
    if row < rows.shape[1]:
        kind = rows[KIND, row]
        first = rows[ROW_ROOTS, row]
        if kind == Row.STORE:
            index = nodes[Line.BECOMES, roots[first]]
            if nodes[Line.KIND, index] == LITERAL:
                tag = nodes[Line.TAG, index]
                value = bits[index]
                limit = u64(rows[ROW_BUFFER_COUNT, row])
                if limit == 0:
                    limit = u64(1) << 32
                is_negative = (tag == I32 and value >> 31 != 0) or (tag == I64 and value >> 63 != 0)
                kept[row] = 1 if is_negative or value >= limit else 0
        elif kind == Row.LOOP:
            step = nodes[Line.BECOMES, roots[first + 2]]
            if nodes[Line.KIND, step] == LITERAL and bits[step] == 0:
                kept[row] = 1
