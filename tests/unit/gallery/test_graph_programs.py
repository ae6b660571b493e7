"""Programs on graphs of every shape, and on the standard library, find what plain Python finds."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.fact_graphs import SHAPES, Edges
from support.llvm import NEEDS_LLVM
from support.python_graphs import standard_library
from vyre.gallery.applications import components, dominators, pagerank, reachability
from vyre.gallery.applications.graphs import Words, bit_rows, compressed_rows, plain_components, target_lists
from vyre.gallery.example import Answers, Inputs

FILES = [pytest.param("cpu", 40, marks=NEEDS_LLVM), ("reference", 12), ("cuda-machine", 8)]
SMALL = {name: graph for name, graph in SHAPES.items() if graph.nodes <= 200}


def check_ranks(session: vyre.Session, graph: Edges) -> None:
    edges = sorted({(source, target) for source, target, _ in graph.edges})
    row_ptr, source = compressed_rows(graph.nodes, [(target, giver) for giver, target in edges])
    degree = np.bincount([giver for giver, _ in edges], minlength=graph.nodes).astype(np.uint64)
    ranks = pagerank.pagerank(session, pagerank.share_ranks.program, row_ptr, source, degree)
    assert ranks.tolist() == pagerank.plain_pagerank(graph.nodes, edges).tolist()


def check_facts(session: vyre.Session, graph: Edges, along: int) -> None:
    found = sorted({(source, target, kind) for source, target, kind in graph.edges})
    row_ptr, col = compressed_rows(graph.nodes, [(source, target) for source, target, _ in found])
    kind = np.array([1 << kind for _, _, kind in found], np.uint32)
    facts = reachability.reachable(session, reachability.derive_facts.program, row_ptr, col, kind, along)
    followed = [(source, target) for source, target, kind in found if along >> kind & 1]
    assert (facts == bit_rows(graph.nodes, reachability.plain_reachable(graph.nodes, followed))).all()


def from_one_entry(graph: Edges) -> tuple[int, list[tuple[int, int]]]:
    """Returns the graph with a node 0 before all others, from which every node can be reached."""
    targets = target_lists(graph.nodes, [(source, target) for source, target, _ in graph.edges])
    entered = {target for _, target, _ in graph.edges}
    seen: set[int] = set()
    entries: list[int] = []
    for node in sorted(range(graph.nodes), key=lambda node: node in entered):
        if node not in seen:
            entries.append(node)
            stack = [node]
            while stack:
                if (at := stack.pop()) not in seen:
                    seen.add(at)
                    stack += targets[at]
    edges = {(source + 1, target + 1) for source, target, _ in graph.edges} | {(0, node + 1) for node in entries}
    return graph.nodes + 1, sorted(edges)


def check_dominators(session: vyre.Session, graph: Edges) -> None:
    nodes, edges = from_one_entry(graph)
    row_ptr, predecessor = compressed_rows(nodes, [(target, source) for source, target in edges])
    found = dominators.find_dominators(session, dominators.share_dominators.program, row_ptr, predecessor)
    assert (found == bit_rows(nodes, dominators.plain_dominators(nodes, edges))).all()


class Counting:
    """A session that counts its dispatches."""

    def __init__(self, session: vyre.Session) -> None:
        self.session = session
        self.dispatches = 0

    def dispatch(self, program: vyre.Program, inputs: Inputs, config: vyre.DispatchConfig | None = None) -> Answers:
        self.dispatches += 1
        return self.session.dispatch(program, inputs, config)


def joined(session: vyre.Session, nodes: int, src: Words, dst: Words) -> int:
    """Finds the components of a graph and checks them; returns how many dispatches that took."""
    counting = Counting(session)
    found = components.components(counting, components.join_labels.program, nodes, src, dst)
    assert found.tolist() == plain_components(nodes, zip(src.tolist(), dst.tolist(), strict=True)).tolist()
    return counting.dispatches


def check_components(session: vyre.Session, graph: Edges) -> None:
    ends = np.array([(source, target) for source, target, _ in graph.edges], np.uint32).reshape(-1, 2)
    joined(session, graph.nodes, ends[:, 0].copy(), ends[:, 1].copy())


def test_the_labels_of_long_paths_are_joined_in_few_rounds() -> None:
    nodes = 2000
    path, shuffled = np.arange(nodes, dtype=np.uint32), np.random.default_rng(3).permutation(nodes).astype(np.uint32)
    with vyre.open("reference") as session:
        assert joined(session, nodes, path[:-1].copy(), path[1:].copy()) == 12
        assert joined(session, nodes, path[1:].copy(), path[:-1].copy()) == 12
        assert joined(session, nodes, shuffled[:-1].copy(), shuffled[1:].copy()) < 100


@pytest.mark.parametrize("backend", [pytest.param("cpu", marks=NEEDS_LLVM), "reference"])
@pytest.mark.parametrize("shape", SMALL)
def test_graphs_of_every_shape(backend: str, shape: str) -> None:
    with vyre.open(backend) as session:
        check_ranks(session, SMALL[shape])
        check_facts(session, SMALL[shape], 0b011)
        check_components(session, SMALL[shape])
        check_dominators(session, SMALL[shape])


@pytest.mark.parametrize(("backend", "files"), FILES)
def test_the_standard_library(backend: str, files: int) -> None:
    graph = standard_library(files)
    assert graph.nodes > 50
    with vyre.open(backend) as session:
        check_ranks(session, graph)
        check_facts(session, graph, 0b101)
        check_components(session, graph)
        check_dominators(session, graph)


def test_a_lost_edge_is_noticed() -> None:
    graph = SMALL["a path"]
    with vyre.open("reference") as session:
        row_ptr, col = compressed_rows(graph.nodes, [(source, target) for source, target, _ in graph.edges[1:]])
        kind = np.ones(col.size, np.uint32)
        facts = reachability.reachable(session, reachability.derive_facts.program, row_ptr, col, kind, 1)
    edges = [(source, target) for source, target, _ in graph.edges]
    assert (facts != bit_rows(graph.nodes, reachability.plain_reachable(graph.nodes, edges))).any()
