"""From typed nodes of a frontier program to waves: nodes that wait for each other no more run as one wave.

Units: items, and bytes in 64 bits, checked.  O(nodes log nodes + dependencies).

What the reference gets wrong: its adapter knows only waves, so it puts them into a chain, and a planner of barriers
that is fed by it never sees two nodes that could run side by side.  The chain stays the default; given
``dependencies``, as ``node_waves`` has them for a program whose every node is a wave, they are kept.
"""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from typing import Final, TypeAlias

from vyre.domain.errors import PlanError
from vyre.policies.frontiers.waves import Dependencies, WaveEnvelope, layers_of
from vyre.policies.record import U32, U64, Reason, checked_u64, record, verdict, why_field


class FrontierDomain(Enum):
    """What a node works on, in the order in which nodes of one wave are listed."""

    PARSER = "parser"
    SEMANTIC = "semantic"
    DATAFLOW = "dataflow"
    DIAGNOSTIC = "diagnostic"


_RANK: Final = {domain: rank for rank, domain in enumerate(FrontierDomain)}


@record
class FrontierNode:
    """``active_items``: items that it handles when it runs."""

    id: U32
    domain: FrontierDomain
    active_items: U32


NodeDependencies: TypeAlias = tuple[tuple[U32, U32], ...]
"""Pairs of node ids: the first runs before the second.  Repetitions do no harm."""


@record
class FrontierIr:
    """Typed nodes and what each of them waits for."""

    nodes: tuple[FrontierNode, ...]
    dependencies: NodeDependencies


@verdict
class FrontierWave:
    """Nodes that run together, by domain and id; ``domains`` are those that occur."""

    index: int
    domains: tuple[FrontierDomain, ...]
    node_ids: tuple[int, ...]
    active_items: int


@verdict
class FrontierIrPlan:
    """Waves in the order in which they run."""

    waves: tuple[FrontierWave, ...]
    why: Reason = why_field()


@record
class FrontierWaveSizes:
    """``wave_active_items``: of each wave.  ``dependencies``: of waves by index; None puts them into a chain."""

    wave_active_items: tuple[U64, ...]
    frontier_bytes_per_active_item: U64
    scratch_bytes_per_active_item: U64
    output_bytes_per_wave: U64
    dependencies: Dependencies | None = None


@verdict
class FrontierWaves:
    """What ``plan_frontier`` takes; ``active_items`` beside it for who launches the waves."""

    waves: tuple[WaveEnvelope, ...]
    active_items: tuple[int, ...]
    dependencies: tuple[tuple[int, int], ...]
    why: Reason = why_field()


def plan_frontier_ir(ir: FrontierIr) -> FrontierIrPlan:
    """The least possible number of waves: the longest chain of dependencies.

    Raises ``PlanError``: ``DuplicateNode``, ``UnknownDependencyNode``, ``Cycle`` whose ``unscheduled_nodes`` counts
    the nodes that can never run (a node that depends on itself is one).
    """
    layers, unscheduled = layers_of(len(ir.nodes), _edges(ir))
    if unscheduled:
        raise PlanError("Cycle", unscheduled_nodes=unscheduled)
    waves = tuple(_wave(index, [ir.nodes[place] for place in layer]) for index, layer in enumerate(layers))
    return FrontierIrPlan(waves, Reason("a chain of {} of the {} nodes is the longest", (len(waves), len(ir.nodes))))


def node_waves(ir: FrontierIr) -> tuple[tuple[int, ...], Dependencies]:
    """Items and dependencies of a program whose every node is a wave of its own, in the order of its nodes.

    Raises like ``plan_frontier_ir``, but for ``Cycle``, which the planner of the waves finds.
    """
    return tuple(node.active_items for node in ir.nodes), tuple(_edges(ir))


def waves_from_frontier_ir(sizes: FrontierWaveSizes) -> FrontierWaves:
    """Memory of each wave, and their order.  Raises ``PlanError``: ``ByteCountOverflow``."""
    count, dependencies = len(sizes.wave_active_items), sizes.dependencies
    if dependencies is None:
        dependencies = tuple(pairwise(range(count)))
        why = Reason("{} waves run one after the other, for nobody says what they depend on", (count,))
    else:
        why = Reason("{} waves run as {} dependencies allow", (count, len(dependencies)))
    return FrontierWaves(
        waves=tuple(
            WaveEnvelope(
                checked_u64(items * sizes.frontier_bytes_per_active_item, "wave frontier bytes"),
                checked_u64(items * sizes.scratch_bytes_per_active_item, "wave scratch bytes"),
                sizes.output_bytes_per_wave,
            )
            for items in sizes.wave_active_items
        ),
        active_items=sizes.wave_active_items,
        dependencies=dependencies,
        why=why,
    )


def _edges(ir: FrontierIr) -> list[tuple[int, int]]:
    """Dependencies by place in ``nodes``."""
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
