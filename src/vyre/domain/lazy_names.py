"""Functions that stand in modules above their callers, and are imported when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, Generic, ParamSpec, TypeVar

from vyre.domain.float_mode import in_default_mode

P = ParamSpec("P")
R = TypeVar("R")


class FunctionAbove(Generic[P, R]):
    """The function that does the work of a method of data, and stands in a module above the data.

    A program is read and understood without its written forms, and they are functions of programs; ``to_text`` is a
    method of programs all the same.  The module of the data states the method, such as ``"Program.to_text"``, and the
    signature.  The package that holds both modules states in which one the function stands (``place_functions``).  It
    is imported on the first call.
    """

    __slots__ = ("_function", "_method")

    def __init__(self, method: str) -> None:
        self._method: str = method
        self._function: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = self._function
        if function is None:
            module, _, name = _PLACES[self._method].rpartition(".")
            function = self._function = getattr(in_default_mode(import_module)(module), name)
        return function(*args, **kwargs)


_PLACES: Final[dict[str, str]] = {}


def place_functions(places: Mapping[str, str]) -> None:
    """States the module and the name of the function of each method: ``{"Program.to_text": "package.module.name"}``."""
    _PLACES.update(places)
