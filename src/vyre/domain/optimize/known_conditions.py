"""``KnownConditions``: what the guards around a point of a program say about conditions and ranges there."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from vyre.domain.ir.expr import Cast
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.ranges import LIMITS, Range, binary_range, equal, less
from vyre.domain.optimize.value_table import Value, ValueTable

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
