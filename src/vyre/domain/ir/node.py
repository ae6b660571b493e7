"""The base class of IR nodes: value equality, hashing and printing that never recurse deeply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from operator import attrgetter
from typing import Any, ClassVar

from vyre.domain.frozen import frozen
from vyre.domain.printable import shown
from vyre.domain.program_report import InvalidProgram
from vyre.domain.source_location import SourceLocation


@frozen(kw_only=True, eq=False, repr=False)
class Node:
    """An immutable IR node.

    Two nodes are equal when they are of the same class and all fields except ``loc`` are equal; float literals hold
    bits, so equality is by bits.  Equality and hashing use an explicit stack, since legal programs nest 64 statements
    and 128 expressions deep, and visit a shared node once.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()

    loc: SourceLocation | None = field(default=None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(a, b) for a, b in _paired_leaves(self, other))

    def __hash__(self) -> int:
        return _structural_hash(self)

    def __reduce__(self) -> tuple[Any, ...]:
        from vyre.domain.ir.pickling import flatten

        return flatten(self, Node)

    def __repr__(self) -> str:
        return _render(self, 6)


def fields_getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a fast function from a node to the values of those fields; walks call it for every node."""
    if not names:
        return lambda _: ()
    if len(names) > 1:
        return attrgetter(*names)
    get = attrgetter(names[0])
    return lambda node: (get(node),)


def misplaced(node: object, wanted: str, example: str) -> InvalidProgram:
    """Returns the error for an object that stands in a program where ``wanted`` belongs."""
    return InvalidProgram(
        f"{shown(node)} (type {type(node).__name__}) stands where {wanted} belongs",
        fix=f"build programs of nodes of vyre.ir, such as {example}.",
    )


def _paired_leaves(left: object, right: object) -> Iterator[tuple[object, object]]:
    compared: set[tuple[int, int]] = set()
    stack: list[tuple[object, object]] = [(left, right)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, Node) and type(a) is type(b):
            pair = (id(a), id(b))
            if pair not in compared:
                compared.add(pair)
                stack.extend((getattr(a, name), getattr(b, name)) for name in a.__match_args__)
        elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            stack.extend(zip(a, b, strict=True))
        else:
            yield a, b


def _same(a: object, b: object) -> bool:
    return not isinstance(a, Node | tuple) and type(a) is type(b) and a == b


def _structural_hash(root: Node) -> int:
    hashes: dict[int, int] = {}
    stack: list[Node] = [root]
    while stack:
        node = stack[-1]
        leaves = list(_leaves(node))
        missing = [leaf for leaf in leaves if isinstance(leaf, Node) and id(leaf) not in hashes]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        content = (hashes[id(leaf)] if isinstance(leaf, Node) else leaf for leaf in leaves)
        hashes[id(node)] = hash((type(node).__name__, *content))
    return hashes[id(root)]


def _leaves(node: Node) -> Iterator[object]:
    """Yields operands and plain values of one node, with the lengths of the tuples that hold them."""
    stack: list[object] = [getattr(node, name) for name in node.__match_args__]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            yield len(item)
            stack.extend(item)
        else:
            yield item


def _render(item: object, depth: int) -> str:
    if isinstance(item, Node):
        if depth == 0:
            return f"{type(item).__name__}(...)"
        return f"{type(item).__name__}({', '.join(_render(getattr(item, n), depth - 1) for n in item.__match_args__)})"
    if isinstance(item, tuple):
        inner = ", ".join(_render(i, depth - 1) for i in item) if depth > 0 else "..."
        return f"({inner}{',' if len(item) == 1 else ''})"
    return repr(item)
