"""``rebuilt``: a copy of a tree of nodes in which some have been replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from vyre.domain.ir.node import Node

_Root = TypeVar("_Root", bound="Node | tuple[Any, ...]")


def rebuilt(root: _Root, change: Callable[[Any], Any], made: dict[int, Any] | None = None) -> _Root:
    """Returns a tree of nodes, or a tuple of them, with every node passed through ``change``, operands first.

    A node of which nothing has changed stays the same object; shared nodes stay shared.  ``made`` holds the results by
    the identity of the nodes, for calls that share nodes; what it holds already is taken from there.  Does not recurse.
    O(nodes).
    """
    return rebuilt_from(root, lambda _, node: change(node), made)


def rebuilt_from(root: _Root, change: Callable[[Any, Any], Any], made: dict[int, Any] | None = None) -> _Root:
    """Returns what ``rebuilt`` returns; ``change`` gets each node of the old tree, and that node with new operands."""
    if made is None:
        made = {}
    stack: list[Any] = [root]
    while stack:
        item = stack[-1]
        if id(item) in made:
            stack.pop()
            continue
        parts = item if isinstance(item, tuple) else [getattr(item, name) for name in item.__match_args__]
        waiting = [part for part in parts if isinstance(part, Node | tuple) and id(part) not in made]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        made[id(item)] = _tuple_of(item, made) if isinstance(item, tuple) else change(item, _with_operands(item, made))
    return made[id(root)]  # type: ignore[no-any-return]


def _tuple_of(item: tuple[Any, ...], made: Mapping[int, Any]) -> tuple[Any, ...]:
    parts = tuple(made.get(id(part), part) for part in item)
    return item if all(new is old for new, old in zip(parts, item, strict=True)) else parts


def _with_operands(node: Any, made: Mapping[int, Any]) -> Any:
    changed = {}
    for name in node.__match_args__:
        old = getattr(node, name)
        new = made.get(id(old), old)
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node
