"""The cheapest terms of classes of alternatives.

A class has nodes; a node has a cost of its own and children, which are classes.  The *tree* cost of a term counts a
class at every use, its *DAG* cost once.  ``cheapest_trees`` settles classes in ascending order of cost, each once
(Knuth's form of Dijkstra's algorithm, 1977), so that deep graphs need no cap on sweeps and no term contains itself:
O(E log E).  Finding the term of the least DAG cost is NP-hard: ``exchange`` improves the best trees node by node, and
``search`` looks at all choices of a small graph, or at as many as it may.  Neither is ever dearer than what it starts
from.  Of equal costs the first found is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class Alternatives(NamedTuple):
    """The nodes of classes: ``own[c][n]`` is the cost of node n of class c, ``children[c][n]`` the classes it uses.

    Costs are at least 0, in any unit; the sum of a term saturates at ``most`` if it is given.
    """

    own: Sequence[Sequence[int]]
    children: Sequence[Sequence[tuple[int, ...]]]
    most: int | None = None

    def total(self, cost: int) -> int:
        """Returns a cost, saturated."""
        return cost if self.most is None else min(cost, self.most)

    def tree_cost(self, c: int, n: int, costs: dict[int, int]) -> int:
        """Returns the cost of a node with its children, whose tree costs are known."""
        return self.total(self.own[c][n] + sum(costs[child] for child in self.children[c][n]))

    def is_priced(self, c: int, n: int, costs: dict[int, int]) -> bool:
        """Returns whether the costs of all children of a node are known."""
        return all(child in costs for child in self.children[c][n])


def cheapest_trees(classes: Alternatives) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the tree cost and the chosen node of every class that can be priced."""
    own, children = classes.own, classes.children
    waiting = [[len(set(below)) for below in nodes] for nodes in children]
    users: list[list[tuple[int, int]]] = [[] for _ in children]
    for c, nodes in enumerate(children):
        for n, below in enumerate(nodes):
            for child in dict.fromkeys(below):
                if child < len(children):
                    users[child].append((c, n))
    costs: dict[int, int] = {}
    chosen: dict[int, int] = {}
    ready = [(own[c][n], c, n) for c, counts in enumerate(waiting) for n, count in enumerate(counts) if count == 0]
    heapify(ready)
    while ready:
        cost, c, n = heappop(ready)
        if c in costs:
            continue
        costs[c], chosen[c] = cost, n
        for user, m in users[c]:
            waiting[user][m] -= 1
            if waiting[user][m] == 0:
                heappush(ready, (classes.tree_cost(user, m, costs), user, m))
    return costs, chosen


def term(classes: Alternatives, root: int, chosen: dict[int, int]) -> list[int]:
    """Returns the classes of the chosen term, each once; an empty list if the term contains itself."""
    finished: dict[int, bool] = {}
    stack = [root]
    while stack:
        c = stack[-1]
        if c in finished:
            finished[stack.pop()] = True
            continue
        finished[c] = False
        for child in classes.children[c][chosen[c]]:
            if finished.get(child) is False:
                return []
            stack.append(child)
    return list(finished)


def _price(classes: Alternatives, members: list[int], chosen: dict[int, int]) -> int:
    return sum(classes.own[c][chosen[c]] for c in members)


def exchange(classes: Alternatives, root: int, chosen: dict[int, int]) -> int:
    """Changes ``chosen`` node by node as long as the term's DAG cost falls, and returns that cost.

    Each trial is O(term).  The exchanges need no cap because each reduces the cost.
    """
    members = term(classes, root, chosen)
    cost, before = _price(classes, members, chosen), -1
    while cost != before:
        before = cost
        for c in members:
            best = chosen[c]
            for n in range(len(classes.own[c])):
                chosen[c] = n
                trial = term(classes, root, chosen) if classes.is_priced(c, n, chosen) else []
                if trial and _price(classes, trial, chosen) < cost:
                    cost, best = _price(classes, trial, chosen), n
            chosen[c] = best
        members = term(classes, root, chosen)
    return classes.total(cost)


def search(classes: Alternatives, root: int, chosen: dict[int, int], steps: int) -> int:
    """Changes ``chosen`` to the cheapest term by DAG cost of all choices, and returns that cost.

    It ends after ``steps`` choices of a node with the cheapest term that it met; ``chosen`` must be a term.
    """
    explored = _Search(classes, root, chosen, steps)
    chosen |= explored.best
    return classes.total(explored.cost)


class _Search:
    """Branch and bound: the classes that a term needs are given nodes one by one, each needed class once.

    A partial choice costs at least what it has, and the cheapest node of every class that still waits.
    """

    def __init__(self, classes: Alternatives, root: int, chosen: dict[int, int], steps: int) -> None:
        self._classes = classes
        self._root = root
        self._known = chosen
        self._least = [min(nodes, default=0) for nodes in classes.own]
        self._steps = steps
        self.best = dict(chosen)
        self.cost = _price(classes, term(classes, root, chosen), chosen)
        self._choose({}, (root,), self._least[root])

    def _choose(self, partial: dict[int, int], waiting: tuple[int, ...], bound: int) -> None:
        if bound >= self.cost:
            return
        if not waiting:
            if term(self._classes, self._root, partial):
                self.best, self.cost = dict(partial), bound
            return
        c, rest = waiting[-1], waiting[:-1]
        own, children = self._classes.own[c], self._classes.children[c]
        for n in sorted(range(len(own)), key=own.__getitem__):
            if self._steps <= 0:
                return
            self._steps -= 1
            if not self._classes.is_priced(c, n, self._known):
                continue
            partial[c] = n
            new = tuple(d for d in dict.fromkeys(children[n]) if d not in partial and d not in rest)
            self._choose(partial, rest + new, bound - self._least[c] + own[n] + sum(self._least[d] for d in new))
            del partial[c]
