"""Checked input records, and reasons as data.

``@record`` makes a frozen, slotted dataclass whose fields are checked against their annotations when it is built, so
that code never encounters a value outside its domain.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from enum import Enum
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from vyre.domain.errors import InvalidField, PlanError
from vyre.domain.frozen import frozen

T = TypeVar("T")


class IntRange(NamedTuple):
    """The inclusive domain of an integer field."""

    low: int
    high: int


class FloatRange(NamedTuple):
    """The domain of a float field: finite, between ``low`` and ``high``; ``above`` excludes ``low`` itself."""

    low: float
    high: float = math.inf
    above: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, float | int) or isinstance(value, bool):
            return False
        return (
            -math.inf < value < math.inf and self.low <= value <= self.high and not (self.above and value == self.low)
        )

    def __str__(self) -> str:
        upper = "" if self.high == math.inf else f" and at most {self.high:g}"
        return f"a finite float {'above' if self.above else 'of at least'} {self.low:g}{upper}"


U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1
U32: TypeAlias = Annotated[int, IntRange(0, U32_MAX)]
U64: TypeAlias = Annotated[int, IntRange(0, U64_MAX)]
Nanoseconds: TypeAlias = Annotated[int, IntRange(0, U64_MAX)]
BasisPoints: TypeAlias = Annotated[int, IntRange(0, U32_MAX)]
Count: TypeAlias = Annotated[int, IntRange(0, U64_MAX)]


def checked_u64(value: int, field: str, kind: str = "ByteCountOverflow") -> int:
    """Returns ``value`` if it fits 64 unsigned bits; else raises ``PlanError(kind)`` naming the quantity ``field``."""
    if 0 <= value <= U64_MAX:
        return value
    raise PlanError(kind, field=field)


class Reason(NamedTuple):
    """The reason of a verdict: a template and its values, formatted only when the text is needed."""

    template: str
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        """Returns one line for people."""
        return self.template.format(*self.values)


_Checker: TypeAlias = Callable[[object], str | None]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Returns a frozen, slotted dataclass whose fields are checked by type and range at construction.

    A field outside its domain raises ``InvalidField`` naming record, field and expectation.  A ``__post_init__`` that
    the class defines runs after the checks.  Fields after ``_: KW_ONLY`` are keyword-only.
    """
    hints = get_type_hints(cls, include_extras=True)
    values = {name: hint for name, hint in hints.items() if hint is not KW_ONLY and get_origin(hint) is not ClassVar}
    checks = tuple((name, _accepted(hint), _checker(hint)) for name, hint in values.items())
    extra: Callable[[Any], None] | None = cls.__dict__.get("__post_init__")
    title = cls.__name__

    def __post_init__(self: object) -> None:
        for name, accepted, check in checks:
            value = getattr(self, name)
            bounds = accepted.get(type(value))
            if bounds is not None and (not bounds or bounds[0] <= value <= bounds[1]):
                continue  # most values, without a call
            expected = check(value)
            if expected is not None:
                raise InvalidField(record=title, field=name, value=value, expected=expected)
        if extra is not None:
            extra(self)

    cls.__post_init__ = __post_init__  # type: ignore[attr-defined]
    return frozen(cls)


def _accepted(hint: Any) -> dict[type, tuple[int, ...]]:
    """Returns the types whose instances a field takes, with the least and the greatest value; empty where it takes all.

    Instances of other types are left to the checker of the field.
    """
    origin = get_origin(hint)
    if origin is Annotated:
        base, bounds = get_args(hint)[:2]
        if isinstance(bounds, IntRange):
            return {int: (bounds.low, bounds.high)}
        return {} if isinstance(bounds, FloatRange) else _accepted(base)
    if origin in (Union, types.UnionType):
        limits: dict[type, tuple[int, ...]] = {}
        for part in get_args(hint):
            limits = _accepted(part) | limits
        return limits
    if hint is int:
        return {int: (-(2**63), 2**63 - 1)}
    return {hint: ()} if isinstance(hint, type) and origin is None and hint is not float else {}


def _checker(hint: Any) -> _Checker:
    origin = get_origin(hint)
    if origin is Annotated:
        base, bounds = get_args(hint)[:2]
        if isinstance(bounds, FloatRange):
            return lambda v: None if v in bounds else str(bounds)
        return _int_checker(bounds) if isinstance(bounds, IntRange) else _checker(base)
    if origin in (Union, types.UnionType):
        return _union_checker(tuple(map(_checker, get_args(hint))))
    if origin is tuple:
        return _tuple_checker(get_args(hint))
    if origin is frozenset:
        return _each_checker(frozenset, _checker(get_args(hint)[0]))
    if hint is int:
        return _int_checker(IntRange(-(2**63), 2**63 - 1))
    if hint is float:
        return lambda v: None if isinstance(v, float | int) and not isinstance(v, bool) else "a float"
    if origin is Literal:
        words = get_args(hint)
        return lambda v: None if isinstance(v, str) and v in words else " or ".join(map(repr, words))
    if origin is Callable:
        return lambda v: None if callable(v) else "a function"
    if hint is Any or (origin is not None and origin.__module__ == "collections.abc"):
        return lambda v: None
    return _class_checker(origin or hint)


def _int_checker(bounds: IntRange) -> _Checker:
    low, high = bounds

    def check(value: object) -> str | None:
        if type(value) is int and low <= value <= high:
            return None
        return f"an int in {low}..{high}"

    return check


def _class_checker(cls: type) -> _Checker:
    options = f"one of {', '.join(m.name for m in cls)}" if issubclass(cls, Enum) else f"a {cls.__name__}"
    return lambda value: None if isinstance(value, cls) else options


def _union_checker(checkers: tuple[_Checker, ...]) -> _Checker:
    def check(value: object) -> str | None:
        complaints = [c(value) for c in checkers]
        return None if None in complaints else " or ".join(f for f in complaints if f is not None)

    return check


def _each_checker(container: type, item: _Checker) -> _Checker:
    def check(value: object) -> str | None:
        if not isinstance(value, container):
            return f"a {container.__name__}"
        for element in value:  # type: ignore[attr-defined]
            expected = item(element)
            if expected is not None:
                return f"a {container.__name__} of which each is {expected}"
        return None

    return check


def _tuple_checker(args: tuple[Any, ...]) -> _Checker:
    if len(args) == 2 and args[1] is Ellipsis:
        return _each_checker(tuple, _checker(args[0]))
    items = tuple(map(_checker, args))

    def check(value: object) -> str | None:
        if not isinstance(value, tuple) or len(value) != len(items):
            return f"a tuple of {len(items)}"
        return next((e for e in (c(v) for c, v in zip(items, value, strict=True)) if e is not None), None)

    return check
