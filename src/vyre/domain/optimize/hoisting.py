"""Values that are the same in every round of a loop are computed before it.

Only statements that every round runs are considered, so that nothing is computed for lanes that skip a branch.  Loads
leave a loop only where the memory is never written, the bounds are literals with at least one round, and no lane can
have left the loop before.  Atomics and subgroup operations stay, and nothing leaves a loop with a barrier of the grid.
"""

from __future__ import annotations

from typing import Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import with_operands
from vyre.domain.ir.walk import containers, operands_first
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.walking import Rewriter, names_of, walking_pass

_NEVER: Final = 1 << 30


class _OpenLoop:
    """A loop that is being walked: what is computed before it, and whether the current point is reached for sure."""

    __slots__ = ("before", "is_certain", "names")

    def __init__(self, is_certain: bool) -> None:
        self.before: list[ir.Stmt] = []
        self.is_certain: bool = is_certain
        self.names: dict[int, str] = {}
        """The locals for expressions, by the identity of these."""


def _is_grid_barrier(stmt: ir.Stmt) -> bool:
    return type(stmt) is ir.GridLoop or (type(stmt) is ir.Barrier and stmt.ordering is Ordering.GRID_SYNC)


def _assigned_levels(body: ir.Body) -> dict[str, int]:
    """Returns the number of loops around the innermost assignment to each local that is assigned."""
    levels: dict[str, int] = {}
    pending: list[tuple[ir.Body, int]] = [(body, 0)]
    while pending:
        statements, level = pending.pop()
        for stmt in statements:
            if type(stmt) is ir.Assign:
                levels[stmt.name] = max(level, levels.get(stmt.name, 0))
            inner = level + (type(stmt) is ir.Loop)
            pending += [(nested, inner) for nested in ir.bodies(stmt)]
    return levels


class _Hoisting(Rewriter):
    """The *level* of a value is the number of loops around the innermost one that can change it."""

    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._parameters = {b.name for b in program.buffers if b.is_push}
        self._unwritten = {b.name for b in program.buffers if not b.is_writable}
        self._assigned = _assigned_levels(program.body)
        self._levels: dict[str, int] = {}
        self._facts: dict[int, tuple[int, bool]] = {}
        self._loops: list[_OpenLoop] = []
        self._floors: list[int] = [0]
        self._fixed = containers(program.body, _is_grid_barrier)
        self._memo: dict[int, ir.Expr] = {}
        self._names = names_of(program)

    # ---- levels
    def _examined(self, root: ir.Expr) -> tuple[int, bool]:
        """Returns the level of an expression, and whether it loads."""
        examined = self._facts
        for node in operands_first(root, examined):
            kind = type(node)
            if kind in ir.LEAVES:
                level = self._level_of(node.name) if kind is ir.Var else 0  # type: ignore[union-attr]
                examined[id(node)] = (level, False)
                continue
            level, loads = 0, kind is ir.Load and not self._is_leaf(node)
            if kind in ir.IMPURE or (loads and node.buffer not in self._unwritten):  # type: ignore[union-attr]
                level = _NEVER
            for part in ir.children(node):
                below, loads_below = examined[id(part)]
                level, loads = max(level, below), loads or loads_below
            examined[id(node)] = (level, loads)
        return examined[id(root)]

    def _is_leaf(self, expr: ir.Expr) -> bool:
        """Returns whether an expression costs nothing: it has no operands, or reads a parameter."""
        return type(expr) in ir.LEAVES or (type(expr) is ir.Load and expr.buffer in self._parameters)

    def _level_of(self, name: str) -> int:
        return max(self._levels[name], self._assigned.get(name, 0))

    def _target(self, expr: ir.Expr) -> int:
        """Returns the number of loops around the place where an expression can be computed."""
        level, loads = self._examined(expr)
        level = max(level, self._floors[-1])
        if loads:
            depth = len(self._loops)
            while depth > level and self._loops[depth - 1].is_certain:
                depth -= 1
            return depth
        return level

    # ---- expressions
    def expression(self, expr: ir.Expr) -> ir.Expr:
        if len(self._loops) <= self._floors[-1] or self._is_leaf(expr):
            return expr
        rewritten = self._memo
        depth = len(self._loops)
        stack = [expr]
        while stack:
            node = stack[-1]
            if id(node) in rewritten:
                stack.pop()
                continue
            kind = type(node)
            if self._is_leaf(node):
                rewritten[id(node)] = node
                continue
            target = self._target(node)
            if target < depth:
                rewritten[id(node)] = self._hoisted(node, target)
                continue
            old = ir.CHILDREN[kind](node)
            waiting = [part for part in old if part is not None and id(part) not in rewritten]
            if waiting:
                stack += waiting[::-1]
                continue
            new = [None if part is None else rewritten[id(part)] for part in old]
            rewritten[id(node)] = with_operands(node, new)
        return rewritten[id(expr)]

    def _hoisted(self, expr: ir.Expr, target: int) -> ir.Expr:
        loop = self._loops[target]
        name = loop.names.get(id(expr))
        if name is None:
            self.counts["values"] += 1
            name = loop.names[id(expr)] = self._names.unique("invariant")
            self._levels[name] = target
            loop.before.append(ir.Let(name, expr, loc=expr.loc))
        return ir.Var(name, loc=expr.loc)

    # ---- statements
    def visit_let(self, stmt: ir.Let) -> None:
        depth = len(self._loops)
        if depth > self._floors[-1] and stmt.name not in self._assigned and not self._is_leaf(stmt.value):
            target = self._target(stmt.value)
            if target < depth:
                self.counts["declarations"] += 1
                self._levels[stmt.name] = target
                self._loops[target].before.append(stmt)
                return
        self._levels[stmt.name] = depth
        self.plain(stmt)

    def plain(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Return | ir.Trap):
            for loop in self._loops:
                loop.is_certain = False
        elif isinstance(stmt, ir.Break | ir.Continue):
            self._loops[-1].is_certain = False
        super().plain(stmt)

    def begin_branches(self) -> None:
        self._floors.append(len(self._loops))

    def end_branches(self) -> None:
        self._floors.pop()
        self._memo = {}

    def visit_loop(self, stmt: ir.Loop) -> None:
        is_fixed = id(stmt) in self._fixed
        self._loops.append(_OpenLoop(bool(ir.literal_rounds(stmt))))
        depth = len(self._loops)
        self._levels[stmt.var] = depth
        if is_fixed:
            self._floors.append(depth)
        self._memo = {}
        body = self.body(stmt.body)
        self._memo = {}
        if is_fixed:
            self._floors.pop()
        opened = self._loops.pop()
        loop: Any = self.legal(stmt, self.operands(stmt))
        self.out += opened.before
        if body is not stmt.body:
            loop = ir.Loop(loop.var, loop.start, loop.stop, loop.step, body, loc=loop.loc)
        self.out.append(loop)

    def visit_grid_loop(self, stmt: ir.GridLoop) -> None:
        self._levels[stmt.name] = 0
        super().visit_grid_loop(stmt)


HOISTING: Final = walking_pass("hoisting", 1, _Hoisting)
"""Computes values that do not change in a loop before it."""
