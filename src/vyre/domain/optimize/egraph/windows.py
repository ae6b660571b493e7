"""``Window``: the part of an expression that one e-graph sees, as a list of heads, and a key that tells equal ones.

What is taken are nodes breadth first, through the values of locals as well; what is below them is opaque.  Two windows
with one key differ in the names of their locals alone, and so have the same forms at the same costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from vyre.domain.graphs.ordering import needed_first
from vyre.domain.ir.expr import CHILDREN, LEAVES, Expr, Literal, Load, Var
from vyre.domain.ir.limits import MAX_NODES
from vyre.domain.ir.node import Node
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import measure
from vyre.domain.optimize.egraph.heads import (
    OPERATORS,
    Entry,
    Head,
    Opaque,
    Types,
    built,
    interned,
    leaf_head,
    literal_of,
    operator_head,
)

Key: TypeAlias = tuple[object, ...]
"""The structure that windows with the same forms have in common."""


class Scope:
    """The meanings of the names in an expression: types of locals, of loads by buffer, and values of locals.

    A local with a value must have it wherever the expression stands: the locals of the value are never assigned, and
    nothing writes what it loads.  ``type_of`` returns the type of an expression, which must be given if some can be
    opaque.  ``types`` and ``spellings``, if given, are the types and operators whose rules are tried, as ``Rules.of``
    has them; rules of other types are tried once these turn up.
    """

    def __init__(
        self,
        locals_: Types,
        elements: Types | None = None,
        definitions: Mapping[str, Expr] | None = None,
        type_of: Callable[[Expr], ScalarType] | None = None,
        types: frozenset[ScalarType] = frozenset(),
        spellings: frozenset[str] | None = None,
    ) -> None:
        self.locals_ = locals_
        self.elements: Types = {} if elements is None else elements
        self.definitions: Mapping[str, Expr] = {} if definitions is None else definitions
        self.type_of = type_of
        self.types = types
        self.spellings = spellings
        self.sizes: dict[int, tuple[int, int]] = {}
        """Heights and sizes of expressions by identity."""
        self.measured: dict[int, Expr] = {}
        """The expressions whose sizes are known, which keeps their identities."""


class Definition(NamedTuple):
    """A local of a window whose value is in it, by the numbers of both entries."""

    local: int
    value: int


class Window(NamedTuple):
    """The distinct nodes of a window, operands first, the entry of the root, and the locals with values."""

    entries: list[Entry]
    root: int
    definitions: list[Definition]
    key: Key

    def depths(self) -> dict[Head, int]:
        """Returns, for each local with a value, how many values of locals stand below one another in it."""
        values = dict(self.definitions)
        known: dict[int, int] = {}

        def below(number: int) -> tuple[int, ...]:
            return (values[number],) if number in values else self.entries[number].operands

        for local in values:
            for number in needed_first(local, known, below):
                known[number] = max((known[operand] for operand in below(number)), default=0) + (number in values)
        return {self.entries[local].head: known[local] for local in values}


def window_of(expr: Expr, scope: Scope, most: int) -> Window:
    """Returns the window of an expression of leaves and ``heads.OPERATORS`` of about ``most`` nodes; O(``most``).

    Without ``Scope.type_of`` everything is in the window.  Raises ``KeyError`` for other nodes and for unknown names.
    """
    opaque, defined = _limits(expr, scope, most)
    reader = _Reader(scope, opaque)
    root = reader.number(expr)
    definitions = [Definition(reader.number(local), reader.number(scope.definitions[local.name])) for local in defined]
    return Window(reader.entries, root, definitions, (root, *definitions, *reader.key))


def _limits(expr: Expr, scope: Scope, most: int) -> tuple[dict[int, Expr], list[Var]]:
    """Returns the nodes at which the window ends, by identity, and the locals whose values are in it."""
    waiting = deque([expr])
    seen = {id(expr)}
    opaque: dict[int, Expr] = {}
    defined: dict[str, Var] = {}
    while waiting:
        node = waiting.popleft()
        kind = type(node)
        if kind is Var:
            value = scope.definitions.get(node.name)  # type: ignore[union-attr]
            if value is None or node.name in defined or len(seen) >= most:  # type: ignore[union-attr]
                continue
            defined[node.name] = node  # type: ignore[union-attr, assignment]
            below: tuple[Expr, ...] = (value,)
        elif kind in LEAVES:
            continue
        else:
            below = CHILDREN[kind](node)
            if scope.type_of is not None and len(seen) + len(below) > most:
                opaque[id(node)] = node
                continue
        for operand in below:
            if id(operand) not in seen:
                seen.add(id(operand))
                waiting.append(operand)
    return opaque, list(defined.values())


class _Reader:
    """Numbers the distinct nodes of a window and describes each in the key, in which locals go by their numbers."""

    def __init__(self, scope: Scope, opaque: Mapping[int, Expr]) -> None:
        self._scope = scope
        self._opaque = opaque
        self._known: dict[int, int] = {}
        self._numbers: dict[object, int] = {}
        self.entries: list[Entry] = []
        self.key: list[object] = []

    def number(self, expr: Expr) -> int:
        """Returns the number of the entry of a node; does not recurse."""
        known = self._known
        stack = [expr]
        while stack:
            node = stack[-1]
            kind = type(node)
            if id(node) in known:
                stack.pop()
                continue
            if id(node) in self._opaque or kind not in OPERATORS:
                stack.pop()
                known[id(node)] = self._leaf(node)
                continue
            below = CHILDREN[kind](node)
            waiting = [operand for operand in below if id(operand) not in known]
            if waiting:
                stack += waiting[::-1]
                continue
            stack.pop()
            operands = tuple([known[id(operand)] for operand in below])
            types = tuple([self.entries[operand].head.dtype for operand in operands])
            head = interned(operator_head(node, types, self._scope.elements))
            place = head.payload if kind is Load else id(head)  # interned heads live as long as the process
            known[id(node)] = self._entry((place, operands), head, operands, node)
        return known[id(expr)]

    def _leaf(self, node: Expr) -> int:
        if id(node) in self._opaque:
            scope = self._scope
            assert scope.type_of is not None
            height, size = measure(node, scope.sizes, MAX_NODES, visited=scope.measured)
            dtype = scope.type_of(node)
            head = Head(Node, Opaque(len(self.entries), size, height), dtype)
            return self._entry((id(node), None), head, (), node, (size, height, dtype.tag))
        head = leaf_head(node, self._scope.locals_)
        described = (Var, head.dtype.tag) if type(node) is Var else (head.node, head.payload, head.dtype.tag)
        return self._entry(head, head, (), node, described)

    def _entry(self, same: object, head: Head, operands: tuple[int, ...], node: Expr, described: object = None) -> int:
        """Returns the number of what equals ``same``, which is new if nothing yet did."""
        number = self._numbers.setdefault(same, len(self.entries))
        if number == len(self.entries):
            self.entries.append(Entry(head, operands, node))
            self.key.append(same if described is None else described)
        return number


class Form:
    """A form of the root of a window, for all windows with its key.

    ``steps`` are the numbers of entries that are taken as they are, and heads with the places of their operands among
    the steps; the last step is the root.
    """

    def __init__(self, steps: Sequence[int | tuple[Head, tuple[int, ...]]]) -> None:
        self._steps = tuple(steps)

    def of(self, window: Window) -> Expr:
        """Returns the form of a window's root; what is new has the location of the root."""
        exprs: list[Expr] = []
        loc = window.entries[window.root].expr.loc
        for step in self._steps:
            if isinstance(step, int):
                exprs.append(window.entries[step].expr)
            elif step[0].node is Literal:
                exprs.append(literal_of(step[0], loc))
            else:
                exprs.append(built(step[0], [exprs[operand] for operand in step[1]], loc))
        return exprs[-1]
