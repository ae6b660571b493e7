"""The source of the choices that a random program is made by, and random literals."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from vyre.domain.ir.expr import Literal
from vyre.domain.ir.operators import AtomicOp, BinaryOp, OperatorAt, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import WITNESSES

T = TypeVar("T")


class Choices(ABC):
    """A stream of decisions.  Option 0 is always the simplest, so that shrinking simplifies.

    ``lacking``: the names of types, operators and operations, as a certificate has them, that are not chosen.
    """

    lacking: frozenset[str] = frozenset()

    @abstractmethod
    def below(self, limit: int) -> int:
        """An int in ``[0, limit)``."""

    def between(self, low: int, high: int) -> int:
        """An int in ``[low, high]``."""
        return low + self.below(high - low + 1)

    def offers(self, option: object) -> bool:
        """Whether a type, a name, or an operator with the types of its operands is not lacking."""
        match option:
            case ScalarType():
                return option.text not in self.lacking
            case str():
                return option not in self.lacking
            case (BinaryOp() | UnaryOp() | AtomicOp() as op, ScalarType() as first, *others):
                return str(OperatorAt(op, first)) not in self.lacking and all(map(self.offers, (first, *others)))
        return True

    def among(self, options: Sequence[T]) -> Sequence[T]:
        """The options that are not lacking."""
        return [option for option in options if self.offers(option)] if self.lacking else options

    def pick(self, options: Sequence[T]) -> T:
        options = self.among(options) or options
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """True in ``percent`` of 100 cases; False is the simpler answer."""
        return self.below(100) >= 100 - percent

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """One of the options, with integer weights."""
        left = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            if left < weight:
                return option
            left -= weight
        raise AssertionError("weights are positive")


class SeededChoices(Choices):
    """The choices of a seed: the same ones on every machine and version of Python."""

    def __init__(self, seed: int, lacking: frozenset[str] = frozenset()) -> None:
        self._random = random.Random(seed)
        self.lacking = lacking

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


def literal(choices: Choices, dtype: ScalarType) -> Literal:
    """Returns a literal: mostly a value at which arithmetic goes wrong, sometimes any bits."""
    if choices.chance(25) and dtype is not ScalarType.BOOL:
        return Literal(dtype, choices.below(1 << dtype.bits))
    return Literal(dtype, choices.pick(WITNESSES[dtype]))
