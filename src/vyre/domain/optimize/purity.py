"""Expressions that must be evaluated exactly as often, in the order and by the lanes that the program says."""

from __future__ import annotations

from vyre.domain.ir.expr import LEAVES, Expr, children
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import operands, walk_statements
from vyre.domain.ir.walk import operands_first


def containing(program: Program, kinds: frozenset[type[Node]]) -> frozenset[int]:
    """Returns the identities of the expressions of a program that are of these types or contain such expressions.

    Linear in distinct nodes; does not recurse.
    """
    if kinds.isdisjoint(node_facts(program).types):
        return frozenset()
    found: dict[int, bool] = {}
    for stmt in walk_statements(program.body):
        for root in operands(stmt):
            _search(root, kinds, found)
    return frozenset(key for key, contains in found.items() if contains)


def _search(root: Expr, kinds: frozenset[type[Node]], found: dict[int, bool]) -> None:
    for node in operands_first(root, found):
        below = () if type(node) in LEAVES else children(node)
        found[id(node)] = type(node) in kinds or any(found[id(operand)] for operand in below)
