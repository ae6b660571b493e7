"""One traversal of a valid program that collects its lints in program order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from vyre.domain.analysis.index_flow import IndexFlow, survey
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.ir.expr import Atomic, Literal, Load, Var
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    Block,
    Body,
    Break,
    Continue,
    If,
    Let,
    Loop,
    Region,
    Return,
    Stmt,
    Store,
    Trap,
    operands,
)
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.lints.catalogue import LINTS
from vyre.domain.lints.expressions import ExpressionLints
from vyre.domain.lints.lanes import ALL, Lanes, Reach
from vyre.domain.lints.races import near_races, one_element
from vyre.domain.validation.findings import Findings, Path
from vyre.domain.validation.typing import ExpressionTyper, Local


def find_lints(program: Program) -> tuple[Diagnostic, ...]:
    """Returns the lints of a valid program, in program order; each has the user's line where a node carries one."""
    checker = _Checker(program)
    checker.run()
    return checker.findings.found()


class _Place(NamedTuple):
    path: Path
    reach: Reach


class _Checker:
    def __init__(self, program: Program) -> None:
        self.findings: Final = Findings(LINTS)
        self._program = program
        self._buffers = program.buffers_by_name
        self._typer = ExpressionTyper(self._buffers, Findings())
        self._expressions = ExpressionLints(self._buffers, self._typer.type_of)
        self._lanes = Lanes(program)
        self._flow: IndexFlow = survey(program)
        self._seen: set[int] = set()
        self._stores: dict[int, _Place] = {}
        """By reachable store: its position; the reach of a store that occurs several times is unknown."""
        self._written: set[str] = set()
        self._ended = self._left = 0
        """The numbers of visited statements that end a lane, and that leave a round of a loop."""

    def run(self) -> None:
        self._body(self._program.body, 0, self._lanes.everywhere())
        self._check_near_races()
        if self._program.body:
            self._check_outputs()

    def _check_outputs(self) -> None:
        for buffer in self._program.buffers:
            if buffer.is_returned and not buffer.takes_input and buffer.name not in self._written:
                message = f"nothing stores to the output `{buffer.name}`"
                self.findings.add("L012", message, buffer, self._program, path=())

    def _check_near_races(self) -> None:
        for race in near_races(self._flow, self._program.workgroup_size):
            place = self._stores.get(id(race.store))
            if place is not None and abs(race.distance) < place.reach.lanes(race.axis):
                self.findings.add("L003", str(race), race.store, race.other, path=place.path)

    # ---- bodies
    def _body(self, body: Body, branch: int, reach: Reach) -> Reach | None:
        """Returns the lanes that certainly reach the end of a body; None if none does."""
        mark = self._typer.locals.mark
        path = self.findings.path
        path += (branch, 0)
        here: Reach | None = reach
        for index, stmt in enumerate(body):
            path[-1] = index
            if here is None:
                break
            self._typer.begin(stmt)
            self._operands(stmt)
            handler = _HANDLERS.get(type(stmt))
            if handler is not None:
                here = handler(self, stmt, here)
        del path[-2:]
        self._typer.locals.leave(mark)
        return here

    def _operands(self, stmt: Stmt) -> None:
        for expr in unique_nodes(operands(stmt), self._seen):
            lint = self._expressions.of(expr)
            if lint is not None:
                self.findings.add(lint.code, lint.message, expr, stmt)
            if isinstance(expr, Load | Atomic):
                if isinstance(expr, Atomic):
                    self._written.add(expr.buffer)
                self._in_range(expr, stmt)

    def _in_range(self, access: Load | Store | Atomic, stmt: Stmt) -> None:
        if not self._flow.absent.get(id(access), False):
            return
        count = self._buffers[access.buffer].count
        holds = f"which has {count}" if count else "whatever its length is"
        match access:
            case Load():
                message = f"a load beyond the last element of `{access.buffer}`, {holds}, gives 0"
            case Store():
                message = f"a store beyond the last element of `{access.buffer}`, {holds}, never happens"
            case Atomic():
                message = f"an atomic beyond the last element of `{access.buffer}`, {holds}, changes nothing"
        self.findings.add("L005", message, access, stmt)

    # ---- statements; each returns the lanes that certainly reach the next one
    def _let(self, stmt: Let, reach: Reach) -> Reach:
        self._typer.locals.declare(stmt.name, Local(self._typer.type_of(stmt.value)))
        self._lanes.declare(stmt.name, stmt.value)
        return reach

    def _assign(self, stmt: Assign, reach: Reach) -> Reach:
        if isinstance(stmt.value, Var) and stmt.value.name == stmt.name:
            self.findings.add("L009", f"`{stmt.name}` is assigned to itself", stmt)
        self._lanes.assign(stmt.name, stmt.value)
        return reach

    def _store(self, stmt: Store, reach: Reach) -> Reach:
        self._written.add(stmt.buffer)
        occurs_again = id(stmt) in self._stores
        self._stores[id(stmt)] = _Place(tuple(self.findings.path), reach.narrow(ALL) if occurs_again else reach)
        self._in_range(stmt, stmt)
        message = one_element(stmt, self._lanes, reach)
        if message is not None:
            self.findings.add("L003", message, stmt)
        return reach

    def _copy(self, stmt: AsyncLoad | AsyncStore, reach: Reach) -> Reach:
        self._written.add(stmt.destination)
        return reach

    def _if(self, stmt: If, reach: Reach) -> Reach | None:
        if isinstance(stmt.condition, Literal):
            self.findings.add("L008", f"the condition of this `if` is {str(bool(stmt.condition.value)).lower()}", stmt)
        if not stmt.then and not stmt.otherwise:
            self.findings.add("L006", "this `if` has no statement", stmt)
        before = self._ended, self._left
        holds = self._lanes.behind(reach, stmt.condition, True)
        fails = self._lanes.behind(reach, stmt.condition, False)
        then, otherwise = self._body(stmt.then, 0, holds), self._body(stmt.otherwise, 1, fails)
        if then is None or otherwise is None:
            return otherwise if then is None else then
        return reach if (self._ended, self._left) == before else reach.narrow(ALL)

    def _loop(self, stmt: Loop, reach: Reach) -> Reach:
        start, stop = stmt.start, stmt.stop
        if not stmt.body:
            self.findings.add("L006", f"the loop over `{stmt.var}` has no statement", stmt)
        if isinstance(start, Literal) and isinstance(stop, Literal) and start.bits >= stop.bits:
            message = f"the loop over `{stmt.var}` from {start.value} to {stop.value} never runs"
            self.findings.add("L011", message, stmt)
        ended, left = self._ended, self._left
        differs = self._lanes.differs(start) | self._lanes.differs(stop) | self._lanes.differs(stmt.step)
        mark = self._typer.locals.mark
        self._typer.locals.declare(stmt.var, Local(self._typer.type_of(start), is_counter=True))
        self._lanes.declare_counter(stmt.var, start, stmt.step)
        self._body(stmt.body, 0, reach.narrow(differs))
        self._typer.locals.leave(mark)
        self._left = left
        return reach if self._ended == ended else reach.narrow(ALL)

    def _scope(self, stmt: Block | Region, reach: Reach) -> Reach | None:
        return self._body(stmt.body, 0, reach)

    def _leave(self, stmt: Break | Continue, reach: Reach) -> None:
        self._left += 1

    def _end(self, stmt: Return | Trap, reach: Reach) -> None:
        self._ended += 1


_HANDLERS: Final[dict[type[Node], Callable[[_Checker, Any, Reach], Reach | None]]] = {
    Let: _Checker._let,
    Assign: _Checker._assign,
    Store: _Checker._store,
    AsyncLoad: _Checker._copy,
    AsyncStore: _Checker._copy,
    If: _Checker._if,
    Loop: _Checker._loop,
    Block: _Checker._scope,
    Region: _Checker._scope,
    Break: _Checker._leave,
    Continue: _Checker._leave,
    Return: _Checker._end,
    Trap: _Checker._end,
}
