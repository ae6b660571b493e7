"""Names that are imported when they are first used: those that a package exports, and functions above their callers.

A package states the names that it exports twice: in a block for type checkers, and in a table for run time; a test
compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, Generic, ParamSpec, TypeVar

from vyre.domain.float_mode import in_default_mode

P = ParamSpec("P")
R = TypeVar("R")


def homes(names_by_module: Mapping[str, str]) -> dict[str, str]:
    """Returns the module of each name, from names separated by spaces by module."""
    return {name: module for module, names in names_by_module.items() for name in names.split()}


def importer(package: str, module_of: Mapping[str, str], *, are_modules: bool = False) -> Callable[[str], object]:
    """Returns the ``__getattr__`` of ``package``: imports a name from its module and keeps it in the package.

    ``are_modules``: the names are modules themselves, each inside the package that ``module_of`` gives.
    """

    load = in_default_mode(import_module)  # Python reads the numbers in a module's source

    def get(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = load(f"{module}.{name}") if are_modules else getattr(load(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


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
