"""Token/fact graphs as columns of NumPy: nodes with kinds and payloads, and edges of up to 32 kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre.domain.arguments import items_of
from vyre.domain.errors import InvalidInput, PlanError
from vyre.domain.frozen import frozen
from vyre.domain.graphs.token_fact import EDGE_RANK, NODE_RANK, EdgeKind, NodeKind
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.printable import kind_of, shown
from vyre.domain.record import U32_MAX, U64_MAX
from vyre.graphs.columns import Bytes, Longs, Words, column
from vyre.graphs.csr import MOST_KINDS, Rows, compressed_rows

Kinds: TypeAlias = "Iterable[EdgeKind | int] | EdgeKind | int"
ALL_KINDS: Final[int] = 2**MOST_KINDS - 1


@frozen(eq=False)
class FactGraph:
    """A graph as columns.  Node i has the i-th id; ``rows`` counts nodes by their place, not by their id.

    ``node_ids`` (u32, ascending), ``node_kinds`` (u8), ``payload_offsets`` and ``payload_lengths`` (u64, bytes of
    ``payload``) have an element for each node.  ``rows`` holds the edges in compressed sparse rows.  ``payload`` (u8)
    is the slab of which nodes have parts.
    """

    node_ids: Words
    node_kinds: Bytes
    payload_offsets: Longs
    payload_lengths: Longs
    rows: Rows
    payload: Bytes

    @property
    def nodes(self) -> int:
        """Returns the number of nodes."""
        return self.node_ids.size

    @property
    def edges(self) -> int:
        """Returns the number of edges; equal ones count once."""
        return self.rows.targets.size

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the columns that a session uploads: rows, targets, kinds and payload."""
        columns = (self.rows.rows, self.rows.targets, self.rows.kinds, self.node_kinds, self.payload)
        return sum(each.nbytes for each in columns)

    def places_of(self, ids: npt.ArrayLike, name: str = "ids") -> Words:
        """Returns the places of nodes by their ids, as u32.

        Raises ``InvalidInput`` for an id that no node has, and for anything but a column of whole numbers.
        """
        asked_ids: Words = column(name, ids, np.uint32)
        places = np.searchsorted(self.node_ids, asked_ids)
        is_node = places < self.nodes
        is_node[is_node] = self.node_ids[places[is_node]] == asked_ids[is_node]
        if not is_node.all():
            unknown = int(asked_ids[np.argmin(is_node)])
            raise InvalidInput(f"{name} holds {unknown}, and no node has this id", fix="pass ids of the graph's nodes.")
        return places.astype(np.uint32)

    def __repr__(self) -> str:
        return f"<FactGraph of {self.nodes} nodes and {self.edges} edges>"


def fact_graph(
    nodes: int | npt.ArrayLike,
    sources: npt.ArrayLike,
    targets: npt.ArrayLike,
    edge_kinds: npt.ArrayLike | Iterable[EdgeKind | int] | EdgeKind | int = EdgeKind.TOKEN_FLOW,
    *,
    node_kinds: npt.ArrayLike | Iterable[NodeKind | int] | NodeKind | int = NodeKind.TOKEN,
    payload: bytes | npt.ArrayLike = b"",
    payload_offsets: npt.ArrayLike | None = None,
    payload_lengths: npt.ArrayLike | None = None,
) -> FactGraph:
    """Returns a graph of columns: nodes sorted by id, edges sorted by source, target and kind, equal edges once.

    ``nodes``: their ids, each once, in any order, or their number if the ids are 0, 1, 2, and so on.  ``sources`` and
    ``targets``: the ids at the ends of each edge.  ``edge_kinds``: one kind for each edge, or for all; kinds are
    members of ``EdgeKind``, or numbers below 32 of one's own.  ``node_kinds``: likewise, members of ``NodeKind`` or
    numbers below 256.  ``payload``: bytes of which node i has ``payload_lengths[i]`` from ``payload_offsets[i]`` on, in
    the order in which ``nodes`` lists the nodes; none where they are left out.

    Raises ``InvalidInput`` for columns that are no whole numbers, do not fit together, or name nodes that there are
    not, and ``PlanError`` (``DuplicateNode``, ``PayloadOverflow``, ``PayloadOutOfBounds``) like
    ``pack_token_fact_graph``.  O(nodes log nodes + edges log edges).
    """
    ids = _ids(nodes)
    order = np.argsort(ids, kind="stable")
    node_ids: Words = ids[order]
    twice = np.flatnonzero(node_ids[1:] == node_ids[:-1])
    if twice.size:
        raise PlanError("DuplicateNode", fix="list every node once.", id=int(node_ids[twice[0]]))
    slab = _slab(payload)
    offsets = _payload_column("payload_offsets", payload_offsets, ids.size)
    lengths = _payload_column("payload_lengths", payload_lengths, ids.size)
    _check_payloads(ids, offsets, lengths, slab.size)
    from_ids: Words = column("sources", sources, np.uint32)
    to_ids: Words = column("targets", targets, np.uint32, from_ids.size)
    if from_ids.size > U32_MAX:
        raise InvalidInput(f"{from_ids.size} edges", fix=f"pass at most {U32_MAX}.")
    kinds = _kinds("edge_kinds", edge_kinds, EDGE_RANK, from_ids.size, MOST_KINDS)
    graph = FactGraph(
        node_ids=node_ids,
        node_kinds=_kinds("node_kinds", node_kinds, NODE_RANK, ids.size, 256)[order],
        payload_offsets=offsets[order],
        payload_lengths=lengths[order],
        rows=Rows(np.zeros(ids.size + 1, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.uint8)),
        payload=slab,
    )
    if not _are_places(node_ids):
        from_ids, to_ids = graph.places_of(from_ids, "sources"), graph.places_of(to_ids, "targets")
    else:
        _check_ends(graph, from_ids, to_ids)
    rows = compressed_rows(ids.size, from_ids, to_ids, kinds)
    return replace(graph, rows=rows)


def kinds_mask(along: Kinds | None) -> int:
    """Returns a set of kinds of edges as bits; None stands for all kinds.  Raises ``InvalidInput``."""
    if along is None:
        return ALL_KINDS
    is_number = whole_number(along) is not None
    kinds: list[Any] = [along] if is_number or isinstance(along, EdgeKind | int) else list(items_of("along", along))
    if not kinds:
        raise InvalidInput("along names no kind of edges", fix="name at least one, or pass None for all.")
    mask = 0
    for kind in kinds:
        number = EDGE_RANK[kind] if isinstance(kind, EdgeKind) else whole_number(kind)
        if number is None or not 0 <= number < MOST_KINDS:
            raise InvalidInput(
                f"along holds {shown(kind)}", fix=f"name members of EdgeKind, or numbers from 0 to {MOST_KINDS - 1}."
            )
        mask |= 1 << number
    return mask


def _ids(nodes: int | npt.ArrayLike) -> Words:
    if isinstance(nodes, bool):
        raise InvalidInput(f"nodes={nodes!r}", fix="pass the ids of the nodes, or their number.")
    number = None if isinstance(nodes, np.ndarray) else whole_number(nodes)
    if number is not None:
        if not 0 <= number < U32_MAX:
            raise InvalidInput(f"nodes={shown(nodes)}", fix=f"pass a number from 0 to {U32_MAX - 1}.")
        return np.arange(number, dtype=np.uint32)
    ids: Words = column("nodes", nodes, np.uint32)
    return ids


def _are_places(node_ids: Words) -> bool:
    """Returns whether sorted ids are 0, 1, 2, and so on, so that they are the places of the nodes too."""
    return node_ids.size == 0 or int(node_ids[-1]) == node_ids.size - 1


def _check_ends(graph: FactGraph, *ends: Words) -> None:
    for name, each in zip(("sources", "targets"), ends, strict=True):
        if each.size and int(each.max()) >= graph.nodes:
            graph.places_of(each, name)  # raises for the first unknown id


def _slab(payload: bytes | npt.ArrayLike) -> Bytes:
    if isinstance(payload, bytes | bytearray | memoryview):
        return np.frombuffer(bytes(payload), np.uint8)
    slab: Bytes = column("payload", payload, np.uint8)
    return slab


def _payload_column(name: str, values: npt.ArrayLike | None, nodes: int) -> Longs:
    longs: Longs = np.zeros(nodes, np.uint64) if values is None else column(name, values, np.uint64, nodes)
    return longs


def _check_payloads(ids: Words, offsets: Longs, lengths: Longs, slab: int) -> None:
    overflow = np.flatnonzero(offsets > np.uint64(U64_MAX) - lengths)
    if overflow.size:
        raise PlanError("PayloadOverflow", fix="pass ranges of the payload.", id=int(ids[overflow[0]]))
    ends = offsets + lengths
    outside = np.flatnonzero(ends > np.uint64(slab))
    if outside.size:
        raise PlanError(
            "PayloadOutOfBounds",
            fix="pass ranges of the payload.",
            id=int(ids[outside[0]]),
            end=int(ends[outside[0]]),
            payload_bytes=slab,
        )


def _kinds(name: str, kinds: Any, rank: Mapping[Any, int], count: int, most: int) -> Bytes:
    """Returns a column of kinds, from one kind for all, or one for each; kinds are members of an enum or numbers."""
    if isinstance(kinds, Enum):
        kinds = rank.get(kinds, kinds)
    if not isinstance(kinds, np.ndarray) and (number := whole_number(kinds)) is not None:
        if not 0 <= number < most:
            raise InvalidInput(f"{name}={kinds}", fix=f"pass a number from 0 to {most - 1}.")
        return np.full(count, number, np.uint8)
    if not isinstance(kinds, np.ndarray):
        kinds = [rank[kind] if isinstance(kind, Enum) and kind in rank else kind for kind in items_of(name, kinds)]
        wrong = next((kind for kind in kinds if not isinstance(kind, int | np.integer) or isinstance(kind, bool)), None)
        if wrong is not None:
            raise InvalidInput(f"{name} holds {kind_of(wrong)}", fix="pass kinds of this column, or numbers.")
    codes: Bytes = column(name, kinds, np.uint8, count)
    if codes.size and int(codes.max()) >= most:
        raise InvalidInput(f"{name} holds {int(codes.max())}", fix=f"pass numbers from 0 to {most - 1}.")
    return codes
