"""Which frontier does the report of a launch show?

vyre-driver takes the fill of the launch grid for the density, which says how well the block size divides the work and
nothing about the graph; a counted frontier replaces it.  O(1).
"""

from __future__ import annotations

from vectors.seeds.topology import FrontierSample
from vyre.policies.arith import BPS
from vyre.policies.record import U64, BasisPoints, record


@record
class FrontierCount:
    """The population of a frontier.

    A queue that holds nodes twice may be longer than the graph and counts as full.
    """

    active_nodes: U64
    node_count: U64


@record
class TelemetryInputs:
    """The report of a launch; ``logical_thread_utilization_bps`` is the share of its lanes that had work.

    ``frontier`` is the counted population, from which the density follows.  With None the density is the fill of the
    grid, as in vyre-driver.
    """

    logical_thread_utilization_bps: BasisPoints
    readback_bytes: U64
    dispatch_cost_ns: float
    frontier: FrontierCount | None = None


def sample_from_telemetry(inputs: TelemetryInputs) -> FrontierSample:
    """Returns a sample whose density is the counted share of active nodes, or without a count the fill of the grid."""
    density = inputs.logical_thread_utilization_bps / BPS
    if inputs.frontier is not None:
        nodes = inputs.frontier.node_count
        density = min(inputs.frontier.active_nodes, nodes) / nodes if nodes else 0.0
    return FrontierSample(inputs.dispatch_cost_ns, density, inputs.readback_bytes)
