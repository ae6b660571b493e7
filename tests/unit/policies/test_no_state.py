"""Decisions keep nothing between two calls: what changes in place lives in adapters and in the application."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import vyre

ROOT: Final = Path(vyre.__file__).parent
FOLDERS: Final = (ROOT / "policies", *(ROOT / "adapters" / name / "decisions" for name in ("cpu", "cuda")))
VALUES: Final = ("record", "verdict", "frozen", "frozen(kw_only=True)")
BASES: Final = (
    "Enum",
    "IntEnum",
    "IntFlag",
    "StrEnum",
    "IdentityEnum",
    "NamedTuple",
    "Protocol",
    "Exception",
    "VyreError",
)
MUTABLE: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MEMOS: Final = ("cache", "lru_cache", "cached_property")
REMEMBERED: Final = {
    "_thresholds": "the parameters of a function, which never change",
    "_parameters": "the parameters of a function, which never change",
}
"""Pure functions whose answers are kept, and why that is not state."""


def state_in(tree: ast.Module) -> Iterator[str]:
    """Names of what a module of decisions could change between two calls."""
    workers = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and not _is_value(node)}
    yield from (name for name in sorted(workers) if not name.startswith("_"))
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield from _held(name, "", value, workers)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=value) if value is not None:
                yield from _held(name, ast.unparse(kind), value, workers)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        if isinstance(node, ast.FunctionDef) and node.name not in REMEMBERED:
            yield from (node.name for d in node.decorator_list if ast.unparse(d).partition("(")[0] in MEMOS)


def _is_value(node: ast.ClassDef) -> bool:
    decorated = any(ast.unparse(decorator) in VALUES for decorator in node.decorator_list)
    return decorated or any(ast.unparse(base).partition("[")[0] in BASES for base in node.bases)


def _held(name: str, kind: str, value: ast.expr, workers: set[str]) -> Iterator[str]:
    """A constant holds state if it is a collection that is not declared ``Final``, or an object that changes."""
    if isinstance(value, MUTABLE) and not kind.startswith("Final") and name != "__all__":
        yield name
    if isinstance(value, ast.Call) and ast.unparse(value.func).partition("[")[0] in {
        *workers,
        "deque",
        "OrderedDict",
        "Lock",
    }:
        yield name


MODULES: Final = {
    path.relative_to(ROOT).as_posix(): path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))
}


@pytest.mark.parametrize("name", MODULES)
def test_a_decision_keeps_no_state(name: str) -> None:
    assert list(state_in(ast.parse(MODULES[name].read_text("utf-8")))) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class Counter:\n    def __init__(self):\n        self.n = 0\n", ["Counter"]),
        ("@dataclass\nclass Seen:\n    n: int\n", ["Seen"]),
        ("SEEN = {}\n", ["SEEN"]),
        ("SEEN: list[int] = []\n", ["SEEN"]),
        ("class _Walk:\n    pass\nWALK: Final = _Walk()\n", ["WALK"]),
        ("LATEST: Final = deque(maxlen=4)\n", ["LATEST"]),
        ("def decide():\n    global seen\n    seen = 1\n", ["seen"]),
        ("@cache\ndef decide(n):\n    return n\n", ["decide"]),
        ("@lru_cache(maxsize=4)\ndef decide(n):\n    return n\n", ["decide"]),
        ("class _Walk:\n    pass\ndef decide():\n    return _Walk()\n", []),
        ("@record\nclass Inputs:\n    n: int\nTABLE: Final = {1: 2}\n", []),
        ("class Mode(Enum):\n    A = 1\n", []),
    ],
)
def test_what_counts_as_state(source: str, found: list[str]) -> None:
    assert list(state_in(ast.parse(source))) == found
