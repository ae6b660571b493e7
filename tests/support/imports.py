"""What modules import, read from their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path


def imports_of(path: Path) -> Iterator[str]:
    """Names of the modules that a file imports anywhere, functions included, but for type checkers only.

    Of ``from a import b`` both ``a`` and ``a.b`` are named, whatever ``b`` is.
    """
    for module, member in _imported(path):
        yield module
        if member is not None:
            yield f"{module}.{member}"


def _imported(path: Path, *, types: bool = False) -> Iterator[tuple[str, str | None]]:
    """Module and member of ``from module import member``; no member of ``import module``.

    ``types``: also those that only type checkers see.
    """
    todo: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while todo:
        node = todo.pop()
        if not types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo += node.orelse
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{path} imports by a relative name"
            yield from ((node.module, alias.name) for alias in node.names)


def modules_below(package: Path) -> dict[str, Path]:
    """The file of every module of ``package``, by its name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph(package: Path, *, types: bool = False) -> dict[str, frozenset[str]]:
    """For every module of ``package`` the modules of it that it imports; with ``types`` also for type checkers only.

    An import from a package counts as one of the module that is named, if one is.
    """
    modules = modules_below(package)
    graph = {}
    for name, path in modules.items():
        wanted = ((module, f"{module}.{member}") for module, member in _imported(path, types=types))
        graph[name] = frozenset(inner if inner in modules else module for module, inner in wanted) & modules.keys() - {
            name
        }
    return graph


def circles(graph: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Sets of modules of which each imports every other, directly or over others; sorted."""
    reached = {name: _reached(graph, name) for name in graph}
    found = {frozenset(other for other in beyond if name in reached[other]) for name, beyond in reached.items()}
    return sorted(sorted(circle) for circle in found if circle)


def _reached(graph: Mapping[str, frozenset[str]], start: str) -> set[str]:
    """Modules that ``start`` imports, directly or over others; itself only in a circle."""
    seen: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += graph[name]
    return seen
