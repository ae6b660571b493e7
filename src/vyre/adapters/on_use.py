"""Parts of an adapter that are made, and whose modules are imported, when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, TypeVar, cast

from vyre.adapters.forks import process_lock
from vyre.ports.interrupts import sealed

T = TypeVar("T")


class OnUse(Generic[T]):
    """A part that ``make`` returns; calling the object returns it.

    ``make`` is called at the first use, by one thread; if it raises, the next use calls it again.  ``made`` is the
    part, and None until then.
    """

    __slots__ = ("_lock", "_make", "made")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, process_lock()
        self.made: T | None = None

    def __call__(self) -> T:
        if self.made is None:
            with self._lock, sealed:
                if self.made is None:
                    self.made = self._make()
        return self.made

    def facet(self) -> T:
        """Returns an object with the attributes of the part, which it makes when the first of them is read."""
        return cast("T", _Facet(self))


class _Facet:
    """Stands for a part; it keeps the methods that were used, so that they cost nothing more."""

    def __init__(self, part: OnUse[Any]) -> None:
        self.__part = part

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Returns the class of the part, of which ``isinstance`` therefore finds this an instance."""
        return type(self.__part())

    def __getattr__(self, name: str) -> object:
        value = getattr(self.__part(), name)
        if isinstance(value, MethodType):
            self.__dict__[name] = value
        return value
