"""Graphs as columns are packed as the rules of the domain pack them, and wrong columns are refused in words."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from support.fact_graphs import SHAPES
from vectors.seeds.token_fact_graph import (
    Edge,
    LayoutInputs,
    Node,
    TokenFactInputs,
    pack_token_fact_graph,
    token_fact_layout,
)
from vyre import InvalidInput, PlanError
from vyre.graphs import EdgeKind, NodeKind, fact_graph
from vyre.graphs.csr import compressed_rows


def random_inputs(seed: int) -> TokenFactInputs:
    chance = Random(seed)
    ids = chance.sample(range(50 if seed % 2 else 2**32), chance.randrange(1, 30))
    nodes = [Node(each, chance.choice(list(NodeKind)), chance.randrange(80), chance.randrange(20)) for each in ids]
    edges = [
        Edge(chance.choice(ids), chance.choice(ids), chance.choice(list(EdgeKind)))
        for _ in range(chance.randrange(100))
    ]
    return TokenFactInputs(tuple(nodes), tuple(edges + edges[:3]), 100)


@pytest.mark.parametrize("seed", range(40))
def test_columns_hold_what_the_domain_packs(seed: int) -> None:
    inputs = random_inputs(seed)
    packed = pack_token_fact_graph(inputs)
    edge_kinds: list[EdgeKind] = [edge.kind for edge in inputs.edges]
    node_kinds: list[NodeKind] = [node.kind for node in inputs.nodes]
    graph = fact_graph(
        [node.id for node in inputs.nodes],
        [edge.source for edge in inputs.edges],
        [edge.target for edge in inputs.edges],
        edge_kinds,
        node_kinds=node_kinds,
        payload=bytes(100),
        payload_offsets=[node.payload_offset for node in inputs.nodes],
        payload_lengths=[node.payload_bytes for node in inputs.nodes],
    )
    assert graph.node_ids.tolist() == list(packed.node_ids)
    assert [list(NodeKind)[kind] for kind in graph.node_kinds] == list(packed.node_kinds)
    assert graph.payload_offsets.tolist() == list(packed.payload_offsets)
    assert graph.payload_lengths.tolist() == list(packed.payload_lengths)
    assert graph.rows.rows.tolist() == list(packed.row_offsets)
    assert graph.rows.targets.tolist() == list(packed.column_indices)
    assert [list(EdgeKind)[kind] for kind in graph.rows.kinds] == list(packed.edge_kinds)
    layout = token_fact_layout(LayoutInputs(packed.row_offsets, 100, node_record_bytes=5, edge_record_bytes=5))
    assert graph.nbytes == layout.resident_bytes + 4  # the end of the last row


@pytest.mark.parametrize("name", SHAPES)
def test_huge_graphs_are_sorted_by_other_keys_to_the_same_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if kinds had so many bits that a node, another one and a kind do not fit into one key."""
    nodes, edges = SHAPES[name]
    sources, targets = (np.array([edge[at] for edge in edges], np.uint32) for at in (0, 1))
    kinds = np.array([edge[2] for edge in edges], np.uint8)
    usual = compressed_rows(nodes, sources, targets, kinds)
    packed = sorted(set(edges))
    assert usual.targets.tolist() == [edge[1] for edge in packed]
    assert usual.kinds.tolist() == [edge[2] for edge in packed]
    monkeypatch.setattr("vyre.graphs.csr._KIND_BITS", 64)
    huge = compressed_rows(nodes, sources, targets, kinds)
    assert huge.rows.tolist() == usual.rows.tolist()
    assert huge.targets.tolist() == usual.targets.tolist() and huge.kinds.tolist() == usual.kinds.tolist()


def test_one_kind_stands_for_all_edges_and_numbers_for_kinds() -> None:
    assert fact_graph(3, [0, 1], [1, 2], EdgeKind.SEMANTIC_FACT).rows.kinds.tolist() == [2, 2]
    edge_kinds: list[EdgeKind | int] = [31, EdgeKind.MACRO_EXPANSION]
    assert fact_graph(3, [0, 1], [1, 2], edge_kinds).rows.kinds.tolist() == [31, 1]
    assert fact_graph(3, [0], [1]).rows.kinds.tolist() == [0]
    node_kinds: list[NodeKind | int] = [NodeKind.FACT, 200]
    assert fact_graph(2, [], [], node_kinds=node_kinds).node_kinds.tolist() == [3, 200]
    assert repr(fact_graph([5, 2], [5], [2])) == "<FactGraph of 2 nodes and 1 edges>"


def test_columns_are_taken_as_they_are_where_they_can_be() -> None:
    payload = np.arange(5, dtype=np.uint8)
    graph = fact_graph(np.array([4, 9], np.int64), np.array([9], np.uint16), [4], payload=payload)
    assert graph.payload is payload
    assert graph.places_of([9, 4, 9]).tolist() == [1, 0, 1]
    assert graph.nbytes == 3 * 4 + 4 + 1 + 2 + 5


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"nodes": True}, InvalidInput, "nodes=True. Fix: pass the ids"),
    ({"nodes": -1}, InvalidInput, "nodes=-1. Fix: pass a number from 0"),
    ({"nodes": 2**32}, InvalidInput, "nodes=4294967296. Fix"),
    ({"nodes": [1, 2, 1]}, PlanError, "duplicate node: id = 1. Fix: list every node once"),
    ({"nodes": [1.5]}, InvalidInput, "nodes is a list of float64. Fix: pass whole numbers"),
    ({"sources": [0, 3]}, InvalidInput, "sources holds 3, and no node has this id"),
    ({"targets": [0, 7]}, InvalidInput, "targets holds 7, and no node has this id"),
    ({"targets": [0]}, InvalidInput, "targets has 1 elements, and 2 are needed"),
    ({"sources": [[0, 1]]}, InvalidInput, "sources has 2 axes. Fix: pass a column"),
    ({"sources": [0, -1]}, InvalidInput, "sources holds -1. Fix: pass numbers from 0 to 4294967295"),
    ({"sources": [0, 2**32]}, InvalidInput, "sources holds 4294967296"),
    ({"sources": np.array([True, False])}, InvalidInput, "sources is an ndarray of bool"),
    ({"edge_kinds": 32}, InvalidInput, "edge_kinds=32. Fix: pass a number from 0 to 31"),
    ({"edge_kinds": [0, 40]}, InvalidInput, "edge_kinds holds 40. Fix: pass numbers from 0 to 31"),
    ({"edge_kinds": [0]}, InvalidInput, "edge_kinds has 1 elements, and 2 are needed"),
    ({"edge_kinds": ["call", "call"]}, InvalidInput, "edge_kinds holds a str"),
    ({"edge_kinds": [NodeKind.FACT, NodeKind.FACT]}, InvalidInput, "edge_kinds holds a NodeKind"),
    ({"edge_kinds": NodeKind.FACT}, InvalidInput, "edge_kinds=.*NodeKind.FACT.* Fix: pass a list"),
    ({"node_kinds": [0, 1, 256]}, InvalidInput, "node_kinds holds 256"),
    ({"payload": b"abc", "payload_lengths": [1, 1, 4]}, PlanError, "payload out of bounds: id = 2, end = 4"),
    ({"payload_offsets": [0, 0, 2**64 - 1], "payload_lengths": [0, 0, 1]}, PlanError, "payload overflow: id = 2"),
    ({"payload_offsets": [0]}, InvalidInput, "payload_offsets has 1 elements, and 3 are needed"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), REFUSED)
def test_wrong_columns_are_refused(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"nodes": 3, "sources": [0, 1], "targets": [1, 2], **wrong}
    with pytest.raises(error, match=message):
        fact_graph(given.pop("nodes"), given.pop("sources"), given.pop("targets"), **given)
