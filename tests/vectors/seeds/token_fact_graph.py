"""Token/fact graphs in compressed sparse rows, and their sizes on a device.

Nodes get resident indices 0..n-1 in the order of their ids; edges are sorted by (from, to, kind) and unique.
Payloads are byte ranges of one slab.  Packing is O((n + e) log (n + e)), the layout O(n log n).
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Final

from vyre.domain.errors import PlanError
from vyre.domain.graphs.token_fact import EDGE_RANK, EdgeKind, NodeKind
from vyre.domain.record import U32, U64, U64_MAX, checked_u64, record

PREFIX_RANKS: Final = 16
"""Prefix sums of out-degrees are kept for the 1, 2, 4, ..., 2**15 nodes of highest degree."""


@record
class Node:
    """A node; ``payload_offset`` and ``payload_bytes`` are its byte range of the slab."""

    id: U32
    kind: NodeKind
    payload_offset: U64
    payload_bytes: U64


@record
class Edge:
    """An edge from node ``source`` to node ``target``, by id."""

    source: U32
    target: U32
    kind: EdgeKind


@record
class TokenFactInputs:
    """A graph as lists of nodes and edges; ``payload_bytes`` is the size of the slab."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    payload_bytes: U64


@record
class TokenFactGraph:
    """A graph as columns by resident index; the edges of node i are ``row_offsets[i]..row_offsets[i + 1]``."""

    node_ids: tuple[U32, ...]
    node_kinds: tuple[NodeKind, ...]
    payload_offsets: tuple[U64, ...]
    payload_lengths: tuple[U64, ...]
    row_offsets: tuple[U32, ...]
    column_indices: tuple[U32, ...]
    edge_kinds: tuple[EdgeKind, ...]
    payload_bytes: U64
    token_nodes: U64
    fact_nodes: U64


def pack_token_fact_graph(inputs: TokenFactInputs) -> TokenFactGraph:
    """Returns the graph in rows; raises ``PlanError`` for duplicate nodes, payloads outside the slab and unknown
    nodes.
    """
    seen: set[int] = set()
    for node in inputs.nodes:
        if node.id in seen:
            raise PlanError("DuplicateNode", id=node.id)
        seen.add(node.id)
        end = node.payload_offset + node.payload_bytes
        if end > U64_MAX:
            raise PlanError("PayloadOverflow", id=node.id)
        if end > inputs.payload_bytes:
            raise PlanError("PayloadOutOfBounds", id=node.id, end=end, payload_bytes=inputs.payload_bytes)
    nodes = sorted(inputs.nodes, key=lambda node: node.id)
    resident = {node.id: index for index, node in enumerate(nodes)}
    rows: set[tuple[int, int, EdgeKind]] = set()
    for edge in inputs.edges:
        for end in (edge.source, edge.target):
            if end not in resident:
                raise PlanError("UnknownEdgeNode", id=end)
        rows.add((resident[edge.source], resident[edge.target], edge.kind))
    edges = sorted(rows, key=lambda row: (row[0], row[1], EDGE_RANK[row[2]]))
    degrees = [0] * len(nodes)
    for source, _, _ in edges:
        degrees[source] += 1
    return TokenFactGraph(
        node_ids=tuple(node.id for node in nodes),
        node_kinds=tuple(node.kind for node in nodes),
        payload_offsets=tuple(node.payload_offset for node in nodes),
        payload_lengths=tuple(node.payload_bytes for node in nodes),
        row_offsets=tuple(accumulate(degrees, initial=0)),
        column_indices=tuple(target for _, target, _ in edges),
        edge_kinds=tuple(kind for _, _, kind in edges),
        payload_bytes=inputs.payload_bytes,
        token_nodes=sum(node.kind is NodeKind.TOKEN for node in nodes),
        fact_nodes=sum(node.kind is NodeKind.FACT for node in nodes),
    )


@record
class GraphShape:
    """The numbers of nodes and edges."""

    node_count: U64
    edge_count: U64


@record
class LayoutInputs:
    """The facts on which the layout of a packed graph depends; record widths are in bytes."""

    row_offsets: tuple[U32, ...]
    payload_bytes: U64
    node_record_bytes: U64
    edge_record_bytes: U64


@record
class TokenFactLayout:
    """The bytes of a graph on the device, and the out-degrees that bound the growth of a frontier.

    ``top_out_degree_prefix_sums[k]`` is the number of edges that leave the ``2**k`` nodes of highest out-degree
    together.
    """

    graph_shape: GraphShape
    max_out_degree: U64
    top_out_degree_prefix_sums: tuple[U64, ...]
    node_record_bytes: U64
    edge_record_bytes: U64
    node_bytes: U64
    edge_bytes: U64
    payload_bytes: U64
    resident_bytes: U64

    @property
    def graph_bytes(self) -> int:
        """Returns the bytes of nodes and edges without payload."""
        return self.node_bytes + self.edge_bytes

    def max_expansion(self, active_items: int) -> int:
        """Returns an upper bound of the edges that leave a frontier of ``active_items`` nodes.

        The bound follows from the degree profile up to its last rank, beyond it (and without a profile) from the
        largest degree, and without one from the mean.
        """
        edges = self.graph_shape.edge_count
        if active_items == 0 or edges == 0:
            return 0
        rank = (active_items - 1).bit_length()
        profiled = self.top_out_degree_prefix_sums[rank] if rank < len(self.top_out_degree_prefix_sums) else 0
        degree = self.max_out_degree or -(-edges // max(self.graph_shape.node_count, 1))
        return min(profiled or active_items * degree, edges)


def token_fact_layout(inputs: LayoutInputs) -> TokenFactLayout:
    """Returns sizes and degree profile of a graph in rows; raises ``PlanError``."""
    for name in ("node_record_bytes", "edge_record_bytes"):
        if getattr(inputs, name) == 0:
            raise PlanError("ZeroRecordWidth", field=name)
    offsets = inputs.row_offsets
    if not offsets or offsets[0] != 0 or any(left > right for left, right in pairwise(offsets)):
        raise PlanError("InvalidCsrShape", fix="row offsets begin with 0 and never decrease.")
    nodes, edges = len(offsets) - 1, offsets[-1]
    degrees = sorted((right - left for left, right in pairwise(offsets)), reverse=True)
    prefix = list(accumulate(degrees, initial=0))
    node_bytes = checked_u64(nodes * inputs.node_record_bytes, "node bytes")
    edge_bytes = checked_u64(edges * inputs.edge_record_bytes, "edge bytes")
    return TokenFactLayout(
        graph_shape=GraphShape(nodes, edges),
        max_out_degree=max(degrees, default=0),
        top_out_degree_prefix_sums=tuple(prefix[min(2**rank, nodes)] for rank in range(PREFIX_RANKS)),
        node_record_bytes=inputs.node_record_bytes,
        edge_record_bytes=inputs.edge_record_bytes,
        node_bytes=node_bytes,
        edge_bytes=edge_bytes,
        payload_bytes=inputs.payload_bytes,
        resident_bytes=checked_u64(node_bytes + edge_bytes + inputs.payload_bytes, "resident bytes"),
    )
