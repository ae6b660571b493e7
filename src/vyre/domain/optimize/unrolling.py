"""Loops with few rounds become their rounds.

The bounds are literals.  Loops that are left early, and those with barriers of the grid or asynchronous copies, stay.
"""

from __future__ import annotations

from typing import Any, Final

from vyre.domain.ir.bits import value_bits
from vyre.domain.ir.expr import LEAVES, Expr, Literal, Var, children
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Body,
    Break,
    Continue,
    GridLoop,
    Let,
    Loop,
    Return,
    Stmt,
    Trap,
    bodies,
    operands,
    walk_statements,
)
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.ir.walk import containers
from vyre.domain.optimize.loop_rounds import rounds_of
from vyre.domain.optimize.passes import Counts, Pass
from vyre.domain.optimize.purity import IMPURE
from vyre.domain.optimize.rebuilding import rewritten, with_body
from vyre.domain.optimize.walking import Rewriter, is_misplaced_store, is_still, rewritten_by

_MOST_ROUNDS: Final = 8
_MOST_NODES: Final = 192
"""The largest number of nodes of all rounds of a loop together."""
_LEAST_GROWTH: Final = 1024
"""The number of nodes by which any program may grow; larger ones may double."""


def _stays(stmt: Stmt) -> bool:
    if isinstance(stmt, GridLoop | AsyncLoad | AsyncStore | AsyncWait):
        return True
    return type(stmt) is Barrier and stmt.ordering is Ordering.GRID_SYNC


def _left_early(body: Body) -> set[int]:
    """Returns the identities of the loops that a ``break`` or ``continue`` belongs to."""
    found: set[int] = set()
    pending: list[tuple[Body, int]] = [(body, 0)]
    while pending:
        statements, loop = pending.pop()
        for stmt in statements:
            if isinstance(stmt, Break | Continue):
                found.add(loop)
            inner = id(stmt) if type(stmt) is Loop else loop
            pending += [(nested, inner) for nested in bodies(stmt)]
    return found


def _size(body: Body, most: int) -> int:
    """Returns the number of nodes of a body, at most ``most``.  O(``most``)."""
    count = 0
    statements = list(body)
    while statements and count < most:
        stmt = statements.pop()
        count += 1
        pending = list(operands(stmt))
        while pending and count < most:
            node = pending.pop()
            count += 1
            if type(node) not in LEAVES:
                pending += children(node)
        for nested in bodies(stmt):
            statements += nested
    return most if statements else count


def _is_impure(root: Expr) -> bool:
    pending = [root]
    while pending:
        node = pending.pop()
        if type(node) in IMPURE:
            return True
        pending += children(node)
    return False


class _Substitution(Rewriter):
    """A walk that writes literals for counters, and other names for locals."""

    def __init__(self, program: Program, counts: Counts, names: UniqueNames) -> None:
        super().__init__(program, counts)
        self._names = names
        self._values: dict[str, Expr] = {}
        self._made: dict[int, Expr] = {}

    def _fix(self, name: str, value: Expr) -> None:
        self._values[name] = value
        self._made = {}

    def expression(self, expr: Expr) -> Expr:
        return rewritten(expr, self._substituted, self._made) if self._values else expr

    def _substituted(self, node: Expr) -> Expr:
        return self._values.get(node.name, node) if type(node) is Var else node

    def _evaluate(self, *exprs: Expr) -> None:
        """Writes what remains of a statement that does nothing: the effects of its operands."""
        self.out += [Let(self._names.unique("unused"), expr, loc=expr.loc) for expr in exprs if _is_impure(expr)]

    def plain(self, stmt: Stmt) -> None:
        made: Any = self.operands(stmt)
        if is_misplaced_store(made, self.source):
            self._evaluate(made.value)
        else:
            self.out.append(made)


class _Copy(_Substitution):
    """One round of a loop: its locals get names of their own."""

    def __init__(self, program: Program, counts: Counts, names: UniqueNames, counter: str, value: Literal) -> None:
        super().__init__(program, counts, names)
        self._fix(counter, value)

    def _renamed(self, name: str) -> str:
        found = self._values.get(name)
        return found.name if type(found) is Var else name

    def visit_let(self, stmt: Let) -> None:
        value = self.expression(stmt.value)
        name = self._names.unique(stmt.name)
        self._fix(stmt.name, Var(name))
        self.out.append(Let(name, value, loc=stmt.loc))

    def visit_assign(self, stmt: Assign) -> None:
        self.out.append(Assign(self._renamed(stmt.name), self.expression(stmt.value), loc=stmt.loc))

    def visit_loop(self, stmt: Loop) -> None:
        made = self.operands(stmt)
        if is_still(made):
            self._evaluate(made.start, made.stop)
            return
        var = self._names.unique(stmt.var)
        self._fix(stmt.var, Var(var))
        self.out.append(Loop(var, made.start, made.stop, made.step, self.body(stmt.body), loc=stmt.loc))


class _Unrolling(_Substitution):
    """A walk from the innermost loops outwards."""

    def __init__(self, program: Program, counts: Counts) -> None:
        names = UniqueNames()
        for buffer in program.buffers:
            names.reserve(buffer.name)
        for stmt in walk_statements(program.body):
            if isinstance(stmt, Let | GridLoop):
                names.reserve(stmt.name)
            elif isinstance(stmt, Loop):
                names.reserve(stmt.var)
        super().__init__(program, counts, names)
        self._kept = containers(program.body, _stays) | _left_early(program.body)
        self._growth_left = max(_LEAST_GROWTH, node_facts(program).nodes)

    def visit_loop(self, stmt: Loop) -> None:
        made = self.operands(stmt)
        if is_still(made):
            self._evaluate(made.start, made.stop)
            return
        is_kept = id(stmt) in self._kept or (stmt.body and isinstance(stmt.body[-1], Return | Trap))
        rounds = None if is_kept else rounds_of(made)
        if rounds == 0:
            self.counts["loops without rounds"] += 1
        elif rounds == 1:
            self.counts["loops of one round"] += 1
            self._fix(stmt.var, made.start)
            self.out += self.body(stmt.body)
        else:
            loop = with_body(made, self.body(stmt.body))
            if type(loop) is Loop and rounds is not None and self._pays(loop, rounds):
                self._unroll(loop, rounds)
            else:
                self.out.append(loop)

    def _pays(self, loop: Loop, rounds: int) -> bool:
        if rounds > _MOST_ROUNDS:
            return False
        size = rounds * _size(loop.body, _MOST_NODES)
        if size > min(_MOST_NODES, self._growth_left):
            return False
        self._growth_left -= size
        return True

    def _unroll(self, loop: Loop, rounds: int) -> None:
        self.counts["loops unrolled"] += 1
        start, step = loop.start, loop.step
        assert type(start) is Literal and type(step) is Literal
        for number in range(rounds):
            value = int(start.value) + number * int(step.value)
            literal = Literal(start.dtype, value_bits(start.dtype, value), loc=start.loc)
            self.out += _Copy(self.source, self.counts, self._names, loop.var, literal).body(loop.body)


def _run(program: Program, counts: Counts) -> Program:
    return rewritten_by(_Unrolling, program, counts)


UNROLLING: Final = Pass("unrolling", 1, _run)
"""Writes the rounds of short loops one behind the other."""
