"""Facts about values that hold at one point of a program, and proofs from them.

A fact is ``u + gap <= v`` between numbers (not modulo anything); it holds from the point where it is learnt to the
end of the region that this point dominates, where ``forget`` removes it.  Facts are stored with the forms of both
sides.

Proofs search along few facts and with bounded effort; a statement that would need more is not proven.  The cost is
described in ``index_flow``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.domain.analysis.index_values import SELECT, U32_MAX, Atom, Relation, Value, Values, interval, signed
from vyre.domain.ir.operators import BinaryOp

_DEPTH: Final = 3
_FACTS: Final = 9
"""One more than the number of facts about one form that are tried, the latest first."""
_STEPS_OF_A_PROOF: Final = 120
_STEPS_IN_ALL: Final = 60_000


class Fact(NamedTuple):
    """``lower + gap <= upper``."""

    lower: Value
    upper: Value
    gap: int


class Proofs:
    """The facts at the current point of a traversal, and proofs from them."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._trail: list[list[Relation]] = []
        self._steps = 0
        self._steps_left = _STEPS_IN_ALL

    # ---- facts
    @property
    def mark(self) -> int:
        """Returns the current number of facts, to which ``forget`` returns."""
        return len(self._trail)

    def learn(self, fact: Fact) -> None:
        """Adds a fact that holds from now on."""
        lower, upper, gap = fact
        if lower.is_constant and upper.is_constant:
            return
        # Both are known modulo a power of two, and so is the distance.
        mask = (1 << min(lower.form.align, upper.form.align)) - 1
        gap += (upper.constant - lower.constant - gap) & mask
        if not lower.is_constant:
            self._note(lower.form.at_most, (lower.constant, upper, gap))
        if not upper.is_constant:
            self._note(upper.form.at_least, (upper.constant, lower, gap))

    def _note(self, relations: list[Relation], relation: Relation) -> None:
        relations.append(relation)
        self._trail.append(relations)

    def forget(self, mark: int) -> None:
        """Removes the facts that were learnt since ``mark``."""
        while len(self._trail) > mark:
            self._trail.pop().pop()

    # ---- proofs
    def is_below(self, value: Value, limit: Value) -> bool:
        """Returns whether ``value < limit`` is certain here."""
        if value.high < limit.low:
            return True
        self._steps = min(_STEPS_OF_A_PROOF, self._steps_left)
        before = self._steps
        is_below = self._below(value, limit, 1, _DEPTH)
        self._steps_left -= before - self._steps
        return is_below

    def is_at_least(self, value: Value, limit: Value) -> bool:
        """Returns whether ``value >= limit`` is certain here."""
        if value.low >= limit.high:
            return True
        self._steps = min(_STEPS_OF_A_PROOF, self._steps_left)
        before = self._steps
        is_at_least = self._below(limit, value, 0, _DEPTH)
        self._steps_left -= before - self._steps
        return is_at_least

    def _exhausted(self) -> bool:
        self._steps -= 1
        return self._steps < 0

    def _below(self, u: Value, v: Value, gap: int, depth: int) -> bool:
        """Returns whether ``u + gap <= v`` is certain (``gap >= 0``)."""
        if self._exhausted():
            return False
        for constant, w, known in u.form.at_most[:-_FACTS:-1]:
            if w is v and constant == u.constant and known >= gap:
                return True
        if u.form is v.form:
            distance = signed(v.constant - u.constant)
            if distance >= gap and (self._high(u, depth) + distance <= U32_MAX or self._low(v, depth) >= distance):
                return True
        if self._high(u, depth) + gap <= self._low(v, depth):
            return True
        if depth == 0:
            return False
        return (
            self._by_facts_on_lower(u, v, gap, depth)
            or self._by_facts_on_upper(u, v, gap, depth)
            or self._by_operation(u, v, gap, depth)
            or self._by_quotient(u, v, gap, depth)
        )

    def _by_facts_on_lower(self, u: Value, v: Value, gap: int, depth: int) -> bool:
        """Uses ``base + known <= w`` where ``base`` and ``u`` differ by a constant, and ``w`` is far enough below
        ``v``.
        """
        for constant, w, known in u.form.at_most[:-_FACTS:-1]:
            distance = signed(u.constant - constant)
            if distance < 0 and self._low(self._values.plus(u, -distance), depth - 1) < -distance:
                continue
            if self._below(w, v, max(gap + distance - known, 0), depth - 1):
                return True
        return False

    def _by_facts_on_upper(self, u: Value, v: Value, gap: int, depth: int) -> bool:
        """Uses ``w + known <= base`` where ``base`` and ``v`` differ by a constant, and ``u`` is far enough below
        ``w``.
        """
        for constant, w, known in v.form.at_least[:-_FACTS:-1]:
            distance = signed(v.constant - constant)
            base = self._values.plus(v, -distance)
            if distance > 0 and self._high(base, depth - 1) + distance > U32_MAX:
                continue
            # With a negative distance, the goal implies that the base is large enough for it.
            if self._below(u, w, max(gap - known - distance, 0), depth - 1):
                return True
        return False

    def _by_operation(self, u: Value, v: Value, gap: int, depth: int) -> bool:
        """Uses the operation that produced one side, which an operand bounds."""
        atom = u.atom
        if atom is not None and atom.left is not None and atom.right is not None:
            left, right, op = atom.left, atom.right, atom.op
            if op in _NOT_ABOVE_LEFT and self._below(left, v, gap, depth - 1):
                return True
            if op in _NOT_ABOVE_RIGHT and self._below(right, v, gap, depth - 1):
                return True
            if op in _ONE_OF and self._below(left, v, gap, depth - 1) and self._below(right, v, gap, depth - 1):
                return True
            if op is BinaryOp.DIV and self._low(right, depth - 1) >= 1 and self._below(left, v, gap, depth - 1):
                return True
            if (
                op is BinaryOp.MOD
                and self._low(right, depth - 1) >= 1
                and self._below(right, v, max(gap - 1, 0), depth - 1)
            ):
                return True
        atom = v.atom
        if atom is not None and atom.left is not None and atom.right is not None:
            left, right, op = atom.left, atom.right, atom.op
            if op in (BinaryOp.MIN, SELECT):
                return self._below(u, left, gap, depth - 1) and self._below(u, right, gap, depth - 1)
            if op is BinaryOp.MAX:
                return self._below(u, left, gap, depth - 1) or self._below(u, right, gap, depth - 1)
        return False

    def _by_quotient(self, u: Value, v: Value, gap: int, depth: int) -> bool:
        """Uses ``u = c * x + q``, where ``x`` is below ``y / c`` with ``y <= v``: ``u + (c - q) <= y``."""
        if len(u.form.terms) != 1:
            return False
        (atom, factor), rest = u.form.terms[0], u.constant
        if gap > factor - rest:
            return False
        for constant, quotient, known in atom.value.form.at_most[:-_FACTS:-1]:
            bound = quotient.atom
            if constant != 0 or known < 1 or bound is None or bound.left is None or bound.right is None:
                continue
            if _divisor(bound, bound.right) >= factor and self._below(bound.left, v, 0, depth - 1):
                return True
        return False

    # ---- ranges
    def _high(self, value: Value, depth: int) -> int:
        """Returns an upper bound of the value here."""
        best = value.high
        if depth == 0 or not self._trail or self._exhausted():
            return best
        for constant, other, gap in value.form.at_most[:-_FACTS:-1]:
            distance = signed(value.constant - constant)
            bound = self._high(other, depth - 1) - gap + distance
            if bound >= best:
                continue
            if distance >= 0 or self._low(self._values.plus(value, -distance), depth - 1) >= -distance:
                best = bound
        atom = value.atom
        if atom is None:
            _, high = interval(value.form.terms, value.constant, lambda a: self._range(a, depth - 1))
            return min(best, high)
        if atom.left is not None and atom.right is not None:
            return min(best, self._high_of_operation(atom, atom.left, atom.right, depth - 1))
        return best

    def _high_of_operation(self, atom: Atom, left: Value, right: Value, depth: int) -> int:
        high = self._high
        match atom.op:
            case BinaryOp.MIN | BinaryOp.BIT_AND:
                return min(high(left, depth), high(right, depth))
            case BinaryOp.MAX | "select":
                return max(high(left, depth), high(right, depth))
            case BinaryOp.SHR if right.is_constant:
                return high(left, depth) >> right.constant
            case BinaryOp.DIV if right.low >= 1:
                return high(left, depth) // right.low
            case BinaryOp.MOD:
                return min(high(left, depth), max(high(right, depth) - 1, 0))
            case BinaryOp.SATURATING_SUB:
                return high(left, depth)
            case BinaryOp.MUL:
                return min(high(left, depth) * high(right, depth), U32_MAX)
        return U32_MAX

    def _low(self, value: Value, depth: int) -> int:
        """Returns a lower bound of the value here."""
        best = value.low
        if depth == 0 or not self._trail or self._exhausted():
            return best
        for constant, other, gap in value.form.at_least[:-_FACTS:-1]:
            distance = signed(value.constant - constant)
            bound = self._low(other, depth - 1) + gap + distance
            if bound <= best:
                continue
            # With a negative distance, a bound above 0 implies that the base is large enough for it.
            if distance <= 0 or self._high(self._values.plus(value, -distance), depth - 1) + distance <= U32_MAX:
                best = bound
        if value.atom is None:
            low, _ = interval(value.form.terms, value.constant, lambda a: self._range(a, depth - 1))
            return max(best, low)
        return best

    def _range(self, atom: Atom, depth: int) -> tuple[int, int]:
        return self._low(atom.value, depth), self._high(atom.value, depth)


def _divisor(atom: Atom, right: Value) -> int:
    """Returns a lower bound of the divisor of the atom's left operand; 0 if it is not divided."""
    if atom.op is BinaryOp.DIV:
        return right.low
    if atom.op is BinaryOp.SHR and right.is_constant:
        return 1 << right.constant
    return 0


_NOT_ABOVE_LEFT: Final = frozenset(
    {BinaryOp.MIN, BinaryOp.BIT_AND, BinaryOp.SHR, BinaryOp.MOD, BinaryOp.SATURATING_SUB}
)
"""Operations whose result never exceeds the left operand; division does by zero."""
_NOT_ABOVE_RIGHT: Final = frozenset({BinaryOp.MIN, BinaryOp.BIT_AND})
_ONE_OF: Final = frozenset({BinaryOp.MAX, SELECT})
