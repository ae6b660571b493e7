"""The memory of a wave in a given shape, and a shape with its memory in one step; see ``vyre.policies.topology``."""

from __future__ import annotations

from vectors.seeds.topology import (
    DEFAULT_THRESHOLDS,
    ExecutionPlan,
    FrontierSample,
    GraphSize,
    MemoryDemand,
    MemoryPlan,
    Topology,
    TopologyInputs,
    TopologyThresholds,
    WaveMemory,
    fit,
    memory_of,
    select,
)
from vyre.policies.record import record


@record
class MemoryInputs(WaveMemory):
    """A wave, and the shape in which it is to run."""

    topology: Topology


@record
class ExecutionInputs(WaveMemory):
    """A wave, and the figures by which ``select`` chooses its shape."""

    sample: FrontierSample
    launch_overhead_ns: float
    fusion_pressure: float


def memory_plan(inputs: MemoryInputs) -> MemoryPlan:
    """Returns the memory of a wave: ``nodes * bytes + edges * bytes + frontier + scaled scratch + output``, all alive
    at once.

    Raises ``PlanError``: ``OverBudget``, or ``ByteCountOverflow`` for a sum that exceeds 64 bits.  More bytes never
    turn an error into a plan.
    """
    return memory_of(inputs.topology, inputs)


def execution_plan(inputs: ExecutionInputs, thresholds: TopologyThresholds = DEFAULT_THRESHOLDS) -> ExecutionPlan:
    """Selects a shape by the memory of the smallest one, then plans the selected one; raises like ``fit``."""
    smallest = memory_of(Topology.SPARSE_FRONTIER, inputs)
    demand = MemoryDemand(smallest.required_bytes, inputs.budget_bytes)
    size = GraphSize(inputs.node_count, inputs.edge_count)
    asked = TopologyInputs(inputs.sample, size, demand, inputs.launch_overhead_ns, inputs.fusion_pressure)
    return fit(select(asked, thresholds).topology, inputs)
