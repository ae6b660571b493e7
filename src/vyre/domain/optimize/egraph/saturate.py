"""``saturated``: one expression, rewritten by all rules at once within bounds, and the cheapest form that was found.

A round matches every rule against every class that the last round changed, in the order of the terms, then makes all
matches equal.  It ends when nothing changes or a bound is reached.  What comes out is never dearer than what goes in,
and no cheaper term of the graph may have been missed by more than extraction misses: no optimality is claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from vyre.domain.graphs.extraction import Alternatives, cheapest_trees, exchange, search
from vyre.domain.graphs.ordering import needed_first
from vyre.domain.ir.expr import Expr, Var
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.explanation import Step, explained
from vyre.domain.optimize.egraph.graph import EGraph, Reason, Why
from vyre.domain.optimize.egraph.heads import LEAF, Head, Opaque, cost_of
from vyre.domain.optimize.egraph.rules import Rule, Rules, RuleSet
from vyre.domain.optimize.egraph.windows import Form, Scope, Window, window_of


class Limits(NamedTuple):
    """The bounds of one saturation.

    ``window``: nodes that are taken from the source and from the values of its locals, breadth first; what is below
    them is opaque.  ``nodes``: terms of the graph, beyond which no match is applied.  ``matches``: of one rule in one
    round.  ``rounds``.  ``search``: choices that the exact search for shared parts may make; 0 leaves it out.
    ``height``: what a new form may have although the source has less.
    """

    window: int = 256
    nodes: int = 2_000
    matches: int = 200
    rounds: int = 8
    search: int = 2_000
    height: int = 32


DEFAULT_LIMITS: Final = Limits()
_MOST_DEPTH: Final = LEAF // 4 - 1
"""The most that a local costs more than another one."""


class Saturated(NamedTuple):
    """A form of an expression, its cost and that of the source (shared parts count once), and the work done."""

    expr: Expr
    cost: int
    source_cost: int
    rounds: int
    is_complete: bool
    """Whether no rule had anything to add."""
    graph: EGraph
    source_term: int
    term: int
    terms: list[int]
    """The terms of the entries of the window."""

    def form(self) -> Form:
        """Returns the form as one for all windows with the same key."""
        graph, entries = self.graph, {term: number for number, term in enumerate(self.terms)}
        places: dict[int, int] = {}
        steps: list[int | tuple[Head, tuple[int, ...]]] = []
        for term in needed_first(self.term, places, lambda top: () if top in entries else graph.operands[top][::-1]):
            places[term] = len(steps)
            if term in entries:
                steps.append(entries[term])
            else:
                steps.append((graph.heads[term], tuple([places[below] for below in graph.operands[term]])))
        return Form(steps)

    def explanation(self) -> tuple[Step, ...]:
        """Returns the steps that lead from the source to its new form."""
        return explained(self.graph, self.source_term, self.term)


def saturated(
    expr: Expr, rules: Rules, scope: Scope, limits: Limits = DEFAULT_LIMITS, cost: Callable[[Head], int] = cost_of
) -> Saturated:
    """Returns the cheapest form that was found of an expression of leaves and ``heads.OPERATORS``.

    It is the very object if nothing cheaper was found.  Another form has a lower cost, or the same with a lower one
    written out, and neither more nodes nor a higher cost written out, nor more height, than the source or the limit.
    """
    return saturated_window(window_of(expr, scope, limits.window), rules, scope, limits, cost)


def saturated_window(
    window: Window, rules: Rules, scope: Scope, limits: Limits = DEFAULT_LIMITS, cost: Callable[[Head], int] = cost_of
) -> Saturated:
    """Returns what ``saturated`` returns for the root of a window.

    A local whose value is in the window costs a little more than the locals in that value, so that of two forms of the
    same cost that one is taken which depends on less.
    """
    graph = EGraph(scope.locals_, scope.elements, rules.commuting)
    terms = graph.add_window(window.entries)
    root = terms[window.root]
    for local, value in window.definitions:
        graph.union(terms[local], terms[value], Reason(Why.DEFINITION, graph.heads[terms[local]].payload))
    graph.rebuild()
    rounds, is_complete = _rewrite(graph, rules, scope, limits)
    costs = _Costs(graph, cost, window.depths() if window.definitions else {})
    before = _measured(graph, root, costs)
    cheapest, after = root, before
    for candidate in _candidates(graph, root, limits, costs):
        measured = before if candidate == root else _measured(graph, candidate, costs)
        if (measured.dag, measured.tree) < (after.dag, after.tree) and not measured.is_larger(before, limits.height):
            cheapest, after = candidate, measured
    expr = window.entries[window.root].expr
    new = expr if cheapest == root else graph.expression(cheapest, loc=expr.loc)
    return Saturated(new, after.dag, before.dag, rounds, is_complete, graph, root, cheapest, terms)


class _Costs(dict[int, int]):
    """The cost of each term without its operands."""

    def __init__(self, graph: EGraph, cost: Callable[[Head], int], depths: Mapping[Head, int]) -> None:
        super().__init__()
        self._graph = graph
        self._cost = cost
        self._depths = depths

    def __missing__(self, term: int) -> int:
        head = self._graph.heads[term]
        depth = self._depths.get(head, 0) if head.node is Var else 0
        cost = self[term] = self._cost(head) + min(depth, _MOST_DEPTH)
        return cost


# ------------------------------------------------------------------------------ rounds


def _rewrite(graph: EGraph, rules: Rules, scope: Scope, limits: Limits) -> tuple[int, bool]:
    """Applies all rules until nothing changes or a bound is reached; returns the rounds, and whether all was done."""
    types = scope.types
    for done in range(limits.rounds):
        changed, graph.touched = graph.touched, []
        if not changed:
            return done, True
        known = frozenset(kind for term in changed for kind in _types(graph.heads[term]))
        if not known <= types:  # rules of new types have not been tried on what was there before
            types |= known
            changed = list(range(len(graph)))
        matches, is_cut = _matches(graph, rules.of(types, scope.spellings), changed, limits.matches)
        for rule, holes in matches:
            if len(graph) >= limits.nodes:
                graph.rebuild()
                return done + 1, False
            rule.apply(graph, holes)
        graph.rebuild()
        if is_cut and not graph.touched:
            return done + 1, False
    return limits.rounds, not graph.touched


def _types(head: Head) -> tuple[ScalarType, ...]:
    return (head.dtype,) if head.operand is None else (head.dtype, head.operand)


def _matches(
    graph: EGraph, rules: RuleSet, changed: list[int], most: int
) -> tuple[list[tuple[Rule, dict[str, int]]], bool]:
    """Returns the matches of rules whose instance has a part among the changed classes, and whether some were cut."""
    matches: list[tuple[Rule, dict[str, int]]] = []
    counts: Counter[int] = Counter()
    known: dict[int, tuple[Head, ...]] = {}
    is_cut = False
    for term in _above(graph, changed, rules.depth):
        if graph.constant(term) is not None:
            continue
        for number, rule, program in rules.starts(graph, term, known):
            for holes in rule.matches(graph, term, program):
                if counts[number] >= most:
                    is_cut = True
                    break
                counts[number] += 1
                matches.append((rule, holes))
    return matches, is_cut


def _above(graph: EGraph, changed: list[int], depth: int) -> list[int]:
    """Returns the terms of the changed classes, and those up to ``depth`` - 1 uses above them, in their order."""
    classes = dict.fromkeys(map(graph.find, changed))
    edge = list(classes)
    for _ in range(depth - 1):
        users = dict.fromkeys(graph.find(user) for eclass in edge for user in graph.users(eclass))
        edge = [eclass for eclass in users if eclass not in classes]
        classes |= dict.fromkeys(edge)
    return sorted(term for eclass in classes for term in graph.members(eclass) if graph.operands[term])


# ------------------------------------------------------------------------------ extraction


class _Measured(NamedTuple):
    """The costs of a term with shared parts counted once and at every use, its size written out, and its height."""

    dag: int
    tree: int
    size: int
    height: int

    def is_larger(self, other: _Measured, height: int) -> bool:
        """Returns whether a term is larger in some way that programs have limits for, or dearer written out."""
        return self.tree > other.tree or self.size > other.size or self.height > max(other.height, height)


def _measured(graph: EGraph, root: int, costs: _Costs) -> _Measured:
    below = {root}
    stack = [root]
    while stack:
        fresh = [term for term in graph.operands[stack.pop()] if term not in below]
        below.update(fresh)
        stack += fresh
    dag = 0
    trees: dict[int, tuple[int, int, int]] = {}
    for term in sorted(below):  # operands were added before their users
        own = costs[term]
        dag += own
        parts = [trees[operand] for operand in graph.operands[term]]
        tree = own + sum(part[0] for part in parts)
        payload = graph.heads[term].payload
        if isinstance(payload, Opaque):
            trees[term] = tree, payload.size, payload.height
            continue
        trees[term] = tree, 1 + sum(part[1] for part in parts), max((1 + part[2] for part in parts), default=0)
    return _Measured(dag, *trees[root])


def _candidates(graph: EGraph, root: int, limits: Limits, costs: _Costs) -> Iterator[int]:
    """Yields terms of the root's class: one that shares parts well, then the one with the cheapest tree."""
    nodes, classes = _alternatives(graph, root, costs)
    trees = cheapest_trees(classes)[1]
    shared = dict(trees)
    exchange(classes, 0, shared)
    if limits.search:
        search(classes, 0, shared, limits.search)
    yield _chosen(graph, nodes, classes, shared)
    yield _chosen(graph, nodes, classes, trees)


def _alternatives(graph: EGraph, root: int, costs: Mapping[int, int]) -> tuple[list[list[int]], Alternatives]:
    """Returns the terms of the classes below the root, which is class 0; terms that were added first come first."""
    order = [graph.find(root)]
    numbers = {order[0]: 0}
    nodes: list[list[int]] = []
    children: list[list[tuple[int, ...]]] = []
    for eclass in order:
        literal = graph.constant(eclass)
        nodes.append(sorted(graph.members(eclass)) if literal is None else [literal])
        uses = []
        for term in nodes[-1]:
            below = [graph.find(operand) for operand in graph.operands[term]]
            for operand in below:
                if operand not in numbers:
                    numbers[operand] = len(order)
                    order.append(operand)
            uses.append(tuple([numbers[operand] for operand in below]))
        children.append(uses)
    own = [[costs[term] for term in terms] for terms in nodes]
    return nodes, Alternatives(own, children)


def _chosen(graph: EGraph, nodes: list[list[int]], classes: Alternatives, chosen: dict[int, int]) -> int:
    """Returns the term of class 0 in which every class is its chosen node."""
    terms: dict[int, int] = {}
    for c in needed_first(0, terms, lambda top: classes.children[top][chosen[top]][::-1]):
        head = graph.heads[nodes[c][chosen[c]]]
        terms[c] = graph.term(head, tuple([terms[below] for below in classes.children[c][chosen[c]]]))
    graph.rebuild()
    return terms[0]
