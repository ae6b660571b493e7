"""Why was a compiled artifact not in the cache?

Rule: compare the key with every stored key of the same program and kind, each fact and each specialization constant as
a field of its own, and tell what differs from the nearest one, that with the fewest differences.  Which of several
equally near ones is told does not depend on their order.  O(neighbours x fields).

What the reference gets wrong: it infers a hit or a miss from counters that moved during the compilation, so that
another thread's lookup counts too, and a miss has no reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.specialization import written_spec
from vyre.policies.record import Reason, verdict, why_field

LISTED: Final = 4
"""Changes that the reason names."""
SHOWN: Final = 48
"""Characters of a value that the reason shows."""
ABSENT: Final = "-"


class MissCause(Enum):
    """NEVER_SEEN: nothing is stored for this program.  CHANGED: something is, under another key.  UNUSABLE: under this
    very key, but it did not verify, or another process stored it just now."""

    NEVER_SEEN = "never seen"
    CHANGED = "changed"
    UNUSABLE = "unusable"


class FieldChange(NamedTuple):
    """``field`` of the key, and ``part`` of it: the name of a fact or of a constant, else empty."""

    field: str
    part: str
    stored: str
    wanted: str

    @property
    def name(self) -> str:
        """For people: ``policy assume``."""
        label = _LABELS.get(self.field, self.field)
        return f"{label} {shown(self.part)}" if self.part else label

    def __str__(self) -> str:
        return f"{self.name}: {shown(self.stored)} -> {shown(self.wanted)}"


@verdict
class Miss:
    """``changes``: from the nearest stored key to the wanted one, in the order of the key's fields."""

    cause: MissCause
    changes: tuple[FieldChange, ...]
    why: Reason = why_field()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields of the key that changed."""
        return tuple(dict.fromkeys(change.field for change in self.changes))


def explain_miss(wanted: ArtifactKey, stored: Iterable[ArtifactKey]) -> Miss:
    """``str(why)`` is one line.  Keys of other programs or kinds are no neighbours."""
    neighbours = [key for key in stored if (key.program, key.kind) == (wanted.program, wanted.kind)]
    if not neighbours:
        what = Reason("never seen: no {} of program {} is stored", (wanted.kind.value, wanted.program.hex()[:16]))
        return Miss(MissCause.NEVER_SEEN, (), what)
    compared = [(changes_between(key, wanted), key) for key in neighbours]
    changes, _ = min(compared, key=lambda found: (len(found[0]), found[1].encode()))
    if not changes:
        return Miss(MissCause.UNUSABLE, (), Reason("unusable: stored under this key, but it could not be read"))
    listed = "; ".join(map(str, changes[:LISTED]))
    if len(changes) > LISTED:
        why = Reason("changed: {}; and {} more", (listed, len(changes) - LISTED))
    else:
        why = Reason("changed: {}", (listed,))
    return Miss(MissCause.CHANGED, changes, why)


def changes_between(stored: ArtifactKey, wanted: ArtifactKey) -> tuple[FieldChange, ...]:
    """Everything in which two keys differ, in the order of the fields and then of the parts' names."""
    found: list[FieldChange] = []
    for field in stored.differences(wanted):
        before, after = parts_of(stored, field), parts_of(wanted, field)
        changes = [
            FieldChange(field, part, before.get(part, ABSENT), after.get(part, ABSENT))
            for part in sorted({*before, *after})
            if before.get(part) != after.get(part)
        ]
        # Values that are written alike differ all the same.
        found += changes or [FieldChange(field, "", *(_raw(getattr(key, field)) for key in (stored, wanted)))]
    return tuple(found)


def parts_of(key: ArtifactKey, field: str) -> dict[str, str]:
    """The field as text, by part: the facts and constants in it, else the one part ``""``."""
    value = getattr(key, field)
    match field:
        case "device" | "policy":
            return dict(value)
        case "spec":
            try:
                return written_spec(value) if value else {}
            except ValueError:
                return {"": _raw(value)}
        case "interface":
            return {"": ", ".join(value)}
        case "workgroup":
            return {"": " x ".join(map(str, value))}
        case "kind":
            return {"": value.value}
        case "program" | "emitter":
            return {"": value.hex()[:16]}
        case _:
            return {"": value}


def shown(text: str) -> str:
    """``text`` on one line, and not too long of it."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."


def _raw(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


_LABELS: Final = {
    "emitter": "source of the emitter",
    "interface": "buffers",
    "spec": "spec value",
}
