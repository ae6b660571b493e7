"""Policies by name, and the versions of their source.

A version is the digest of the module that defines a policy and of every module of policies that it imports, so that no
one has to remember to raise a number.  What lies below them, such as the records of the domain, is not in it: a verdict
that it changes shows when the decision is replayed.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Final

from vyre.adapters.source_digest import read_sources, running_digest
from vyre.domain.errors import UnreadableFile
from vyre.policies.journal import PACKAGE, Known, Policy

_ROOT: Final = Path(__file__).parents[1]
_FOLDER: Final = "policies"
_SHOWN: Final = 8
"""Bytes of a digest that tell versions apart."""


def find_policy(name: str) -> Known | None:
    """``module.function``, as ``name_of`` has it; None for what is no public function of a policy."""
    module, _, function = name.rpartition(".")
    if not module or not all(part.isidentifier() for part in name.split(".")) or _file(module) is None:
        return None
    found = vars(import_module(f"{PACKAGE}.{module}")).get(function)
    if function.startswith("_") or not isfunction(found) or found.__module__ != f"{PACKAGE}.{module}":
        return None
    return Known(found, version_of(found))


def version_of(policy: Policy) -> str:
    """The version of a policy as this process has imported it; raises ``UnreadableFile`` without its source."""
    return _version(policy.__module__.removeprefix(f"{PACKAGE}."))


@cache
def _version(module: str) -> str:
    found, ahead = {module}, [module]
    while ahead:
        new = _imported(ahead.pop()) - found
        found |= new
        ahead += new
    parts = [f"{_FOLDER}/{path}" for name in found if (path := _file(name)) is not None]
    since_ns: int = import_module("vyre").IMPORTED_NS
    return running_digest(read_sources(_ROOT, parts), since_ns)[:_SHOWN].hex()


def _imported(module: str) -> set[str]:
    """Modules of policies that a module imports, wherever in its source."""
    path = _ROOT / _FOLDER / (_file(module) or "")
    try:
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror or error}") from None
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and f"{node.module}.".startswith(f"{PACKAGE}."):
            inside = node.module.removeprefix(PACKAGE).removeprefix(".")
            # The names may be modules themselves.
            below = [".".join(filter(None, (inside, alias.name))) for alias in node.names]
            found |= {name for name in (inside, *below) if _file(name) is not None}
    return found


@cache
def _file(module: str) -> str | None:
    """Path of a module below the folder of policies; None if there is none."""
    path = f"{module.replace('.', '/')}.py"
    return path if module and (_ROOT / _FOLDER / path).is_file() else None
