"""The names that the packages of the public face export, which are imported when they are first used.

A package states the names that it exports once, in the block ``if TYPE_CHECKING:`` that type checkers read, each as
``from module import Name as Name``; at run time its own source is read instead of importing all of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from vyre.domain.float_mode import in_default_mode

_PUNCTUATION: Final = str.maketrans("(),", "   ")


def homes(package: str) -> dict[str, str]:
    """Returns the module of each name that a package exports.  Raises ``ImportError`` without its source."""
    spec = sys.modules[package].__spec__
    read: Callable[[str], bytes] | None = getattr(spec and spec.loader, "get_data", None)
    if spec is None or spec.origin is None or read is None or not spec.origin.endswith(".py"):
        raise ImportError(f"{package} is there without its source. Fix: install vyre with its .py files.", name=package)
    source = read(spec.origin).decode().replace("\r\n", "\n")
    block = source.partition("\nif TYPE_CHECKING:\n")[2].partition("\nelse:")[0].partition("# isort: on")[0]
    module_of: dict[str, str] = {}
    for statement in block.split("    from ")[1:]:
        module, _, names = statement.replace(".typed_", ".").partition(" import ")  # a stub is about another module
        words = names.translate(_PUNCTUATION).split()
        module_of |= dict.fromkeys(words[2::3], module)  # "Name as Name"
    return module_of


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


def exports(
    package: str, *, are_modules: bool = False
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Returns ``__all__``, ``__getattr__`` and ``__dir__`` of a package.  ``are_modules`` as for ``importer``."""
    module_of = homes(package)
    names = sorted(module_of)
    get = importer(package, module_of, are_modules=are_modules)
    return names, get, lambda: sorted({*vars(sys.modules[package]), *names})
