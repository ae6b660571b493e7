"""Values of indices: u32 numbers as linear forms modulo 2**32, with ranges and alignments.

A value is ``c1 * a1 + c2 * a2 + ... + constant`` over *atoms*, of which only a range and a number of trailing zero
bits are known.  Since u32 arithmetic is a ring, equal forms are equal numbers whatever wraps in between.  Forms and
values are interned: two values are the same object exactly if they were found to be equal.

The properties of a value in this module hold everywhere; facts that hold only at some points are in ``index_proofs``.
The cost is described in ``index_flow``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.numerics.ranges import binary_range

U32_MAX: Final = 0xFFFF_FFFF
_BITS: Final = 32
_MOST_TERMS: Final = 8


class Atom:
    """An indivisible quantity in ``low..high``, a multiple of ``2**align``.

    ``op``, ``left`` and ``right`` describe the operation that produced it, where a proof can use that; ``op`` is None
    for a source.
    """

    __slots__ = ("align", "high", "left", "low", "op", "order", "right", "value")

    def __init__(
        self, order: int, low: int, high: int, align: int, op: Operation | None, left: Value | None, right: Value | None
    ) -> None:
        self.order: int = order
        self.low: int = low
        self.high: int = high
        self.align: int = align
        self.op: Operation | None = op
        self.left: Value | None = left
        self.right: Value | None = right
        self.value: Value
        """The value that consists of the atom alone."""


Terms: TypeAlias = tuple[tuple[Atom, int], ...]
"""Atoms in their order, with coefficients in -2**31..2**31-1 except 0."""


class Form:
    """The non-constant part of a value.  ``align`` is a number of trailing zero bits that it certainly has."""

    __slots__ = ("align", "at_least", "at_most", "terms", "values")

    def __init__(self, terms: Terms) -> None:
        self.terms: Terms = terms
        align = _BITS
        for atom, coefficient in terms:
            zeros = (coefficient & -coefficient).bit_length() - 1 + atom.align
            if zeros < align:
                align = zeros
        self.align: int = align
        self.values: dict[int, Value] = {}
        """The values of this form, by their constants."""
        self.at_most: list[Relation] = []
        self.at_least: list[Relation] = []


class Value:
    """``form + constant``, in ``low..high``."""

    __slots__ = ("constant", "form", "high", "low")

    def __init__(self, form: Form, constant: int) -> None:
        self.form: Form = form
        self.constant: int = constant
        low = high = constant
        for atom, coefficient in form.terms:
            if coefficient > 0:
                low += coefficient * atom.low
                high += coefficient * atom.high
            else:
                low += coefficient * atom.high
                high += coefficient * atom.low
        low, high = _wrapped(low, high)
        mask = (1 << form.align) - 1
        self.low: int = low + ((constant - low) & mask)
        self.high: int = high - ((high - constant) & mask)

    @property
    def is_constant(self) -> bool:
        """Whether the value is a known number."""
        return not self.form.terms

    @property
    def align(self) -> int:
        """Returns a number of trailing zero bits that the value certainly has."""
        return min(self.form.align, _trailing_zeros(self.constant))

    @property
    def atom(self) -> Atom | None:
        """Returns the atom of which the value consists, or None."""
        terms = self.form.terms
        return terms[0][0] if len(terms) == 1 and self.constant == 0 and terms[0][1] == 1 else None


Relation: TypeAlias = tuple[int, Value, int]
"""(constant, other, gap): ``form + constant`` is at least ``gap`` below (or above) ``other``."""
Operation: TypeAlias = BinaryOp | str
SELECT: Final = "select"


def interval(terms: Terms, constant: int, range_of: Callable[[Atom], tuple[int, int]]) -> tuple[int, int]:
    """Returns the range of a linear form from those of its atoms."""
    low = high = constant
    for atom, coefficient in terms:
        least, most = range_of(atom)
        if coefficient < 0:
            least, most = most, least
        low += coefficient * least
        high += coefficient * most
    return _wrapped(low, high)


def _wrapped(low: int, high: int) -> tuple[int, int]:
    """Returns the range of numbers modulo 2**32: everything, unless all of it wraps equally often."""
    wraps = low >> _BITS
    if high >> _BITS != wraps:
        return 0, U32_MAX
    return low - (wraps << _BITS), high - (wraps << _BITS)


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else _BITS


def signed(number: int) -> int:
    """Returns the number in -2**31..2**31-1 that is congruent modulo 2**32."""
    return ((number + 0x8000_0000) & U32_MAX) - 0x8000_0000


class Values:
    """The interned values of one program, and the operations on them."""

    def __init__(self) -> None:
        self._forms: dict[Terms, Form] = {}
        self._named: dict[Hashable, Value] = {}
        self._atoms = 0
        self._nothing = self._form(())
        self._products: list[tuple[Atom, int, Atom, Atom]] = []

    # ---- sources
    def constant(self, number: int) -> Value:
        """Returns a known number."""
        return self._value(self._nothing, number)

    def fresh(
        self,
        low: int = 0,
        high: int = U32_MAX,
        align: int = 0,
        op: Operation | None = None,
        left: Value | None = None,
        right: Value | None = None,
    ) -> Value:
        """Returns a new value of which nothing else is known and which equals no other."""
        if low == high:
            return self.constant(low)
        atom = Atom(self._atoms, low, high, align, op, left, right)
        self._atoms += 1
        atom.value = self._value(self._form(((atom, 1),)), 0)
        return atom.value

    def named(self, key: Hashable, low: int = 0, high: int = U32_MAX) -> Value:
        """Returns the one value of that name."""
        value = self._named.get(key)
        if value is None:
            value = self._named[key] = self.fresh(low, high)
        return value

    def fix(self, key: Hashable, number: int) -> None:
        """From now on the value of that name, which nobody has asked for yet, is a known number."""
        self._named[key] = self.constant(number)

    def named_values(self) -> list[tuple[tuple[Hashable, ...], Value]]:
        """Returns the names, with the values that ``named`` returned for them."""
        return [(key, value) for key, value in self._named.items() if isinstance(key, tuple)]

    def identify(self, outer: Value, factor: int, inner: Value, sum_: Value) -> None:
        """From now on replaces ``outer * factor + inner`` by the atom ``sum_``; all three are atoms."""
        assert outer.atom is not None and inner.atom is not None and sum_.atom is not None
        self._products.append((outer.atom, factor, inner.atom, sum_.atom))

    def _derived(self, op: BinaryOp, a: Value, b: Value, align: int = 0) -> Value:
        """Returns the result of a non-linear operation: the same operands give the same value."""
        key = (op, id(a), id(b))
        result = self._named.get(key)
        if result is None:
            low, high = binary_range(op, ScalarType.U32, (a.low, a.high), (b.low, b.high))
            result = self._named[key] = self.fresh(low, high, min(align, _BITS), op, a, b)
        return result

    def _commuted(self, op: BinaryOp, a: Value, b: Value, align: int = 0) -> Value:
        """Returns the result of a commutative operation that is not linear."""
        return self._derived(op, *_ordered(a, b), align)

    def _form(self, terms: Terms) -> Form:
        form = self._forms.get(terms)
        if form is None:
            form = self._forms[terms] = Form(terms)
        return form

    def _value(self, form: Form, constant: int) -> Value:
        value = form.values.get(constant)
        if value is None:
            value = form.values[constant] = Value(form, constant)
        return value

    # ---- linear operations
    def plus(self, value: Value, number: int) -> Value:
        """Returns ``value + number``."""
        return self._value(value.form, (value.constant + number) & U32_MAX)

    def scaled(self, value: Value, factor: int) -> Value:
        """Returns ``value * factor``."""
        terms = tuple((atom, product) for atom, c in value.form.terms if (product := signed(c * factor)))
        return self._value(self._form(terms), value.constant * factor & U32_MAX)

    def add(self, a: Value, b: Value) -> Value:
        """Returns ``a + b``."""
        if not b.form.terms:
            return self.plus(a, b.constant)
        if not a.form.terms:
            return self.plus(b, a.constant)
        sums = dict(a.form.terms)
        for atom, coefficient in b.form.terms:
            sums[atom] = signed(sums.get(atom, 0) + coefficient)
        for outer, factor, inner, sum_ in self._products:
            times = sums.get(inner)
            if times and outer in sums and sums[outer] == signed(times * factor):
                del sums[outer], sums[inner]
                sums[sum_] = signed(sums.get(sum_, 0) + times)
        if len(sums) > _MOST_TERMS:
            return self._derived(BinaryOp.ADD, a, b, min(a.align, b.align))
        terms = sorted([term for term in sums.items() if term[1]], key=_order)
        return self._value(self._form(tuple(terms)), (a.constant + b.constant) & U32_MAX)

    def subtract(self, a: Value, b: Value) -> Value:
        """Returns ``a - b``."""
        return self.add(a, self.scaled(b, -1))

    # ---- all others
    def binary(self, op: BinaryOp, a: Value, b: Value) -> Value:
        """Returns ``a op b`` of two u32 operands."""
        if a.is_constant and b.is_constant:
            return self.constant(scalar.binary(op, ScalarType.U32, a.constant, b.constant))
        rule = _BINARY.get(op)
        return self.fresh() if rule is None else rule(self, a, b)

    def unary(self, op: UnaryOp, a: Value) -> Value:
        """Returns ``op a`` of a u32 operand."""
        if op is UnaryOp.NEGATE:
            return self.scaled(a, -1)
        if op is UnaryOp.BIT_NOT:
            return self.plus(self.scaled(a, -1), U32_MAX)
        return self.fresh(0, _BITS if op in COUNTS_BITS else U32_MAX)

    def select(self, a: Value, b: Value) -> Value:
        """Returns a value that is one of the two."""
        if a is b:
            return a
        return self.fresh(min(a.low, b.low), max(a.high, b.high), min(a.align, b.align), SELECT, a, b)

    def _multiply(self, a: Value, b: Value) -> Value:
        if a.is_constant:
            a, b = b, a
        if b.is_constant:
            return self.scaled(a, b.constant)
        return self._commuted(BinaryOp.MUL, a, b, a.align + b.align)

    def _divide(self, a: Value, b: Value) -> Value:
        if b.high == 0:
            return self.constant(U32_MAX)
        return a if b.low == b.high == 1 else self._derived(BinaryOp.DIV, a, b)

    def _remainder(self, a: Value, b: Value) -> Value:
        if a.high < b.low:
            return a
        if b.is_constant and b.constant & (b.constant - 1) == 0:
            return self._and(a, self.constant((b.constant - 1) & U32_MAX)) if b.constant else b
        return self._derived(BinaryOp.MOD, a, b, min(a.align, b.align) if b.is_constant else 0)

    def _and(self, a: Value, b: Value) -> Value:
        if a.is_constant:
            a, b = b, a
        if b.is_constant and b.constant & (b.constant + 1) == 0:  # the low bits
            if a.high <= b.constant:
                return a
            if b.constant.bit_length() <= a.form.align:
                return self.constant(a.constant & b.constant)
        return self._commuted(BinaryOp.BIT_AND, a, b, max(a.align, b.align))

    def _united(self, op: BinaryOp, a: Value, b: Value) -> Value:
        if b.high.bit_length() <= a.align or a.high.bit_length() <= b.align:
            return self.add(a, b)  # no bit is set in both
        return self._commuted(op, a, b, min(a.align, b.align))

    def _shift_left(self, a: Value, b: Value) -> Value:
        if b.is_constant:
            return self.scaled(a, 1 << (b.constant & 31))
        return self._derived(BinaryOp.SHL, a, b, a.align + (b.low if b.high < _BITS else 0))

    def _shift_right(self, a: Value, b: Value) -> Value:
        if b.is_constant:
            b = self.constant(b.constant & 31)
            if b.constant == 0:
                return a
        return self._derived(BinaryOp.SHR, a, b)

    def _minimum(self, a: Value, b: Value) -> Value:
        if a.high <= b.low or a is b:
            return a
        return b if b.high <= a.low else self._commuted(BinaryOp.MIN, a, b, min(a.align, b.align))

    def _maximum(self, a: Value, b: Value) -> Value:
        if a.high <= b.low or a is b:
            return b
        return a if b.high <= a.low else self._commuted(BinaryOp.MAX, a, b, min(a.align, b.align))

    def _saturating_add(self, a: Value, b: Value) -> Value:
        return self.add(a, b) if a.high + b.high <= U32_MAX else self._commuted(BinaryOp.SATURATING_ADD, a, b)

    def _saturating_subtract(self, a: Value, b: Value) -> Value:
        return self.subtract(a, b) if a.low >= b.high else self._derived(BinaryOp.SATURATING_SUB, a, b)

    def _saturating_multiply(self, a: Value, b: Value) -> Value:
        return self._multiply(a, b) if a.high * b.high <= U32_MAX else self._commuted(BinaryOp.SATURATING_MUL, a, b)


def _order(term: tuple[Atom, int]) -> int:
    return term[0].order


def _ordered(a: Value, b: Value) -> tuple[Value, Value]:
    """Returns the operands of a commutative operation in a canonical order, constants on the right."""
    if a.is_constant or (not b.is_constant and id(a) > id(b)):
        return b, a
    return a, b


COUNTS_BITS: Final = frozenset({UnaryOp.POPCOUNT, UnaryOp.CLZ, UnaryOp.CTZ})
_BINARY: Final[dict[BinaryOp, Callable[[Values, Value, Value], Value]]] = {
    BinaryOp.ADD: Values.add,
    BinaryOp.SUB: Values.subtract,
    BinaryOp.MUL: Values._multiply,
    BinaryOp.DIV: Values._divide,
    BinaryOp.MOD: Values._remainder,
    BinaryOp.BIT_AND: Values._and,
    BinaryOp.BIT_OR: lambda v, a, b: v._united(BinaryOp.BIT_OR, a, b),
    BinaryOp.BIT_XOR: lambda v, a, b: v._united(BinaryOp.BIT_XOR, a, b),
    BinaryOp.SHL: Values._shift_left,
    BinaryOp.SHR: Values._shift_right,
    BinaryOp.MIN: Values._minimum,
    BinaryOp.MAX: Values._maximum,
    BinaryOp.ABS_DIFF: lambda v, a, b: v._commuted(BinaryOp.ABS_DIFF, a, b),
    BinaryOp.SATURATING_ADD: Values._saturating_add,
    BinaryOp.SATURATING_SUB: Values._saturating_subtract,
    BinaryOp.SATURATING_MUL: Values._saturating_multiply,
    BinaryOp.MUL_HIGH: lambda v, a, b: v._commuted(BinaryOp.MUL_HIGH, a, b),
}
