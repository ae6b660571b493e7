"""Reading dicts and weak sets that other threads, or finalizers, change meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, cast
from weakref import WeakSet

K = TypeVar("K")
V = TypeVar("V")
_GONE: Final = object()


def entries_of(shared: Mapping[K, V]) -> list[tuple[K, V]]:
    """Returns the entries of a dict that others may change during the call; those that go meanwhile may be left out.

    ``list(shared.items())`` is not safe for that: each entry becomes a new tuple, for which CPython 3.11 may collect
    garbage, whose finalizers may change the dict themselves or let another thread run that does.  The list of the keys
    is made without such a pause.
    """
    entries = [(key, shared.get(key, cast("V", _GONE))) for key in list(shared)]
    return [(key, value) for key, value in entries if value is not _GONE]


def members_of(shared: WeakSet[V]) -> list[V]:
    """Returns the members of a set, as ``entries_of`` does: iterating over it fails when another thread adds one."""
    references = list(shared.data)  # type: ignore[attr-defined]  # the plain set of them, which the stubs leave out
    return [member for reference in references if (member := reference()) is not None]
