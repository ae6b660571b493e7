"""Whether expressions must be evaluated exactly as often, in the order and by the lanes that the program says; and
sizes of expressions and programs, where a pass makes them larger or evaluates more of them.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.expr import LEAVES, Expr, children
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_PROGRAM_NODES
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import operands, walk_statements
from vyre.domain.ir.walk import measure, operands_first


def containing(program: Program, kinds: frozenset[type[Node]]) -> frozenset[int]:
    """Returns the identities of the expressions of a program that are of these types or contain such expressions.

    Linear in distinct nodes; does not recurse.
    """
    if kinds.isdisjoint(node_facts(program).types):
        return frozenset()
    contains_any: dict[int, bool] = {}
    for stmt in walk_statements(program.body):
        for root in operands(stmt):
            _search(root, kinds, contains_any)
    return frozenset(key for key, contains in contains_any.items() if contains)


def _search(root: Expr, kinds: frozenset[type[Node]], contains: dict[int, bool]) -> None:
    for node in operands_first(root, contains):
        below = () if type(node) in LEAVES else children(node)
        contains[id(node)] = type(node) in kinds or any(contains[id(operand)] for operand in below)


_SMALL: Final = 8
"""The largest number of nodes of an expression that is evaluated where its guard does not hold."""
_COSTLY: Final = frozenset({BinaryOp.DIV, BinaryOp.MOD, UnaryOp.SQRT, *TRANSCENDENTALS})


def is_cheap(expr: ir.Expr) -> bool:
    """Returns whether an expression is small, and free of loads, effects and costly operators.  O(1)."""
    stack = [expr]
    count = 0
    while stack:
        node = stack.pop()
        kind = type(node)
        count += 1
        if count > _SMALL or kind in ir.ORDERED:
            return False
        if isinstance(node, ir.Binary | ir.Unary) and node.op in _COSTLY:
            return False
        if kind not in ir.LEAVES:
            stack += ir.children(node)
    return True


def has_room(program: Program) -> bool:
    """Returns whether the program stays legal if one node is added for each of its nodes.

    Shared expressions count at every use, as in the limit of the language.  Linear in distinct nodes.
    """
    sizes: dict[int, tuple[int, int]] = {}
    size = 0
    for stmt in ir.walk_statements(program.body):
        size += ir.own_size(stmt) + sum([measure(root, sizes, MAX_PROGRAM_NODES + 1)[1] for root in ir.operands(stmt)])
    return 2 * size <= MAX_PROGRAM_NODES


class Depths:
    """Tells which expressions may become operands of a new one.  Linear in the distinct nodes of all of them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}
        self._kept: list[ir.Expr] = []

    def leave_room(self, expr: ir.Expr) -> bool:
        """Returns whether an expression is less deep than the limit."""
        self._kept.append(expr)  # what is known about it is stored by its identity
        return measure(expr, self._known, 1 << 30)[0] < MAX_EXPRESSION_DEPTH
