"""Frozen classes behave as the dataclasses of the standard library."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any
from weakref import ref

import pytest

from vyre.domain.frozen import frozen


@frozen
class Plain:
    """A class with every kind of field."""

    name: str
    numbers: list[int] = field(default_factory=list, hash=False)
    size: int = 3
    note: str = field(default="", compare=False, repr=False)
    seen: dict[str, int] = field(default_factory=dict, init=False, compare=False)
    fixed: int = field(default=9, init=False)


@dataclass(frozen=True, slots=True)
class Standard:
    """The same class, of the standard library."""

    name: str
    numbers: list[int] = field(default_factory=list, hash=False)
    size: int = 3
    note: str = field(default="", compare=False, repr=False)
    seen: dict[str, int] = field(default_factory=dict, init=False, compare=False)
    fixed: int = field(default=9, init=False)


@frozen(kw_only=True, weakref_slot=True)
class Named:
    """A class whose fields are given by name, and checked."""

    size: int
    title: str = "none"

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("size")


@frozen(eq=False, repr=False)
class Same:
    """A class whose instances are equal to themselves alone."""

    size: int = 0


@frozen
class Own:
    """A class with an equality and a text of its own."""

    size: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.size % 10 == other.size % 10

    def __repr__(self) -> str:
        return "own"


@frozen
class Wider(Plain):
    """A class that inherits fields."""

    width: int = 1


@frozen
class Empty:
    """A class without fields."""


def test_it_is_what_the_standard_library_makes() -> None:
    ours, theirs = Plain("a", [1], note="x"), Standard("a", [1], note="x")
    assert repr(ours) == repr(theirs).replace("Standard", "Plain")
    assert asdict(ours) == asdict(theirs)
    assert [each.name for each in fields(Plain)] == [each.name for each in fields(Standard)]
    assert Plain.__match_args__ == Standard.__match_args__
    signature = inspect.signature(Plain)
    assert list(signature.parameters) == list(inspect.signature(Standard).parameters)
    assert not hasattr(ours, "__dict__") and Plain.__slots__ == Standard.__slots__  # type: ignore[attr-defined]


def test_equality_and_hash_follow_the_compared_fields() -> None:
    assert Named(size=1) == Named(size=1) != Named(size=2)
    assert hash(Named(size=1)) == hash(Named(size=1)) == hash((1, "none"))
    assert Plain("a", note="x") == Plain("a", note="y") != Plain("b")
    other: list[object] = [Wider("a"), "a"]
    assert Plain("a") not in other
    assert hash(Plain("a", [1])) == hash(Standard("a", [1])) == hash(("a", 3, 9))
    assert Empty() == Empty() and len({Empty(), Empty()}) == 1
    assert Same() != Same() and len({Same(), Same()}) == 2
    assert Own(1) == Own(11) and repr(Own(1)) == "own"


def test_each_instance_gets_its_own_default() -> None:
    first, second = Plain("a"), Plain("a")
    first.numbers.append(1)
    assert second.numbers == [] and first.seen is not second.seen and first.fixed == 9


@pytest.mark.parametrize("value", [Plain("a", [1, 2], 5), Named(size=3), Wider("w", width=4), Same(7)])
def test_nothing_is_assigned_or_deleted(value: Any) -> None:
    name = fields(value)[0].name
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(value, name, 1)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(value, name)


@pytest.mark.parametrize("value", [Plain("a", [1, 2], 5), Named(size=3), Wider("w", width=4), Empty()])
def test_copies_are_equal(value: Any) -> None:
    for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), replace(value)):
        assert copied == value and type(copied) is type(value) and repr(copied) == repr(value)


def test_the_constructor_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="size"):
        Named(size=-1)
    with pytest.raises(ValueError, match="size"):
        replace(Named(size=1), size=-1)
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'name'"):
        Plain()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional argument"):
        Named(1)  # type: ignore[call-arg]


def test_patterns_and_weak_references() -> None:
    match Plain("a", [1]):
        case Plain(name, [number]):
            assert (name, number) == ("a", 1)
        case _:
            pytest.fail("the pattern does not match")
    named = Named(size=1)
    assert ref(named)() is named
