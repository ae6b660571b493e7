"""E-graphs of a wanted size: random terms, and a chain of merges that wait for each other."""

from __future__ import annotations

import numpy as np

from vyre.egraph import EGraph


def random_terms(
    rng: np.random.Generator, count: int, leaves: int, operators: int, equalities: int, arity: int
) -> EGraph:
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
