"""Copy propagation: a local that holds a literal, an id or another local is replaced by that.

It is replaced where neither the local nor the one that it copies has changed since, on any path.  The copies themselves
stay; nothing reads them any more.  A conversion between signed and unsigned integers of one width, which keeps all
bits, of such a value counts as a copy, too: front ends that count in signed integers write it at every access.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_PROGRAM_NODES
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import measure
from vyre.domain.optimize.flow import FlowRewriter
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.purity import has_room
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.walking import walking_pass

_STEADY: Final[frozenset[type[Node]]] = frozenset(
    {ir.Literal, ir.Cast, ir.Var, ir.LaunchId, ir.BufferLength, ir.SpecConst, ir.SubgroupLane, ir.SubgroupSize}
)
"""Expressions whose value stays, so that they may be copied to another place in the source."""


class _Copy(NamedTuple):
    """The content of a local since ``time``, and when the local that it copies had changed then."""

    value: ir.Expr
    time: int
    copied: str | None
    copied_time: int


class _Copies(FlowRewriter):
    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._copies: dict[str, _Copy] = {}
        self._visible: set[str] = set()
        self._declared: list[str] = []
        self._types = StaticTypes(program)
        self._may_grow: bool | None = None
        self._has_grown = False

    # ---- scopes
    def body(self, body: ir.Body) -> ir.Body:
        mark = len(self._declared)
        rewritten = super().body(body)
        self._visible.difference_update(self._declared[mark:])
        del self._declared[mark:]
        return rewritten

    def _declare(self, name: str) -> None:
        self._visible.add(name)
        self._declared.append(name)

    def loop_body(self, stmt: ir.Loop | ir.GridLoop) -> ir.Body:
        if isinstance(stmt, ir.Loop):
            self._visible.add(stmt.var)
            self._types.declare(stmt.var, self._types.of(stmt.start))
        rewritten = self.body(stmt.body)
        if isinstance(stmt, ir.Loop):
            self._visible.discard(stmt.var)
        return rewritten

    def visit_grid_loop(self, stmt: ir.GridLoop) -> None:
        super().visit_grid_loop(stmt)
        self._declare(stmt.name)
        self._types.declare(stmt.name, ScalarType.U32)

    # ---- copies
    def visit_let(self, stmt: ir.Let) -> None:
        let = self.operands(stmt)
        self.out.append(let)
        self._declare(stmt.name)
        self._types.declare(stmt.name, self._types.of(let.value))
        self._remember(stmt.name, let.value)

    def visit_assign(self, stmt: ir.Assign) -> None:
        assign = self.operands(stmt)
        if type(assign.value) is ir.Var and assign.value.name == stmt.name:
            self.counts["self_assigned"] += 1
            return
        self.out.append(assign)
        self.touch(stmt.name)
        self._remember(stmt.name, assign.value)

    def _remember(self, name: str, value: ir.Expr) -> None:
        if type(value) is ir.Cast:
            if not self._is_copy(value):
                return
            source = value.operand
        elif type(value) in _STEADY:
            source = value
        else:
            return
        copied = source.name if type(source) is ir.Var and source.name != name else None
        if copied is not None or type(source) is not ir.Var:
            self._copies[name] = _Copy(value, self.time(name), copied, self.time(copied))

    def _is_copy(self, value: ir.Cast) -> bool:
        """Returns whether a conversion keeps all bits of a leaf, and the program has room for copies of it."""
        source, target = value.operand, value.dtype
        if type(source) not in _STEADY or type(source) is ir.Cast or not target.is_integer:
            return False
        dtype = self._types.of(source)
        if not dtype.is_integer or dtype.bits != target.bits:
            return False
        if self._may_grow is None:
            self._may_grow = has_room(self.source)
        return self._may_grow

    def expression(self, expr: ir.Expr) -> ir.Expr:
        if not self._copies:
            return expr
        self._has_grown = False
        rewritten = rebuilt(expr, self._resolved, {})
        if self._has_grown and measure(rewritten, {}, MAX_PROGRAM_NODES)[0] > MAX_EXPRESSION_DEPTH:
            return expr
        return rewritten

    def _resolved(self, node: ir.Expr) -> ir.Expr:
        if type(node) is not ir.Var:
            return node
        copy = self._copies.get(node.name)
        if copy is None or copy.time != self.time(node.name):
            return node
        if copy.copied is not None and not self._is_current(copy):
            return node
        self.counts["propagated"] += 1
        self._has_grown = self._has_grown or type(copy.value) is ir.Cast
        return replace(copy.value, loc=node.loc)

    def _is_current(self, copy: _Copy) -> bool:
        return copy.copied in self._visible and copy.copied_time == self.time(copy.copied)


COPIES: Final = walking_pass("copies", 1, _Copies)
"""Replaces copies by what they copy; counts ``propagated`` reads of locals."""
