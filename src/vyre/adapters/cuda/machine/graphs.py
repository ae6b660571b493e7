"""Graphs: nodes with dependencies, executable snapshots, and the rules for updating those.

A node's parameters are copied when it is added, a graph's when it is instantiated, and an executable's when it is
launched: later changes are not seen.  A launch runs nodes in seeded random order, dependencies first; nodes without an
order between them must not access the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.libraries import KernelCode
from vyre.adapters.cuda.machine.ordering import Access
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import Completion, Engine, Event
from vyre.adapters.cuda.seam import DeviceAddress, HostAddress, LaunchShape
from vyre.domain.frozen import frozen


class Direction(Enum):
    """The direction of a copy; the value is the engine that does it."""

    TO_DEVICE = Engine.UPLOAD
    TO_HOST = Engine.DOWNLOAD
    ON_DEVICE = Engine.COMPUTE


@frozen
class CopyWork:
    """A copy.

    ``target`` and ``source`` are device or host addresses, depending on the direction; ``data``, if not None, is the
    content of a pageable source at the call.
    """

    direction: Direction
    target: DeviceAddress | HostAddress
    source: DeviceAddress | HostAddress
    nbytes: int
    data: bytes | None = None


@frozen
class FillWork:
    """A fill of ``nbytes`` bytes with the byte ``value``."""

    target: DeviceAddress
    value: int
    nbytes: int


@frozen
class LaunchWork:
    """A launch of a kernel.

    ``resident_blocks`` blocks run at once; the others start when one of them ends.
    """

    kernel: KernelCode
    shape: LaunchShape
    parameters: bytes
    resident_blocks: int


@frozen
class RecordWork:
    """The recording of an event."""

    event: Event


@frozen
class WhileWork:
    """Rounds of the graph ``body``, as long as the u32 at ``condition`` is not 0 before a round."""

    condition: DeviceAddress
    body: Graph


Work: TypeAlias = CopyWork | FillWork | LaunchWork | RecordWork | WhileWork


@dataclass(slots=True)
class Node:
    """A node of a graph, with the nodes that must run before it."""

    handle: int
    after: tuple[int, ...]
    work: Work


@dataclass(slots=True, eq=False)
class Graph:
    """Nodes in the order in which they were added, so that each comes after its dependencies.

    ``repeated``: the graph is the body of a node of another one.  ``conditions`` are those that no node uses yet.
    """

    handle: int
    context: int
    nodes: dict[int, Node] = field(default_factory=dict)
    repeated: bool = False
    conditions: set[DeviceAddress] = field(default_factory=set)

    def add(self, handle: int, after: Sequence[int], work: Work) -> None:
        """Adds a node.  Raises ``Status`` for a dependency that is unknown or listed twice."""
        if len(set(after)) != len(after):
            raise Status(Result.INVALID_VALUE, "a dependency is listed twice")
        for node in after:
            if node not in self.nodes:
                raise Status(Result.INVALID_VALUE, f"dependency {node:#x} is no node of the graph")
        if self.repeated and isinstance(work, RecordWork):
            raise Status(Result.NOT_SUPPORTED, "the body of a loop records no events")
        self.nodes[handle] = Node(handle, tuple(after), work)


@dataclass(slots=True, eq=False)
class Executable:
    """A snapshot of a graph.  Launches of one snapshot run one after the other: ``last`` is the newest."""

    handle: int
    context: int
    nodes: dict[int, Node]
    last: Completion | None = None

    @classmethod
    def of(cls, handle: int, graph: Graph) -> Executable:
        """Returns a snapshot of a graph."""
        return cls(handle, graph.context, _copied(graph))

    def update(self, node: int, work: LaunchWork) -> None:
        """Replaces the launch of a node.  Raises ``Status`` for another node, or if it would change whether it is
        cooperative.
        """
        present = self.nodes.get(node)
        if present is None:
            raise Status(Result.INVALID_VALUE, f"{node:#x} is no node of the graph that was instantiated")
        if not isinstance(present.work, LaunchWork) or present.work.shape.cooperative != work.shape.cooperative:
            raise Status(Result.INVALID_VALUE, f"node {node:#x} does {present.work}, which cannot become {work}")
        present.work = work


def _copied(graph: Graph) -> dict[int, Node]:
    return {node.handle: Node(node.handle, node.after, _snapshot(node.work)) for node in graph.nodes.values()}


def _snapshot(work: Work) -> Work:
    if not isinstance(work, WhileWork):
        return work
    body = work.body
    return WhileWork(work.condition, Graph(body.handle, body.context, _copied(body), repeated=True))


def work_within(nodes: Iterable[Node]) -> Iterator[Work]:
    """Yields the work of nodes, and of those that they repeat."""
    for node in nodes:
        yield node.work
        if isinstance(node.work, WhileWork):
            yield from work_within(node.work.body.nodes.values())


def run_order(nodes: Sequence[Node], choose: random.Random) -> Iterator[Node]:
    """Yields the nodes in a random order that respects dependencies."""
    done: set[int] = set()
    left = list(nodes)
    while left:
        node = choose.choice([n for n in left if done.issuperset(n.after)])
        left.remove(node)
        done.add(node.handle)
        yield node


class Hazards:
    """Finds nodes of one launch that access the same bytes, one writing, with no dependency between them."""

    def __init__(self, nodes: Sequence[Node], report: Callable[[str], None]) -> None:
        self._report = report
        self._before: dict[int, frozenset[int]] = {}
        for node in nodes:
            self._before[node.handle] = frozenset(node.after).union(*(self._before[n] for n in node.after))
        self._seen: list[tuple[int, Access]] = []

    def check(self, node: Node, accesses: Sequence[Access]) -> None:
        """Compares the accesses of a node with those of the nodes that ran before it, and reports conflicts."""
        before = self._before[node.handle]
        for other, old in self._seen:
            if other in before or not any(a.writes or old.writes for a in accesses):
                continue
            for access in accesses:
                low, high = max(access.low, old.low), min(access.high, old.high)
                if low < high and (access.writes or old.writes):
                    nodes = f"nodes {other:#x} and {node.handle:#x} of one graph"
                    self._report(f"{nodes} touch bytes {low:#x}..{high:#x} with no dependency between them")
        self._seen.extend((node.handle, access) for access in accesses)
