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
    known: dict[int, bool] = {}
    for stmt in walk_statements(program.body):
        for root in operands(stmt):
            _search(root, kinds, known)
    return frozenset(key for key, contains in known.items() if contains)


def _search(root: Expr, kinds: frozenset[type[Node]], contains: dict[int, bool]) -> None:
    for node in operands_first(root, contains):
        below = () if type(node) in LEAVES else children(node)
        contains[id(node)] = type(node) in kinds or any(contains[id(operand)] for operand in below)
