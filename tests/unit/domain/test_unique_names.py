"""Names of a program under construction."""

from __future__ import annotations

import pytest

from vyre.domain.ir.unique_names import UniqueNames


@pytest.mark.parametrize("hints", [["x", "x", "x_1", "x", "x_1"], ["x_1", "x", "x", "x_1"], ["a", "a", "a", "a_2"]])
def test_every_name_is_given_once(hints: list[str]) -> None:
    names = UniqueNames()
    given = [names.unique(hint) for hint in hints]
    assert len(set(given)) == len(given)
    assert all(name in names for name in given)
    assert given[0] == hints[0]


def test_a_reserved_name_is_not_given() -> None:
    names = UniqueNames()
    names.reserve("x")
    assert names.unique("x") == "x_1"
