"""The machine's records: calls counted by name, an optional trace, and violations of the rules of use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class ViolationKind(Enum):
    """Errors that a real driver does not notice, or that have random effects on it.

    FORKED: a call in a process forked after ``init``.  FINALISED: a call while the interpreter shuts down, or after.
    RACE: unordered accesses of two streams to the same bytes.  PARAMETERS: a parameter block that is not laid out as
    the kernel declares.  UNLOADED: code unloaded while launches of it were pending.
    """

    FORKED = "forked"
    FINALISED = "finalised"
    RACE = "race"
    PARAMETERS = "parameters"
    UNLOADED = "unloaded"


class Violation(NamedTuple):
    """A violation and a text that describes it."""

    kind: ViolationKind
    message: str


class CallRecord(NamedTuple):
    """One call; ``code`` is 0 if it succeeded."""

    method: str
    arguments: Mapping[str, object]
    code: int


class Journal:
    """Records calls and violations.  ``trace`` stays empty unless ``tracing``."""

    def __init__(self, *, tracing: bool) -> None:
        self.tracing = tracing
        self.calls: Counter[str] = Counter()
        self.trace: list[CallRecord] = []
        self.violations: list[Violation] = []

    def violate(self, kind: ViolationKind, message: str) -> None:
        """Records a violation."""
        self.violations.append(Violation(kind, message))
