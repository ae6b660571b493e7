"""Hypothesis strategies made from the annotations of checked records."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from vyre.domain.record import FloatRange, IntRange

T = TypeVar("T")
Overrides = Mapping[str, st.SearchStrategy[Any]]


def records(cls: type[T], **overrides: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Instances of ``cls`` over the whole domain of its fields, small and extreme values preferred."""
    hints = get_type_hints(cls, include_extras=True)
    return st.builds(cls, **{name: overrides.get(name, _values(hint)) for name, hint in hints.items()})


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Small numbers, numbers at the upper end, and any between."""
    small = st.integers(low, min(high, low + 20))
    return small | st.integers(max(low, high - 3), high) | st.integers(low, high)


def _values(hint: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = args[1]
        if isinstance(bounds, FloatRange):
            return st.floats(bounds.low, bounds.high, allow_nan=False, allow_infinity=False, exclude_min=bounds.above)
        assert isinstance(bounds, IntRange)
        return integers(*bounds)
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if a is types.NoneType else _values(a) for a in args))
    if origin is frozenset:
        return st.frozensets(_values(args[0]), max_size=5)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(_values(args[0]), max_size=5).map(tuple)
    if origin is tuple:
        return st.tuples(*map(_values, args))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    return records(hint) if hasattr(hint, "__dataclass_fields__") else st.from_type(hint)
