"""Analysis of a program before it is written: which lanes certainly agree on a local or on a condition.

``uniformity`` of the domain decides what is valid and must not trust a load from memory that the program writes.
Here a value only has to be the same for lanes that compute it together, and so a load at an index on which lanes agree
gives them one value: a program where it does not has a data race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.scoped_names import ScopedNames


class Agreement(IntEnum):
    """The lanes that agree: all of the workgroup, those of one vector, or none."""

    WORKGROUP = 0
    VECTOR = 1
    NONE = 2


_W, _V, _N = Agreement.WORKGROUP, Agreement.VECTOR, Agreement.NONE
_PASSES: Final = 12
"""The number of passes after which locals that are still changing count as different in every lane."""


class _Local(NamedTuple):
    """A declaration in force: its agreement, its statement if it can be assigned, and the flow around it."""

    level: Agreement
    let: ir.Let | None
    flow: tuple[int, int]


class _Loop:
    __slots__ = ("flow", "stmt")

    def __init__(self, stmt: ir.Loop, flow: tuple[int, int]) -> None:
        self.stmt: Final = stmt
        self.flow: Final = flow


class Shapes:
    """The agreement of lanes in a program, for vectors of ``lanes`` lanes; keyed by statement objects.

    ``joined`` means that a vector may hold lanes of several workgroups.
    """

    def __init__(self, program: Program, lanes: int, *, joined: bool = False) -> None:
        self._program: Final = program
        self._joined: Final = joined
        self._own_level: Final = _N if lanes > 1 else _V
        """The agreement on what every lane has for itself: a lane that is alone in its vector agrees with all of it."""
        self._ids: Final = _id_levels(program, lanes)
        self._private: Final = frozenset(b.name for b in program.buffers if b.is_private)
        self.mutable: Final = frozenset(s.name for s in ir.walk_statements(program.body) if isinstance(s, ir.Assign))
        """The names of locals that some statement assigns to."""
        self._lets: dict[int, Agreement] = {}
        self._conditions: dict[int, Agreement] = {}
        self._shrinking: dict[int, Agreement] = {}
        self._changed = True
        self._locals: ScopedNames[_Local] = ScopedNames()
        self._loops: list[_Loop] = []
        self._flow = (0, 0)
        self._known: dict[int, Agreement] = {}
        passes = 0
        while self._changed:
            passes += 1
            self._changed = False
            self._body(program.body, give_up=passes > _PASSES)

    def local(self, let: ir.Let) -> Agreement:
        """Returns which lanes agree on a local wherever it may be read, all assignments to it included."""
        return self._lets[id(let)]

    def condition(self, stmt: ir.If | ir.Switch | ir.Loop) -> Agreement:
        """Returns which lanes agree on the condition, the selector or all bounds."""
        return self._conditions[id(stmt)]

    def rounds(self, stmt: ir.Loop) -> Agreement:
        """Returns which lanes run the same rounds of a loop from its start to its end."""
        return max(self._conditions[id(stmt)], self._shrinking.get(id(stmt), _W))

    # ---- the passes
    def _body(self, body: ir.Body, *, give_up: bool) -> None:
        mark = self._locals.mark
        for stmt in body:
            self._known.clear()
            self._statement(stmt, give_up=give_up)
        self._locals.leave(mark)

    def _statement(self, stmt: ir.Stmt, *, give_up: bool) -> None:
        match stmt:
            case ir.Let(name, value):
                level = self.level(value)
                if name in self.mutable:
                    level = self._raise(self._lets, stmt, self._own_level if give_up else level)
                else:
                    self._raise(self._lets, stmt, level)
                self._locals.declare(name, _Local(level, stmt, self._flow))
            case ir.Assign(name, value):
                self._assign(name, self.level(value))
            case ir.If():
                self._if(stmt, give_up=give_up)
            case ir.Switch():
                level = self._raise(self._conditions, stmt, self.level(stmt.selector))
                for body in ir.bodies(stmt):
                    self._inside(body, level, give_up=give_up)
            case ir.Loop():
                self._loop(stmt, give_up=give_up)
            case ir.Break() | ir.Continue():
                self._leave(self._loops[-1:])
            case ir.Return() | ir.Trap():
                self._leave(self._loops)
            case _:
                for body in ir.bodies(stmt):
                    self._body(body, give_up=give_up)

    def _assign(self, name: str, level: Agreement) -> None:
        local = self._locals[name]
        if self._flow[1] > local.flow[1]:
            level = _N
        elif self._flow[0] > local.flow[0]:
            level = max(level, _V)
        assert local.let is not None
        self._raise(self._lets, local.let, level)

    def _if(self, stmt: ir.If, *, give_up: bool) -> None:
        links, otherwise = ir.if_chain(stmt)
        around, most = self._flow, _W
        for link in links:
            self._known.clear()
            most = max(most, self.level(link.condition))
            self._raise(self._conditions, link, most)
            self._inside(link.then, most, give_up=give_up)
            self._flow = around
        self._inside(otherwise, most, give_up=give_up)

    def _loop(self, stmt: ir.Loop, *, give_up: bool) -> None:
        start, stop, step = self.level(stmt.start), self.level(stmt.stop), self.level(stmt.step)
        level = self._raise(self._conditions, stmt, max(start, stop, step))
        level = max(level, self._shrinking.get(id(stmt), _W))
        mark = self._locals.mark
        around = self._flow
        self._flow = _deeper(around, level)
        self._locals.declare(stmt.var, _Local(max(start, step), None, self._flow))
        self._loops.append(_Loop(stmt, self._flow))
        self._body(stmt.body, give_up=give_up)
        self._loops.pop()
        self._flow = around
        self._locals.leave(mark)

    def _inside(self, body: ir.Body, level: Agreement, *, give_up: bool) -> None:
        around = self._flow
        self._flow = _deeper(around, level)
        self._body(body, give_up=give_up)
        self._flow = around

    def _leave(self, loops: Iterable[_Loop]) -> None:
        """Notes that lanes leave loops, all together or not."""
        for loop in loops:
            if self._flow[1] > loop.flow[1]:
                self._raise(self._shrinking, loop.stmt, _N)
            elif self._flow[0] > loop.flow[0]:
                self._raise(self._shrinking, loop.stmt, _V)

    def _raise(self, table: dict[int, Agreement], stmt: Node, level: Agreement) -> Agreement:
        """Notes a level, unless a higher one is known; what has been read of the statement before is then outdated."""
        before = table.get(id(stmt))
        if before is None:  # only the level of a loop's rounds is read before it is known
            self._changed = self._changed or table is self._shrinking
        elif level > before:
            self._changed = True
        else:
            return before
        table[id(stmt)] = level
        return level

    # ---- expressions
    def level(self, root: ir.Expr) -> Agreement:
        """Returns which lanes agree on an expression at the current place of the traversal."""
        known = self._known
        stack: list[ir.Expr] = [root]
        while stack:
            expr = stack[-1]
            rule = _LEVELS.get(type(expr))
            level = None if rule is None else rule(self, expr)
            if level is None:
                level, waiting = _W, len(stack)
                for child in ir.children(expr):
                    below = known.get(id(child))
                    if below is None:
                        stack.append(child)
                    elif below > level:
                        level = below
                if len(stack) > waiting:
                    continue
            known[id(expr)] = level
            stack.pop()
        return known[id(root)]

    def _var(self, expr: ir.Var) -> Agreement:
        local = self._locals[expr.name]
        return local.level if local.let is None else self._lets[id(local.let)]

    def _launch_id(self, expr: ir.LaunchId) -> Agreement:
        if self._joined and expr.axis == 0 and expr.kind is not ir.IdKind.NUM_GROUPS:
            return self._own_level
        return _W if expr.kind in (ir.IdKind.NUM_GROUPS, ir.IdKind.GROUP) else self._ids[expr.axis]

    def _own(self, expr: ir.Atomic | ir.SubgroupLane) -> Agreement:
        return self._own_level


_LEVELS: Final[dict[type[Node], Callable[[Shapes, Any], Agreement | None]]] = {
    ir.Var: Shapes._var,
    ir.LaunchId: Shapes._launch_id,
    ir.Load: lambda shapes, load: shapes._own_level if load.buffer in shapes._private else None,
    ir.Atomic: Shapes._own,
    ir.SubgroupLane: Shapes._own,
    **dict.fromkeys(
        ir.EXCHANGING - {ir.SubgroupShuffle}, lambda shapes, expr: _V if ir.is_common(expr) else shapes._own_level
    ),
}
"""Functions for expressions with an agreement of their own; None where it is that of the operands."""


def _deeper(flow: tuple[int, int], level: Agreement) -> tuple[int, int]:
    """Returns the numbers of conditions around a place on which the workgroup, and on which a vector, may disagree."""
    return flow[0] + (level >= _V), flow[1] + (level >= _N)


def _id_levels(program: Program, lanes: int) -> tuple[Agreement, ...]:
    """Returns which lanes agree on their position along each axis of the workgroup."""
    levels: list[Agreement] = []
    below = 1
    for size in program.workgroup_size:
        levels.append(_W if size == 1 else _V if below % lanes == 0 else _N)
        below *= size
    return tuple(levels)
