"""The vocabulary of all policies: checked input records, verdicts, and reasons as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

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
    Reason,
    checked_u64,
    record,
    slot_constructor,
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


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def verdict(cls: type[T]) -> type[T]:
    """Makes a frozen, slotted dataclass for results, without checks because only a policy builds one.

    Verdicts are built often, so the constructor is a ``slot_constructor``, with what it asks of the fields.
    """
    made = dataclass(frozen=True, slots=True, init=False)(cls)
    made.__init__ = slot_constructor(made)  # type: ignore[method-assign]
    return made


def why_field() -> Any:
    """Returns the ``why`` field of a verdict: a reason that is carried along and not compared."""
    return field(default=Reason(""), compare=False)
