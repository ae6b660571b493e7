"""One traversal of a valid program that collects its lints in program order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from vyre.domain.analysis.index_flow import IndexFlow, survey
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.branches import branches
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.lints.catalogue import LINTS
from vyre.domain.lints.expressions import ExpressionLints
from vyre.domain.lints.lanes import ALL, UNKNOWN, Lanes, Reach
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
            if self._buffers[race.store.buffer].is_private:
                continue
            if place is not None and abs(race.distance) < place.reach.lanes(race.axis):
                self.findings.add("L003", str(race), race.store, race.other, path=place.path)

    # ---- bodies
    def _body(self, body: ir.Body, branch: int, reach: Reach) -> Reach | None:
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

    def _operands(self, stmt: ir.Stmt) -> None:
        for expr in unique_nodes(ir.operands(stmt), self._seen):
            lint = self._expressions.of(expr)
            if lint is not None:
                self.findings.add(lint.code, lint.message, expr, stmt)
            if isinstance(expr, ir.Load | ir.Atomic):
                if isinstance(expr, ir.Atomic):
                    self._written.add(expr.buffer)
                self._in_range(expr, stmt)

    def _in_range(self, access: ir.Load | ir.Store | ir.Atomic, stmt: ir.Stmt) -> None:
        if not self._flow.absent.get(id(access), False):
            return
        count = self._buffers[access.buffer].count
        holds = f"which has {count}" if count else "whatever its length is"
        is_negative = isinstance(access.index, ir.Literal) and access.index.value < 0
        where = f"{'before the first' if is_negative else 'beyond the last'} element of `{access.buffer}`, {holds},"
        match access:
            case ir.Load():
                message = f"a load {where} gives 0"
            case ir.Store():
                message = f"a store {where} never happens"
            case ir.Atomic():
                message = f"an atomic {where} changes nothing"
        self.findings.add("L005", message, access, stmt)

    # ---- statements; each returns the lanes that certainly reach the next one
    def _let(self, stmt: ir.Let, reach: Reach) -> Reach:
        self._typer.locals.declare(stmt.name, Local(self._typer.type_of(stmt.value)))
        self._lanes.declare(stmt.name, stmt.value)
        return reach

    def _assign(self, stmt: ir.Assign, reach: Reach) -> Reach:
        if isinstance(stmt.value, ir.Var) and stmt.value.name == stmt.name:
            self.findings.add("L009", f"`{stmt.name}` is assigned to itself", stmt)
        self._lanes.assign(stmt.name, stmt.value)
        return reach

    def _store(self, stmt: ir.Store, reach: Reach) -> Reach:
        self._written.add(stmt.buffer)
        occurs_again = id(stmt) in self._stores
        self._stores[id(stmt)] = _Place(tuple(self.findings.path), reach.narrow(ALL) if occurs_again else reach)
        self._in_range(stmt, stmt)
        message = None if self._buffers[stmt.buffer].is_private else one_element(stmt, self._lanes, reach)
        if message is not None:
            self.findings.add("L003", message, stmt)
        return reach

    def _copy(self, stmt: ir.AsyncLoad | ir.AsyncStore, reach: Reach) -> Reach:
        self._written.add(stmt.destination)
        return reach

    def _if(self, stmt: ir.If, reach: Reach) -> Reach | None:
        """Walks a chain of ``else if``; ``reach`` becomes that of each link in turn, and of the last ``otherwise``."""
        joined, narrowed = reach, False
        ends: list[Reach] = []
        for body, number, link in branches(stmt):
            test = stmt if number == 0 else link
            holds = reach
            if test is not None:
                self._condition(test, number)
                holds = self._lanes.behind(reach, test.condition, True)
            if not ends:
                joined, narrowed = reach, False
            narrowed |= self._end_of(body, number, holds, ends)
            if test is not None:
                reach = self._lanes.behind(reach, test.condition, False)
        return _joined(ends, joined, narrowed)

    def _end_of(self, body: ir.Body, number: int, reach: Reach, ends: list[Reach]) -> bool:
        """Adds the lanes at the end of a body to ``ends``; returns whether lanes of ``reach`` may be missing there."""
        before = self._ended, self._left
        end = self._body(body, number, reach)
        if end is not None:
            ends.append(end)
        return (self._ended, self._left) != before

    def _condition(self, stmt: ir.If, number: int) -> None:
        path = self.findings.path
        if number:
            path.append(number - 1)
            self._typer.begin(stmt)
            self._operands(stmt)
        if isinstance(stmt.condition, ir.Literal):
            self.findings.add("L008", f"the condition of this `if` is {str(bool(stmt.condition.value)).lower()}", stmt)
        if not stmt.then and not stmt.otherwise:
            self.findings.add("L006", "this `if` has no statement", stmt)
        if number:
            path.pop()

    def _switch(self, stmt: ir.Switch, reach: Reach) -> Reach | None:
        if isinstance(stmt.selector, ir.Literal):
            self.findings.add("L008", f"the selector of this `switch` is {stmt.selector.value}", stmt)
        if not any(ir.bodies(stmt)):
            self.findings.add("L006", "this `switch` has no statement", stmt)
        for arm in stmt.arms:
            for label in arm.labels:
                lint = self._expressions.of_label(stmt.selector, label)
                if lint is not None:
                    self.findings.add(lint.code, lint.message, label, arm, stmt)
        differs = self._lanes.differs(stmt.selector)
        inside = reach.narrow(ALL if differs & UNKNOWN else differs)
        ends: list[Reach] = []
        narrowed = False
        for branch in branches(stmt):
            known = len(ends)
            leaves = self._end_of(branch.body, branch.number, inside, ends)
            narrowed |= leaves and (differs != 0 or len(ends) > known)  # else no lane of the workgroup gets here
        return _joined(ends, reach, narrowed)

    def _loop(self, stmt: ir.Loop, reach: Reach) -> Reach:
        start = stmt.start
        if not stmt.body:
            self.findings.add("L006", f"the loop over `{stmt.var}` has no statement", stmt)
        if _never_runs(stmt):
            bounds = f"from {start.value} to {stmt.stop.value}"  # type: ignore[union-attr]
            step = f" by {stmt.step.value}" if isinstance(stmt.step, ir.Literal) and stmt.step.value != 1 else ""
            self.findings.add("L011", f"the loop over `{stmt.var}` {bounds}{step} never runs", stmt)
        ended, left = self._ended, self._left
        differs = self._lanes.differs(start) | self._lanes.differs(stmt.stop) | self._lanes.differs(stmt.step)
        mark = self._typer.locals.mark
        self._typer.locals.declare(stmt.var, Local(self._typer.type_of(start), is_counter=True))
        self._lanes.declare_counter(stmt.var, start, stmt.step)
        self._body(stmt.body, 0, reach.narrow(differs))
        self._typer.locals.leave(mark)
        self._left = left
        return reach if self._ended == ended else reach.narrow(ALL)

    def _grid_loop(self, stmt: ir.GridLoop, reach: Reach) -> Reach:
        if not stmt.body:
            self.findings.add("L006", f"the grid loop `{stmt.name}` has no statement", stmt)
        if isinstance(stmt.limit, ir.Literal) and not stmt.limit.value:
            self.findings.add("L011", f"the grid loop `{stmt.name}` with the limit 0 never runs", stmt)
        self._written.add(stmt.flag)
        self._body(stmt.body, 0, reach)
        self._typer.locals.declare(stmt.name, Local(ScalarType.U32, is_counter=True))
        self._lanes.declare_counter(stmt.name, stmt.limit, stmt.limit)
        return reach

    def _scope(self, stmt: ir.Block | ir.Region, reach: Reach) -> Reach | None:
        return self._body(stmt.body, 0, reach)

    def _leave(self, stmt: ir.Break | ir.Continue, reach: Reach) -> None:
        self._left += 1

    def _end(self, stmt: ir.Return | ir.Trap, reach: Reach) -> None:
        self._ended += 1


def _joined(ends: list[Reach], joined: Reach, narrowed: bool) -> Reach | None:
    """Returns the lanes behind a branching statement from those at the ends of its bodies.

    ``joined`` are the lanes that reach the first of these bodies or a later one; ``narrowed``: some may have ended.
    """
    if len(ends) < 2:
        return ends[0] if ends else None
    return joined.narrow(ALL) if narrowed else joined


def _never_runs(stmt: ir.Loop) -> bool:
    """Returns whether the bounds are literals, and the last is not beyond the first in the direction of the step."""
    start, stop, step = stmt.start, stmt.stop, stmt.step
    if not isinstance(start, ir.Literal) or not isinstance(stop, ir.Literal):
        return False
    if start.value == stop.value:
        return True
    if not isinstance(step, ir.Literal):
        return start.value > stop.value and not start.dtype.is_signed
    return start.value > stop.value if step.value > 0 else start.value < stop.value


_HANDLERS: Final[dict[type[Node], Callable[[_Checker, Any, Reach], Reach | None]]] = {
    ir.Let: _Checker._let,
    ir.Assign: _Checker._assign,
    ir.Store: _Checker._store,
    ir.AsyncLoad: _Checker._copy,
    ir.AsyncStore: _Checker._copy,
    ir.If: _Checker._if,
    ir.Switch: _Checker._switch,
    ir.Loop: _Checker._loop,
    ir.GridLoop: _Checker._grid_loop,
    ir.Block: _Checker._scope,
    ir.Region: _Checker._scope,
    ir.Break: _Checker._leave,
    ir.Continue: _Checker._leave,
    ir.Return: _Checker._end,
    ir.Trap: _Checker._end,
}
