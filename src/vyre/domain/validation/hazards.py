"""The rule that atomic and plain accesses to one buffer have a barrier between them on every path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.branches import branches
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.ir.walk import containers
from vyre.domain.validation.findings import Findings, Path

_MATTERING: Final = (ir.AsyncWait, ir.Barrier, ir.Break, ir.Continue, ir.GridLoop, ir.Return, ir.Trap)
_PLAIN: Final = 1
_ATOMIC: Final = 2
_State: TypeAlias = dict[str, int]
"""The kinds of the last accesses to each buffer since a barrier, over all paths that lead to this point."""


def check_hazards(program: Program, findings: Findings) -> None:
    """Reports a hazard at the second access, and continues as if a barrier preceded that access."""
    if ir.ATOMICS.isdisjoint(node_facts(program).types):
        return
    kinds: dict[str, int] = {}
    for stmt in ir.walk_statements(program.body):
        for buffer, kind in _kinds(stmt).items():
            kinds[buffer] = kinds.get(buffer, 0) | kind
    mixed = frozenset(buffer for buffer, kind in kinds.items() if kind == _PLAIN | _ATOMIC)
    if mixed:
        _Hazards(program, mixed, findings)


def _kinds(stmt: ir.Stmt) -> _State:
    kinds: _State = {}
    for buffer, touch in accesses(stmt):
        kinds[buffer] = kinds.get(buffer, 0) | (_ATOMIC if touch is Touch.ATOMIC else _PLAIN)
    return kinds


def _join(states: Iterable[_State | None]) -> _State:
    joined: _State = {}
    for state in states:
        for buffer, kind in (state or {}).items():
            joined[buffer] = joined.get(buffer, 0) | kind
    return joined


class _Hazards:
    """A data-flow analysis along all paths.

    A loop is analysed until the state at its head reaches a fixpoint.  States at heads are kept from one analysis of
    the enclosing loop to the next, so that nested loops are analysed few times.
    """

    def __init__(self, program: Program, mixed: frozenset[str], findings: Findings) -> None:
        self._mixed = mixed
        self._findings = findings
        self._destinations: dict[str, set[str]] = {}
        for stmt in ir.walk_statements(program.body):
            if isinstance(stmt, ir.AsyncLoad | ir.AsyncStore):
                self._destinations.setdefault(stmt.tag, set()).add(stmt.destination)
        self._relevant = containers(program.body, self._matters)
        self._heads: dict[Path, _State] = {}
        self._breaks: list[_State] = []
        self._continues: list[_State] = []
        self._path: list[int] = []
        self._body(program.body, 0, {})

    def _body(self, body: ir.Body, branch: int, state: _State) -> _State | None:
        """Returns the state at the end of the body, or None if no path leads there; changes ``state``."""
        self._path += (branch, 0)
        current: _State | None = state
        for index, stmt in enumerate(body):
            if current is None:
                break
            self._path[-1] = index
            current = self._statement(stmt, current)
        del self._path[-2:]
        return current

    def _matters(self, stmt: ir.Stmt) -> bool:
        """Returns whether a statement changes or requires something of the state, or ends a path."""
        return isinstance(stmt, _MATTERING) or not self._mixed.isdisjoint(_kinds(stmt))

    def _statement(self, stmt: ir.Stmt, state: _State) -> _State | None:
        if isinstance(stmt, ir.GridLoop):
            self._body(stmt.body, 0, {})
            return {}
        self._touch(stmt, state)
        if ir.bodies(stmt) and id(stmt) not in self._relevant:
            return state
        match stmt:
            case ir.Barrier():
                state.clear()
            case ir.Return() | ir.Trap():
                return None
            case ir.Break():
                self._breaks.append(state)
                return None
            case ir.Continue():
                self._continues.append(state)
                return None
            case ir.If() | ir.Switch():
                return self._branches(stmt, state)
            case ir.Loop(body=body):
                return self._loop(body, state)
            case ir.Block(body) | ir.Region(body=body):
                return self._body(body, 0, state)
            case _:
                pass
        return state

    def _branches(self, stmt: ir.If | ir.Switch, state: _State) -> _State | None:
        ends: list[_State] = []
        for body, number, link in branches(stmt):
            if link is not None:
                self._path.append(number - 1)
                self._touch(link, state)
                self._path.pop()
            end = self._body(body, number, dict(state))
            if end is not None:
                ends.append(end)
        return _join(ends) if ends else None

    def _touch(self, stmt: ir.Stmt, state: _State) -> None:
        kinds = _kinds(stmt)
        if isinstance(stmt, ir.AsyncWait):
            kinds = dict.fromkeys(self._destinations.get(stmt.tag, ()), _PLAIN)
        for buffer in sorted(self._mixed.intersection(kinds)):
            kind = kinds[buffer]
            if state.get(buffer, 0) | kind == _PLAIN | _ATOMIC:
                message = f"atomic and plain accesses to `{buffer}` meet here without a barrier between them"
                self._findings.add("V123", message, stmt, path=tuple(self._path))
            # Both kinds in one statement: no barrier can help, and the analysis restarts behind it.
            state[buffer] = kind if kind != _PLAIN | _ATOMIC else 0

    def _loop(self, body: ir.Body, state: _State) -> _State:
        key = tuple(self._path)
        head = _join((self._heads.get(key), state))
        outer = self._breaks, self._continues
        while True:
            self._breaks, self._continues = [], []
            end = self._body(body, 0, dict(head))
            grown = _join((head, end, *self._continues))
            if grown == head:
                break
            head = grown
        self._heads[key] = head
        exits = _join((head, *self._breaks))
        self._breaks, self._continues = outer
        return exits
