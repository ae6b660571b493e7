"""The rule that every asynchronous copy is started once and waited for once, on every path."""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.branches import branches
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.walk import containers
from vyre.domain.validation.findings import Findings

_Pending: TypeAlias = dict[str, ir.AsyncLoad | ir.AsyncStore]
"""Copies that were started and not yet waited for, by tag."""


def check_async_copies(program: Program, findings: Findings) -> None:
    """Reports asynchronous copies that are not paired with one wait on every path."""
    if not _COPYING.isdisjoint(node_facts(program).types):
        _Pairing(program, findings)


_COPYING: Final = frozenset({ir.AsyncLoad, ir.AsyncStore, ir.AsyncWait})
_MATTERING: Final = (
    ir.AsyncLoad,
    ir.AsyncStore,
    ir.AsyncWait,
    ir.Barrier,
    ir.Break,
    ir.Continue,
    ir.GridLoop,
    ir.Return,
    ir.Trap,
)
"""Statements that start, end or require something of copies, or end a path."""


class _Pairing:
    """One traversal along all paths.

    Where paths join, the same copies must be pending on each of them; so the pending copies must be the same before
    and after a loop body.
    """

    def __init__(self, program: Program, findings: Findings) -> None:
        self._findings = findings
        self._relevant = containers(program.body, lambda stmt: isinstance(stmt, _MATTERING))
        self._heads: list[_Pending] = []
        self._path: list[int] = []
        pending = self._body(program.body, 0, {})
        if pending is not None:
            self._require_none(pending, "at the end of the program")

    def _error(self, message: str, stmt: ir.Stmt) -> None:
        self._findings.add("V122", message, stmt, path=tuple(self._path))

    def _require_none(self, pending: _Pending, where: str) -> None:
        for tag, copy in pending.items():
            self._error(f"asynchronous copy `{tag}` is still pending {where}", copy)

    def _body(self, body: ir.Body, branch: int, pending: _Pending) -> _Pending | None:
        """Returns the pending copies at the end, or None if no path leads there; changes ``pending``."""
        self._path += (branch, 0)
        current: _Pending | None = pending
        for index, stmt in enumerate(body):
            if current is None:
                break
            self._path[-1] = index
            current = self._statement(stmt, current)
        del self._path[-2:]
        return current

    def _statement(self, stmt: ir.Stmt, pending: _Pending) -> _Pending | None:
        if ir.bodies(stmt) and id(stmt) not in self._relevant and not isinstance(stmt, ir.GridLoop):
            return pending
        match stmt:
            case ir.AsyncLoad() | ir.AsyncStore():
                self._start(stmt, pending)
            case ir.AsyncWait(tag):
                if pending.pop(tag, None) is None:
                    self._error(f"wait for asynchronous copy `{tag}`, which is not pending", stmt)
            case ir.Barrier(Ordering.GRID_SYNC):
                self._require_none(pending, "at a grid barrier")
                pending.clear()
            case ir.GridLoop(body=body):
                self._require_none(pending, "at a grid loop")
                end = self._body(body, 0, {})
                if end is not None:
                    self._require_none(end, "at the end of a round of a grid loop")
                pending.clear()
            case ir.Return():
                self._require_none(pending, "at a return")
                return None
            case ir.Trap():
                return None
            case ir.Break() | ir.Continue():
                if self._heads:
                    self._require_same(pending, self._heads[-1], "where a loop is left or restarted")
                return None
            case ir.If() | ir.Switch():
                return self._branches(stmt, pending)
            case ir.Loop(body=body):
                self._loop(body, pending)
            case ir.Block(body) | ir.Region(body=body):
                return self._body(body, 0, pending)
            case _:
                pass
        return pending

    def _start(self, stmt: ir.AsyncLoad | ir.AsyncStore, pending: _Pending) -> None:
        if not stmt.tag:
            self._error(f"asynchronous copy from `{stmt.source}` to `{stmt.destination}` has an empty tag", stmt)
        elif stmt.tag in pending:
            self._error(f"asynchronous copy `{stmt.tag}` is started again before its wait", stmt)
        pending[stmt.tag] = stmt

    def _branches(self, stmt: ir.If | ir.Switch, pending: _Pending) -> _Pending | None:
        joined: _Pending | None = None
        where = "after a `switch`" if isinstance(stmt, ir.Switch) else "after an `if`"
        for branch in branches(stmt):
            end = self._body(branch.body, branch.number, dict(pending))
            if joined is not None and end is not None:
                self._require_same(joined, end, where)
                joined = end | joined
            elif end is not None:
                joined = end
        return joined

    def _loop(self, body: ir.Body, pending: _Pending) -> None:
        self._heads.append(pending)
        end = self._body(body, 0, dict(pending))
        self._heads.pop()
        if end is not None:
            self._require_same(end, pending, "where a loop starts again")

    def _require_same(self, first: _Pending, second: _Pending, where: str) -> None:
        for pending, other in ((first, second), (second, first)):
            for tag, copy in pending.items():
                if tag not in other:
                    self._error(f"asynchronous copy `{tag}` is pending on one path and not on another {where}", copy)
