"""Which term of an e-graph is the cheapest for a device?

The cost of a node is ``device_aware_cost`` times a bias from autotuning and speculation.  The tree cost of a class is
the cost of its cheapest node plus the tree costs of that node's children.  Classes are settled in ascending order of
cost, each once (Knuth's form of Dijkstra's algorithm), so deep graphs need no cap on sweeps and no chosen term contains
itself: O(E log E).

Unlike vyre-driver, whose sweeps stop after 1 024 rounds with an unfinished result and whose terms pay for a shared
subterm at every use, this settles every class, and ``CostModel.DAG`` pays for a shared subterm once.  The default,
TREE, counts like vyre-driver.  DAG starts from the best tree and exchanges single nodes as long as that makes the term
cheaper, each trial O(term).  Finding the best term is NP-hard; this one is never dearer than the best tree.  The
exchanges need no cap because each reduces the cost.
"""

from __future__ import annotations

from enum import Enum

from vectors.seeds.extraction_cost import (
    ExtractionProfile,
    ExtractionThresholds,
    NodeCostInputs,
    NodeHints,
    device_aware_cost,
)
from vyre.domain.graphs import extraction
from vyre.policies import arith
from vyre.policies.prediction.trace_jit import Speculate, TraceJitInputs, decide_trace_jit_speculation
from vyre.policies.record import U32, U64, BasisPoints, Count, record, verdict


@record
class ENode:
    """One alternative of a class; ``children`` are class numbers."""

    id: U64
    base_cost: U64
    hints: NodeHints
    children: tuple[Count, ...] = ()


@record
class EClass:
    """A class of equivalent nodes."""

    nodes: tuple[ENode, ...]


@record
class AutotuneRecord:
    """The best measured configuration: unroll factor and tile."""

    unroll: U32
    tile: tuple[U32, U32, U32]


@record
class BiasThresholds:
    """Factors in basis points for unrolled constants, tiled f16 work and speculated constants."""

    unroll_bps: BasisPoints = 8_000
    tile_bps: BasisPoints = 9_500
    speculate_bps: BasisPoints = 7_000
    extraction: ExtractionThresholds = ExtractionThresholds()


DEFAULT_THRESHOLDS = BiasThresholds()


class CostModel(Enum):
    """How often a class that a term uses twice is paid for: twice (``TREE``) or once (``DAG``)."""

    TREE = "tree"
    DAG = "dag"


@record
class ExtractionInputs:
    """An e-graph and a device; ``root`` is the number of the class to extract."""

    classes: tuple[EClass, ...]
    root: Count
    profile: ExtractionProfile
    autotune: AutotuneRecord | None = None
    trace_jit: TraceJitInputs | None = None
    cost_model: CostModel = CostModel.TREE


@verdict
class Extraction:
    """A term.  ``chosen`` maps every class that can be priced to the index of its chosen node.

    ``tie`` says that another node of the root class makes a tree of the same cost.
    """

    cost: int
    node: ENode
    chosen: dict[int, int]
    tie: bool


def node_cost(inputs: ExtractionInputs, node: ENode, thresholds: BiasThresholds = DEFAULT_THRESHOLDS) -> int:
    """Returns the biased cost of one node without its children."""
    cost = device_aware_cost(NodeCostInputs(inputs.profile, node.base_cost, node.hints), thresholds.extraction)
    bias, hints = arith.BPS, node.hints
    if inputs.autotune is not None:
        if hints.compile_time_constant and inputs.autotune.unroll > 1:
            bias = arith.weighted(bias, thresholds.unroll_bps)
        if hints.fp16_eligible and max(inputs.autotune.tile) > 1:
            bias = arith.weighted(bias, thresholds.tile_bps)
    if (
        hints.compile_time_constant
        and inputs.trace_jit is not None
        and isinstance(decide_trace_jit_speculation(inputs.trace_jit), Speculate)
    ):
        bias = arith.weighted(bias, thresholds.speculate_bps)
    bias = max(bias, 1)
    return cost if bias >= arith.BPS else max(arith.weighted(cost, bias), 1)


def extract_best_for_device(
    inputs: ExtractionInputs, thresholds: BiasThresholds = DEFAULT_THRESHOLDS
) -> Extraction | None:
    """Returns the cheapest term, or None if the root is out of range or cannot be priced.

    Costs saturate at 2^64-1; among nodes of equal cost the first is chosen.
    """
    root = inputs.root
    classes = _alternatives(inputs, thresholds)
    trees, chosen = extraction.cheapest_trees(classes)
    if root not in trees:
        return None
    cost, nodes = trees[root], inputs.classes[root].nodes
    totals = [classes.tree_cost(root, n, trees) for n in range(len(nodes)) if classes.is_priced(root, n, trees)]
    if inputs.cost_model is CostModel.DAG:
        cost = extraction.exchange(classes, root, chosen)
    return Extraction(cost, nodes[chosen[root]], chosen, totals.count(trees[root]) > 1)


def _alternatives(inputs: ExtractionInputs, thresholds: BiasThresholds) -> extraction.Alternatives:
    own = [[node_cost(inputs, node, thresholds) for node in eclass.nodes] for eclass in inputs.classes]
    return extraction.Alternatives(own, [[node.children for node in c.nodes] for c in inputs.classes], arith.U64_MAX)
