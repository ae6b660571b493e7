"""``names_of`` decides how local names of a function are kept: fixed, as the variable of a loop, or as a variable.

Python's names belong to the whole function; those of a program end with the body that declares them.  A name that a
body binds once, before everything that reads it and in the same body, is a local that never changes; several bodies
may do so, each for itself.  A name that is bound by ``for`` and read only in the body of that loop is its variable.
Every other name is a variable, which is declared in the innermost body around all of its uses.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

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


class Mention(NamedTuple):
    """One mention of a name; ``place`` is that of its statement."""

    use: Use
    place: Place
    node: ast.AST


@dataclass(frozen=True, slots=True)
class NamePlan:
    """The way in which one name is kept, and where its variable is declared.

    A variable is declared by the statement ``declared_at`` of the body ``home`` if that is its first mention and binds
    it (``by_first``), and else before that statement.
    """

    kind: Kind
    home: int = 0
    declared_at: int = 0
    by_first: bool = False


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
    visitor.enter(function.body, ())
    names = Names(bodies=visitor.numbers)
    for name, mentions in visitor.found.items():
        if all(mention.use is Use.READ for mention in mentions):
            continue
        plan = _plan(mentions, visitor.loop_bodies, is_parameter=name in parameters)
        names.plans[name] = plan
        if plan.kind is Kind.VARIABLE and not plan.by_first:
            names.declared.setdefault((plan.home, plan.declared_at), []).append(name)
    return names


def _plan(mentions: list[Mention], loop_bodies: dict[int, int], *, is_parameter: bool) -> NamePlan:
    if is_parameter:
        return NamePlan(Kind.VARIABLE, home=0, declared_at=0)
    if _is_fixed(mentions):
        return NamePlan(Kind.FIXED)
    if _is_of_loops(mentions, loop_bodies):
        return NamePlan(Kind.LOOP)
    first, depth = mentions[0], len(_common(mentions))
    number, statement = first.place[depth]
    by_first = first.use is Use.BIND and len(first.place) == depth + 1
    return NamePlan(Kind.VARIABLE, number, statement, by_first)


def _is_fixed(mentions: list[Mention]) -> bool:
    """Returns whether each value of a name is read only after it is bound and in the same body, which binds it once."""
    binds = [mention for mention in mentions if mention.use is not Use.READ]
    bodies = [bind.place[-1][0] for bind in binds]
    if any(bind.use is not Use.BIND for bind in binds) or not _are_apart(binds, bodies):
        return False
    bound: set[int] = set()
    for mention in mentions:
        if mention.use is Use.BIND:
            bound.add(mention.place[-1][0])
        elif not any(_is_in(mention.place, body) for body in bound):
            return False
    return True


def _is_of_loops(mentions: list[Mention], loop_bodies: dict[int, int]) -> bool:
    """Returns whether a name is bound by loops only, and read only in their bodies."""
    binds = [mention for mention in mentions if mention.use is not Use.READ]
    if any(bind.use is not Use.LOOP for bind in binds):
        return False
    bodies = [loop_bodies[id(bind.node)] for bind in binds]
    reads = (mention for mention in mentions if mention.use is Use.READ)
    return _are_apart(binds, bodies) and all(any(_is_in(read.place, body) for body in bodies) for read in reads)


def _are_apart(binds: list[Mention], bodies: list[int]) -> bool:
    """Returns whether every binding lies outside the bodies for which the others bind the name."""
    return len(set(bodies)) == len(bodies) and not any(
        _is_in(bind.place, body) for n, bind in enumerate(binds) for m, body in enumerate(bodies) if n != m
    )


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


def _is_in(place: Place, body: int) -> bool:
    return any(number == body for number, _ in place)


_OWN_SCOPE: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class _Mentions(ast.NodeVisitor):
    """Collects the mentions of names, in the order in which they are evaluated."""

    def __init__(self) -> None:
        self.found: dict[str, list[Mention]] = {}
        self.numbers: dict[int, int] = {}
        self.loop_bodies: dict[int, int] = {}
        self._place: Place = ()

    def enter(self, statements: list[ast.stmt], around: Place) -> int:
        number = self.numbers[id(statements)] = len(self.numbers)
        for index, statement in enumerate(statements):
            self._place = (*around, (number, index))
            self.visit(statement)
        self._place = around
        return number

    def _body(self, statements: list[ast.stmt]) -> int:
        return self.enter(statements, self._place)

    def note(self, name: str, use: Use, node: ast.AST) -> None:
        self.found.setdefault(name, []).append(Mention(use, self._place, node))

    def visit_Name(self, node: ast.Name) -> None:
        self.note(node.id, Use.READ if isinstance(node.ctx, ast.Load) else Use.BIND, node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.visit(node.value)
            self.note(node.target.id, Use.CHANGE, node.target)
        else:
            self.visit(node.target)
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        targets = [one for one in ast.walk(node.target) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        for target in targets:
            self.note(target.id, Use.LOOP, target)
        body = self._body(node.body)
        for target in targets:
            self.loop_bodies[id(target)] = body
        self._body(node.orelse)

    def visit_With(self, node: ast.With) -> None:
        """A name after ``as`` gets its value behind the body."""
        for item in node.items:
            self.visit(item.context_expr)
        self._body(node.body)
        for item in node.items:
            if item.optional_vars is not None:
                self.visit(item.optional_vars)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            self.visit(case.pattern)
            if case.guard is not None:
                self.visit(case.guard)
            self._body(case.body)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self.note(node.name, Use.BIND, node)

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, _OWN_SCOPE):
            super().generic_visit(node)
