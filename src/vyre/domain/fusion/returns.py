"""Bodies without ``return``: a lane that ended its stage takes part in the next one.

A ``return`` at the end of a branch moves what follows into the other branch, so that its condition stays a guard.
Elsewhere a flag says that the lane has ended, and guards what follows; inside loops the lane also leaves the loop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.rebuilding import with_bodies
from vyre.domain.ir.types import ScalarType

_FALSE: Final = ir.Literal(ScalarType.BOOL, 0)
_TRUE: Final = ir.Literal(ScalarType.BOOL, 1)


def without_returns(body: ir.Body, flag: str) -> ir.Body:
    """Returns a body with the same effects that every lane leaves at its end; ``flag`` is an unused name."""
    if not _returns(body):
        return body
    rewriter = _Rewriter(flag)
    rewritten = rewriter.body(body, in_loop=False)
    return (ir.Let(flag, _FALSE), *rewritten) if rewriter.uses_flag else rewritten


def _returns(body: ir.Body) -> bool:
    return any(isinstance(stmt, ir.Return) for stmt in ir.walk_statements(body))


class _Rewriter:
    def __init__(self, flag: str) -> None:
        self._flag = flag
        self.uses_flag = False

    def body(self, body: ir.Body, *, in_loop: bool) -> ir.Body:
        statements: list[ir.Stmt] = []
        for number, stmt in enumerate(body):
            if isinstance(stmt, ir.Return):
                return (*statements, *self._ended(in_loop=in_loop))
            if not _returns((stmt,)):
                statements.append(stmt)
                continue
            rest = body[number + 1 :]
            if isinstance(stmt, ir.If) and not in_loop:
                moved = self._moved(stmt, rest)
                if moved is not None:
                    return (*statements, moved)
            statements.append(self._inside(stmt, in_loop=in_loop))
            if rest:
                ended = ir.Var(self._flag)
                if in_loop:
                    if isinstance(stmt, ir.Loop):  # elsewhere the lane has left this loop already
                        statements.append(ir.If(ended, (ir.Break(),)))
                    return (*statements, *self.body(rest, in_loop=True))
                return (*statements, ir.If(ir.Unary(UnaryOp.LOGICAL_NOT, ended), self.body(rest, in_loop=False)))
            if in_loop and isinstance(stmt, ir.Loop):
                statements.append(ir.If(ir.Var(self._flag), (ir.Break(),)))
        return tuple(statements)

    def _ended(self, *, in_loop: bool) -> ir.Body:
        self.uses_flag = True
        set_flag = ir.Assign(self._flag, _TRUE)
        return (set_flag, ir.Break()) if in_loop else (set_flag,)

    def _moved(self, stmt: ir.If, rest: ir.Body) -> ir.If | None:
        """Returns the ``if`` with the rest of the body in the branch that goes on, if only one does."""
        then, otherwise = _without_last_return(stmt.then), _without_last_return(stmt.otherwise)
        if then is not None and otherwise is not None:
            return replace(stmt, then=then, otherwise=otherwise)
        if then is not None and not _returns(stmt.otherwise):
            return replace(stmt, then=then, otherwise=self._followed(stmt.otherwise, rest))
        if otherwise is not None and not _returns(stmt.then):
            return replace(stmt, then=self._followed(stmt.then, rest), otherwise=otherwise)
        return None

    def _followed(self, body: ir.Body, rest: ir.Body) -> ir.Body:
        """Returns a body and then the rest, whose names it may use for its own locals."""
        following = self.body(rest, in_loop=False)
        return (ir.Block(body), *following) if body else following

    def _inside(self, stmt: ir.Stmt, *, in_loop: bool) -> ir.Stmt:
        return with_bodies(stmt, lambda body: self.body(body, in_loop=in_loop or isinstance(stmt, ir.Loop)))


def _without_last_return(body: ir.Body) -> ir.Body | None:
    """Returns the body without its last statement if that is its only ``return``, else None."""
    if body and isinstance(body[-1], ir.Return) and not _returns(body[:-1]):
        return body[:-1]
    return None
