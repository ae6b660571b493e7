"""E-graphs: which terms are equal if some are, computed on the backend of a session.

graph = EGraph()
a, b = graph.add("a"), graph.add("b")
fa, fb = graph.add("f", a), graph.add("f", b)
graph.equate(a, b)
assert graph.close(session).same(fa, fb)

docs/egraphs.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.domain.lazy_names import importer

if TYPE_CHECKING:
    from vyre.graphs.egraph import EGraph
    from vyre.graphs.egraph_closed import CanonicalRows, CheapestTerm, ClosedEGraph

__all__ = ["CanonicalRows", "CheapestTerm", "ClosedEGraph", "EGraph"]
_CLOSED = dict.fromkeys(__all__, "vyre.graphs.egraph_closed")
__getattr__ = importer(__name__, _CLOSED | {"EGraph": "vyre.graphs.egraph"})
