"""The kernels of a token/fact graph on a device: frontiers that follow chosen kinds of edges, and components.

A frontier is a column of marks, one byte a node.  So there is no queue that could run out of room, and no value that an
atomic returns: the result does not depend on the order of the lanes.  Nodes lie in blocks of ``BLOCK``, one for each
workgroup.  A level looks only at the blocks that hold nodes of it, so that many short levels, such as those of a path,
do not each cost a look at all nodes.

A frontier has these columns: ``distances``, the levels of the nodes that were reached; ``marks`` of the nodes to which
an edge of an earlier level leads; by block ``live``, whether it holds nodes of the present level, ``woken``, whether
one of its nodes was marked in this level, and ``fresh``, whether it holds nodes of the next one; and ``depth``, the
number of the present level.  ``request`` is what the host asks for: ``HEADER`` words, and the numbers of the sources.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import vyre
from vyre import In, InOut, Kernel, u8, u32

UNREACHED: Final = 0xFFFF_FFFF
"""The distance of a node to which no path leads."""
LANES: Final = 64
NODES_PER_LANE: Final = 32
BLOCK: Final = LANES * NODES_PER_LANE
"""The nodes of a block."""
COUNT, KINDS, LEVELS, HEADER = 0, 1, 2, 3
"""The words of a request: the number of sources, the kinds of edges to follow as bits, and the most levels."""
HOPS: Final = 16
"""The pointers that a node of a component follows at most in one round."""


@vyre.kernel(workgroup=LANES)
def clear(
    distances: InOut[u32], marks: InOut[u8], live: InOut[u32], woken: InOut[u32], fresh: InOut[u32], depth: InOut[u32]
) -> None:
    """Reaches no node."""
    node = vyre.global_id()
    if node < len(distances):
        distances[node] = UNREACHED
        marks[node] = 0
    if node < len(live):
        live[node] = 0
        woken[node] = 0
        fresh[node] = 0
    if node == 0:
        depth[0] = 0


@vyre.kernel(workgroup=LANES)
def seed(request: In[u32], distances: InOut[u32], live: InOut[u32]) -> None:
    """Gives the sources of the request the distance 0; each lane takes every so many of them."""
    lanes = vyre.num_groups() * LANES
    for place in range(vyre.global_id(), request[COUNT], lanes):
        node = request[HEADER + place]
        distances[node] = 0
        live[node // BLOCK] = 1


@vyre.kernel(workgroup=LANES)
def seed_reached(earlier: In[u32], distances: InOut[u32], live: InOut[u32]) -> None:
    """Gives the nodes that an earlier frontier has reached the distance 0."""
    node = vyre.global_id()
    if node < len(distances) and earlier[node] != UNREACHED:
        distances[node] = 0
        live[node // BLOCK] = 1


@cache
def expand_along(typed: bool) -> Kernel[...]:
    """Returns the kernel that marks the targets of the edges that leave the present level.

    ``typed``: it follows the kinds of edges of the request; otherwise all edges, and does not read their kinds.
    """

    @vyre.kernel(workgroup=LANES)
    def expand(
        request: In[u32],
        rows: In[u32],
        targets: In[u32],
        edge_kinds: In[u8],
        depth: In[u32],
        distances: In[u32],
        live: In[u32],
        marks: InOut[u8],
        woken: InOut[u32],
    ) -> None:
        if live[vyre.group_id()] != 0 and depth[0] < request[LEVELS]:
            first = vyre.group_id() * BLOCK + vyre.local_id()
            for node in range(first, min(len(distances), first + BLOCK), LANES):
                if distances[node] == depth[0]:
                    for edge in range(rows[node], rows[node + 1]):
                        follows = (request[KINDS] >> edge_kinds[edge]) & 1 if typed else u32(1)
                        if follows == 1:
                            target = targets[edge]
                            marks[target] = 1
                            woken[target // BLOCK] = 1

    return expand


@vyre.kernel(workgroup=LANES)
def settle(
    depth: In[u32], marks: In[u8], woken: In[u32], distances: InOut[u32], fresh: InOut[u32], changed: InOut[u32]
) -> None:
    """Gives the marked nodes that were not reached before the next level."""
    if woken[vyre.group_id()] != 0:
        first = vyre.group_id() * BLOCK + vyre.local_id()
        for node in range(first, min(len(distances), first + BLOCK), LANES):
            if marks[node] == 1 and distances[node] == UNREACHED:
                distances[node] = depth[0] + 1
                fresh[vyre.group_id()] = 1
                changed[0] = 1


@vyre.kernel(workgroup=LANES)
def advance(fresh: InOut[u32], live: InOut[u32], woken: InOut[u32], depth: InOut[u32]) -> None:
    """Makes the next level the present one."""
    block = vyre.global_id()
    if block < len(live):
        live[block] = fresh[block]
        fresh[block] = 0
        woken[block] = 0
    if block == 0:
        depth[0] = depth[0] + 1


# ---------------------------------------------------------------- components
# Every node has a pointer to a node of its component that is not greater.  Edges lower pointers, and following them
# shortens the ways, until all nodes of a component point to its least one.


@cache
def pull_along(typed: bool) -> Kernel[...]:
    """Returns the kernel that lets each node take the least pointer of itself and of the targets of its edges.

    It needs no atomic, and does most of the work of ``hook_along`` where a node has several edges.
    """

    @vyre.kernel(workgroup=LANES)
    def pull(
        kinds: In[u32], rows: In[u32], targets: In[u32], edge_kinds: In[u8], pointers: In[u32], lower: InOut[u32]
    ) -> None:
        node = vyre.global_id()
        if node < len(pointers):
            least = pointers[node]
            for edge in range(rows[node], rows[node + 1]):
                follows = (kinds[0] >> edge_kinds[edge]) & 1 if typed else u32(1)
                if follows == 1:
                    least = min(least, pointers[targets[edge]])
            lower[node] = least

    return pull


@cache
def hook_along(typed: bool) -> Kernel[...]:
    """Returns the kernel that lets every edge lower what the greater of its ends' pointers points to."""

    @vyre.kernel(workgroup=LANES)
    def hook(
        kinds: In[u32],
        rows: In[u32],
        targets: In[u32],
        edge_kinds: In[u8],
        pointers: In[u32],
        lower: InOut[u32],
        changed: InOut[u32],
    ) -> None:
        node = vyre.global_id()
        if node < len(pointers):
            own = pointers[node]
            least = own
            for edge in range(rows[node], rows[node + 1]):
                follows = (kinds[0] >> edge_kinds[edge]) & 1 if typed else u32(1)
                if follows == 1:
                    other = pointers[targets[edge]]
                    least = min(least, other)
                    if other > own:
                        lower.atomic_min(other, own)
                        changed[0] = 1
            if least < own:
                lower.atomic_min(own, least)
                changed[0] = 1

    return hook


@vyre.kernel(workgroup=LANES)
def point_to_itself(pointers: InOut[u32], lower: InOut[u32]) -> None:
    """Makes every node a component of its own."""
    node = vyre.global_id()
    if node < len(pointers):
        pointers[node] = node
        lower[node] = node


@vyre.kernel(workgroup=LANES)
def shorten(lower: In[u32], pointers: InOut[u32]) -> None:
    """Follows up to ``HOPS`` pointers from every node."""
    node = vyre.global_id()
    if node < len(pointers):
        here = lower[node]
        there = lower[here]
        hops = 0
        while here != there and hops < HOPS:
            here = there
            there = lower[here]
            hops += 1
        pointers[node] = here


@vyre.kernel(workgroup=LANES)
def take_over(pointers: In[u32], lower: InOut[u32]) -> None:
    """Makes the shortened pointers those that the next round lowers."""
    node = vyre.global_id()
    if node < len(pointers):
        lower[node] = pointers[node]
