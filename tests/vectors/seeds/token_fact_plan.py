"""Which memory do graph, work queue and waves of a frontier analysis of a token/fact graph take?

vyre-driver sizes the work queue by the items of all waves, although waves run one after the other;
``QueueScope.LARGEST_LAYER`` counts the waves that may run together, and ``QueueScope.NO_WAVES`` plans frontiers that
need no queue.  Figures are bytes in 64 bits; one that exceeds them raises ``PlanError``.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from vectors.seeds.frontier_execution import (
    FrontierExecutionInputs,
    FrontierExecutionPlan,
    WaveEnvelope,
    as_source,
    fused_wave_bytes,
    plan_frontier_execution,
)
from vectors.seeds.plan_cache import (
    ExecutionLookup,
    PlanIdentity,
    WavePlanner,
    decide_topology,
    plan_remembered,
    topology_lookup,
)
from vectors.seeds.queue_expansion import NO_QUEUE, ExpansionProfile, plan_queue_with_expansion
from vectors.seeds.residency import ResidencyCounters, _reuse
from vectors.seeds.token_fact_graph import TokenFactLayout
from vectors.seeds.topology import ExecutionPlan, FrontierSample, GraphSize
from vyre.domain.errors import PlanError
from vyre.policies.frontiers.waves import BarrierInputs, Dependencies, plan_barriers
from vyre.policies.launching.queueing import LAYOUTS, HostSync, QueueDiscipline, QueuePlan
from vyre.policies.record import U64, checked_u64, record, verdict


class GraphResidency(Enum):
    """Whether the graph must be uploaded or is on the device already."""

    COLD_UPLOAD = "cold_upload"
    WARM_RESIDENT = "warm_resident"


class QueueScope(Enum):
    """The waves whose active items the work queue holds at first.

    ``ALL_WAVES``: all of them.  ``LARGEST_LAYER``: the largest set of waves that may run together.  ``NO_WAVES``: none,
    because frontiers are columns of marks, and nothing is enqueued.
    """

    ALL_WAVES = "all_waves"
    LARGEST_LAYER = "largest_layer"
    NO_WAVES = "no_waves"


@record
class TokenFactFrontier:
    """Waves over a token/fact graph; ``active_items`` are the nodes that are active in each wave."""

    waves: tuple[WaveEnvelope, ...]
    active_items: tuple[U64, ...]
    dependencies: Dependencies


@record
class TokenFactProfile:
    """A frontier analysis of a token/fact graph on a device, within ``budget_bytes``.

    The default ``queue_scope`` adds up all waves, as in vyre-driver, although they run one after the other.
    """

    identity: PlanIdentity
    sample: FrontierSample
    graph_layout: TokenFactLayout
    graph_residency: GraphResidency
    frontier_input: TokenFactFrontier
    budget_bytes: U64
    launch_overhead_ns: float
    fusion_pressure: float
    queue_scope: QueueScope = QueueScope.ALL_WAVES


@verdict
class TokenFactPlan:
    """The waves' execution, their work queue, and the bytes that the graph takes and saves."""

    waves: FrontierExecutionPlan
    work_queue: QueuePlan
    resident_payload_bytes: int
    total_required_bytes: int
    graph_reuse: ResidencyCounters
    resident_graph_bytes: int

    @property
    def label(self) -> str:
        """Whether all waves run at once, for telemetry."""
        return "one group" if len(self.waves.frontier.barriers.groups) <= 1 else "groups"


_QUEUE: Final = LAYOUTS[QueueDiscipline.PHASED]


def plan_token_fact(profile: TokenFactProfile, plan_wave: WavePlanner) -> TokenFactPlan:
    """Shares the budget among payload, graph, work queue and waves.

    The queue gets what payload, graph and the largest single wave leave, and has room for the active items and for the
    edges that may leave them; the waves get what payload and queue leave.  O(waves + dependencies).

    Raises ``PlanError``: ``ActiveItemWaveCountMismatch``, ``ZeroResidentGraphBytes``,
    ``ResidentGraphByteEnvelopeMismatch``, ``PayloadExceedsBudget``, ``ByteCountOverflow``, and ``WorkQueue`` or
    ``FrontierPlan`` with the error of that planner as ``source``.
    """
    layout, frontier = profile.graph_layout, profile.frontier_input
    graph = _check_token_fact(profile)
    beside_payload = profile.budget_bytes - layout.payload_bytes
    queue = _token_fact_queue(profile, beside_payload - graph)
    with as_source("FrontierPlan"):
        execution = plan_frontier_execution(
            FrontierExecutionInputs(
                identity=profile.identity,
                sample=profile.sample,
                graph=GraphSize(layout.graph_shape.node_count, layout.graph_shape.edge_count),
                bytes_per_node=layout.node_record_bytes,
                bytes_per_edge=layout.edge_record_bytes,
                waves=frontier.waves,
                dependencies=frontier.dependencies,
                budget_bytes=beside_payload - queue.resident_bytes,
                launch_overhead_ns=profile.launch_overhead_ns,
                fusion_pressure=profile.fusion_pressure,
            ),
            plan_wave,
        )
    beside_waves = layout.payload_bytes + queue.resident_bytes
    return TokenFactPlan(
        waves=execution,
        work_queue=queue,
        resident_payload_bytes=layout.payload_bytes,
        total_required_bytes=execution.execution.memory.required_bytes + beside_waves,
        graph_reuse=_reuse(graph, 1, uploads=profile.graph_residency is GraphResidency.COLD_UPLOAD),
        resident_graph_bytes=graph,
    )


def plan_new_token_fact(profile: TokenFactProfile) -> TokenFactPlan:
    """Returns ``plan_token_fact`` for an analysis that never ran, so that no shape of its waves is remembered."""

    def plan_wave(lookup: ExecutionLookup) -> ExecutionPlan:
        return plan_remembered(decide_topology(topology_lookup(lookup), None), lookup.wave)

    return plan_token_fact(profile, plan_wave)


def _check_token_fact(profile: TokenFactProfile) -> int:
    """Returns the bytes of the graph without payload; raises if the profile contradicts itself or its payload does not
    fit.
    """
    layout, frontier = profile.graph_layout, profile.frontier_input
    if len(frontier.active_items) != len(frontier.waves):
        raise PlanError(
            "ActiveItemWaveCountMismatch", waves=len(frontier.waves), active_items=len(frontier.active_items)
        )
    graph = checked_u64(layout.graph_bytes, "resident graph bytes")
    if graph == 0:
        raise PlanError("ZeroResidentGraphBytes")
    expected = checked_u64(graph + layout.payload_bytes, "resident graph bytes")
    if expected != layout.resident_bytes:
        raise PlanError(
            "ResidentGraphByteEnvelopeMismatch", expected_bytes=expected, actual_bytes=layout.resident_bytes
        )
    if layout.payload_bytes > profile.budget_bytes:
        raise PlanError("PayloadExceedsBudget", payload_bytes=layout.payload_bytes, budget_bytes=profile.budget_bytes)
    return graph


def _token_fact_queue(profile: TokenFactProfile, beside_graph: int) -> QueuePlan:
    """Returns the queue in the bytes that the largest wave leaves of ``beside_graph``, which may be negative."""
    frontier = profile.frontier_input
    active = _initial_items(frontier, profile.queue_scope)
    with as_source("FrontierPlan"):
        reserve = max(map(fused_wave_bytes, frontier.waves), default=0)
    if active == 0:
        return NO_QUEUE
    with as_source("WorkQueue"):
        return plan_queue_with_expansion(
            ExpansionProfile(
                initial_items=active,
                expansion_items=profile.graph_layout.max_expansion(active),
                entry_bytes=_QUEUE.entry_bytes,
                control_bytes=_QUEUE.control_bytes,
                budget_bytes=max(beside_graph - reserve, 0),
                host_sync=HostSync.FINAL_ONLY,
            )
        )


def _initial_items(frontier: TokenFactFrontier, scope: QueueScope) -> int:
    items = frontier.active_items
    if scope is QueueScope.NO_WAVES:
        return 0
    if scope is QueueScope.ALL_WAVES:
        return checked_u64(sum(items), "active items")
    with as_source("FrontierPlan"), as_source("Barrier"):
        layers = plan_barriers(BarrierInputs(len(items), frontier.dependencies)).groups
    return checked_u64(max((sum(items[wave] for wave in layer) for layer in layers), default=0), "active items")
