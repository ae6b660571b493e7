"""Names that end with their scope."""

from __future__ import annotations

from support.counting import steps_of
from vyre.domain.scoped_names import ScopedNames


def test_a_scope_takes_its_names_along_and_gives_hidden_ones_back() -> None:
    names: ScopedNames[int] = ScopedNames()
    names.declare("a", 1)
    outer = names.mark
    names.declare("b", 2)
    names.declare("a", 3)
    inner = names.mark
    names.declare("a", 4)
    assert dict(names) == {"a": 4, "b": 2}
    names.leave(inner)
    assert dict(names) == {"a": 3, "b": 2}
    names.leave(outer)
    assert dict(names) == {"a": 1}


def test_a_name_declared_twice_in_a_scope_ends_with_it() -> None:
    names: ScopedNames[int] = ScopedNames()
    names.declare("a", 1)
    names.declare("a", 2)
    names.leave(0)
    assert dict(names) == {}


def test_leaving_costs_as_much_as_was_declared_however_many_names_are_visible() -> None:
    def steps(visible: int) -> int:
        names: ScopedNames[int] = ScopedNames()
        for number in range(visible):
            names.declare(str(number), number)
        mark = names.mark
        names.declare("x", 0)
        return steps_of(lambda: names.leave(mark))

    assert steps(10) == steps(10_000) > 0
