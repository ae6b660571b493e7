"""The vocabulary of all policies: checked input records, verdicts, and reasons as data."""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeVar, dataclass_transform

from vyre.domain.frozen import frozen
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
    """Makes a frozen, slotted dataclass for results, without checks because only a policy builds one."""
    return frozen(cls)


def why_field() -> Any:
    """Returns the ``why`` field of a verdict: a reason that is carried along and not compared."""
    return field(default=Reason(""), compare=False)
