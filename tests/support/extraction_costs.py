"""The cost of a term that was taken out of an e-graph, by the decision that took it."""

from __future__ import annotations

from vyre.domain.graphs import extraction
from vyre.policies.egraphs.device_extraction import (
    DEFAULT_THRESHOLDS,
    BiasThresholds,
    Extraction,
    ExtractionInputs,
    node_cost,
)


def dag_cost(inputs: ExtractionInputs, found: Extraction, thresholds: BiasThresholds = DEFAULT_THRESHOLDS) -> int:
    """Returns the cost of the chosen term with every shared class counted once, at most 2^64-1."""
    own = [[node_cost(inputs, node, thresholds) for node in eclass.nodes] for eclass in inputs.classes]
    classes = extraction.Alternatives(own, [[node.children for node in c.nodes] for c in inputs.classes], 2**64 - 1)
    return extraction.dag_cost(classes, inputs.root, found.chosen)
