"""Edges in compressed sparse rows."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vyre.graphs.columns import Bytes, Words

MOST_KINDS: Final = 32
"""The kinds of edges that a graph may have: a set of them is a u32."""
_KIND_BITS: Final = (MOST_KINDS - 1).bit_length()


class Rows(NamedTuple):
    """Edges in compressed sparse rows, sorted by source, target and kind, none twice.

    The edges of node n are ``targets[rows[n] : rows[n + 1]]``, with their kinds at the same places of ``kinds``.
    ``rows`` (u32) has an element more than there are nodes; ``targets`` (u32) and ``kinds`` (u8) one for each edge.
    """

    rows: Words
    targets: Words
    kinds: Bytes


def compressed_rows(nodes: int, sources: Words, targets: Words, kinds: Bytes) -> Rows:
    """Returns edges between the nodes 0 to ``nodes - 1`` in rows; equal edges become one.  O(edges log edges)."""
    bits = nodes.bit_length()
    if 2 * bits + _KIND_BITS <= 64:
        places, low = np.uint64(bits), np.uint64(_KIND_BITS)
        keys = ((sources.astype(np.uint64) << places | targets) << low) | kinds
        keys.sort()
        keys = keys[_begins(keys[1:] != keys[:-1], keys.size)]
        from_node = keys >> (places + low)
        to_node = (keys >> low & np.uint64(2**bits - 1)).astype(np.uint32)
        kinds = (keys & np.uint64(MOST_KINDS - 1)).astype(np.uint8)
    else:
        order = np.lexsort((kinds, targets, sources))
        sources, targets, kinds = sources[order], targets[order], kinds[order]
        differ = np.zeros(max(sources.size - 1, 0), np.bool_)
        for each in (sources, targets, kinds):
            differ |= each[1:] != each[:-1]
        kept = _begins(differ, sources.size)
        from_node, to_node, kinds = sources[kept].astype(np.uint64), targets[kept], kinds[kept]
    rows = np.zeros(nodes + 1, np.uint32)
    np.cumsum(np.bincount(from_node.astype(np.int64), minlength=nodes), out=rows[1:])
    return Rows(rows, to_node, kinds)


def _begins(differs: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
    """Returns which of ``count`` sorted elements differ from the one before; the first one does."""
    begins = np.ones(count, np.bool_)
    begins[1:] = differs
    return begins
