"""Pins: winners of the tuner in a file that is kept, reviewed and carried like source.

A pin holds for exactly the launches it was made for: every field of its key, or it does not apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from vyre.domain.errors import InvalidField, MalformedJson
from vyre.domain.record import record
from vyre.domain.sealed_json import SealedForm
from vyre.domain.tuning import KEY_FIELDS, Candidate, TimeKind, TuningKey, key_json, key_of

VERSION: Final = 1


@record
class Pin:
    """``kind``: of the times by which ``candidate`` won, so that what a model chose can be told from a measurement."""

    key: TuningKey
    candidate: Candidate
    kind: TimeKind


@dataclass(frozen=True, slots=True)
class Pins:
    """At most one pin a key."""

    by_key: Mapping[TuningKey, Pin] = field(default_factory=dict)

    @classmethod
    def of(cls, pins: Iterable[Pin]) -> Pins:
        """The last one of a key counts."""
        return cls({pin.key: pin for pin in pins})

    def __len__(self) -> int:
        return len(self.by_key)

    def get(self, key: TuningKey) -> Pin | None:
        return self.by_key.get(key)

    def why_none(self, key: TuningKey) -> str:
        """Why no pin applies: there is none of the program, or the nearest was made for something else."""
        near = [differing(pin.key, key) for pin in self.by_key.values() if pin.key.program == key.program]
        if not near:
            return "no pin is of this program"
        nearest = min(near, key=lambda fields: len(fields))
        return f"the nearest pin of this program differs in {', '.join(nearest)}"


def differing(one: TuningKey, other: TuningKey) -> tuple[str, ...]:
    """Names of the fields that differ."""
    return tuple(name for name in KEY_FIELDS if getattr(one, name) != getattr(other, name))


def pins_text(pins: Pins) -> str:
    """Canonical sealed JSON, sorted, with a line end: equal pins give equal bytes."""
    rows = [
        {
            "key": key_json(pin.key),
            "size": pin.candidate.size,
            "profile": pin.candidate.profile,
            "kind": pin.kind.value,
        }
        for pin in sorted(pins.by_key.values(), key=lambda pin: [getattr(pin.key, name) for name in KEY_FIELDS])
    ]
    return _FORM.seal({"version": VERSION, "pins": rows}) + "\n"


def pins_of(text: str) -> Pins:
    """The inverse; raises ``MalformedJson`` for whatever ``pins_text`` would not have written."""
    content = _FORM.unseal(text)
    try:
        if content["version"] != VERSION:
            raise _malformed(f"it is of version {content['version']!r}, not {VERSION}")
        found = Pins.of(map(_pin_of, content["pins"]))
    except (KeyError, TypeError, ValueError, InvalidField) as error:
        raise _malformed(str(error)) from None
    if pins_text(found) != text:
        raise _malformed("it is not canonical")
    return found


def _pin_of(row: dict[str, Any]) -> Pin:
    return Pin(key_of(row["key"]), Candidate(row["size"], row["profile"]), TimeKind(row["kind"]))


def _malformed(why: str) -> MalformedJson:
    return MalformedJson(f"no file of pins: {why}", fix="write it again with `vyre tune --export`, or copy it again.")


_FORM: Final = SealedForm(b"vyre.tuning.pins.v1", _malformed)
