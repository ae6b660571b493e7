"""Hypothesis strategies made from annotations, of checked records first of all."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from vyre.domain.errors import InvalidField
from vyre.domain.record import FloatRange, IntRange, Reason

T = TypeVar("T")
Overrides = Mapping[str, st.SearchStrategy[Any]]


def records(cls: type[T], **overrides: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Instances of ``cls`` over the whole domain of its fields, small and extreme values preferred."""
    hints = get_type_hints(cls, include_extras=True)
    return st.builds(
        cls, **{name: overrides.get(name, values(hints[name])) for name in inspect.signature(cls).parameters}
    )


def _possible(cls: type[T], largest: int | None) -> st.SearchStrategy[T]:
    """Those instances that ``cls`` allows: fields may fit their types and yet not each other."""
    hints = get_type_hints(cls, include_extras=True)
    chosen = {name: values(hints[name], largest) for name in inspect.signature(cls).parameters}

    def built(given: dict[str, Any]) -> T | None:
        try:
            return cls(**given)
        except InvalidField:
            return None

    return st.fixed_dictionaries(chosen).map(built).filter(lambda made: made is not None)  # type: ignore[return-value]


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Small numbers, numbers at the upper end, and any between."""
    small = st.integers(low, min(high, low + 20))
    return small | st.integers(max(low, high - 3), high) | st.integers(low, high)


def values(hint: Any, largest: int | None = None) -> st.SearchStrategy[Any]:
    """Values of a type: records over the domains of their fields, collections of a few.

    ``largest``: of the numbers, where a domain has so small ones; None: no limit.
    """
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        return values(hint.__supertype__, largest)
    if isinstance(hint, TypeVar) or hint is object:
        return st.integers(0, 3)
    if origin is Annotated:
        bounds = args[1]
        if isinstance(bounds, FloatRange):
            return st.floats(bounds.low, bounds.high, allow_nan=False, allow_infinity=False, exclude_min=bounds.above)
        assert isinstance(bounds, IntRange)
        low, high = bounds
        return integers(low, high if largest is None else max(low, min(high, largest)))
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if a is types.NoneType else values(a, largest) for a in args))
    if origin is tuple and args[-1] is not Ellipsis:
        return st.tuples(*(values(a, largest) for a in args))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(values(args[0], largest), values(args[1], largest), max_size=5)
    if origin is frozenset:
        return st.frozensets(values(args[0], largest), max_size=5)
    if origin is not None and issubclass(origin, Iterable):
        return st.lists(values(args[0], largest), max_size=5).map(tuple)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if hint is Reason:  # a template and what it takes
        return st.builds(Reason, st.just("{} of it"), st.tuples(st.integers(0, 9)))
    if hasattr(hint, "__dataclass_fields__") or hasattr(hint, "_fields"):
        return _possible(hint, largest)
    if hint is int and largest is not None:
        return st.integers(-largest, largest)
    return st.from_type(hint)
