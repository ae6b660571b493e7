"""Random programs of the tests: those of a seed, and the Hypothesis strategy ``cases()``, whose programs shrink."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from vyre.testing.random_programs.choices import Choices
from vyre.testing.random_programs.generator import Case, Generator, generate
from vyre.testing.random_programs.memory import Order

__all__ = ["Case", "Order", "any_cases", "cases", "generate"]


class DrawnChoices(Choices):
    """The choices of Hypothesis."""

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        return self._draw(st.integers(0, limit - 1)) if limit > 1 else 0


@st.composite
def cases(
    draw: DrawFn, *, order: Order = Order.INDEPENDENT, work: int = 6_000, traps: bool = False, indirect: bool = False
) -> Case:
    """Random cases that shrink."""
    return Generator(DrawnChoices(draw), order, work, traps, indirect).case()


def any_cases(*, work: int = 4_000) -> SearchStrategy[Case]:
    """Cases of every order, with everything a program can contain."""
    return st.sampled_from(Order).flatmap(lambda order: cases(order=order, work=work, traps=True, indirect=True))
