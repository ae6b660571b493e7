"""Random e-graphs, and their classes by three closures on the host: naive, the optimizer's, and that of the plans."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from vyre.domain.graphs.egraph import EGraphSnapshot, ENodeRow
from vyre.domain.ir.node import Node
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.graph import EGraph as Terms
from vyre.domain.optimize.egraph.graph import Reason, Why
from vyre.domain.optimize.egraph.heads import Head, interned
from vyre.egraph import EGraph
from vyre.policies.egraphs.egraph_kernels import FixedPointInputs, structural_fixed_point

Words = npt.NDArray[np.uint32]
_SAID: Final = Reason(Why.LAW, "said")


def random_egraph(seed: int, most: int = 60) -> EGraph:
    """Returns terms over few operators, so that many are equal, with equalities; of at most ``most`` terms."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, most + 1))
    leaves = int(rng.integers(1, count + 1))
    return egraph_of(rng, count, leaves, int(rng.integers(1, 5)), int(rng.integers(0, count)), int(rng.integers(1, 5)))


def egraph_of(rng: np.random.Generator, count: int, leaves: int, operators: int, equalities: int, arity: int) -> EGraph:
    """Returns ``count`` terms: first different leaves, then terms of 0 to ``arity`` children that stand before them."""
    operator = rng.integers(0, operators, count)
    operator[:leaves] = operators + np.arange(leaves)
    arities = rng.integers(0, arity + 1, count)
    arities[:leaves] = 0
    owner = np.repeat(np.arange(count), arities)
    children = (rng.random(len(owner)) * owner).astype(np.uint32)
    offsets = np.concatenate(([0], np.cumsum(arities)))
    return EGraph.from_columns(operator, offsets, children, rng.integers(0, count, (equalities, 2)))


def chain(length: int) -> EGraph:
    """Returns f(f(...a)) and f(f(...b)) to a depth, and a = b: every union is what makes the next two terms equal."""
    operator = np.zeros(2 * length + 2, np.uint32)
    operator[:2] = 1, 2
    offsets = np.concatenate(([0, 0], np.arange(2 * length + 1)))
    return EGraph.from_columns(operator, offsets, np.arange(2 * length), [(0, 1)])


def rows_of(graph: EGraph) -> list[tuple[int, tuple[int, ...]]]:
    """Returns operator and children of every term."""
    children = graph.children.tolist()
    spans = pairwise(graph.offsets.tolist())
    return [(op, tuple(children[a:b])) for op, (a, b) in zip(graph.operators.tolist(), spans, strict=True)]


def naive_classes(graph: EGraph) -> Words:
    """Looks at all terms again and again; for terms that are classes of their own."""
    rows = rows_of(graph)
    parent = list(range(len(rows)))

    def find(term: int) -> int:
        while parent[term] != term:
            parent[term] = parent[parent[term]]
            term = parent[term]
        return term

    def unite(one: int, other: int) -> bool:
        a, b = sorted((find(one), find(other)))
        parent[b] = a
        return a != b

    for one, other in graph.equalities.tolist():
        unite(one, other)
    changed = True
    while changed:
        first: dict[tuple[int, ...], int] = {}
        keys = [(op, *map(find, children)) for op, children in rows]
        changed = sum(unite(first.setdefault(key, term), term) for term, key in enumerate(keys)) > 0
    return np.array([find(term) for term in range(len(rows))], np.uint32)


def optimizer_classes(graph: EGraph) -> Words:
    """The closure of the optimizer's e-graph; for terms whose children stand before them."""
    terms, numbers = Terms(), list[int]()
    for op, children in rows_of(graph):
        head = interned(Head(Node, (op, len(children)), ScalarType.U32))
        numbers.append(terms.term(head, tuple(numbers[child] for child in children)))
    for one, other in graph.equalities.tolist():
        terms.union(numbers[one], numbers[other], _SAID)
    terms.rebuild()
    first: dict[int, int] = {}
    return np.array([first.setdefault(terms.find(number), at) for at, number in enumerate(numbers)], np.uint32)


def snapshot_of(graph: EGraph) -> EGraphSnapshot:
    """Returns the rows of an e-graph; an equality is two rows of an operator of its own."""
    classes = graph.classes.tolist()
    rows = [ENodeRow(c, str(op), children) for c, (op, children) in zip(classes, rows_of(graph), strict=True)]
    pairs = graph.equalities.tolist()
    return EGraphSnapshot((*rows, *(ENodeRow(c, f"= {at}", ()) for at, pair in enumerate(pairs) for c in pair)))


def planned_classes(graph: EGraph) -> Words:
    """The closure by rounds of ``plan_structural_equivalences``."""
    found = structural_fixed_point(FixedPointInputs(snapshot_of(graph)))
    return np.array([row.eclass_id for row in found.snapshot.rows[: len(graph)]], np.uint32)
