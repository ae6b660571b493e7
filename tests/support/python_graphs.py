"""The import, definition and call graph of the running interpreter's standard library, from its syntax trees."""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from support.fact_graphs import Edges

IMPORTS, DEFINES, CALLS = range(3)
"""The kinds of edges: a module imports one, a scope defines a function or class, a scope calls one of its module."""
_LEFT_OUT: Final = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3"})


@cache
def standard_library(files: int) -> Edges:
    """Returns the graph of at most ``files`` modules, the first ones by name; imports of others are left out.

    Nodes are modules, functions and classes.  A call leads to the definition in its module that has the called name,
    one of them where there are several; other calls are left out.
    """
    trees = dict(_trees(files))
    numbers = {module: number for number, module in enumerate(trees)}
    edges = list[tuple[int, int, int]]()
    nodes = len(numbers)
    for module, tree in trees.items():
        named: dict[str, int] = {}
        called: list[tuple[int, str]] = []
        waiting: list[tuple[ast.AST, int]] = [(tree, numbers[module])]
        while waiting:
            parent, scope = waiting.pop()
            for child in ast.iter_child_nodes(parent):
                inner = scope
                match child:
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                        inner = named[name] = nodes
                        edges.append((scope, nodes, DEFINES))
                        nodes += 1
                    case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                        called.append((scope, name))
                    case ast.Import(names=names):
                        targets = [each.name for each in names]
                        edges += [(numbers[module], numbers[each], IMPORTS) for each in targets if each in numbers]
                    case ast.ImportFrom(module=str(name), level=0) if name in numbers:
                        edges.append((numbers[module], numbers[name], IMPORTS))
                waiting.append((child, inner))
        edges += [(scope, named[name], CALLS) for scope, name in called if name in named]
    return Edges(nodes, edges)


def _trees(files: int) -> Iterator[tuple[str, ast.Module]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if _LEFT_OUT.intersection(parts):
            continue
        if files == 0:
            return
        files -= 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in its texts
            tree = ast.parse(path.read_bytes(), str(path))
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), tree
