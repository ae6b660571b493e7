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

if TYPE_CHECKING:
    from vyre.graphs.egraph import EGraph as EGraph
    from vyre.graphs.egraph_closed import CanonicalRows as CanonicalRows
    from vyre.graphs.egraph_closed import CheapestTerm as CheapestTerm
    from vyre.graphs.egraph_closed import ClosedEGraph as ClosedEGraph
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
