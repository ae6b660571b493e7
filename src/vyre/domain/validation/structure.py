"""Limits of size and depth.  These checks come first: the others recurse once per level and visit every node."""

from __future__ import annotations

from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.expr import Expr
from vyre.domain.ir.limits import (
    MAX_BUFFERS,
    MAX_DEFINITIONS,
    MAX_EXPRESSION_DEPTH,
    MAX_PROGRAM_NODES,
    MAX_STATEMENT_DEPTH,
)
from vyre.domain.ir.node import misplaced
from vyre.domain.ir.node_facts import remember_nodes
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import WITH_BODIES, Body, Stmt, nested, operands, own_size
from vyre.domain.ir.walk import NO_CHECKS, measure, size_if_small
from vyre.domain.validation.findings import Findings


def check_structure(program: Program, findings: Findings) -> bool:
    """Returns whether the program is small enough to be checked further, and reports it if it is not.

    Of a program that is, the facts that ``node_facts`` returns are known afterwards, from the same walk.

    Linear in distinct expressions and in ``MAX_PROGRAM_NODES``, however deep or shared they are.
    """
    if len(program.buffers) > MAX_BUFFERS:
        findings.add("V019", f"{len(program.buffers)} buffers; the limit is {MAX_BUFFERS}", program)
        return False
    if len(program.definitions) > MAX_DEFINITIONS:
        findings.add("V019", f"{len(program.definitions)} definitions; the limit is {MAX_DEFINITIONS}", program)
        return False
    nodes = 0
    too_deep: set[str] = set()
    measured: dict[int, tuple[int, int]] = {}
    statements: list[Stmt] = []
    expressions: dict[int, Expr] = {}
    pending: list[tuple[Body, int]] = [(program.body, 0)]
    for definition in program.definitions:
        if type(definition) is not Definition:
            raise misplaced(definition, "a definition", "Definition(...)")
        pending.append((definition.body, 0))
        height, size = measure(definition.result, measured, MAX_PROGRAM_NODES + 1, visited=expressions)
        nodes += size
        if height > MAX_EXPRESSION_DEPTH and "V033" not in too_deep:
            message = f"the result of `{definition.id}` is {height} operators deep; the limit is {MAX_EXPRESSION_DEPTH}"
            findings.add("V033", message, definition.result, definition)
            too_deep.add("V033")
    while pending:
        body, depth = pending.pop()
        if type(body) is not tuple:
            raise misplaced(body, "a tuple of statements", "(Return(),)")
        if not body:
            continue
        if depth > MAX_STATEMENT_DEPTH:
            if "V018" not in too_deep:
                message = f"statements are nested {depth} bodies deep; the limit is {MAX_STATEMENT_DEPTH}"
                findings.add("V018", message, body[0])
            too_deep.add("V018")
            continue
        nodes += len(body)
        statements += body
        for stmt in body:
            nodes += own_size(stmt) - 1
            for operand in operands(stmt):
                size = size_if_small(operand, MAX_EXPRESSION_DEPTH, NO_CHECKS, expressions)
                if not size:
                    height, size = measure(operand, measured, MAX_PROGRAM_NODES + 1, visited=expressions)
                    if height > MAX_EXPRESSION_DEPTH and "V033" not in too_deep:
                        message = f"an expression is {height} operators deep; the limit is {MAX_EXPRESSION_DEPTH}"
                        findings.add("V033", message, operand, stmt)
                        too_deep.add("V033")
                nodes += size
            if type(stmt) in WITH_BODIES:
                pending += nested(stmt, depth)
            if nodes > MAX_PROGRAM_NODES:
                findings.add("V019", f"more than {MAX_PROGRAM_NODES} nodes with shared ones written out", program)
                return False
    if too_deep:
        return False
    remember_nodes(program, statements, expressions.values())
    return True
