"""Pins: winners of the tuner in a file that is kept, reviewed and distributed like source.

A pin applies to exactly the launches for which it was made: every field of its key must match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from vyre.domain.frozen import frozen
from vyre.domain.record import record
from vyre.domain.sealed_json import SealedForm
from vyre.domain.tuning import KEY_FIELDS, Candidate, TimeKind, TuningKey, key_json, key_of

VERSION: Final = 1


@record
class Pin:
    """The winner for one key; ``kind`` tells whether its times were measured or estimated."""

    key: TuningKey
    candidate: Candidate
    kind: TimeKind


@frozen
class Pins:
    """Pins, at most one for each key."""

    by_key: Mapping[TuningKey, Pin] = field(default_factory=dict)

    @classmethod
    def of(cls, pins: Iterable[Pin]) -> Pins:
        """Returns these pins; the last one of a key wins."""
        return cls({pin.key: pin for pin in pins})

    def __len__(self) -> int:
        return len(self.by_key)

    def get(self, key: TuningKey) -> Pin | None:
        """Returns the pin of a key, or None."""
        return self.by_key.get(key)

    def why_none(self, key: TuningKey) -> str:
        """Returns the reason why no pin applies: the program has none, or the fields in which the nearest one
        differs.
        """
        near = [differing(pin.key, key) for pin in self.by_key.values() if pin.key.program == key.program]
        if not near:
            return "no pin is of this program"
        nearest = min(near, key=lambda fields: len(fields))
        return f"the nearest pin of this program differs in {', '.join(nearest)}"


def differing(one: TuningKey, other: TuningKey) -> tuple[str, ...]:
    """Returns the names of the fields in which two keys differ."""
    return tuple(name for name in KEY_FIELDS if getattr(one, name) != getattr(other, name))


def pins_text(pins: Pins) -> str:
    """Returns canonical sealed JSON, sorted, with a line end: equal pins give equal bytes."""
    rows = [
        {"key": key_json(pin.key), "size": pin.candidate.size, "profile": pin.candidate.profile, "kind": pin.kind.value}
        for pin in sorted(pins.by_key.values(), key=lambda pin: [getattr(pin.key, name) for name in KEY_FIELDS])
    ]
    return _FORM.seal({"version": VERSION, "pins": rows}) + "\n"


def pins_of(text: str | bytes) -> Pins:
    """Returns the pins that ``pins_text`` wrote; raises ``MalformedJson`` for any other text."""
    return _FORM.read(text, lambda content: Pins.of(map(_pin_of, content["pins"])), pins_text)


def _pin_of(row: dict[str, Any]) -> Pin:
    return Pin(key_of(row["key"]), Candidate(row["size"], row["profile"]), TimeKind(row["kind"]))


_FORM: Final = SealedForm.of(
    b"vyre.tuning.pins.v1", "no file of pins", "write it again with `vyre tune --export`, or copy it again.", VERSION
)
