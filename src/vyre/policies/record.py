"""The vocabulary of all policies: checked input records, verdicts, and reasons as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
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

    Verdicts are built often, so the constructor fills the slots through their descriptors.  That takes half the time of
    a frozen dataclass, which finds each of them by name.  Fields are plain: positional, with or without a default
    value; others raise ``TypeError``.
    """
    made = dataclass(frozen=True, slots=True, init=False)(cls)
    made.__init__ = _constructor(made)  # type: ignore[method-assign]
    return made


def _constructor(cls: Any) -> Callable[..., None]:
    """Returns ``__init__`` for a slotted dataclass whose attributes cannot be assigned."""
    scope: dict[str, Any] = {}
    parameters, stores = ["self"], ["pass"]
    for each in fields(cls):
        if each.kw_only or each.default_factory is not MISSING:
            raise TypeError(f"{cls.__name__}.{each.name}: a field of a verdict is positional and has no factory")
        scope[f"store_{each.name}"] = getattr(cls, each.name).__set__
        scope[f"default_{each.name}"] = each.default
        parameters.append(each.name if each.default is MISSING else f"{each.name}=default_{each.name}")
        stores.append(f"store_{each.name}(self, {each.name})")
    exec(f"def __init__({', '.join(parameters)}):\n    {'; '.join(stores)}", scope)
    constructor: Callable[..., None] = scope["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def why_field() -> Any:
    """Returns the ``why`` field of a verdict: a reason that is carried along and not compared."""
    return field(default=Reason(""), compare=False)
