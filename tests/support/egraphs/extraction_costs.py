"""The cost of a term that was taken out of an e-graph, with every shared class counted once."""

from __future__ import annotations

from vectors.seeds.device_extraction import DEFAULT_THRESHOLDS, BiasThresholds, Extraction, ExtractionInputs, node_cost
from vyre.domain.graphs import extraction


def cost_of_term(classes: extraction.Alternatives, root: int, chosen: dict[int, int]) -> int:
    """Returns the cost of the chosen term."""
    return classes.total(sum(classes.own[c][chosen[c]] for c in extraction.term(classes, root, chosen)))


def dag_cost(inputs: ExtractionInputs, found: Extraction, thresholds: BiasThresholds = DEFAULT_THRESHOLDS) -> int:
    """Returns the cost of the term that a decision chose, at most 2^64-1."""
    own = [[node_cost(inputs, node, thresholds) for node in eclass.nodes] for eclass in inputs.classes]
    classes = extraction.Alternatives(own, [[node.children for node in c.nodes] for c in inputs.classes], 2**64 - 1)
    return cost_of_term(classes, inputs.root, found.chosen)
