"""Inlining: the value of a local that is read once moves to the place where it is read.

It moves where it stays the same value: nothing on which it depends may change between.  It moves out of no body, and
into no loop, where it would be computed again in every round.  A value that reads memory moves into no branch either,
so that the same lanes read it, and behind no store, even to another buffer: an assembler that cannot tell the two
apart would wait with the load until the store is done.  Atomics and subgroup operations never move, and what they may
change does not move across them.  Expressions stay within the legal depth.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.domain.ir.expr import LEAVES, Expr, Literal, Var, children
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import Body, GridLoop, If, Let, Loop, Stmt, Store, operands, walk_statements
from vyre.domain.optimize.flow import DependenceFacts, Dependences, FlowRewriter
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.walking import walking_pass


class _Pending(NamedTuple):
    """A declaration that may go: the place of the statement, and the circumstances in which it was evaluated."""

    value: Expr
    facts: Dependences
    out: list[Stmt | None]
    slot: int
    time: int
    guard: int
    loop: int


class _Inlining(FlowRewriter):
    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._facts = DependenceFacts(program)
        self._read_once = read_once(program) - self._facts.assigned
        self._pending: dict[str, _Pending] = {}
        self._taken: list[str] = []
        self._bodies = 0
        self._guard = 0
        """The number of the innermost body that some lanes may skip or repeat."""
        self._loop = 0
        self._stored = 0
        """When a statement last stored to memory."""

    # ---- bodies
    def _enter(self) -> int:
        self._bodies += 1
        return self._bodies

    def branch(self, body: Body) -> Body:
        around, self._guard = self._guard, self._enter()
        rewritten = super().branch(body)
        self._guard = around
        return rewritten

    def loop_body(self, stmt: Loop | GridLoop) -> Body:
        around = self._guard, self._loop
        self._guard = self._loop = self._enter()
        rewritten = super().loop_body(stmt)
        self._guard, self._loop = around
        return rewritten

    def link(self, link: If) -> Expr:
        around, self._guard = self._guard, self._enter()
        condition = super().link(link)
        self._guard = around
        return condition

    # ---- statements
    def plain(self, stmt: Stmt) -> None:
        super().plain(stmt)
        if type(stmt) is Store:
            self._stored = self.clock

    def visit_let(self, stmt: Let) -> None:
        slot = len(self.out)
        super().visit_let(stmt)
        let = self.out[slot]
        assert type(let) is Let
        if let.name in self._read_once and type(let.value) is not Literal:
            facts = self._facts.of(let.value)
            if facts.changing is not None:
                self._pending[let.name] = _Pending(
                    let.value, facts, self.out, slot, self.clock, self._guard, self._loop
                )

    def expression(self, expr: Expr) -> Expr:
        inlined = rebuilt(expr, self._inlined, {})
        taken, self._taken = self._taken, []
        if self._facts.of(inlined).height > MAX_EXPRESSION_DEPTH:
            return rebuilt(expr, self._kept, {})
        for name in taken:
            pending = self._pending.pop(name)
            pending.out[pending.slot] = None
            self.counts["inlined"] += 1
        return inlined

    def _kept(self, node: Expr) -> Expr:
        self._facts.of(node)
        return node

    def _inlined(self, node: Expr) -> Expr:
        if type(node) is Var:
            pending = self._pending.get(node.name)
            if pending is not None and self._may_move(pending):
                self._taken.append(node.name)
                return pending.value
        elif type(node) not in LEAVES:
            self._facts.of(node)
        return node

    def _may_move(self, pending: _Pending) -> bool:
        """Returns whether a value is the same at the current statement as it was where it is declared."""
        changing = pending.facts.changing
        assert changing is not None
        if pending.facts.loads and (pending.guard != self._guard or pending.time < self._stored):
            return False
        if pending.loop != self._loop or not self.is_unchanged(changing, pending.time):
            return False
        return not (pending.facts.loads and changing and self.current is not None and self.has_atomic(self.current))


INLINING: Final = walking_pass("inlining", 2, _Inlining)
"""Replaces locals that are read once by their values; counts those ``inlined``."""


def read_once(program: Program) -> frozenset[str]:
    """Returns the names that exactly one operand in the program reads; one that is shared by two counts as two.

    Linear in distinct nodes; does not recurse.
    """
    reads: dict[str, int] = {}
    visits: dict[int, int] = {}
    for stmt in walk_statements(program.body):
        stack = list(operands(stmt))
        while stack:
            node = stack.pop()
            if type(node) is Var:
                reads[node.name] = reads.get(node.name, 0) + 1
            elif type(node) not in LEAVES and visits.get(id(node), 0) < 2:
                visits[id(node)] = visits.get(id(node), 0) + 1
                stack += children(node)
    return frozenset(name for name, number in reads.items() if number == 1)
