"""Questions about the import, definition and call graph of the standard library, answered as plain Python answers."""

from __future__ import annotations

import pytest

import vyre
from support.fact_graphs import FAR, components, distances
from support.llvm import NEEDS_LLVM
from support.python_graphs import CALLS, DEFINES, IMPORTS, standard_library
from vyre.graphs import FactSession, fact_graph

FILES = [pytest.param("cpu", 400, marks=NEEDS_LLVM), ("reference", 60), ("cuda-machine", 12)]
KINDS = (None, [IMPORTS], [DEFINES], [CALLS], [DEFINES, CALLS])


@pytest.mark.parametrize(("backend", "files"), FILES)
def test_reach_and_components_of_the_standard_library(backend: str, files: int) -> None:
    graph = standard_library(files)
    assert {kind for _, _, kind in graph.edges} == {IMPORTS, DEFINES, CALLS}
    busiest = max(range(files), key=[source for source, _, kind in graph.edges if kind == IMPORTS].count)
    with vyre.open(backend) as session, FactSession(session, fact_graph(*graph.columns)) as facts:
        for kinds in KINDS:
            wanted = distances(graph, [busiest], kinds)
            assert facts.reach([busiest], kinds).distances.tolist() == wanted
            assert facts.components(kinds).labels.tolist() == components(graph, kinds)
        assert any(0 < level < FAR for level in distances(graph, [busiest], [IMPORTS]))
