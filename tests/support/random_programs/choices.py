"""Where the random programs get their choices from: a seed, or Hypothesis (which then shrinks them)."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

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
        at = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            if at < weight:
                return option
            at -= weight
        raise AssertionError("weights are positive")


class SeededChoices(Choices):
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class DrawnChoices(Choices):
    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return self._draw(st.integers(0, limit - 1)) if limit > 1 else 0
