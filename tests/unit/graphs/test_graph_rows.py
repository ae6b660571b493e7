"""The suite ``graphs`` compares the answers of both sides, and refuses a side that answers otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks import graph_rows
from benchmarks.graph_rows import Edges, measure_components, measure_loading, measure_reach
from benchmarks.harness import Samples
from benchmarks.site import CPU_PROCESSOR

from support.llvm import NEEDS_LLVM

pytest.importorskip("scipy", reason="SciPy is not installed; reach and components are compared with plain Python")
pytestmark = NEEDS_LLVM


@pytest.mark.parametrize("measure", [measure_reach, measure_components, measure_loading])
def test_both_sides_answer_alike(measure: Callable[..., Samples]) -> None:
    samples = measure(CPU_PROCESSOR, 2, nodes=3000, edges=9000)  # has nodes that are not reached, and equal edges
    assert (len(samples.ours), len(samples.theirs)) == (2, 2)


@pytest.mark.parametrize("measure", [measure_reach, measure_components])
def test_other_answers_are_refused(measure: Callable[..., Samples], monkeypatch: pytest.MonkeyPatch) -> None:
    def half_of(edges: Edges) -> object:
        return matrix(Edges(edges.nodes, edges.sources[::2], edges.targets[::2]))

    matrix = graph_rows._matrix
    monkeypatch.setattr(graph_rows, "_matrix", half_of)
    with pytest.raises(AssertionError, match="the sides find other"):
        measure(CPU_PROCESSOR, 1, nodes=3000, edges=9000)
