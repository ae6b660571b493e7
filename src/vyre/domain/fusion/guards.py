"""Stages under equal conditions in one branch, so that values can pass from one to the next without memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from vyre.domain.fusion.indices import Indices, Test
from vyre.domain.ir.expr import Atomic, Load, SubgroupAdd, SubgroupBallot, SubgroupShuffle
from vyre.domain.ir.stmt import Body, If, Let, Stmt
from vyre.domain.ir.walk import unique_nodes


def merge_guards(body: Body, indices: Indices, written: Collection[str]) -> Body:
    """Returns a body in which neighbouring ``if``s with equal or opposite conditions are one.

    Declarations between two of them move before the first, if they read none of the buffers in ``written``.  What
    moves is only reordered against other stages or other lanes, whose elements are others.
    """
    made: list[Stmt] = []
    opened: int | None = None
    test: Test | None = None
    merged: set[int] = set()
    for stmt in body:
        if opened is not None and isinstance(stmt, Let) and _is_movable(stmt, written):
            made.insert(opened, stmt)
            opened += 1
            continue
        found = indices.tests.get(id(stmt)) if isinstance(stmt, If) else None
        if opened is not None and found is not None and test is not None and found.key == test.key:
            first = made[opened]
            assert isinstance(first, If) and isinstance(stmt, If)
            then, otherwise = stmt.then, stmt.otherwise
            if found.holds is not test.holds:
                then, otherwise = otherwise, then
            if not (_declared(first.then) & _declared(then) or _declared(first.otherwise) & _declared(otherwise)):
                made[opened] = replace(first, then=first.then + then, otherwise=first.otherwise + otherwise)
                merged.add(opened)
                continue
        made.append(stmt)
        opened, test = (len(made) - 1, found) if found is not None else (None, None)
    return tuple(_inside(stmt, indices, written) if isinstance(stmt, If) else stmt for stmt in made)


def _inside(stmt: If, indices: Indices, written: Collection[str]) -> If:
    then = merge_guards(stmt.then, indices, written)
    if all(new is old for new, old in zip(then, stmt.then, strict=False)) and len(then) == len(stmt.then):
        then = stmt.then
    return replace(stmt, then=then) if then is not stmt.then else stmt


def _declared(body: Body) -> set[str]:
    return {stmt.name for stmt in body if isinstance(stmt, Let)}


def _is_movable(stmt: Let, written: Collection[str]) -> bool:
    for node in unique_nodes((stmt.value,)):
        if isinstance(node, Atomic | SubgroupAdd | SubgroupBallot | SubgroupShuffle):
            return False
        if isinstance(node, Load) and node.buffer in written:
            return False
    return True
