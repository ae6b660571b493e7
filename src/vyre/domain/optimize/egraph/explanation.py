"""Why an expression was replaced: one step for each law, and a replay that believes none of them.

A step replaces the expression at a place by an equal one and names the law.  ``replayed`` applies the steps of an
explanation to its source; each must be an instance of its law, which is looked up by name, so that the e-graph that
wrote the explanation is not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.ir.expr import Binary, Expr, Literal, Var, children
from vyre.domain.ir.rebuilding import with_children
from vyre.domain.ir.text_printer import expression_text
from vyre.domain.optimize.egraph.graph import Edge, EGraph, Why
from vyre.domain.optimize.egraph.heads import Head, Types, built, folded
from vyre.domain.optimize.egraph.rules import Rule, typed_head

CONSTANT: Final = "constant folding"
"""The law of a step from an operator on literals to a literal."""
DEFINITION: Final = "definition"
"""What the law of a step starts with that replaces a local by its value or the other way round: ``definition of x``."""

Place: TypeAlias = tuple[int, ...]
"""The operands, by position, through which one goes from the root of an expression to a part of it."""


class Step(NamedTuple):
    """The part ``before`` at ``place`` becomes ``after``; they are the sides of a law, or (``forward`` is False) the
    other way round.
    """

    place: Place
    before: Expr
    after: Expr
    law: str
    forward: bool

    def __str__(self) -> str:
        arrow = "->" if self.forward else "<-"
        return f"{expression_text(self.before)} {arrow} {expression_text(self.after)}  [{self.law}]"


class FalseStep(ValueError):
    """A step of an explanation is no instance of its law, or does not apply to the expression."""


def explained(graph: EGraph, first: int, second: int) -> tuple[Step, ...]:
    """Returns the steps from one term to an equal one; does not recurse.

    Linear in the number of steps and in the height of the terms.
    """
    known: dict[int, Expr] = {}
    steps: list[Step] = []
    todo: list[tuple[int, int, Place] | Step] = [(first, second, ())]
    while todo:
        item = todo.pop()
        if isinstance(item, Step):
            steps.append(item)
            continue
        start, end, place = item
        following: list[tuple[int, int, Place] | Step] = []
        for edge in graph.proof(start, end):
            following += _expanded(graph, edge, place, known)
        todo += reversed(following)
    return tuple(steps)


def _expanded(
    graph: EGraph, edge: Edge, place: Place, known: dict[int, Expr]
) -> Iterator[tuple[int, int, Place] | Step]:
    """Yields the step of an edge; for congruent terms the proofs that their operands are equal."""
    why, name = edge.reason
    if why is not Why.CONGRUENCE and why is not Why.SWAPPED:
        law = {Why.LAW: name, Why.CONSTANT: CONSTANT, Why.DEFINITION: f"{DEFINITION} of {name}"}[why]
        before, after = graph.expression(edge.start, known), graph.expression(edge.end, known)
        yield Step(place, before, after, law, edge.forward)
        return
    start, end = graph.operands[edge.start], graph.operands[edge.end]
    if why is Why.SWAPPED:
        head = graph.heads[edge.start]
        before = graph.expression(edge.start, known)
        swapped = built(head, [graph.expression(term, known) for term in reversed(start)], None)
        swapping = graph.commuting(head)
        assert swapping is not None
        yield Step(place, before, swapped, swapping, True)
        start = start[::-1]
    for position, (one, other) in enumerate(zip(start, end, strict=True)):
        if one != other:
            yield one, other, (*place, position)


# ------------------------------------------------------------------------------ replay


class Replay:
    """Rules by the names of their laws, and what a replay needs to type expressions.

    ``commuting`` names the law by which a head commutes.  ``definitions`` are the values of locals; ``locals_`` and
    ``elements`` the types of locals and of loads.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        commuting: Callable[[Head], str | None],
        locals_: Types,
        elements: Types | None = None,
        definitions: Mapping[str, Expr] | None = None,
    ) -> None:
        self._rules: dict[tuple[str, bool], list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault((rule.law, rule.forward), []).append(rule)
        self._commuting = commuting
        self._locals = locals_
        self._elements: Types = elements or {}
        self._definitions = definitions or {}

    def replayed(self, source: Expr, steps: Sequence[Step]) -> Expr:
        """Returns what the steps make of an expression; raises ``FalseStep`` for the first that is not right."""
        for step in steps:
            self.check(step)
            source = _replaced(source, step.place, step)
        return source

    def check(self, step: Step) -> None:
        """Raises ``FalseStep`` if a step is no instance of its law."""
        first, second = (step.before, step.after) if step.forward else (step.after, step.before)
        if not (self._is_constant(step, first, second) or self._is_definition(step, first, second)):
            backward = self._rules.get((step.law, False), ())
            forward = self._rules.get((step.law, True), ())
            is_instance = any(self._is_instance(rule, first, second) for rule in forward) or any(
                self._is_instance(rule, second, first) for rule in backward
            )
            if not is_instance and not self._is_swap(step, first, second):
                raise FalseStep(f"no instance of its law: {step}")

    def _is_constant(self, step: Step, first: Expr, second: Expr) -> bool:
        if step.law != CONSTANT or type(second) is not Literal:
            return False
        head = typed_head(first, self._locals, self._elements)
        below = children(first)
        bits = [operand.bits for operand in below if type(operand) is Literal]
        if not below or len(bits) != len(below):
            return False
        return folded(head, tuple(bits)) == second.bits and head.dtype is second.dtype

    def _is_definition(self, step: Step, first: Expr, second: Expr) -> bool:
        if type(first) is not Var or step.law != f"{DEFINITION} of {first.name}":
            return False
        return self._definitions.get(first.name) == second

    def _is_swap(self, step: Step, first: Expr, second: Expr) -> bool:
        if not isinstance(first, Binary) or not isinstance(second, Binary):
            return False
        head = typed_head(first, self._locals, self._elements)
        swapped = (first.left, first.right) == (second.right, second.left)
        return first.op is second.op and swapped and self._commuting(head) == step.law

    def _is_instance(self, rule: Rule, before: Expr, after: Expr) -> bool:
        holes: dict[str, Expr] = {}
        if not (self._fits(rule, rule.before, before, holes) and self._fits(rule, rule.after, after, holes)):
            return False
        bits = {name: holes[name].bits for name in rule.constants & holes.keys()}  # type: ignore[union-attr]
        return rule.holds is None or rule.holds(bits)

    def _fits(self, rule: Rule, pattern: Expr, expr: Expr, holes: dict[str, Expr]) -> bool:
        """Returns whether an expression is the pattern with these expressions for its holes; adds what is new."""
        if type(pattern) is Var:
            if pattern.name in holes:
                return holes[pattern.name] == expr
            holes[pattern.name] = expr
            if pattern.name in rule.constants and type(expr) is not Literal:
                return False
            return typed_head(expr, self._locals, self._elements).dtype is rule.holes[pattern.name]
        if type(pattern) is Literal or type(pattern) is not type(expr):
            return pattern == expr
        below = children(expr)
        if with_children(pattern, below) != expr:
            return False
        return all(self._fits(rule, p, e, holes) for p, e in zip(children(pattern), below, strict=True))


def _replaced(root: Expr, place: Place, step: Step) -> Expr:
    """Returns ``root`` with another part at a place; raises ``FalseStep`` if it does not have the old one there."""
    around: list[tuple[Expr, int]] = []
    part = root
    for position in place:
        around.append((part, position))
        part = children(part)[position]
    if part != step.before:
        raise FalseStep(f"the expression has another part at {place}: {step}")
    new = step.after
    for outer, position in reversed(around):
        operands = list(children(outer))
        operands[position] = new
        new = with_children(outer, operands)
    return new
