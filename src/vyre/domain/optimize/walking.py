"""The walk over a program in the order in which it runs, which writes its statements anew (``Rewriter``).

All other walks begin with a program in which no two locals have one name (``with_unique_locals``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.limits import U32_MAX
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt, same_statements, with_body, with_branches, with_operands
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.ir.walk import declared_names
from vyre.domain.optimize.passes import Counts, Pass

_CACHED: Final = "unique_locals"
_NO_END: Final = U32_MAX + 1


class Rewriter:
    """A walk in program order, recursive over bodies only.

    Subclasses say what becomes of an expression, and refine the visits of statements.  ``out`` are the statements made
    so far of the body that is being walked; what is None there is left out.  ``current`` is the statement, or the link
    of a chain of ``else if``, whose operands are visited.
    """

    def __init__(self, program: Program, counts: Counts) -> None:
        self.source: Program = program
        self.counts: Counts = counts
        self.out: list[ir.Stmt | None] = []
        self.current: ir.Stmt | None = None

    def expression(self, expr: ir.Expr) -> ir.Expr:
        """Returns what stands for an expression that the current statement evaluates."""
        raise NotImplementedError

    # ---- bodies
    def body(self, body: ir.Body) -> ir.Body:
        """Returns what a body becomes; the very tuple if nothing has changed."""
        around, self.out = self.out, []
        for stmt in body:
            self.visit(stmt)
        rewritten, self.out = [stmt for stmt in self.out if stmt is not None], around
        return same_statements(body, rewritten)

    def visit(self, stmt: ir.Stmt) -> None:
        """Visits one statement of the current body."""
        self.current = stmt
        getattr(self, _VISITS[type(stmt)])(stmt)

    def branch(self, body: ir.Body) -> ir.Body:
        """Returns what a body of an ``if`` or a ``switch`` becomes; lanes may skip it."""
        return self.body(body)

    def begin_branches(self) -> None:
        """Is called after the operand of an ``if`` or ``switch``, before its bodies."""

    def end_branches(self) -> None:
        """Is called after the bodies of an ``if`` or ``switch``."""

    def repeated(self, stmt: ir.Loop | ir.GridLoop) -> ir.Body:
        """Returns what the body of a loop becomes; lanes may run it any number of times."""
        return self.body(stmt.body)

    # ---- statements
    def operands(self, stmt: ir.Stmt) -> Any:
        """Returns a statement with its own expressions replaced; bodies are left as they are."""
        new = [self.expression(expr) for expr in ir.OPERANDS[type(stmt)](stmt)]
        self.evaluated(stmt)
        return with_operands(stmt, new)

    def evaluated(self, stmt: ir.Stmt) -> None:
        """Is called when the operands of a statement have been visited, before it has an effect of its own."""

    def plain(self, stmt: ir.Stmt) -> None:
        """Visits a statement without a body."""
        self.out.append(self.legal(stmt, self.operands(stmt)))

    def legal(self, old: ir.Stmt, new: ir.Stmt) -> ir.Stmt:
        """Returns the new form of a statement, or the old one where the new one would break a rule about literals."""
        if new is not old and (is_misplaced_store(new, self.source) or is_still(new)):
            return old
        return new

    def link(self, link: ir.If) -> ir.Expr:
        """Returns what the condition of an ``else if`` becomes; it is evaluated by some of the lanes."""
        return self.expression(link.condition)

    def visit_if(self, stmt: ir.If) -> None:
        """Visits an ``if`` with all links of its chain."""
        links, last = ir.if_chain(stmt)
        conditions = [self.expression(stmt.condition)]
        self.evaluated(stmt)
        thens: list[ir.Body] = []
        self.begin_branches()
        for link in links:
            if link is not stmt:
                self.current = link
                conditions.append(self.link(link))
            thens.append(self.branch(link.then))
        otherwise = self.branch(last)
        self.end_branches()
        for link, condition, then in zip(reversed(links), reversed(conditions), reversed(thens), strict=True):
            link = linked(link, condition, then, otherwise)
            otherwise = (link,)
        self.out.append(link)

    def visit_switch(self, stmt: ir.Switch) -> None:
        """Visits a ``switch``."""
        switch = self.operands(stmt)
        self.begin_branches()
        arms = [self.branch(arm.body) for arm in stmt.arms]
        default = self.branch(stmt.default)
        self.end_branches()
        self.out.append(with_branches(switch, arms, default))

    def visit_loop(self, stmt: ir.Loop) -> None:
        """Visits a loop; its bounds are evaluated once, before its body."""
        loop = self.legal(stmt, self.operands(stmt))
        self.out.append(with_body(loop, self.repeated(stmt)))

    def visit_grid_loop(self, stmt: ir.GridLoop) -> None:
        """Visits a grid loop."""
        loop = self.operands(stmt)
        self.out.append(with_body(loop, self.repeated(stmt)))

    def visit_block(self, stmt: ir.Block | ir.Region) -> None:
        """Visits a scope."""
        self.out.append(with_body(stmt, self.body(stmt.body)))

    def visit_let(self, stmt: ir.Let) -> None:
        """Visits a declaration."""
        self.plain(stmt)

    def visit_assign(self, stmt: ir.Assign) -> None:
        """Visits an assignment."""
        self.plain(stmt)


class _Renaming(Rewriter):
    """Gives locals names of their own.  ``_shown`` maps the visible ones that have another name now to that name."""

    def __init__(self, program: Program, names: list[str]) -> None:
        super().__init__(program, Counter())
        self._taken = UniqueNames(names)
        self._declared: set[str] = set()
        self._shown: dict[str, str] = {}

    def _declare(self, name: str) -> str:
        if name not in self._declared:
            self._declared.add(name)
            return name
        self._shown[name] = renamed = self._taken.unique(name)
        return renamed

    def _visible(self, node: Any) -> Any:
        if type(node) is ir.Var and node.name in self._shown:
            return replace(node, name=self._shown[node.name])
        return node

    def expression(self, expr: ir.Expr) -> ir.Expr:
        return rebuilt(expr, self._visible, {}) if self._shown else expr

    def operands(self, stmt: ir.Stmt) -> Any:
        if not self._shown:
            return stmt
        memo: dict[int, Any] = {}  # what the operands of a statement share stays shared
        return with_operands(stmt, [rebuilt(each, self._visible, memo) for each in ir.operands(stmt)])

    def body(self, body: ir.Body) -> ir.Body:
        outer, self._shown = self._shown, dict(self._shown)
        renamed = super().body(body)
        self._shown = outer
        return renamed

    def visit_let(self, stmt: ir.Let) -> None:
        self.out.append(replace(self.operands(stmt), name=self._declare(stmt.name)))

    def visit_assign(self, stmt: ir.Assign) -> None:
        self.out.append(replace(self.operands(stmt), name=self._shown.get(stmt.name, stmt.name)))

    def visit_loop(self, stmt: ir.Loop) -> None:
        bounded = self.operands(stmt)
        outer, self._shown = self._shown, dict(self._shown)
        var = self._declare(stmt.var)
        self.out.append(replace(bounded, var=var, body=self.body(stmt.body)))
        self._shown = outer

    def visit_grid_loop(self, stmt: ir.GridLoop) -> None:
        bounded, body = self.operands(stmt), self.body(stmt.body)
        self.out.append(replace(bounded, body=body, name=self._declare(stmt.name)))


def with_unique_locals(program: Program) -> Program:
    """Returns ``program`` if every local of it has a name of its own, else one in which locals are renamed.

    Locals are what ``Let``, ``Loop`` and ``GridLoop`` declare.  The first local of a name keeps it.  Cached on the
    program.  O(nodes).
    """
    cached = program._cache.get(_CACHED)
    if isinstance(cached, Program):
        return cached
    names, unique = list(declared_names(program.body)), program
    if len(set(names)) < len(names):
        unique = replace(program, body=_Renaming(program, names).body(program.body))
    unique._cache[_CACHED] = unique
    program._cache[_CACHED] = unique
    return unique


def names_of(program: Program) -> UniqueNames:
    """Returns the names of the buffers and locals of a program."""
    return UniqueNames((*program.buffers_by_name, *declared_names(program.body)))


def walking_pass(name: str, version: int, walk: Callable[[Program, Counts], Rewriter]) -> Pass:
    """Returns the pass that is a walk over a program with unique locals."""
    return Pass(name, version, lambda program, counts: rewritten_by(walk, program, counts))


def rewritten_by(walk: Callable[[Program, Counts], Rewriter], program: Program, counts: Counts) -> Program:
    """Returns a program after a walk over it with unique locals; the very program if the walk changes nothing."""
    unique = with_unique_locals(program)
    body = walk(unique, counts).body(unique.body)
    return program if body is unique.body else replace(unique, body=body)


def linked(link: ir.If, condition: ir.Expr, then: ir.Body, otherwise: ir.Body) -> ir.If:
    """Returns a link of a chain of ``else if`` with other parts; the link itself if they are its own."""
    is_same = same_statements(link.otherwise, [*otherwise]) is link.otherwise
    if is_same and condition is link.condition and then is link.then:
        return link
    return ir.If(condition, then, otherwise, loc=link.loc)


def is_misplaced_store(stmt: ir.Stmt, program: Program) -> bool:
    """Returns whether a statement stores to a literal index that the buffer does not have, which is an error."""
    if type(stmt) is not ir.Store or type(stmt.index) is not ir.Literal:
        return False
    return not 0 <= stmt.index.value < (program.buffers_by_name[stmt.buffer].count or _NO_END)


def is_still(stmt: ir.Stmt) -> bool:
    """Returns whether a statement is a loop with the literal step 0, which is an error."""
    return type(stmt) is ir.Loop and type(stmt.step) is ir.Literal and stmt.step.bits == 0


_VISITS: Final[dict[type[Node], str]] = {
    **dict.fromkeys(ir.STMT_TYPES, "plain"),
    ir.If: "visit_if",
    ir.Switch: "visit_switch",
    ir.Loop: "visit_loop",
    ir.GridLoop: "visit_grid_loop",
    ir.Block: "visit_block",
    ir.Region: "visit_block",
    ir.Let: "visit_let",
    ir.Assign: "visit_assign",
}
"""The names of the methods that visit statements, by type."""
