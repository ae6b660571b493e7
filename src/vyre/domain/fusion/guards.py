"""Stages under equal conditions in one branch, so that values can pass from one to the next without memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from vyre.domain.fusion.indices import Indices, Test
from vyre.domain.ir.expr import IMPURE, Binary, Load, Var
from vyre.domain.ir.operators import COMPARISONS, EQUALITIES, OPPOSITE
from vyre.domain.ir.rebuilding import same_statements
from vyre.domain.ir.stmt import Assign, Body, If, Let, Stmt, walk_statements
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.source_location import joined_places

_ORDERS: Final = COMPARISONS - EQUALITIES


def merge_guards(body: Body, indices: Indices, written: Collection[str]) -> Body:
    """Returns a body in which neighbouring ``if``s with equal or opposite conditions are one.

    An ``if`` whose condition only holds where that of the one before does moves into it.  Declarations between two of
    them move before the first, if they read none of the buffers in ``written`` and no local that it assigns.  Nothing
    else is reordered.
    """
    return _Guards(indices, written).body(body)


class _Guards:
    def __init__(self, indices: Indices, written: Collection[str]) -> None:
        self._indices = indices
        self._written = written
        self._turned: dict[int, tuple[If, Test]] = {}
        """Statements that were written anew with the opposite condition, by identity."""

    def body(self, body: Body) -> Body:
        statements: list[Stmt] = []
        opened: int | None = None
        test: Test | None = None
        for original in body:
            stmt = self._turn(original) if isinstance(original, If) else original
            if opened is not None and isinstance(stmt, Let) and self._is_movable(stmt, statements[opened]):
                statements.insert(opened, stmt)
                opened += 1
                continue
            tested = self._test(stmt) if isinstance(stmt, If) else None
            if opened is not None and test is not None and tested is not None:
                first = statements[opened]
                assert isinstance(first, If) and isinstance(stmt, If)
                merged = self._merged(first, test, stmt, tested)
                if merged is not None:
                    statements[opened] = merged
                    continue
            statements.append(stmt)
            opened, test = (len(statements) - 1, tested) if tested is not None else (None, None)
        return same_statements(body, [self._inside(stmt) if isinstance(stmt, If) else stmt for stmt in statements])

    def _merged(self, first: If, test: Test, stmt: If, tested: Test) -> If | None:
        """Returns both statements as one, or None."""
        if tested.key == test.key:
            then, otherwise = stmt.then, stmt.otherwise
            if tested.holds is not test.holds:
                then, otherwise = otherwise, then
            if first.otherwise and then:
                return None  # the other branch comes first
            if _declared(first.then) & _declared(then) or _declared(first.otherwise) & _declared(otherwise):
                return None
            place = joined_places(first.loc, stmt.loc)
            return replace(first, then=first.then + then, otherwise=first.otherwise + otherwise, loc=place)
        if stmt.otherwise or first.otherwise or not (tested.holds and test.holds):
            return None
        if tested.lower is None or tested.lower is not test.lower:
            return None
        upper, limit = self._indices.number(tested.upper), self._indices.number(test.upper)
        if upper is None or limit is None or upper > limit:
            return None
        return replace(first, then=(*first.then, stmt))

    def _test(self, stmt: If) -> Test | None:
        turned = self._turned.get(id(stmt))
        return self._indices.tests.get(id(stmt)) if turned is None else turned[1]

    def _turn(self, stmt: If) -> If:
        """Returns ``if`` with an empty first branch and a comparison of integers with the opposite comparison."""
        test = self._indices.tests.get(id(stmt))
        condition = stmt.condition
        if test is None or stmt.then or not isinstance(condition, Binary) or condition.op not in _ORDERS:
            return stmt
        opposite = replace(condition, op=OPPOSITE[condition.op])
        turned = replace(stmt, condition=opposite, then=stmt.otherwise, otherwise=())
        self._turned[id(turned)] = (turned, test._replace(holds=not test.holds))
        return turned

    def _inside(self, stmt: If) -> If:
        then = self.body(stmt.then)
        return stmt if then is stmt.then else replace(stmt, then=then)

    def _is_movable(self, stmt: Let, before: Stmt) -> bool:
        """Returns whether a declaration has the same value in front of the statement before it."""
        assigned = {inner.name for inner in walk_statements((before,)) if isinstance(inner, Assign)}
        for node in unique_nodes((stmt.value,)):
            if type(node) in IMPURE:
                return False
            if isinstance(node, Load) and node.buffer in self._written:
                return False
            if isinstance(node, Var) and node.name in assigned:
                return False
        return True


def _declared(body: Body) -> set[str]:
    return {stmt.name for stmt in body if isinstance(stmt, Let)}
