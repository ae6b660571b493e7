"""What every policy is written with: checked input records, verdicts, and reasons as data.

``Reason`` is why a verdict came out as it did: a template and its numbers, formatted only when somebody reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from vyre.domain.record import (
    U32,
    U32_MAX,
    U64,
    U64_MAX,
    BasisPoints,
    Count,
    FloatRange,
    IntRange,
    Nanoseconds,
    checked_u64,
    record,
)

__all__ = [
    "U32",
    "U32_MAX",
    "U64",
    "U64_MAX",
    "BasisPoints",
    "Count",
    "FloatRange",
    "IntRange",
    "Nanoseconds",
    "Reason",
    "checked_u64",
    "record",
    "verdict",
    "why_field",
]

T = TypeVar("T")


class Reason(NamedTuple):
    """Why: ``str(reason)`` is one line for people, ``values`` are the numbers in it."""

    template: str
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        return self.template.format(*self.values)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def verdict(cls: type[T]) -> type[T]:
    """Frozen, slotted dataclass for results; unchecked, because only a policy builds one."""
    return dataclass(frozen=True, slots=True)(cls)


def why_field() -> Any:
    """The ``why`` of a verdict: carried along, not compared."""
    return field(default=Reason(""), compare=False)
