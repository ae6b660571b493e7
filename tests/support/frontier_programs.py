"""Frontier programs each node of which is a wave of its own."""

from __future__ import annotations

from vyre.policies.frontiers.frontier_ir import FrontierIr
from vyre.policies.frontiers.waves import Dependencies


def node_waves(ir: FrontierIr) -> tuple[tuple[int, ...], Dependencies]:
    """Returns the items and the dependencies of the waves, in the order of the nodes."""
    places = {node.id: place for place, node in enumerate(ir.nodes)}
    edges = tuple((places[before], places[after]) for before, after in ir.dependencies)
    return tuple(node.active_items for node in ir.nodes), edges
