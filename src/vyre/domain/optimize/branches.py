"""Simplification of branches and guards, by what the guards around a point of a program say about conditions there.

Conditions are decided by literals, by ranges, and by the guards around them.  A branch whose condition is decided gives
way to the body that is taken.  Branches without statements or with equal ones go, nested ones are merged, and an ``if``
that only assigns one local becomes a ``select``.  Loads stay under their guards, and atomics and subgroup operations
are evaluated by the same lanes as before.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import Any, Final, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.expr import Cast
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import OPPOSITE, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt_from, same_statements, with_body
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.ranges import LIMITS, Range, binary_range, equal, less
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.purity import Depths, containing, is_cheap
from vyre.domain.optimize.value_table import Value, ValueTable, value_table
from vyre.domain.optimize.walking import Rewriter, linked, walking_pass
from vyre.domain.source_location import joined_places

_LEARNT: Final = 16
"""The largest number of parts of one condition from which something is learnt."""
_DEPTH: Final = 4
"""The largest depth of operations through which a range or a condition is followed."""
_BOOL: Final = ScalarType.BOOL

_Trail: TypeAlias = list[tuple[dict[int, Any], int, Any]]


class KnownConditions:
    """Facts about stable values that hold at the current point of a walk in program order.

    A fact holds from the point where it is learnt to the end of the body that this point dominates, where ``forget``
    removes it.  Every answer costs a bounded number of steps.
    """

    def __init__(self, table: ValueTable) -> None:
        self._table = table
        self._truths: dict[int, bool] = {}
        self._ranges: dict[int, Range] = {}
        self._trail: _Trail = []

    @property
    def mark(self) -> int:
        """Returns the current number of facts, to which ``forget`` returns."""
        return len(self._trail)

    def forget(self, mark: int) -> None:
        """Removes the facts that were learnt since ``mark``."""
        trail = self._trail
        while len(trail) > mark:
            facts, key, old = trail.pop()
            if old is None:
                del facts[key]
            else:
                facts[key] = old

    def _note(self, facts: dict[int, Any], value: Value, fact: Any) -> None:
        self._trail.append((facts, value.number, facts.get(value.number)))
        facts[value.number] = fact

    # ---- learning
    def learn(self, condition: Value, truth: bool) -> None:
        """Adds that a condition has a truth value from now on, and what follows from it."""
        stack = [(condition, truth)]
        for _ in range(_LEARNT):
            if not stack:
                return
            value, truth = stack.pop()
            if value.op is UnaryOp.LOGICAL_NOT:
                stack.append((value.parts[0], not truth))
            elif value.op is (BinaryOp.AND if truth else BinaryOp.OR) and value.dtype is _BOOL:
                stack += [(part, truth) for part in value.parts]
            elif value.stable and not value.is_literal:
                self._note(self._truths, value, truth)
                self._learn_ranges(value, truth)

    def _learn_ranges(self, value: Value, truth: bool) -> None:
        if value.op is not BinaryOp.LT and value.op is not BinaryOp.EQ:
            return
        left, right = value.parts
        if not left.is_integer:
            return
        (low, high), (least, most) = self.range_of(left), self.range_of(right)
        if value.op is BinaryOp.EQ:
            if truth:
                both = max(low, least), min(high, most)
                self._bound(left, both)
                self._bound(right, both)
            elif least == most:
                self._bound(left, _without((low, high), least))
            elif low == high:
                self._bound(right, _without((least, most), low))
        elif truth:
            self._bound(left, (low, min(high, most - 1)))
            self._bound(right, (max(least, low + 1), most))
        else:
            self._bound(left, (max(low, least), high))
            self._bound(right, (least, min(most, high)))

    def _bound(self, value: Value, limits: Range) -> None:
        if limits[0] <= limits[1] and limits != self.range_of(value) and not value.is_literal:
            self._note(self._ranges, value, limits)

    # ---- answers
    def range_of(self, value: Value, depth: int = _DEPTH) -> Range:
        """Returns the range that an integer is known to be in here."""
        low, high = self._ranges.get(value.number, value.limits)
        if depth and self._ranges and value.parts and not value.is_literal and value.is_integer:
            computed = self._computed(value, depth - 1)
            if computed is not None:
                low, high = max(low, computed[0]), min(high, computed[1])
                if low > high:  # the lanes that come here are none
                    return value.limits
        return low, high

    def _computed(self, value: Value, depth: int) -> Range | None:
        first: Value = value.parts[0]
        if isinstance(value.op, BinaryOp):
            second: Value = value.parts[1]
            return binary_range(value.op, first.dtype, self.range_of(first, depth), self.range_of(second, depth))
        if value.op is Cast and first.is_integer:
            low, high = LIMITS[value.dtype]
            limits = self.range_of(first, depth)
            return limits if low <= limits[0] and limits[1] <= high else None
        return None

    def truth(self, condition: Value, depth: int = _DEPTH) -> bool | None:
        """Returns the truth value that a condition has here; None if it is open."""
        if condition.is_literal:
            return condition.low == 1
        truth = self._truths.get(condition.number)
        if truth is not None or not depth:
            return truth
        if condition.op is UnaryOp.LOGICAL_NOT:
            truth = self.truth(condition.parts[0], depth - 1)
            return None if truth is None else not truth
        if len(condition.parts) != 2:
            return None
        left, right = condition.parts
        if condition.op is BinaryOp.AND or condition.op is BinaryOp.OR:
            return self._connected(condition.op is BinaryOp.OR, left, right, depth - 1)
        if condition.op is BinaryOp.LT and left.is_integer:
            return self._is_less(left, right)
        return self._is_equal(left, right) if condition.op is BinaryOp.EQ and left.is_integer else None

    def _connected(self, absorbing: bool, left: Value, right: Value, depth: int) -> bool | None:
        one, other = self.truth(left, depth), self.truth(right, depth)
        if one is absorbing or other is absorbing:
            return absorbing
        return None if one is None or other is None else not absorbing

    def _fact(self, value: Value) -> bool | None:
        return self._truths.get(value.number)

    def _is_less(self, left: Value, right: Value) -> bool | None:
        is_less = less(self.range_of(left), self.range_of(right))
        if is_less is None and left.stable and right.stable:
            table = self._table
            if self._fact(table.less_than(right, left)) is True or self._fact(table.equal_to(left, right)) is True:
                return False
        return is_less

    def _is_equal(self, left: Value, right: Value) -> bool | None:
        is_equal = equal(self.range_of(left), self.range_of(right))
        if is_equal is None and left.stable and right.stable:
            table = self._table
            if self._fact(table.less_than(right, left)) is True or self._fact(table.less_than(left, right)) is True:
                return False
        return is_equal


def _without(limits: Range, value: int) -> Range:
    low, high = limits
    return low + (low == value), high - (high == value)


_COMPARED: Final = 4
"""The largest number of statements of branches that are compared with each other."""
_WAITED: Final[frozenset[type[Node]]] = frozenset({ir.AsyncLoad, ir.AsyncStore})
"""Statements that need a later one, which must not go."""


class _Branches(Rewriter):
    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._table = value_table(program)
        self._known = KnownConditions(self._table)
        self._impure = containing(program, ir.IMPURE)
        self._memo: dict[int, ir.Expr] = {}
        self._depths = Depths()
        self._may_drop = _WAITED.isdisjoint(node_facts(program).types)

    # ---- expressions
    def expression(self, expr: ir.Expr) -> ir.Expr:
        return rebuilt_from(expr, self._simplified, self._memo)

    def _simplified(self, old: ir.Expr, new: ir.Expr) -> ir.Expr:
        """Decides comparisons and selections that have the same outcome wherever they are evaluated."""
        kind = type(old)
        if kind is ir.Select:
            condition = self._table.of(old.condition)  # type: ignore[union-attr]
            if condition.is_literal and id(old) not in self._impure:
                self.counts["selected"] += 1
                return new.on_true if condition.low else new.on_false  # type: ignore[union-attr]
        elif kind is ir.Binary or kind is ir.Unary:
            value = self._table.of(old)
            if value.dtype is _BOOL and value.is_literal and id(old) not in self._impure:
                self.counts["decided"] += 1
                return ir.Literal(_BOOL, value.low, loc=old.loc)
        return new

    def _truth(self, condition: ir.Expr) -> bool | None:
        return None if id(condition) in self._impure else self._known.truth(self._table.of(condition))

    # ---- bodies
    def body(self, body: ir.Body) -> ir.Body:
        around, self.out = self.out, []
        mark = self._known.mark
        for index, stmt in enumerate(body):
            before = len(self.out)
            self.visit(stmt)
            if index + 1 < len(body) and len(self.out) > before and type(self.out[-1]) in ir.LEAVING:
                if self._may_drop:
                    break
                self.out[before:] = [stmt]
        self._known.forget(mark)
        rewritten, self.out = [stmt for stmt in self.out if stmt is not None], around
        return same_statements(body, rewritten)

    def _guarded(self, body: ir.Body, *conditions: tuple[Value, bool]) -> ir.Body:
        """Returns a body rewritten under conditions."""
        mark = self._known.mark
        for condition, truth in conditions:
            self._known.learn(condition, truth)
        rewritten = self.body(body)
        self._known.forget(mark)
        return rewritten

    def visit_loop(self, stmt: ir.Loop) -> None:
        loop = self.legal(stmt, self.operands(stmt))
        start, stop, step = (self._table.of(bound) for bound in (stmt.start, stmt.stop, stmt.step))
        counter = self._table.locals[stmt.var]
        facts = []
        if step.low >= 0:
            facts = [(self._table.less_than(counter, stop), True), (self._table.less_than(counter, start), False)]
        elif step.high <= 0:
            facts = [(self._table.less_than(stop, counter), True), (self._table.less_than(start, counter), False)]
        self.out.append(with_body(loop, self._guarded(stmt.body, *facts)))

    # ---- chains
    def visit_if(self, stmt: ir.If) -> None:
        links, last = ir.if_chain(stmt)
        mark = self._known.mark
        done: list[tuple[ir.If, ir.Expr, ir.Body]] = []
        otherwise: ir.Body | None = None
        for link in links:
            truth = self._truth(link.condition)
            if truth is not None:
                self.counts["decided"] += 1
            if truth is True:
                otherwise = self.body(link.then)
                break
            if truth is False:
                continue
            value = self._table.of(link.condition)
            done.append((link, self.expression(link.condition), self._guarded(link.then, (value, True))))
            self._known.learn(value, False)
        branch = self.body(last) if otherwise is None else otherwise
        self._known.forget(mark)
        for link, condition, then in reversed(done):
            branch = self._joined(link, condition, then, branch)
        if len(done) == 1:
            self._learn_from_ends(done[0][0], done[0][2], branch)
        self.out += branch

    def _learn_from_ends(self, link: ir.If, then: ir.Body, rest: ir.Body) -> None:
        """Learns what holds behind an ``if`` of which one branch never reaches its end."""
        if len(rest) == 1 and type(rest[0]) is ir.If:
            value = self._table.of(link.condition)
            if _always_ends(then):
                self._known.learn(value, False)
            elif rest[0].then is then and _always_ends(rest[0].otherwise):
                self._known.learn(value, True)

    def _joined(self, link: ir.If, condition: ir.Expr, then: ir.Body, otherwise: ir.Body) -> ir.Body:
        """Returns the statements of one ``if`` with these branches."""
        is_pure = id(link.condition) not in self._impure
        if not then and not otherwise:
            if is_pure:
                self.counts["emptied"] += 1
                return ()
        elif not then and not ir.is_chained(otherwise) and self._depths.leave_room(condition):
            self.counts["negated"] += 1
            return self._joined(link, self._opposite(link, condition), otherwise, ())
        elif is_pure and _are_equal(then, otherwise):
            self.counts["equal arms"] += 1
            return tuple([replace(a, loc=joined_places(a.loc, b.loc)) for a, b in zip(then, otherwise, strict=True)])
        if is_pure:
            merged = self._merged(link, condition, then, otherwise)
            if merged is not None:
                return merged
        return (linked(link, condition, then, otherwise),)

    def _merged(self, link: ir.If, condition: ir.Expr, then: ir.Body, otherwise: ir.Body) -> ir.Body | None:
        """Returns what replaces an ``if`` with a pure condition that can be joined with the statement in it."""
        inner = then[0] if len(then) == 1 else None
        if type(inner) is ir.If and not otherwise and not inner.otherwise:
            if is_cheap(inner.condition) and self._depths.leave_room(condition):
                self.counts["merged"] += 1
                place = joined_places(link.condition.loc, inner.condition.loc)
                both = ir.Binary(BinaryOp.AND, condition, inner.condition, loc=place)
                return (ir.If(both, inner.then, loc=joined_places(link.loc, inner.loc)),)
        elif type(inner) is ir.Assign and len(otherwise) <= 1:
            return self._selected(link, condition, inner, otherwise)
        return None

    def _selected(self, link: ir.If, condition: ir.Expr, then: ir.Assign, otherwise: ir.Body) -> ir.Body | None:
        """Returns one assignment for an ``if`` whose branches only assign the same local."""
        other: ir.Stmt | None = otherwise[0] if otherwise else None
        if other is not None and (type(other) is not ir.Assign or other.name != then.name):
            return None
        on_false = ir.Var(then.name, loc=then.loc) if other is None else other.value
        if not (is_cheap(then.value) and is_cheap(on_false) and self._depths.leave_room(condition)):
            return None
        self.counts["selected"] += 1
        chosen = ir.Select(condition, then.value, on_false, loc=joined_places(then.value.loc, on_false.loc))
        place = joined_places(link.loc, then.loc, None if other is None else other.loc)
        return (ir.Assign(then.name, chosen, loc=place),)

    def _opposite(self, link: ir.If, condition: ir.Expr) -> ir.Expr:
        """Returns the negation of a condition; ``link`` is the ``if`` that had it."""
        if type(condition) is ir.Unary and condition.op is UnaryOp.LOGICAL_NOT:
            return condition.operand
        if type(condition) is ir.Binary and condition.op in OPPOSITE:
            old = link.condition
            is_float = type(old) is not ir.Binary or self._table.of(old.left).dtype.is_float
            if not is_float or condition.op is BinaryOp.EQ or condition.op is BinaryOp.NE:
                return replace(condition, op=OPPOSITE[condition.op])
        return ir.Unary(UnaryOp.LOGICAL_NOT, condition, loc=condition.loc)

    # ---- switches
    def visit_switch(self, stmt: ir.Switch) -> None:
        self.out += self._switch(stmt)

    def _switch(self, stmt: ir.Switch) -> ir.Body:
        value = self._table.of(stmt.selector)
        low, high = self._known.range_of(value)
        is_pure = id(stmt.selector) not in self._impure
        if not is_pure:
            low, high = value.limits
        elif low == high:
            self.counts["decided"] += 1
            return self.body(_chosen(stmt, low))
        switch = self.operands(stmt)
        arms = []
        for arm in stmt.arms:
            labels = tuple([label for label in arm.labels if low <= label.value <= high])
            if labels:
                arms.append(self._arm_under(arm, value, labels))
        default = self.body(stmt.default)
        if not default and not any(arm.body for arm in arms) and is_pure:
            self.counts["emptied"] += 1
            return ()
        if not arms and is_pure:
            self.counts["decided"] += 1
            return default
        is_same = len(arms) == len(stmt.arms) and all(map(is_, arms, stmt.arms))
        if is_same and default is stmt.default:
            return (switch,)
        return (replace(switch, arms=tuple(arms), default=default),)

    def _arm_under(self, arm: ir.Arm, selector: Value, labels: tuple[ir.Literal, ...]) -> ir.Arm:
        facts = []
        if len(labels) == 1:
            facts = [(self._table.equal_to(selector, self._table.literal(selector.dtype, labels[0].bits)), True)]
        body = self._guarded(arm.body, *facts)
        if body is arm.body and len(labels) == len(arm.labels):
            return arm
        return replace(arm, labels=labels, body=body)


def _always_ends(body: ir.Body) -> bool:
    """Returns whether the last statement of a body ends the lane or leaves the body, so that nothing follows it."""
    return bool(body) and type(body[-1]) in ir.LEAVING


def _are_equal(then: ir.Body, otherwise: ir.Body) -> bool:
    """Returns whether branches are the same few stores and assignments of values that do not depend on the branch."""
    return len(then) == len(otherwise) <= _COMPARED and all(map(_is_plain, then)) and then == otherwise


def _is_plain(stmt: Any) -> bool:
    if type(stmt) is ir.Store:
        return is_cheap(stmt.index) and is_cheap(stmt.value)
    return type(stmt) is ir.Assign and is_cheap(stmt.value)


def _chosen(stmt: ir.Switch, selector: int) -> ir.Body:
    for arm in stmt.arms:
        if any(label.value == selector for label in arm.labels):
            return arm.body
    return stmt.default


BRANCHES: Final = walking_pass("branches", 1, _Branches)
"""Decides, merges and drops branches."""
