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
from heapq import heapify, heappop, heappush

from vyre.policies import arith
from vyre.policies.egraphs.extraction_cost import (
    ExtractionProfile,
    ExtractionThresholds,
    NodeCostInputs,
    NodeHints,
    device_aware_cost,
)
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
    own = _own_costs(inputs, thresholds)
    trees, chosen = _cheapest_trees(inputs, own)
    if root not in trees:
        return None
    cost, nodes = trees[root], inputs.classes[root].nodes
    totals = [_tree_cost(own[root][n], node, trees) for n, node in enumerate(nodes) if _priced(node, trees)]
    if inputs.cost_model is CostModel.DAG:
        cost = min(_exchange(inputs, own, chosen), arith.U64_MAX)
    return Extraction(cost, nodes[chosen[root]], chosen, totals.count(trees[root]) > 1)


def _own_costs(inputs: ExtractionInputs, thresholds: BiasThresholds) -> list[list[int]]:
    return [[node_cost(inputs, node, thresholds) for node in eclass.nodes] for eclass in inputs.classes]


def _cheapest_trees(inputs: ExtractionInputs, own: list[list[int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the tree cost and the chosen node of every class that can be priced."""
    classes = inputs.classes
    waiting = [[len(set(node.children)) for node in eclass.nodes] for eclass in classes]
    users: list[list[tuple[int, int]]] = [[] for _ in classes]
    for c, eclass in enumerate(classes):
        for n, node in enumerate(eclass.nodes):
            for child in set(node.children):
                if child < len(classes):
                    users[child].append((c, n))
    costs: dict[int, int] = {}
    chosen: dict[int, int] = {}
    ready = [(own[c][n], c, n) for c, counts in enumerate(waiting) for n, count in enumerate(counts) if count == 0]
    heapify(ready)
    while ready:
        cost, c, n = heappop(ready)
        if c in costs:
            continue
        costs[c], chosen[c] = cost, n
        for user, m in users[c]:
            waiting[user][m] -= 1
            if waiting[user][m] == 0:
                heappush(ready, (_tree_cost(own[user][m], classes[user].nodes[m], costs), user, m))
    return costs, chosen


def _priced(node: ENode, costs: dict[int, int]) -> bool:
    return all(child in costs for child in node.children)


def _tree_cost(own: int, node: ENode, costs: dict[int, int]) -> int:
    return min(own + sum(costs[child] for child in node.children), arith.U64_MAX)


def _exchange(inputs: ExtractionInputs, own: list[list[int]], chosen: dict[int, int]) -> int:
    """Changes ``chosen`` node by node as long as the term gets cheaper, and returns its final cost."""
    term = _term(inputs, chosen)
    cost, before = _price(term, own, chosen), -1
    while cost != before:
        before = cost
        for c in term:
            best = chosen[c]
            for n, node in enumerate(inputs.classes[c].nodes):
                chosen[c] = n
                trial = _term(inputs, chosen) if _priced(node, chosen) else []
                if trial and _price(trial, own, chosen) < cost:
                    cost, best = _price(trial, own, chosen), n
            chosen[c] = best
        term = _term(inputs, chosen)
    return cost


def _price(term: list[int], own: list[list[int]], chosen: dict[int, int]) -> int:
    return sum(own[c][chosen[c]] for c in term)


def _term(inputs: ExtractionInputs, chosen: dict[int, int]) -> list[int]:
    """Returns the classes of the chosen term, each once; an empty list if the term contains itself."""
    finished: dict[int, bool] = {}
    stack = [inputs.root]
    while stack:
        c = stack[-1]
        if c in finished:
            finished[stack.pop()] = True
            continue
        finished[c] = False
        for child in inputs.classes[c].nodes[chosen[c]].children:
            if finished.get(child) is False:
                return []
            stack.append(child)
    return list(finished)


def dag_cost(inputs: ExtractionInputs, extraction: Extraction, thresholds: BiasThresholds = DEFAULT_THRESHOLDS) -> int:
    """Returns the cost of the chosen term with every shared class counted once, at most 2^64-1."""
    term = _term(inputs, extraction.chosen)
    return min(_price(term, _own_costs(inputs, thresholds), extraction.chosen), arith.U64_MAX)
