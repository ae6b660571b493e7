"""Random e-graphs, and their classes by two closures on the host: a naive one, and that of the plans."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from benchmarks.egraph_rivals import rows_of
from benchmarks.egraph_shapes import random_terms

from vectors.seeds.egraph_image import EGraphSnapshot, ENodeRow
from vectors.seeds.egraph_plans import FixedPointInputs, structural_fixed_point
from vyre.egraph import EGraph

Words = npt.NDArray[np.uint32]


def random_egraph(seed: int, most: int = 60) -> EGraph:
    """Returns terms over few operators, so that many are equal, with equalities; of at most ``most`` terms."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, most + 1))
    leaves = int(rng.integers(1, count + 1))
    return random_terms(
        rng, count, leaves, int(rng.integers(1, 5)), int(rng.integers(0, count)), int(rng.integers(1, 5))
    )


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
