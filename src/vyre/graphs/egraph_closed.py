"""Closed e-graphs: which terms are equal, the rows that remain, and the cheapest terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vyre.domain.arguments import expect, whole
from vyre.domain.errors import InvalidInput
from vyre.domain.frozen import frozen
from vyre.domain.graphs.extraction import Alternatives, cheapest_trees, exchange
from vyre.domain.graphs.ordering import needed_first
from vyre.domain.printable import shown
from vyre.domain.record import U64_MAX

if TYPE_CHECKING:
    from vyre.app.fixpoint import FixedPointResult
    from vyre.graphs.columns import Words
    from vyre.graphs.egraph_terms import Terms
    from vyre.policies.egraphs.egraph_kernels import ClosurePlan


class CanonicalRows(NamedTuple):
    """The rows of a closed e-graph, of which no two are equal, in columns of u32.

    ``terms``: shape (r,), ascending, the term that each row was.  ``operators``: shape (r,).  ``offsets``: shape
    (r + 1,); the children of row i are ``children[offsets[i] : offsets[i + 1]]``, the representatives of their classes.
    ``classes``: shape (r,), the representative of the class of each row.
    """

    terms: Words
    operators: Words
    offsets: Words
    children: Words
    classes: Words


class CheapestTerm(NamedTuple):
    """A term of least cost.

    ``cost`` is at most 2^64 - 1, which also stands for all that is more.  ``nodes`` are its operators with the places
    of their children in ``nodes``, every child before its parent; the last node is the term itself, and a node that is
    used twice stands there once.
    """

    cost: int
    nodes: tuple[tuple[str, tuple[int, ...]], ...]

    def __str__(self) -> str:
        """Returns the term written out, such as ``f(a, g(b))``; shared nodes are repeated."""
        texts: list[str] = []
        for operator, children in self.nodes:
            texts.append(f"{operator}({', '.join(texts[child] for child in children)})" if children else operator)
        return texts[-1]


@frozen(eq=False)
class ClosedEGraph:
    """The result of a closure of an e-graph, on the host.

    ``classes``: shape (n,), u32, the representative of the class of every term, which is the smallest class of those
    that became one.  ``rounds``: the rounds that the closure took.  ``fixed_point`` tells how they were repeated, None
    for an e-graph without terms.  ``plan``: the plan of the closure.
    """

    _graph: Terms
    plan: ClosurePlan
    classes: Words
    rounds: int
    fixed_point: FixedPointResult | None
    _rows: CanonicalRows | None

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        return f"<ClosedEGraph {len(self)} term(s) in {self.class_count} class(es) after {self.rounds} round(s)>"

    @property
    def class_count(self) -> int:
        """The number of classes.  O(n log n)."""
        return len(np.unique(self.classes))

    @property
    def rows(self) -> CanonicalRows:
        """The rows that are left when of equal rows one is kept.

        Raises ``InvalidInput`` where the closure was asked not to read them.
        """
        if self._rows is None:
            raise InvalidInput("the rows were left on the device", fix="close the e-graph with rows=True.")
        return self._rows

    def same(self, one: int, other: int) -> bool:
        """Returns whether two terms are equal.  Raises ``InvalidInput`` for what is no term of the closed e-graph."""
        return bool(self._class_of(one) == self._class_of(other))

    def members(self, term: int) -> Words:
        """Returns all terms that are equal to a term, ascending.  O(n).  Raises ``InvalidInput`` as ``same`` does."""
        return np.flatnonzero(self.classes == self._class_of(term)).astype(np.uint32)

    def extract(
        self, term: int, costs: Mapping[str, int] | None = None, *, shared: bool = False
    ) -> CheapestTerm | None:
        """Returns the cheapest term that is equal to ``term``, or None if every one would contain itself.

        ``costs`` are the costs of operators by name, from 0 to 2^64 - 1, and 1 for all others.  A node that is used
        twice is paid for twice, or once where ``shared`` is true: then the term is never dearer than without, and
        not always the cheapest, since to find that one is NP-hard.  O(r log r) in all rows, of which Python visits
        those that the term may be made of.

        Raises ``InvalidInput`` as ``rows`` and ``same`` do, and for costs that are no such numbers.
        """
        expect("shared", shared, bool, "True or False")
        fix = "use whole numbers from 0 to 2^64 - 1."
        prices = {
            operator: whole(f"the cost of {shown(operator)}", cost, 0, U64_MAX, fix, InvalidInput)
            for operator, cost in dict(costs or {}).items()
        }
        rows, classes = self._alternatives(int(self._class_of(term)), prices)
        trees, chosen = cheapest_trees(classes)
        if 0 not in trees:
            return None
        cost = exchange(classes, 0, chosen) if shared else trees[0]
        return CheapestTerm(cost, self._written(rows, classes, chosen))

    def _alternatives(self, label: int, prices: Mapping[str, int]) -> tuple[list[list[int]], Alternatives]:
        """Returns the classes that terms of a class are made of, that class first, and the row of each of their
        nodes.
        """
        rows = self.rows
        order = np.argsort(rows.classes, kind="stable")
        sorted_classes = rows.classes[order]
        numbers = {label: 0}
        waiting = [label]
        row_of: list[list[int]] = []
        children: list[list[tuple[int, ...]]] = []
        for each in waiting:
            first, end = np.searchsorted(sorted_classes, each), np.searchsorted(sorted_classes, each, side="right")
            row_of.append(order[first:end].tolist())
            children.append([])
            for row in row_of[-1]:
                below = rows.children[rows.offsets[row] : rows.offsets[row + 1]].tolist()
                waiting += [child for child in dict.fromkeys(below) if child not in numbers]
                children[-1].append(tuple(numbers.setdefault(child, len(numbers)) for child in below))
        own = [[prices.get(self._name(row), 1) for row in nodes] for nodes in row_of]
        return row_of, Alternatives(own, children, U64_MAX)

    def _name(self, row: int) -> str:
        return self._graph.operator_name(int(self.rows.operators[row]))

    def _written(
        self, rows: list[list[int]], classes: Alternatives, chosen: Mapping[int, int]
    ) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Returns the chosen nodes that class 0 needs, children before parents, without recursion."""
        places: dict[int, int] = {}
        nodes: list[tuple[str, tuple[int, ...]]] = []
        for eclass in needed_first(0, places, lambda top: classes.children[top][chosen[top]]):
            children = tuple(places[below] for below in classes.children[eclass][chosen[eclass]])
            places[eclass] = len(nodes)
            nodes.append((self._name(rows[eclass][chosen[eclass]]), children))
        return tuple(nodes)

    def _class_of(self, term: int) -> np.uint32:
        if not isinstance(term, int | np.integer) or isinstance(term, bool) or not 0 <= term < len(self):
            raise InvalidInput(
                f"term {shown(term)} is asked for, and {len(self)} were closed, numbered from 0",
                fix="use the number of a term that was added before the e-graph was closed.",
            )
        number: np.uint32 = self.classes[term]
        return number
