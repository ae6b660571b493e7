"""Invariants of token/fact graphs and their layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.token_fact_graph import (
    Edge,
    GraphShape,
    LayoutInputs,
    Node,
    TokenFactInputs,
    pack_token_fact_graph,
    token_fact_layout,
)
from vyre.domain.errors import PlanError
from vyre.domain.graphs.token_fact import EdgeKind, NodeKind

IDS = [3, 1, 8, 5]
NODES = tuple(Node(i, kind, i, 2) for i, kind in zip(IDS, NodeKind, strict=False))
EDGES = st.lists(st.builds(Edge, st.sampled_from(IDS), st.sampled_from(IDS), st.sampled_from(EdgeKind)), max_size=12)


@given(EDGES)
def test_rows_hold_every_edge_once(edges: list[Edge]) -> None:
    graph = pack_token_fact_graph(TokenFactInputs(NODES, tuple(edges), 10))
    ids = graph.node_ids
    assert list(ids) == sorted(IDS)
    found = [
        Edge(ids[row], ids[graph.column_indices[place]], graph.edge_kinds[place])
        for row in range(len(ids))
        for place in range(graph.row_offsets[row], graph.row_offsets[row + 1])
    ]
    order = list(EdgeKind)
    assert found == sorted(set(edges), key=lambda e: (e.source, e.target, order.index(e.kind)))
    assert pack_token_fact_graph(TokenFactInputs(NODES[::-1], tuple(edges[::-1]), 10)) == graph
    assert (graph.token_nodes, graph.fact_nodes) == (1, 1)


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_layout(degrees: list[int], node_bytes: int, edge_bytes: int, payload: int) -> None:
    offsets = tuple(sum(degrees[:i]) for i in range(len(degrees) + 1))
    layout = token_fact_layout(LayoutInputs(offsets, payload, node_bytes, edge_bytes))
    assert layout.resident_bytes == len(degrees) * node_bytes + sum(degrees) * edge_bytes + payload
    top = sorted(degrees, reverse=True)
    assert layout.top_out_degree_prefix_sums == tuple(sum(top[: 2**k]) for k in range(16))
    assert layout.max_out_degree == max(degrees, default=0)


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(0, 25), st.booleans())
def test_no_frontier_expands_beyond_the_bound(degrees: list[int], active: int, profiled: bool) -> None:
    offsets = tuple(sum(degrees[:i]) for i in range(len(degrees) + 1))
    layout = token_fact_layout(LayoutInputs(offsets, 0, 1, 1))
    if not profiled:
        layout = replace(layout, top_out_degree_prefix_sums=(0,) * 16)
    assert sum(sorted(degrees, reverse=True)[:active]) <= layout.max_expansion(active) <= sum(degrees)
    assert layout.graph_bytes == len(degrees) + sum(degrees)


def test_expansion_beyond_the_profile_and_without_degrees() -> None:
    layout = token_fact_layout(LayoutInputs((0, 3, 4), 0, 1, 1))
    large = replace(layout, graph_shape=GraphShape(10**6, 10**9))
    assert large.max_expansion(2**15 + 1) == 3 * (2**15 + 1)
    flat = replace(large, max_out_degree=0, top_out_degree_prefix_sums=())
    assert flat.max_expansion(2) == 2_000


@pytest.mark.parametrize("offsets", [(), (1, 2), (0, 2, 1)])
def test_malformed_rows(offsets: tuple[int, ...]) -> None:
    with pytest.raises(PlanError) as error:
        token_fact_layout(LayoutInputs(offsets, 0, 1, 1))
    assert error.value.kind == "InvalidCsrShape"


@pytest.mark.parametrize("widths", [(2**64 - 1, 1), (1, 2**64 - 1)])
def test_layouts_never_wrap(widths: tuple[int, int]) -> None:
    with pytest.raises(PlanError) as error:
        token_fact_layout(LayoutInputs((0, 1, 2), 1, *widths))
    assert error.value.kind == "ByteCountOverflow"
