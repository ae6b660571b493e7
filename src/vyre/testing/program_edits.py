"""Changes to programs as trees: every value inside a program has a path, and can be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program

Path: TypeAlias = tuple[str | int, ...]


def sites(program: Program) -> Iterator[tuple[Path, Any]]:
    """Path and value of everything under the program but source locations: nodes, tuples and leaves."""
    stack: list[tuple[Path, Any]] = [((), program)]
    while stack:
        path, value = stack.pop()
        if path:
            yield path, value
        if isinstance(value, Node):
            stack.extend(((*path, name), getattr(value, name)) for name in reversed(value.__match_args__))
        elif isinstance(value, tuple):
            stack.extend(((*path, index), value[index]) for index in reversed(range(len(value))))


def at(program: Program, path: Path) -> Any:
    value: Any = program
    for step in path:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return value


def replaced(program: Program, path: Path, new: Any) -> Program:
    """The program with the value at ``path`` replaced; nothing is checked."""
    rebuilt = new
    for depth in reversed(range(len(path))):
        holder, step = at(program, path[:depth]), path[depth]
        if isinstance(step, str):
            rebuilt = replace(holder, **{step: rebuilt})
        else:
            rebuilt = (*holder[:step], rebuilt, *holder[step + 1 :])
    assert isinstance(rebuilt, Program)
    return rebuilt


def spliced(program: Program, path: Path, new: tuple[Any, ...]) -> Program:
    """The program with the element of a tuple at ``path`` replaced by any number of elements."""
    holder, index = at(program, path[:-1]), path[-1]
    assert isinstance(holder, tuple) and isinstance(index, int)
    return replaced(program, path[:-1], (*holder[:index], *new, *holder[index + 1 :]))


def renamed(program: Program, names: dict[str, str], where: frozenset[tuple[str, str]]) -> Program:
    """The program with text leaves translated, those only whose (class, field) is in ``where``."""

    def visit(value: Any, key: tuple[str, str]) -> Any:
        if isinstance(value, Node):
            kind = type(value).__name__
            return replace(value, **{f: visit(getattr(value, f), (kind, f)) for f in value.__match_args__ if f != "op"})
        if isinstance(value, tuple):
            return tuple(visit(item, key) for item in value)
        return names.get(value, value) if isinstance(value, str) and key in where else value

    result = visit(program, ("", ""))
    assert isinstance(result, Program)
    return result
