"""Value numbering: an expression whose value a dominating statement has computed reads that value from a local.

Two expressions have one number if they apply the same operator to operands with the same numbers.  A local that is
never assigned has the number of its value, one that is assigned a new number at every change.  A load of a buffer that
the program does not write has the number of its buffer and index; another load has a new number after each store of the
program to the buffer, and, unless the buffer is private, after each barrier, atomic and asynchronous copy.  Atomics and
subgroup operations, and what contains them, have numbers of their own.

If the first expression with a number has no local, it gets one in front of its statement, where that saves more than it
costs.  Nothing is shared across barriers of the grid, so that programs can be split there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import COMMUTING
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt_from
from vyre.domain.ir.walk import containers, operands_first
from vyre.domain.optimize.flow import DependenceFacts, FlowRewriter
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.purity import has_room
from vyre.domain.optimize.walking import Rewriter, names_of, walking_pass
from vyre.domain.source_location import SourceLocation, joined_places
from vyre.domain.validation.grid_barriers import splits_grid

_Number: TypeAlias = int


LEAF_KEYS: Final[dict[type[Node], Callable[[Any], tuple[object, ...]]]] = {
    ir.Literal: lambda e: (ir.Literal, e.dtype, e.bits),
    ir.BufferLength: lambda e: (ir.BufferLength, e.buffer),
    ir.LaunchId: lambda e: (ir.LaunchId, e.kind, e.axis),
    ir.SubgroupLane: lambda e: (ir.SubgroupLane,),
    ir.SubgroupSize: lambda e: (ir.SubgroupSize,),
    ir.SpecConst: lambda e: (ir.SpecConst, e.name),
}


class First:
    """The first expression with a number on the way to a point: where it is, and the later ones that it dominates."""

    __slots__ = ("later", "name", "node", "place", "segment")

    def __init__(self, node: ir.Expr, place: int, segment: int, name: str | None) -> None:
        self.node: ir.Expr = node
        self.place: int = place
        self.segment: int = segment
        self.name: str | None = name
        self.later: list[tuple[int, ir.Expr]] = []
        """The later expressions, with their places."""


class _Numbering(FlowRewriter):
    """Finds equal expressions; the places of expressions are counted in the order of the walk."""

    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._facts = DependenceFacts(program)
        self._numbers: dict[tuple[object, ...], _Number] = {}
        self._next: _Number = 0
        self._locals: dict[str, _Number] = {}
        """The numbers of locals that are never assigned."""
        self._firsts: dict[_Number, First] = {}
        self._trail: list[tuple[_Number, First | None]] = []
        self._place = 0
        self._segment = 0
        self._names_only = False
        """Whether no local can be declared in front of the expression."""
        self._split = containers(program.body, splits_grid)
        self.firsts: list[First] = []
        """The first expressions that have later ones."""

    # ---- scopes
    def body(self, body: ir.Body) -> ir.Body:
        mark = len(self._trail)
        for stmt in body:
            splits = id(stmt) in self._split or splits_grid(stmt)
            self._segment += splits
            self.visit(stmt)
            self._segment += splits
        while len(self._trail) > mark:
            number, before = self._trail.pop()
            if before is None:
                del self._firsts[number]
            else:
                self._firsts[number] = before
        return body

    def loop_body(self, stmt: ir.Loop | ir.GridLoop) -> ir.Body:
        if isinstance(stmt, ir.Loop):
            self._locals[stmt.var] = self._fresh()
        self._segment += splits_grid(stmt) or id(stmt) in self._split
        return self.body(stmt.body)

    def visit_grid_loop(self, stmt: ir.GridLoop) -> None:
        super().visit_grid_loop(stmt)
        self._locals[stmt.name] = self._fresh()

    def link(self, link: ir.If) -> ir.Expr:
        self._names_only = True
        condition = super().link(link)
        self._names_only = False
        return condition

    def visit_let(self, stmt: ir.Let) -> None:
        self._place += 1
        numbers = self._number(stmt.value)
        number = numbers[id(stmt.value)]
        is_fixed = stmt.name not in self._facts.assigned
        if is_fixed:
            self._locals[stmt.name] = number
        self._search(stmt.value, numbers, stmt.name if is_fixed else None)
        self.evaluated(stmt)

    def expression(self, expr: ir.Expr) -> ir.Expr:
        self._place += 1
        self._search(expr, self._number(expr), None)
        return expr

    # ---- numbers
    def _fresh(self) -> _Number:
        self._next += 1
        return self._next

    def _of_key(self, key: tuple[object, ...]) -> _Number:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._fresh()
        return number

    def _number(self, root: ir.Expr) -> dict[int, _Number]:
        """Returns the numbers of an expression and its parts by identity; does not recurse."""
        numbers: dict[int, _Number] = {}
        for node in operands_first(root, numbers):
            if type(node) in ir.LEAVES:
                numbers[id(node)] = self._of_leaf(node)
            else:
                numbers[id(node)] = self._of_operator(node, [numbers[id(operand)] for operand in ir.children(node)])
        return numbers

    def _of_leaf(self, node: ir.Expr) -> _Number:
        if type(node) is not ir.Var:
            return self._of_key(LEAF_KEYS[type(node)](node))
        name = node.name
        return self._of_key((ir.Var, name, self.time(name))) if name in self._facts.assigned else self._locals[name]

    def _of_operator(self, node: ir.Expr, operands: list[_Number]) -> _Number:
        kind = type(node)
        if kind is ir.Binary:
            op = node.op  # type: ignore[union-attr]
            if op in COMMUTING:
                operands.sort()
            return self._of_key((op, *operands))
        if type(node) is ir.Load:
            changing = self._facts.memory(node.buffer)
            if not changing:
                return self._of_key((ir.Load, node.buffer, *operands))
            if self.current is not None and self.has_atomic(self.current):
                return self._fresh()
            return self._of_key((ir.Load, node.buffer, *operands, *[self.time(key) for key in changing]))
        if kind in ir.IMPURE:
            return self._fresh()
        return self._of_key((kind, ir.DISTINCTIONS[kind](node), *operands))

    # ---- equal expressions
    def _search(self, root: ir.Expr, numbers: dict[int, _Number], name: str | None) -> None:
        """Notes an expression and its parts, or that an earlier one has the value; ``name`` is a local for it."""
        seen: set[int] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind in ir.LEAVES or id(node) in seen:
                continue
            number = numbers[id(node)]
            first = self._firsts.get(number)
            if first is not None and first.segment == self._segment:
                if first.node is not node or first.place != self._place:
                    self._match(first, node)
                continue
            below = [operand for operand in ir.CHILDREN[kind](node) if operand is not None]
            if kind in ir.IMPURE or self._names_only:
                seen.add(id(node))
            else:
                new = First(node, self._place, self._segment, name if node is root else None)
                self._trail.append((number, first))
                self._firsts[number] = new
            stack += below[::-1]

    def _match(self, first: First, node: ir.Expr) -> None:
        if not first.later:
            self.firsts.append(first)
        first.later.append((self._place, node))


def found_in(program: Program) -> Sequence[First]:
    """Returns the first expressions that have later ones, in the order in which the second ones stand.

    Every local of the program must have a name of its own.
    """
    numbering = _Numbering(program, Counter())
    numbering.body(program.body)
    return numbering.firsts


class Sharing(Rewriter):
    """Writes the program with the equal expressions that were found."""

    def __init__(self, program: Program, counts: Counts, firsts: Sequence[First]) -> None:
        super().__init__(program, counts)
        names = names_of(program)
        self._has_room: bool | None = None
        self._declared: dict[int, dict[int, tuple[str, SourceLocation | None]]] = {}
        """The names and places of the locals that expressions get, by place and identity."""
        self._replaced: dict[int, dict[int, ir.Expr]] = {}
        """The replacements of the expressions that read one."""
        for first in firsts:
            if first.name is None:
                if not self._pays(first):
                    continue
                first.name = names.unique("same")
                loc = joined_places(first.node.loc, *[node.loc for _, node in first.later])
                self._declared.setdefault(first.place, {})[id(first.node)] = first.name, loc
            for place, node in first.later:
                self._replaced.setdefault(place, {})[id(node)] = ir.Var(first.name, loc=node.loc)
        self._place = 0

    def _pays(self, first: First) -> bool:
        """Returns whether a local saves operators, and leaves no more nodes than there are.

        One more node is no reason to read memory twice.
        """
        node = first.node
        if len(first.later) > 1 or any(type(operand) not in ir.LEAVES for operand in ir.children(node)):
            return True
        if type(node) is not ir.Load:
            return False
        if self._has_room is None:
            self._has_room = has_room(self.source)
        return self._has_room

    def expression(self, expr: ir.Expr) -> ir.Expr:
        self._place += 1
        declared, replaced = self._declared.get(self._place, {}), self._replaced.get(self._place, {})
        if not declared and not replaced:
            return expr
        self.counts["shared"] += len(replaced)
        return rebuilt_from(expr, lambda old, new: self._named(new, declared.get(id(old))), {**replaced})

    def _named(self, node: ir.Expr, declared: tuple[str, SourceLocation | None] | None) -> ir.Expr:
        if declared is None:
            return node
        self.counts["named"] += 1
        name, loc = declared
        self.out.append(ir.Let(name, node, loc=loc))
        return ir.Var(name, loc=node.loc)


NUMBERING: Final = walking_pass("numbering", 1, lambda unique, counts: Sharing(unique, counts, found_in(unique)))
"""Shares equal expressions; counts ``shared`` expressions and ``named`` ones."""
