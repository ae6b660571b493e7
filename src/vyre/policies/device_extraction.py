"""Extract the cheapest term of an e-graph for a device.

Node cost = ``device_aware_cost`` times a bias from autotuning and speculation; class cost = the cheapest node plus its
children's classes.  Worklist over parents, so deep graphs need no sweep cap: O(E) node updates for acyclic graphs.

``extract_best_for_device`` prices terms as trees (pinned).  ``dag_cost`` re-prices the chosen term with shared classes
counted once.
"""

from __future__ import annotations

from collections import deque

from vyre.policies import arith
from vyre.policies.extraction_cost import (
    ExtractionProfile,
    ExtractionThresholds,
    NodeCostInputs,
    NodeHints,
    device_aware_cost,
)
from vyre.policies.record import U32, U64, BasisPoints, Count, record, verdict
from vyre.policies.trace_jit import Speculate, TraceJitInputs, decide_trace_jit_speculation


@record
class ENode:
    """One alternative of a class; ``children`` are class numbers."""

    id: U64
    base_cost: U64
    hints: NodeHints
    children: tuple[Count, ...] = ()


@record
class EClass:
    nodes: tuple[ENode, ...]


@record
class AutotuneRecord:
    """The measured best: unroll factor and tile."""

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


@record
class ExtractionInputs:
    """``root``: class to extract."""

    classes: tuple[EClass, ...]
    root: Count
    profile: ExtractionProfile
    autotune: AutotuneRecord | None = None
    trace_jit: TraceJitInputs | None = None


@verdict
class Extraction:
    """``chosen``: index of the chosen node of every priced class; ``tie``: another root node costs the same."""

    cost: int
    node: ENode
    chosen: dict[int, int]
    tie: bool


def node_cost(inputs: ExtractionInputs, node: ENode, thresholds: BiasThresholds = DEFAULT_THRESHOLDS) -> int:
    """Biased cost of one node without its children."""
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
    """The cheapest term by tree cost, or None if the root is out of range or cannot be priced.

    Costs saturate at 2^64-1; the first node seen wins ties.
    """
    classes = inputs.classes
    if inputs.root >= len(classes):
        return None
    own = [[node_cost(inputs, node, thresholds) for node in c.nodes] for c in classes]
    parents: list[list[tuple[int, int]]] = [[] for _ in classes]
    for c, eclass in enumerate(classes):
        for n, node in enumerate(eclass.nodes):
            for child in set(node.children):
                if child < len(classes):
                    parents[child].append((c, n))
    best: dict[int, int] = {}
    chosen: dict[int, int] = {}
    work = deque((c, n) for c, eclass in enumerate(classes) for n in range(len(eclass.nodes)))
    while work:
        c, n = work.popleft()
        total = _total(own[c][n], classes[c].nodes[n], best)
        if total is not None and (c not in best or total < best[c]):
            best[c], chosen[c] = total, n
            work.extend(parents[c])
    if inputs.root not in best:
        return None
    root, cost = inputs.root, best[inputs.root]
    totals = [_total(own[root][n], node, best) for n, node in enumerate(classes[root].nodes)]
    chosen = {c: _first_cheapest(classes[c], own[c], best, best[c]) for c in chosen}
    return Extraction(cost, classes[root].nodes[chosen[root]], chosen, totals.count(cost) > 1)


def _total(own: int, node: ENode, best: dict[int, int]) -> int | None:
    total = own
    for child in node.children:
        if child not in best:
            return None
        total += best[child]
    return min(total, arith.U64_MAX)


def _first_cheapest(eclass: EClass, own: list[int], best: dict[int, int], cost: int) -> int:
    return next(n for n, node in enumerate(eclass.nodes) if _total(own[n], node, best) == cost)


def dag_cost(inputs: ExtractionInputs, extraction: Extraction, thresholds: BiasThresholds = DEFAULT_THRESHOLDS) -> int:
    """Cost of the chosen term with every shared class counted once."""
    seen: set[int] = set()
    stack, total = [inputs.root], 0
    while stack:
        c = stack.pop()
        if c in seen:
            continue
        seen.add(c)
        node = inputs.classes[c].nodes[extraction.chosen[c]]
        total += node_cost(inputs, node, thresholds)
        stack.extend(node.children)
    return min(total, arith.U64_MAX)
