"""The vocabulary of all policies: checked input records, verdicts, and reasons as data."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from vyre.domain.frozen import frozen as verdict
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


def why_field() -> Any:
    """Returns the ``why`` field of a verdict: a reason that is carried along and not compared."""
    return field(default=Reason(""), compare=False)
