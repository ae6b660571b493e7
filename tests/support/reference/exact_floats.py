"""Binary floating-point formats by their definition, in exact rational arithmetic, to judge rules that round."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType, bf16, f16


class NarrowFormat:
    """A format of 16 bits: a sign, ``exponent_bits`` and ``fraction_bits``."""

    def __init__(self, dtype: ScalarType, exponent_bits: int, fraction_bits: int) -> None:
        self.dtype = dtype
        self.fraction_bits = fraction_bits
        self.precision = fraction_bits + 1
        self.infinity = ((1 << exponent_bits) - 1) << fraction_bits
        self.nan = self.infinity | 1 << (fraction_bits - 1)
        self.least = 2 - (1 << (exponent_bits - 1)) - fraction_bits
        """The exponent of the least place."""
        self.greatest = self.least + (1 << exponent_bits) - 3
        """The exponent of the last place of the greatest numbers."""

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        """The values of the patterns from 0 to that of infinity, which counts as the next power of two."""
        found = []
        for pattern in range(self.infinity + 1):
            field, fraction = divmod(pattern, 1 << self.fraction_bits)
            significand = fraction + (1 << self.fraction_bits if field else 0)
            found.append(significand * Fraction(2) ** (max(field, 1) - 1 + self.least))
        return tuple(found)

    def value(self, pattern: int) -> Fraction:
        """The value of a finite pattern, with its sign."""
        assert pattern & 0x7FFF < self.infinity
        magnitude = self.values[pattern & 0x7FFF]
        return -magnitude if pattern & 0x8000 else magnitude

    def nearest(self, exact: Fraction) -> int:
        """The pattern nearest to a number, ties to even, without the sign of a zero; what rounds to the power of two
        beyond the greatest number is infinite.
        """
        magnitude, sign = abs(exact), 0x8000 if exact < 0 else 0
        below = bisect_right(self.values, magnitude) - 1
        if below == self.infinity:
            return sign | below
        twice = 2 * magnitude - self.values[below] - self.values[below + 1]
        return sign | (below + 1 if twice > 0 or (twice == 0 and below & 1) else below)

    def nearest_root(self, square: Fraction) -> int:
        """The pattern nearest to the square root of a positive number, ties to even."""
        squares = self._squares
        below = bisect_right(squares, square) - 1
        if below == self.infinity:
            return below
        middle = ((self.values[below] + self.values[below + 1]) / 2) ** 2
        return below + 1 if square > middle or (square == middle and below & 1) else below

    @cached_property
    def _squares(self) -> tuple[Fraction, ...]:
        return tuple(value * value for value in self.values)

    def pattern(self, significand: int, exponent: int) -> int:
        """The pattern of ``significand * 2**exponent``, for a significand of just as many bits as the precision."""
        assert significand.bit_length() == self.precision
        assert self.least <= exponent <= self.greatest
        return ((exponent - self.least) << self.fraction_bits) + significand


HALF: Final = NarrowFormat(f16, 5, 10)
BFLOAT: Final = NarrowFormat(bf16, 8, 7)
NARROW_FLOATS: Final = {form.dtype: form for form in (HALF, BFLOAT)}


class Midpoint(NamedTuple):
    """``odd * 2**exponent``, half-way between two neighbours of a format, the lower of which has the pattern."""

    below: int
    odd: int
    exponent: int

    @property
    def value(self) -> Fraction:
        return self.odd * Fraction(2) ** self.exponent


def midpoint(form: NarrowFormat, below: int) -> Midpoint:
    """The midpoint between the positive numbers of the patterns ``below`` and ``below + 1``."""
    field, fraction = divmod(below, 1 << form.fraction_bits)
    significand = fraction + (1 << form.fraction_bits if field else 0)
    return Midpoint(below, 2 * significand + 1, max(field, 1) - 2 + form.least)


def _some_midpoint(form: NarrowFormat, rng: random.Random) -> Midpoint:
    """Any midpoint, every fourth of them subnormal and every eighth near the greatest number."""
    kind = rng.randrange(8)
    if kind < 2:
        return midpoint(form, rng.randrange(1 << form.fraction_bits))
    if kind == 2:
        return midpoint(form, form.infinity - 1 - rng.randrange(8))
    return midpoint(form, rng.randrange(form.infinity))


def near_midpoints(op: BinaryOp, form: NarrowFormat, count: int, seed: int) -> Iterator[tuple[int, int]]:
    """At least ``count`` pairs of finite patterns whose exact result is a midpoint of the format, or as close to one
    as results of the operator come.
    """
    rng = random.Random(f"{op.name} {form.dtype.text} {seed}")
    made = 0
    while made < count:
        target = _some_midpoint(form, rng)
        if op in (BinaryOp.ADD, BinaryOp.SUB):
            pairs = _close_terms(op, form, target, rng)
        else:
            pairs = _close_factors(op, form, target, rng)
        for a, b in pairs:
            made += 1
            yield a, b


def _close_terms(op: BinaryOp, form: NarrowFormat, target: Midpoint, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Pairs with a = the lower neighbour or a number near it, and b = what is missing, and its neighbours."""
    a = max(0, min(form.infinity - 1, target.below + rng.choice((0, 0, 1, -1, rng.randrange(-99, 99)))))
    missing = form.nearest(target.value - form.value(a))
    for near in (missing - 1, missing, missing + 1):
        if near & 0x7FFF < form.infinity and near >= 0:
            b = near ^ 0x8000 if op is BinaryOp.SUB else near
            yield (a ^ 0x8000, b ^ 0x8000) if rng.random() < 0.5 else (a, b)


def _close_factors(op: BinaryOp, form: NarrowFormat, target: Midpoint, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Yields at most four pairs of bit patterns, a and b, whose product or quotient lies closest to the midpoint."""
    low, high = 1 << form.fraction_bits, 2 << form.fraction_bits
    b = np.arange(low, high, dtype=np.int64)
    if op is BinaryOp.DIV:
        wanted = target.odd * b  # a * 2^k = odd * b
        k = np.array([int(w).bit_length() - form.precision for w in wanted.tolist()], dtype=np.int64)
        up, down = np.maximum(k, 0), np.maximum(-k, 0)
        a = (wanted + (np.int64(1) << up >> 1) >> up) << down
        error = np.abs((a << up) - (wanted << down)) / wanted
        exponents = [target.exponent + power for power in k.tolist()]  # of a less that of b
    else:
        wide = 2 * form.precision - 1 - target.odd.bit_length()  # a * b = odd * 2^k
        k = np.full(b.shape, wide) + (((target.odd << wide) // b) < low)
        wanted = target.odd << k
        a = (2 * wanted + b) // (2 * b)
        error = np.abs(a * b - wanted) / wanted
        exponents = [target.exponent - power for power in k.tolist()]  # of a and b together
    error[(a < low) | (a >= high)] = np.inf
    for index in np.argsort(error, kind="stable")[:4].tolist():
        if np.isinf(error[index]):
            break
        least, greatest = form.least, form.greatest
        for _ in range(50):
            eb = rng.randint(least, greatest)
            ea = exponents[index] + eb if op is BinaryOp.DIV else exponents[index] - eb
            if least <= ea <= greatest:
                signs = rng.choice((0, 0x8000)), rng.choice((0, 0x8000))
                yield form.pattern(int(a[index]), ea) | signs[0], form.pattern(int(b[index]), eb) | signs[1]
                break
