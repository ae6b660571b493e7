"""Why was a compiled artifact not in the cache?

Rule: compare the key with every stored key of the same program and kind, counting each fact and each specialization
constant as a field of its own, and report the differences from the nearest key, the one with the fewest.  The choice
between equally near keys does not depend on their order.  O(neighbours x fields).

Unlike vyre-driver, which infers a hit or a miss from counters that moved during the compilation, so that another
thread's lookup counts too, and which gives no reason for a miss, this compares keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.specialization import written_spec
from vyre.policies.record import Reason, verdict, why_field

LISTED: Final = 4
"""Number of changes that the reason names."""
SHOWN: Final = 48
"""Number of characters of a value that the reason shows."""
ABSENT: Final = "-"
"""The text for a part that a key does not have."""


class MissCause(Enum):
    """Why an artifact was missed.

    - ``NEVER_SEEN``: nothing is stored for this program.
    - ``CHANGED``: an artifact is stored for it, under another key.
    - ``UNUSABLE``: an artifact is stored under this very key, but it failed verification or was stored by another
      process a moment ago.
    """

    NEVER_SEEN = "never seen"
    CHANGED = "changed"
    UNUSABLE = "unusable"


class FieldChange(NamedTuple):
    """A difference between a stored key and the wanted one.

    ``part`` names the fact or constant within ``field`` that differs; it is empty for a field of one value.
    """

    field: str
    part: str
    stored: str
    wanted: str

    @property
    def name(self) -> str:
        """The field and its part as shown to people, such as ``policy assume``."""
        label = _LABELS.get(self.field, self.field)
        return f"{label} {shown(self.part)}" if self.part else label

    def __str__(self) -> str:
        return f"{self.name}: {shown(self.stored)} -> {shown(self.wanted)}"


@verdict
class Miss:
    """The reason for a cache miss.

    ``changes`` lists the differences of the wanted key from the nearest stored one, in the order of the key's fields.
    """

    cause: MissCause
    changes: tuple[FieldChange, ...]
    why: Reason = why_field()

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of the key that changed."""
        return tuple(dict.fromkeys(change.field for change in self.changes))


def explain_miss(wanted: ArtifactKey, stored: Iterable[ArtifactKey]) -> Miss:
    """Returns why ``wanted`` is not among ``stored``; ``str(why)`` is one line.

    Keys of other programs or kinds are ignored.
    """
    neighbours = [key for key in stored if (key.program, key.kind) == (wanted.program, wanted.kind)]
    if not neighbours:
        what = Reason("never seen: no {} of program {} is stored", (wanted.kind.value, wanted.program.hex()[:16]))
        return Miss(MissCause.NEVER_SEEN, (), what)
    compared = [(changes_between(key, wanted), key) for key in neighbours]
    changes, _ = min(compared, key=lambda pair: (len(pair[0]), pair[1].encode()))
    if not changes:
        return Miss(MissCause.UNUSABLE, (), Reason("unusable: stored under this key, but it could not be read"))
    listed = "; ".join(map(str, changes[:LISTED]))
    if len(changes) > LISTED:
        why = Reason("changed: {}; and {} more", (listed, len(changes) - LISTED))
    else:
        why = Reason("changed: {}", (listed,))
    return Miss(MissCause.CHANGED, changes, why)


def changes_between(stored: ArtifactKey, wanted: ArtifactKey) -> tuple[FieldChange, ...]:
    """Returns all differences between two keys, in the order of the fields and then of the parts' names."""
    differences: list[FieldChange] = []
    for field in stored.differences(wanted):
        before, after = parts_of(stored, field), parts_of(wanted, field)
        changes = [
            FieldChange(field, part, before.get(part, ABSENT), after.get(part, ABSENT))
            for part in sorted({*before, *after})
            if before.get(part) != after.get(part)
        ]
        # Values whose texts are the same differ nevertheless.
        differences += changes or [FieldChange(field, "", *(_raw(getattr(key, field)) for key in (stored, wanted)))]
    return tuple(differences)


def parts_of(key: ArtifactKey, field: str) -> dict[str, str]:
    """Returns a field of a key as text by part: each fact or constant by its name, or one part ``""``."""
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
    """Returns ``text`` on one line, shortened to ``SHOWN`` characters."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."


def _raw(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


_LABELS: Final = {"emitter": "source of the emitter", "interface": "buffers", "spec": "spec value"}
