"""In which groups do the waves of a frontier analysis run within a budget, and as which kernel?

Units: bytes in 64 bits; a figure that exceeds them raises ``PlanError``.  A layer that exceeds the budget is cut into
groups.  O(waves + dependencies).

vyre-driver reports the largest frontier, scratch and output bytes of any group, which may come from three groups.
These figures are kept, because the shape of the kernel is planned by them; ``peak_live_bytes`` is what one group holds
at a time. vyre-driver also compares only the first wave of a layer with the budget; ``check_every_wave`` compares all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from vectors.seeds.plan_cache import ExecutionLookup, PlanIdentity, WavePlanner
from vectors.seeds.topology import (
    FUSED_SCRATCH_FACTOR,
    ExecutionPlan,
    FrontierSample,
    GraphSize,
    WaveMemory,
    graph_bytes,
)
from vyre.domain.errors import PlanError
from vyre.policies.frontiers.waves import BarrierInputs, BarrierPlan, Dependencies, plan_barriers
from vyre.policies.record import U64, Reason, checked_u64, record, verdict


@record
class WaveEnvelope:
    """The bytes of a wave; ``scratch_bytes`` are those before a kernel's shape scales them."""

    frontier_bytes: U64
    scratch_bytes: U64
    output_bytes: U64


@record
class FrontierInputs:
    """Waves over a graph that stays on the device; ``readback_bytes`` are read back at the end.

    ``check_every_wave`` refuses a wave that exceeds the budget wherever it stands, not only as the first of its layer.
    """

    waves: tuple[WaveEnvelope, ...]
    dependencies: Dependencies
    resident_graph_bytes: U64
    budget_bytes: U64
    readback_bytes: U64
    check_every_wave: bool = False


@verdict
class FrontierPlan:
    """Groups of waves, and the largest of their sums.

    ``peak_live_bytes`` includes the graph and the scaled scratch.  It exceeds the budget, and perhaps 64 bits, only if
    a wave that exceeds the budget was accepted.
    """

    barriers: BarrierPlan
    peak_frontier_bytes: int
    peak_scratch_bytes: int
    peak_output_bytes: int
    amortized_readback_bytes: int
    max_group_width: int
    peak_live_bytes: int


@record
class FrontierExecutionInputs:
    """Waves over a graph, and the figures by which the shape of their kernel is chosen; see
    ``topology.TopologyInputs``.
    """

    identity: PlanIdentity
    sample: FrontierSample
    graph: GraphSize
    bytes_per_node: U64
    bytes_per_edge: U64
    waves: tuple[WaveEnvelope, ...]
    dependencies: Dependencies
    budget_bytes: U64
    launch_overhead_ns: float
    fusion_pressure: float


@verdict
class FrontierExecutionPlan:
    """The kernel that runs the waves, and their order."""

    execution: ExecutionPlan
    frontier: FrontierPlan


def fused_wave_bytes(wave: WaveEnvelope) -> int:
    """Returns the bytes of a wave in the shape that scales scratch most; raises ``PlanError("ByteCountOverflow")``."""
    scratch = checked_u64(wave.scratch_bytes * FUSED_SCRATCH_FACTOR, "fused wave scratch bytes")
    return checked_u64(wave.frontier_bytes + scratch + wave.output_bytes, "fused wave bytes")


def plan_frontier(inputs: FrontierInputs) -> FrontierPlan:
    """Returns layers cut into groups, each of as many waves as the budget holds beside the graph.

    A smaller budget never takes fewer barriers.  Raises ``PlanError``: ``Barrier`` with the error of ``plan_barriers``
    as ``source``, ``GroupOverBudget`` for a graph or a wave that does not fit, ``ByteCountOverflow``.
    """
    with as_source("Barrier"):
        layers = plan_barriers(BarrierInputs(len(inputs.waves), inputs.dependencies)).groups
    graph, budget = inputs.resident_graph_bytes, inputs.budget_bytes
    if graph > budget:
        raise PlanError("GroupOverBudget", required_bytes=graph, budget_bytes=budget, field="resident graph bytes")
    groups = [group for layer in layers for group in _cut(layer, inputs, budget - graph)]
    peaks = [max(column) for column in zip(*(group.sums(inputs.waves) for group in groups), strict=True)] or [0, 0, 0]
    return FrontierPlan(
        barriers=BarrierPlan(
            tuple(tuple(group.waves) for group in groups),
            max(len(groups) - 1, 0),
            Reason("{} layers take {} groups of up to {} bytes", (len(layers), len(groups), budget - graph)),
        ),
        peak_frontier_bytes=peaks[0],
        peak_scratch_bytes=peaks[1],
        peak_output_bytes=peaks[2],
        amortized_readback_bytes=max(inputs.readback_bytes, peaks[2]),
        max_group_width=max((len(group.waves) for group in groups), default=0),
        peak_live_bytes=graph + max((group.fused_bytes for group in groups), default=0),
    )


def plan_frontier_execution(inputs: FrontierExecutionInputs, plan_wave: WavePlanner) -> FrontierExecutionPlan:
    """Returns groups of waves, and the shape of the kernel that runs them.

    The shape is chosen for the largest sums of any group.  Raises like ``plan_frontier``, and ``Memory`` with the error
    of ``plan_wave`` as ``source``.
    """
    size = inputs.graph
    frontier = plan_frontier(
        FrontierInputs(
            inputs.waves,
            inputs.dependencies,
            graph_bytes(size.node_count, size.edge_count, inputs.bytes_per_node, inputs.bytes_per_edge),
            inputs.budget_bytes,
            inputs.sample.readback_bytes,
        )
    )
    wave = WaveMemory(
        node_count=size.node_count,
        edge_count=size.edge_count,
        bytes_per_node=inputs.bytes_per_node,
        bytes_per_edge=inputs.bytes_per_edge,
        frontier_bytes=frontier.peak_frontier_bytes,
        scratch_bytes=frontier.peak_scratch_bytes,
        output_bytes=frontier.peak_output_bytes,
        budget_bytes=inputs.budget_bytes,
    )
    with as_source("Memory"):
        execution = plan_wave(
            ExecutionLookup(
                identity=inputs.identity,
                sample=replace(inputs.sample, readback_bytes=frontier.amortized_readback_bytes),
                launch_overhead_ns=inputs.launch_overhead_ns,
                fusion_pressure=inputs.fusion_pressure,
                wave=wave,
            )
        )
    return FrontierExecutionPlan(execution, frontier)


@contextmanager
def as_source(kind: str) -> Iterator[None]:
    """Replaces a ``PlanError`` raised inside by one of this kind, whose ``source`` is the original."""
    try:
        yield
    except PlanError as error:
        raise PlanError(kind, fix=error.fix, source=error) from error


class _Group(NamedTuple):
    waves: list[int]
    fused_bytes: int

    def sums(self, envelopes: Sequence[WaveEnvelope]) -> tuple[int, int, int]:
        """Returns frontier, scratch and output bytes of the group."""
        members = [envelopes[wave] for wave in self.waves]
        return (
            sum(member.frontier_bytes for member in members),
            sum(member.scratch_bytes for member in members),
            sum(member.output_bytes for member in members),
        )


def _cut(layer: Iterable[int], inputs: FrontierInputs, budget: int) -> list[_Group]:
    groups: list[_Group] = []
    for wave in layer:
        cost = fused_wave_bytes(inputs.waves[wave])
        if cost > budget and (not groups or inputs.check_every_wave):
            raise PlanError(
                "GroupOverBudget",
                required_bytes=cost,
                budget_bytes=budget,
                field="single fused frontier wave bytes",
            )
        together = checked_u64(groups[-1].fused_bytes + cost, "frontier group bytes") if groups else cost
        if groups and together <= budget:
            groups[-1].waves.append(wave)
            groups[-1] = groups[-1]._replace(fused_bytes=together)
        else:
            groups.append(_Group([wave], cost))
    return groups
