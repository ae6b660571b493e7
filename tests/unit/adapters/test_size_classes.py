"""Size classes: few, and close to what is asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vyre.adapters.size_classes import size_class


@given(st.integers(1, 2**40))
def test_a_class_holds_its_size_and_wastes_an_eighth_at_most(nbytes: int) -> None:
    capacity = size_class(nbytes)
    assert nbytes <= capacity
    assert capacity % 256 == 0
    assert capacity - nbytes <= max(255, nbytes // 8)
    assert size_class(capacity) == capacity


def test_eight_classes_lie_between_powers_of_two() -> None:
    assert len({size_class(n) for n in range(2**20 + 1, 2**21 + 1, 64)}) == 8
