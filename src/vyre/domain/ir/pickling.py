"""Nodes as flat records, so that pickling and copying deep programs never recurses.

A record is a class and the positions of its fields, or items, among the earlier records; or None and a plain value.
Shared nodes stay shared.  Caches are not pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias

Record: TypeAlias = tuple[type[Any] | None, Any]


def flatten(root: object, node: type) -> tuple[Callable[..., object], tuple[tuple[Record, ...]]]:
    """Returns the result of ``__reduce__`` for a ``root`` of type ``node``: ``unflatten`` and its argument.

    Instances of ``node``, which are dataclasses, and tuples are decomposed; everything else is a plain value.
    """
    records: list[Record] = []
    position: dict[int, int] = {}
    stack: list[object] = [root]
    while stack:
        item = stack[-1]
        if id(item) in position:
            stack.pop()
            continue
        parts = _parts(item, node)
        missing = [part for part in parts if id(part) not in position]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        position[id(item)] = len(records)
        if isinstance(item, (node, tuple)):
            records.append((type(item), tuple(position[id(part)] for part in parts)))
        else:
            records.append((None, item))
    return unflatten, (tuple(records),)


def unflatten(records: tuple[Record, ...]) -> object:
    """Returns the node that ``flatten`` decomposed."""
    built: list[Any] = []
    for kind, content in records:
        if kind is None:
            built.append(content)
        elif kind is tuple:
            built.append(tuple(built[i] for i in content))
        else:
            built.append(kind(**{name: built[i] for name, i in zip(_field_names(kind), content, strict=True)}))
    return built[-1]


def _parts(item: object, node: type) -> tuple[object, ...]:
    if isinstance(item, node):
        return tuple(getattr(item, name) for name in _field_names(type(item)))
    return item if isinstance(item, tuple) else ()


def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if not field.name.startswith("_"))
