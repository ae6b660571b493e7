"""Identities, which tell values apart that are equal, or that have no equality."""

from __future__ import annotations

import struct
from typing import Any, Final

from vyre.domain.ir.numpy_scalars import is_numpy


class _Itself:
    """An object that equals itself only, and lives as long as this does."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value: Final = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


def identity(value: Any) -> object:
    """Returns what tells values apart: type and bits of numbers and texts, item by item of tuples, else the object."""
    kind = type(value)
    if kind is int or kind is bool or kind is str or value is None:
        return kind, value
    if kind is float:
        return kind, struct.pack("<d", value)
    if isinstance(value, tuple):
        return kind, tuple(map(identity, value))
    if is_numpy(value) and value.ndim == 0 and not value.dtype.hasobject:
        return kind, value.dtype.str, value.tobytes()
    return _Itself(value)
