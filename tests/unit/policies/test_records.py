"""What a checked record accepts, by kind of field; ``test_input_domains`` walks the records that there are."""

from __future__ import annotations

import pickle
from dataclasses import field, fields, replace
from enum import Enum
from typing import Annotated, Any

import pytest

from vyre.domain.errors import InvalidField, PlanError
from vyre.domain.record import FloatRange, IntRange, checked_u64, record
from vyre.policies.record import Reason, verdict, why_field


class Colour(Enum):
    RED = "red"


@record
class Everything:
    colours: frozenset[Colour]
    pair: tuple[Annotated[int, IntRange(1, 2)], str]
    many: tuple[float, ...]
    maybe: Annotated[int, IntRange(0, 9)] | None
    plain: int
    share: Annotated[float, FloatRange(0.0, 1.0)]
    positive: Annotated[float, FloatRange(0.0, above=True)]
    loose: Annotated[Any, "anything"]


GOOD = Everything(frozenset({Colour.RED}), (1, "x"), (1.0, 2), None, -5, 1, 0.5, object())


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("colours", {Colour.RED}, "a frozenset"),
        ("colours", frozenset({"red"}), "a frozenset of which each is one of RED"),
        ("pair", (1,), "a tuple of 2"),
        ("pair", [1, "x"], "a tuple of 2"),
        ("pair", (3, "x"), "an int in 1..2"),
        ("pair", (1, 1), "a str"),
        ("many", (1.0, "2"), "a tuple of which each is a float"),
        ("many", (True,), "a tuple of which each is a float"),
        ("many", [], "a tuple"),
        ("maybe", 10, "an int in 0..9 or a NoneType"),
        ("plain", 2**63, "an int in -9223372036854775808..9223372036854775807"),
        ("share", 1.5, "a finite float of at least 0 and at most 1"),
        ("share", True, "a finite float of at least 0 and at most 1"),
        ("positive", 0.0, "a finite float above 0"),
        ("positive", float("inf"), "a finite float above 0"),
        ("positive", "1", "a finite float above 0"),
    ],
)
def test_every_kind_of_field(field: str, value: object, expected: str) -> None:
    with pytest.raises(InvalidField) as error:
        replace(GOOD, **dict[str, Any]({field: value}))
    assert error.value.expected == expected


def test_records_are_frozen_and_own_checks_run_last() -> None:
    with pytest.raises(AttributeError):
        GOOD.plain = 1  # type: ignore[misc]

    @record
    class Ordered:
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise InvalidField(record="Ordered", field="low", value=self.low, expected="at most high")

    assert Ordered(1, 2).high == 2
    with pytest.raises(InvalidField, match="at most high"):
        Ordered(2, 1)
    with pytest.raises(InvalidField, match=r"Ordered\.low = '3'"):
        Ordered("3", 1)  # type: ignore[arg-type]


def test_checked_arithmetic() -> None:
    assert checked_u64(2**64 - 1, "bytes") == 2**64 - 1
    for value in (-1, 2**64):
        with pytest.raises(PlanError) as error:
            checked_u64(value, "bytes", "CountOverflow")
        assert (error.value.kind, error.value.fields) == ("CountOverflow", {"field": "bytes"})


@verdict
class Chosen:
    """A verdict with all that its fields may have."""

    colour: Colour
    size: int = 3
    why: Reason = why_field()


@verdict
class Nothing:
    pass


def test_a_verdict_is_built_like_any_dataclass() -> None:
    why = Reason("as {}", ("asked",))
    assert Chosen(Colour.RED) == Chosen(colour=Colour.RED, size=3) == Chosen(Colour.RED, 3, why)
    assert Chosen(Colour.RED, why=why).why is why
    assert Chosen(Colour.RED) != Chosen(Colour.RED, 4)
    assert repr(Chosen(Colour.RED)) == "Chosen(colour=<Colour.RED: 'red'>, size=3, why=Reason(template='', values=()))"
    assert replace(Chosen(Colour.RED), size=5) == Chosen(Colour.RED, 5)
    assert [f.name for f in fields(Chosen)] == ["colour", "size", "why"]
    assert pickle.loads(pickle.dumps(Chosen(Colour.RED, 7, why))).why == why
    assert Nothing() == Nothing()
    assert Chosen.__init__.__qualname__ == "Chosen.__init__"
    match Chosen(Colour.RED, 8):
        case Chosen(colour, size):
            assert (colour, size) == (Colour.RED, 8)
    for wrong in ((), (Colour.RED, 1, why, 2)):
        with pytest.raises(TypeError):
            Chosen(*wrong)


def test_a_verdict_takes_what_has_no_default() -> None:
    @verdict
    class Two:
        size: int
        why: Reason = why_field()

    assert Two(1) == Two(size=1, why=Reason("because"))
    with pytest.raises(TypeError):
        Two()  # type: ignore[call-arg]


def test_a_verdict_is_frozen_and_has_no_other_attributes() -> None:
    for name in ("size", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(Chosen(Colour.RED), name, 1)


def test_a_field_of_a_verdict_may_be_given_by_name_alone() -> None:
    named: Any = field(kw_only=True, default=3)
    made: Any = verdict(type("Named", (), {"__annotations__": {"first": int, "last": int}, "last": named}))
    assert (made(1).last, made(1, last=2).last) == (3, 2)
    with pytest.raises(TypeError):
        made(1, 2)
