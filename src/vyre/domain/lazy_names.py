"""Packages that export names of other modules and import each when it is first used.

A package states its names twice: in a block for type checkers, and in a table for run time; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from vyre.domain.float_mode import in_default_mode


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
