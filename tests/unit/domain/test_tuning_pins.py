"""Pins and their files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.tuning import tuning_key
from vyre.domain import tuning_pins
from vyre.domain.errors import MalformedJson
from vyre.domain.tuning import Candidate, TimeKind
from vyre.domain.tuning_pins import Pin, Pins, pins_of, pins_text


def pin(program: int = 0, size: int = 128, **changes: Any) -> Pin:
    return Pin(tuning_key(program, **changes), Candidate(size, "exact-grid"), TimeKind.DEVICE)


def sealed(**changes: Any) -> str:
    content = json.loads(pins_text(Pins.of([pin()])))
    del content["blake3"]
    return tuning_pins._FORM.seal(content | changes) + "\n"


def row(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pins_text(Pins.of([pin()])))["pins"][0]
    return found | changes


def test_a_file_of_pins_is_read_back() -> None:
    pins = Pins.of([pin(1), pin(0), pin(0, bucket=3), Pin(tuning_key(2), Candidate(32), TimeKind.ESTIMATED)])
    assert pins_of(pins_text(pins)) == pins
    assert pins_of(pins_text(Pins())) == Pins()
    assert sealed() == pins_text(Pins.of([pin()]))


def test_equal_pins_give_equal_bytes_in_whatever_order() -> None:
    pins = [pin(program, bucket=bucket) for program in range(3) for bucket in range(3)]
    assert pins_text(Pins.of(pins)) == pins_text(Pins.of(reversed(pins)))
    programs = [each["key"]["program"] for each in json.loads(pins_text(Pins.of(reversed(pins))))["pins"]]
    assert programs == sorted(programs)


def test_the_last_pin_of_a_key_counts() -> None:
    pins = Pins.of([pin(size=64), pin(size=32)])
    assert len(pins) == 1
    assert pins.get(tuning_key()) == pin(size=32)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{}", "digest"),
        (sealed().replace("128", "256"), "digest"),
        (sealed().strip(), "canonical"),
        (sealed() + "\n", "canonical"),
        (sealed(more=1), "canonical"),
        (sealed(version=True), "canonical"),
        (sealed(pins=[row(), row()]), "canonical"),
        (sealed(pins=[row(more=1)]), "canonical"),
        (sealed(pins=[row(key=row()["key"] | {"program": "1" * 64}), row()]), "canonical"),
        (sealed(version=2), "version 2, not 1"),
        (sealed(pins=None), "not iterable"),
        (sealed(pins=[1]), "subscriptable"),
        (sealed(pins=[{}]), "key"),
        (sealed(pins=[row(size=0)]), "Candidate.size"),
        (sealed(pins=[row(kind="guess")]), "guess"),
        (sealed(pins=[row(key={})]), "declared"),
        (sealed(pins=[row(key=row()["key"] | {"program": "0"})]), "64 hexadecimal digits"),
    ],
)
def test_what_was_not_written_so_is_refused(text: str, why: str) -> None:
    with pytest.raises(MalformedJson, match=r"no file of pins: .* Fix: write it again with") as caught:
        pins_of(text)
    assert why in str(caught.value)


def test_why_no_pin_applies() -> None:
    pins = Pins.of([pin(device="another", driver="14", bucket=1), pin(versions="vyre 2", driver="14"), pin(7)])
    assert Pins().why_none(tuning_key()) == "no pin is of this program"
    assert pins.why_none(tuning_key(3)) == "no pin is of this program"
    assert pins.why_none(tuning_key()) == "the nearest pin of this program differs in driver, versions"
