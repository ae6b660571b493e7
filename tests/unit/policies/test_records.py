"""Every checked record refuses what is outside the domain of a field, and names the field."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vyre.domain.graphs
import vyre.policies
from support.records import records
from vyre.domain.errors import InvalidField, PlanError
from vyre.domain.record import IntRange, checked_u64, record
from vyre.policies.cache_invalidation import InvalidationInputs

FIXED = {InvalidationInputs: st.just(InvalidationInputs((0,), (0,), (0,), (0,), 1, ()))}
"""Records whose fields depend on each other."""


def checked_records() -> Iterator[type]:
    for package in (vyre.policies, vyre.domain.graphs):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for item in vars(importlib.import_module(module.name)).values():
                own = isinstance(item, type) and item.__module__ == module.name and is_dataclass(item)
                if own and "__post_init__" in vars(item):
                    yield item


RECORDS = sorted(set(checked_records()), key=lambda cls: (cls.__module__, cls.__name__))


def wrong_values(hint: Any) -> list[object]:
    if get_origin(hint) is Annotated:
        low, high = get_args(hint)[1]
        return [low - 1, high + 1, True, float(low), str(low), None]
    if hint is bool:
        return [0, None]
    return [object()]


def test_records_are_found() -> None:
    assert len(RECORDS) > 60


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}")
@settings(max_examples=3)
@given(data=st.data())
def test_fields_outside_their_domain(cls: type[Any], data: st.DataObject) -> None:
    good = data.draw(FIXED[cls] if cls in FIXED else records(cls))
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        for wrong in wrong_values(hints[field.name]):
            with pytest.raises(InvalidField) as error:
                replace(good, **{field.name: wrong})
            assert (error.value.record, error.value.field) == (cls.__name__, field.name)
            assert str(error.value).startswith(f"{cls.__name__}.{field.name} = ")


class Colour(Enum):
    RED = "red"


@record
class Everything:
    colours: frozenset[Colour]
    pair: tuple[Annotated[int, IntRange(1, 2)], str]
    many: tuple[float, ...]
    maybe: Annotated[int, IntRange(0, 9)] | None
    plain: int
    loose: Annotated[Any, "anything"]


GOOD = Everything(frozenset({Colour.RED}), (1, "x"), (1.0, 2), None, -5, object())


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
