"""Lookup of decisions by name, and versions of their source.

A decision is named by its function.  Its version is a digest of the syntax trees, without docstrings, of the module
that defines it and of every module of decisions that this one imports, so that no one has to remember to raise a
number, and rewording a comment changes nothing.  Code below them, such as the records of the domain, is not in the
digest: a verdict that it changes shows when the decision is replayed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Final

from vyre.adapters.source_digest import SourceState, read_sources, running_digest
from vyre.domain.errors import UnreadableFile
from vyre.policies.decision_records import Known
from vyre.policies.journal import Policy

_ROOT: Final = Path(__file__).parents[1]
_PACKAGE: Final = "vyre"
_FOLDERS: Final = ("policies", "adapters/*/decisions")
"""Folders of decisions below the package, as patterns: the shared ones, and those of one adapter."""
_DEFINED: Final = re.compile(r"^def ([a-z]\w*)\(", re.MULTILINE)
_SHOWN: Final = 8
"""Bytes of a digest that identify a version."""


def find_policy(name: str) -> Known | None:
    """Returns the decision whose function has this name; None if there is none, or more than one."""
    modules = _modules_by_function().get(name, ())
    if len(modules) != 1:
        return None
    function = vars(import_module(f"{_PACKAGE}.{modules[0]}")).get(name)
    return Known(function, version_of(function)) if isfunction(function) else None


def version_of(policy: Policy) -> str:
    """Returns the version of a decision as this process has imported it, 16 hexadecimal digits.

    Raises ``UnreadableFile`` if its source cannot be read.
    """
    return _version(policy.__module__.removeprefix(f"{_PACKAGE}."))


@cache
def _modules_by_function() -> dict[str, tuple[str, ...]]:
    """Returns the modules that define a public function, by its name."""
    modules: dict[str, tuple[str, ...]] = {}
    for module, path in _modules().items():
        for name in _DEFINED.findall(_source(path)):
            modules[name] = (*modules.get(name, ()), module)
    return modules


@cache
def _modules() -> dict[str, Path]:
    """Returns every module of decisions by its dotted name below the package."""
    return dict(sorted(_listed()))


def _listed() -> Iterator[tuple[str, Path]]:
    for folder in _FOLDERS:
        for root in _ROOT.glob(folder):
            for path in root.rglob("*.py"):
                yield ".".join(path.relative_to(_ROOT).with_suffix("").parts), path


@cache
def _version(module: str) -> str:
    modules, ahead = {module}, [module]
    while ahead:
        new = _imported(ahead.pop()) - modules
        modules |= new
        ahead += new
    changed_ns = read_sources(_ROOT, [f"{name.replace('.', '/')}.py" for name in modules]).changed_ns
    digest = sha256()
    for name in sorted(modules):
        digest.update(f"{name}\0{_code(name)}\0".encode())
    since_ns: int = import_module(_PACKAGE).IMPORTED_NS
    return running_digest(SourceState(digest.digest(), changed_ns), since_ns)[:_SHOWN].hex()


@cache
def _code(module: str) -> str:
    """Returns the syntax tree of a module as text, without positions, comments and docstrings."""
    tree = _tree(module)
    for node in ast.walk(tree):
        match node:
            case (
                ast.Module(body=[ast.Expr(ast.Constant(str())), *_])
                | ast.ClassDef(body=[ast.Expr(ast.Constant(str())), *_])
                | ast.FunctionDef(body=[ast.Expr(ast.Constant(str())), *_])
            ):
                del node.body[0]
    return ast.dump(tree)


@cache
def _imported(module: str) -> set[str]:
    """Modules of decisions that a module imports, wherever in its source."""
    modules = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{_PACKAGE}."):
            inside = str(node.module).removeprefix(f"{_PACKAGE}").removeprefix(".")
            # The names may be modules themselves.
            modules |= {inside, *(f"{inside}.{alias.name}" for alias in node.names)} & _modules().keys()
    return modules


def _tree(module: str) -> ast.Module:
    return ast.parse(_source(_ROOT / f"{module.replace('.', '/')}.py"))


def _source(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror or error}") from None
