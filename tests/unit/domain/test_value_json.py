"""Values survive JSON by their types, and what was not written by us is refused with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, NamedTuple, NewType

import pytest

from vyre.domain.errors import InvalidField, MalformedJson
from vyre.domain.record import IntRange, Reason, record
from vyre.domain.strict_json import canonical
from vyre.domain.value_json import from_json, to_json


class Colour(Enum):
    RED = "r"
    BLUE = "b"


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int = 0


@record
class Small:
    size: Annotated[int, IntRange(1, 9)]
    colour: Colour | None = None


@dataclass(frozen=True)
class Cached:
    name: str
    tags: list[str] = field(default_factory=list)
    digest: str = field(default="", init=False)


Name = NewType("Name", str)

VALUES: list[tuple[Any, Any, str]] = [
    (None, None, "null"),
    (int | None, None, "null"),
    (int | None, 3, "3"),
    (bool, True, "true"),
    (int, 2**63, "9223372036854775808"),
    (float, 0.1, "0.1"),
    (float, 1.0, "1.0"),
    (float, 1, "1"),
    (float, -math.inf, '"-inf"'),
    (str, "a\ud800\n", '"a\\ud800\\n"'),
    (bytes, b"\x00\xff", '"00ff"'),
    (Name, Name("n"), '"n"'),
    (Annotated[int, IntRange(0, 1)], 1, "1"),
    (Colour, Colour.BLUE, '"BLUE"'),
    (Level, Level.LOW, '"LOW"'),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (tuple[int, ...], (), "[]"),
    (Iterable[Point], (Point(1),), '[{"$type":"Point","x":1,"y":0}]'),
    (frozenset[str], frozenset("hal"), '["a","h","l"]'),
    (Mapping[str, int], {"b": 1, "a": 2}, '[["a",2],["b",1]]'),
    (Small, Small(3, Colour.RED), '{"$type":"Small","colour":"RED","size":3}'),
    (Point | Small, Small(3), '{"$type":"Small","colour":null,"size":3}'),
    (int | str | Point, "x", '"x"'),
    (Cached, Cached("n", ()), '{"$type":"Cached","name":"n","tags":[]}'),  # type: ignore[arg-type]
    (object, ("a", 1, None), '["a",1,null]'),
]


@pytest.mark.parametrize(("hint", "value", "text"), VALUES, ids=[text[:60] for _, _, text in VALUES])
def test_a_value_survives(hint: Any, value: Any, text: str) -> None:
    assert canonical(to_json(value)) == text
    found = from_json(hint, json.loads(text))
    assert found == value and type(found) is type(value)


def test_not_a_number_survives() -> None:
    assert to_json(math.nan) == "nan"
    assert math.isnan(from_json(float, "nan"))


def test_a_reason_is_its_text() -> None:
    assert to_json(Reason("{} of {{}}", (3,))) == "3 of {}"
    assert str(from_json(Reason, "3 of {}")) == "3 of {}"


def test_what_was_added_since_has_its_default() -> None:
    assert from_json(Small, {"$type": "Small", "size": 2}) == Small(2)
    assert from_json(Point, {"$type": "Point", "x": 2}) == Point(2)


REFUSED: list[tuple[Any, Any, str]] = [
    (bool, 1, "$: 1 is not true or false"),
    (int, True, "$: true is not an integer"),
    (int, 1.0, "$: 1.0 is not an integer"),
    (float, True, "$: true is not a number"),
    (float, "1", '$: "1" is not a number'),
    (str, None, "$: null is not a text"),
    (Reason, 1, "$: 1 is not a text"),
    (None, 0, "$: 0 is not null"),
    (bytes, "0", '$: "0" is not hexadecimal digits'),
    (bytes, "00 FF", '$: "00 FF" is not hexadecimal digits'),
    (bytes, 7, "$: 7 is not hexadecimal digits"),
    (Colour, "GREEN", '$: "GREEN" is not one of RED, BLUE'),
    (Colour, ["RED"], '$: ["RED"] is not one of RED, BLUE'),
    (tuple[int, ...], {}, "$: {} is not a list"),
    (tuple[int, int], [1], "$: [1] is not a list of 2"),
    (tuple[int, ...], [1, "2"], '$[1]: "2" is not an integer'),
    (frozenset[int], [1, 1], "$: [1,1] is not a list without duplicates"),
    (Mapping[str, int], [["a", 1], ["a", 2]], '$: [["a",1],["a",2]] is not a list without duplicates'),
    (Mapping[str, int], [["a", "b"]], '$[0][1]: "b" is not an integer'),
    (Small, [], "$: [] is not an object whose $type is Small"),
    (Small, {"$type": "Point", "x": 1}, '$: {"$type":"Point","x":1} is not an object whose $type is Small'),
    (Small, {"$type": "Small"}, "$: Small needs the field `size`"),
    (Small, {"$type": "Small", "size": 1, "age": 2}, "$: Small has no field `age`"),
    (tuple[Small, ...], [{"$type": "Small", "size": 10}], "$[0]: Small.size = 10 is not an int in 1..9"),
    (Small, {"$type": "Small", "size": "1"}, '$.size: "1" is not an integer'),
    (Point | Small, {"$type": "Point"}, "$: Point needs the field `x`"),
    (Point | Small, {"$type": "Line"}, '$: {"$type":"Line"} is not an object whose $type is Small'),
    (Point | int, "x" * 99, f'$: "{"x" * 59}... is not an integer'),
    (object, [{}], "$[0]: {} is not a number, a text or a list"),
]


@pytest.mark.parametrize(("hint", "document", "message"), REFUSED, ids=[message[:60] for _, _, message in REFUSED])
def test_anything_else_is_refused_with_its_place(hint: Any, document: Any, message: str) -> None:
    with pytest.raises(MalformedJson) as error:
        from_json(hint, document)
    assert error.value.message == message
    assert "Fix: " in str(error.value)


@pytest.mark.parametrize("value", [object(), len, ValueError("x"), int])
def test_state_and_functions_have_no_written_form(value: object) -> None:
    with pytest.raises(InvalidField, match="is not a record"):
        to_json(value)


def test_a_type_without_a_written_form_is_named() -> None:
    with pytest.raises(InvalidField, match="is not a type with a written form"):
        from_json(object.__class__, 1)
