"""E-graphs: which terms are equal if some are, computed on the backend of a session.

graph = EGraph()
a, b = graph.add("a"), graph.add("b")
fa, fb = graph.add("f", a), graph.add("f", b)
graph.equate(a, b)
assert graph.close(session).same(fa, fb)

docs/egraphs.md describes them.
"""

from __future__ import annotations

from vyre.graphs.closed_egraph import CanonicalRows, CheapestTerm, ClosedEGraph
from vyre.graphs.egraph import EGraph

__all__ = ["CanonicalRows", "CheapestTerm", "ClosedEGraph", "EGraph"]
