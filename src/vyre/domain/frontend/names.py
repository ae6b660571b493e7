"""``names_of`` decides how local names of a function are kept: fixed, as the variable of a loop, or as a variable.

Python's names belong to the whole function; those of a program end with the body that declares them.  A name that a
body binds once, before everything that reads it and in the same body, is a local that never changes; several bodies
may do so, each for itself.  A name that is bound by ``for`` and read only in the body of that loop is its variable.
Every other name is a variable, which is declared in the innermost body around all of its uses.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.frozen import frozen

Place: TypeAlias = tuple[tuple[int, int], ...]
"""The bodies around a statement, from the outside, each with the number of the statement in it."""


class Kind(Enum):
    """The way in which a name is kept."""

    FIXED = "fixed"
    LOOP = "loop variable"
    VARIABLE = "variable"


class Use(Enum):
    """The way in which a name is mentioned."""

    READ = "read"
    BIND = "bind"
    LOOP = "loop"
    CHANGE = "change"


_READ: Final = Use.READ
_BIND: Final = Use.BIND
_LOOP: Final = Use.LOOP


class Mention(NamedTuple):
    """One mention of a name; ``place`` is that of its statement."""

    use: Use
    place: Place
    node: ast.AST


@frozen
class NamePlan:
    """The way in which one name is kept, and where its variable is declared.

    A variable is declared by the statement ``declared_at`` of the body ``home`` if that is its first mention and binds
    it (``by_first``), and else before that statement.
    """

    kind: Kind
    home: int = 0
    declared_at: int = 0
    by_first: bool = False


_FIXED: Final = NamePlan(Kind.FIXED)
_LOOP_VARIABLE: Final = NamePlan(Kind.LOOP)


@dataclass(slots=True)
class Names:
    """The plans of a function: ``plans`` by name, ``declared`` by body and statement, ``bodies`` the number of each
    statement list.
    """

    plans: dict[str, NamePlan] = field(default_factory=dict)
    declared: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    bodies: dict[int, int] = field(default_factory=dict)

    def body(self, statements: list[ast.stmt]) -> int:
        """Returns the number of a statement list."""
        return self.bodies[id(statements)]


def names_of(function: ast.FunctionDef, parameters: frozenset[str]) -> Names:
    """Returns how the local names of a function are kept."""
    visitor = _Mentions()
    visitor.body(function.body)
    names = Names(bodies=visitor.numbers)
    for name, mentions in visitor.mentions.items():
        binds = [mention for mention in mentions if mention.use is not _READ]
        if not binds:
            continue
        plan = _plan(mentions, binds, visitor.loop_bodies, is_parameter=name in parameters)
        names.plans[name] = plan
        if plan.kind is Kind.VARIABLE and not plan.by_first:
            names.declared.setdefault((plan.home, plan.declared_at), []).append(name)
    return names


def _plan(
    mentions: list[Mention], binds: list[Mention], loop_bodies: dict[int, int], *, is_parameter: bool
) -> NamePlan:
    if is_parameter:
        return NamePlan(Kind.VARIABLE, home=0, declared_at=0)
    if _is_fixed(mentions, binds):
        return _FIXED
    if _is_of_loops(mentions, binds, loop_bodies):
        return _LOOP_VARIABLE
    first, depth = mentions[0], len(_common(mentions))
    number, statement = first.place[depth]
    by_first = first.use is _BIND and len(first.place) == depth + 1
    return NamePlan(Kind.VARIABLE, number, statement, by_first)


def _is_fixed(mentions: list[Mention], binds: list[Mention]) -> bool:
    """Returns whether each value of a name is read only after it is bound and in the same body, which binds it once."""
    for bind in binds:
        if bind.use is not _BIND:
            return False
    if not _are_apart([bind.place[:-1] for bind in binds], [bind.place[-1][0] for bind in binds]):
        return False
    bound: set[int] = set()
    for mention in mentions:
        if mention.use is _BIND:
            bound.add(mention.place[-1][0])
        elif not _is_in(mention.place, bound):
            return False
    return True


def _is_of_loops(mentions: list[Mention], binds: list[Mention], loop_bodies: dict[int, int]) -> bool:
    """Returns whether a name is bound by loops only, and read only in their bodies."""
    if any(bind.use is not _LOOP for bind in binds):
        return False
    bodies = [loop_bodies[id(bind.node)] for bind in binds]
    reads = [mention.place for mention in mentions if mention.use is _READ]
    inside = set(bodies)
    return _are_apart([bind.place for bind in binds], bodies) and all(_is_in(place, inside) for place in reads)


def _are_apart(around: list[Place], bodies: list[int]) -> bool:
    """Returns whether every binding lies outside the bodies for which the others bind the name.

    ``bodies`` are those for which a name is bound, and ``around`` the places of the bindings, without that body.
    """
    distinct = set(bodies)
    return len(distinct) == len(bodies) and not any(_is_in(place, distinct) for place in around)


def _common(mentions: list[Mention]) -> tuple[int, ...]:
    """Returns the bodies around the innermost body that holds all mentions."""
    shared = [number for number, _ in mentions[0].place]
    for mention in mentions[1:]:
        others = [number for number, _ in mention.place]
        length = 0
        for one, other in zip(shared, others, strict=False):
            if one != other:
                break
            length += 1
        del shared[length:]
    return tuple(shared[:-1])


def _is_in(place: Place, bodies: set[int]) -> bool:
    """Returns whether a place lies in one of some bodies."""
    return not bodies.isdisjoint([number for number, _ in place])


_LEFT_OUT: Final = ("arg", "attr", "ctx", "op", "ops", "kind", "type_comment")
"""Fields of syntax in which no name is mentioned."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each kind of syntax in which names may be mentioned, in the order in which they are evaluated."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        names = self[kind] = tuple(name for name in kind._fields if name not in _LEFT_OUT)
        return names


_FIELDS: Final = _Fields()


class _Mentions:
    """Collects the mentions of names, in the order in which they are evaluated."""

    def __init__(self) -> None:
        self.mentions: dict[str, list[Mention]] = {}
        self.numbers: dict[int, int] = {}
        self.loop_bodies: dict[int, int] = {}
        self._place: Place = ()

    def body(self, statements: list[ast.stmt]) -> int:
        """Collects the mentions in a body of the statement that is being visited; returns the number of the body."""
        around = self._place
        number = self.numbers[id(statements)] = len(self.numbers)
        for index, statement in enumerate(statements):
            self._place = (*around, (number, index))
            self._visit(statement)
        self._place = around
        return number

    def _visit(self, node: ast.AST) -> None:
        rule = _VISITED.get(type(node))
        if rule is not None:
            rule(self, node)
            return
        for name in _FIELDS[type(node)]:
            part = getattr(node, name)
            if isinstance(part, ast.AST):
                self._visit(part)
            elif isinstance(part, list):
                for one in part:
                    if isinstance(one, ast.AST):
                        self._visit(one)

    def _note(self, name: str, use: Use, node: ast.AST) -> None:
        mention = Mention(use, self._place, node)
        mentions = self.mentions.get(name)
        if mentions is None:
            self.mentions[name] = [mention]
        else:
            mentions.append(mention)

    def _skip(self, node: ast.AST) -> None:
        """Passes over a constant, and over a function or a class, whose names are its own."""

    def _name(self, node: ast.Name) -> None:
        self._note(node.id, _READ if type(node.ctx) is ast.Load else _BIND, node)

    def _attribute(self, node: ast.Attribute) -> None:
        self._visit(node.value)

    def _subscript(self, node: ast.Subscript) -> None:
        self._visit(node.value)
        self._visit(node.slice)

    def _binary(self, node: ast.BinOp) -> None:
        links = [node]
        while isinstance(links[-1].left, ast.BinOp):
            links.append(links[-1].left)
        self._visit(links[-1].left)
        for link in reversed(links):
            self._visit(link.right)

    def _compare(self, node: ast.Compare) -> None:
        self._visit(node.left)
        for other in node.comparators:
            self._visit(other)

    def _call(self, node: ast.Call) -> None:
        self._visit(node.func)
        for argument in node.args:
            self._visit(argument)
        for keyword in node.keywords:
            self._visit(keyword.value)

    def _assign(self, node: ast.Assign) -> None:
        self._visit(node.value)
        for target in node.targets:
            self._visit(target)

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._visit(node.value)
            self._visit(node.target)

    def _aug_assign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._visit(node.value)
            self._note(node.target.id, Use.CHANGE, node.target)
        else:
            self._visit(node.target)
            self._visit(node.value)

    def _test(self, node: ast.If | ast.While) -> None:
        """Visits ``elif`` after ``elif``, so that the length of the chain counts as no depth."""
        around = self._place
        while True:
            self._visit(node.test)
            self.body(node.body)
            following = node.orelse
            if len(following) != 1 or not isinstance(following[0], ast.If):
                break
            number = self.numbers[id(following)] = len(self.numbers)
            self._place = (*self._place, (number, 0))
            node = following[0]
        self.body(node.orelse)
        self._place = around

    def _for(self, node: ast.For) -> None:
        self._visit(node.iter)
        targets = [one for one in ast.walk(node.target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        for target in targets:
            self._note(target.id, Use.LOOP, target)
        number = self.body(node.body)
        for target in targets:
            self.loop_bodies[id(target)] = number
        self.body(node.orelse)

    def _with(self, node: ast.With) -> None:
        """A name after ``as`` gets its value behind the body."""
        for item in node.items:
            self._visit(item.context_expr)
        self.body(node.body)
        for item in node.items:
            if item.optional_vars is not None:
                self._visit(item.optional_vars)

    def _match(self, node: ast.Match) -> None:
        self._visit(node.subject)
        for case in node.cases:
            self._visit(case.pattern)
            if case.guard is not None:
                self._visit(case.guard)
            self.body(case.body)

    def _match_as(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self._note(node.name, Use.BIND, node)


_VISITED: Final[dict[type[ast.AST], Callable[[_Mentions, Any], None]]] = {
    ast.Name: _Mentions._name,
    ast.Attribute: _Mentions._attribute,
    ast.Subscript: _Mentions._subscript,
    ast.BinOp: _Mentions._binary,
    ast.Compare: _Mentions._compare,
    ast.Call: _Mentions._call,
    ast.Constant: _Mentions._skip,
    ast.Assign: _Mentions._assign,
    ast.AnnAssign: _Mentions._ann_assign,
    ast.AugAssign: _Mentions._aug_assign,
    ast.If: _Mentions._test,
    ast.While: _Mentions._test,
    ast.For: _Mentions._for,
    ast.With: _Mentions._with,
    ast.Match: _Mentions._match,
    ast.MatchAs: _Mentions._match_as,
    ast.FunctionDef: _Mentions._skip,
    ast.AsyncFunctionDef: _Mentions._skip,
    ast.Lambda: _Mentions._skip,
    ast.ClassDef: _Mentions._skip,
}
"""How the kinds of syntax are visited that are frequent, or whose names are not mentioned field by field."""
