"""The source of the choices that a random program is made by, and random literals."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from vyre.domain.ir.expr import Literal
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import WITNESSES

T = TypeVar("T")


class Choices(ABC):
    """A stream of decisions.  Option 0 is always the simplest, so that shrinking simplifies."""

    @abstractmethod
    def below(self, limit: int) -> int:
        """An int in ``[0, limit)``."""

    def between(self, low: int, high: int) -> int:
        """An int in ``[low, high]``."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
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

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


def literal(choices: Choices, dtype: ScalarType) -> Literal:
    """Returns a literal: mostly a value at which arithmetic goes wrong, sometimes any bits."""
    if choices.chance(25) and dtype is not ScalarType.BOOL:
        return Literal(dtype, choices.below(1 << dtype.bits))
    return Literal(dtype, choices.pick(WITNESSES[dtype]))
