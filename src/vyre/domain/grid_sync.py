"""Grid barriers as launch boundaries: a program is split at them, and its parts run one after the other.

Each part keeps the name, the buffers and the workgroup size of the whole program and the scopes that enclose it.  A
local that an earlier part declared is computed again where a later part needs it; validation has ensured that this
gives the same value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vyre.domain.ir.expr import Var
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Block, Body, Let, Region, Stmt, operands, walk_statements
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.validation.grid_barriers import is_grid_barrier
from vyre.domain.validation.validator import check_rules

_CACHED: Final = "grid_sync_plan"


def plan_grid_sync(program: Program) -> tuple[Program, ...]:
    """Returns the launches of ``program`` in order: one more than it has grid barriers.

    Without a grid barrier the result is the program itself.  Raises ``InvalidProgram`` with the report if a program
    with grid barriers is not valid.  The plan is cached on the program.
    """
    plan = program._cache.get(_CACHED)
    if plan is None:
        plan = program._cache[_CACHED] = _plan(program)
    return plan  # type: ignore[return-value]


def has_grid_barriers(program: Program) -> bool:
    """Returns whether the program contains a grid barrier."""
    return any(map(is_grid_barrier, walk_statements(program.body)))


def _plan(program: Program) -> tuple[Program, ...]:
    if not has_grid_barriers(program):
        return (program,)
    check_rules(program).raise_if_invalid()
    return tuple(replace(program, body=body) for body in _split(program.body))


def _split(body: Body) -> list[Body]:
    """Returns the parts of a body between its grid barriers, including those in blocks and regions."""
    parts: list[list[Stmt]] = [[]]
    lets: list[tuple[int, Let]] = []
    for stmt in body:
        if is_grid_barrier(stmt):
            parts.append([])
        elif isinstance(stmt, Block | Region):
            first, *others = _split(stmt.body)
            parts[-1] += _wrapped(stmt, first) if others else (stmt,)
            parts += (_wrapped(stmt, part) for part in others)
        else:
            if isinstance(stmt, Let):
                lets.append((len(parts) - 1, stmt))
            parts[-1].append(stmt)
    return [_with_locals(part, [let for home, let in lets if home < number]) for number, part in enumerate(parts)]


def _wrapped(scope: Block | Region, part: Body) -> list[Stmt]:
    return [replace(scope, body=part)] if part else []


def _with_locals(part: list[Stmt], earlier: list[Let]) -> Body:
    """Returns the part, preceded by the earlier declarations of its scope that it needs, in source order.

    A name visible in the scope is declared once, so names identify declarations.
    """
    if not earlier:
        return tuple(part)
    needed = {name for stmt in walk_statements(tuple(part)) for name in _names(stmt)}
    again: list[Stmt] = []
    for let in reversed(earlier):
        if let.name in needed:
            needed.update(_names(let))
            again.append(let)
    return (*reversed(again), *part)


def _names(stmt: Stmt) -> set[str]:
    return {node.name for node in unique_nodes(operands(stmt)) if isinstance(node, Var)}
