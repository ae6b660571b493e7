"""Which typed nodes of a frontier program run together as one wave?

Nodes that no longer wait for each other run as one wave.  O(nodes log nodes + dependencies).

vyre-driver has the same waves; its adapter then knows only their sizes, and puts them into a chain.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from vyre.domain.errors import PlanError
from vyre.policies.frontiers.waves import layers_of
from vyre.policies.record import U32, Reason, record, verdict, why_field


class FrontierDomain(Enum):
    """The data that a node works on, in the order in which the nodes of a wave are listed."""

    PARSER = "parser"
    SEMANTIC = "semantic"
    DATAFLOW = "dataflow"
    DIAGNOSTIC = "diagnostic"


_RANK: Final = {domain: rank for rank, domain in enumerate(FrontierDomain)}


@record
class FrontierNode:
    """A node of a frontier program; ``active_items`` is the number of items that it handles when it runs."""

    id: U32
    domain: FrontierDomain
    active_items: U32


NodeDependencies: TypeAlias = tuple[tuple[U32, U32], ...]
"""Pairs of node ids: the first runs before the second.  Pairs may repeat."""


@record
class FrontierIr:
    """Typed nodes and their dependencies."""

    nodes: tuple[FrontierNode, ...]
    dependencies: NodeDependencies


@verdict
class FrontierWave:
    """Nodes that run together, by domain and id; ``domains`` are those of the nodes."""

    index: int
    domains: tuple[FrontierDomain, ...]
    node_ids: tuple[int, ...]
    active_items: int


@verdict
class FrontierIrPlan:
    """Waves in the order in which they run."""

    waves: tuple[FrontierWave, ...]
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether some node waits for another, for telemetry."""
        return "some wait" if len(self.waves) > 1 else "none waits"


def plan_frontier_ir(ir: FrontierIr) -> FrontierIrPlan:
    """Returns the least possible number of waves, which is the longest chain of dependencies.

    Raises ``PlanError``: ``DuplicateNode``, ``UnknownDependencyNode``, and ``Cycle``, whose ``unscheduled_nodes``
    counts the nodes that can never run.  A node that depends on itself is a cycle.
    """
    layers, unscheduled = layers_of(len(ir.nodes), _edges(ir))
    if unscheduled:
        raise PlanError("Cycle", unscheduled_nodes=unscheduled)
    waves = tuple(_wave(index, [ir.nodes[place] for place in layer]) for index, layer in enumerate(layers))
    return FrontierIrPlan(waves, Reason("a chain of {} of the {} nodes is the longest", (len(waves), len(ir.nodes))))


def _edges(ir: FrontierIr) -> list[tuple[int, int]]:
    """Returns the dependencies by position in ``nodes``."""
    places: dict[int, int] = {}
    for place, node in enumerate(ir.nodes):
        if places.setdefault(node.id, place) != place:
            raise PlanError("DuplicateNode", id=node.id)
    for edge in ir.dependencies:
        for node_id in edge:
            if node_id not in places:
                raise PlanError("UnknownDependencyNode", id=node_id)
    return [(places[before], places[after]) for before, after in ir.dependencies]


def _wave(index: int, nodes: list[FrontierNode]) -> FrontierWave:
    nodes.sort(key=lambda node: (_RANK[node.domain], node.id))
    return FrontierWave(
        index=index,
        domains=tuple(dict.fromkeys(node.domain for node in nodes)),
        node_ids=tuple(node.id for node in nodes),
        active_items=sum(node.active_items for node in nodes),
    )
