"""Invariants of the decisions about caching and compiling, in the order of their description."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, permutations, product
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.egraphs.extraction_costs import dag_cost
from support.records import integers, records
from vectors.seeds.cache_invalidation import InvalidationInputs, impacted_entries
from vectors.seeds.device_extraction import (
    AutotuneRecord,
    CostModel,
    EClass,
    ENode,
    ExtractionInputs,
    extract_best_for_device,
    node_cost,
)
from vectors.seeds.dispatch_shape import (
    LaunchConfig,
    dispatch_configs_share_launch_shape,
    input_batch_shapes_match,
    launch_shape_key,
)
from vectors.seeds.extraction_cost import (
    ExtractionProfile,
    ExtractionThresholds,
    NodeCostInputs,
    NodeHints,
    device_aware_cost,
)
from vectors.seeds.routing import observe, select_sort_backend
from vectors.seeds.strategy import Strategy, StrategyInputs, select_strategy
from vectors.seeds.subgroup import (
    ReductionInputs,
    SubgroupCapabilities,
    SubgroupFeatureRange,
    from_feature_range,
    reduction_offsets,
)
from vyre.policies.caching.cache_eviction import (
    EvictionCounts,
    RetentionInputs,
    eviction_basis_points,
    select_retention_set,
)
from vyre.policies.caching.cache_eviction_heat import HeatEntry, HeatEvictionInputs, entries_to_evict, heat
from vyre.policies.launching.fixpoint_iterations import FixpointInputs, resolve_fixpoint_iterations
from vyre.policies.prediction.trace_jit import TraceJitInputs

# cache_eviction


@given(records(RetentionInputs))
def test_what_stays_gained_most(inputs: RetentionInputs) -> None:
    gains = inputs.gains[: inputs.n]
    mask = select_retention_set(inputs)
    assert len(mask) == len(gains)
    kept = [g for g, stays in zip(gains, mask, strict=True) if stays]
    dropped = [g for g, stays in zip(gains, mask, strict=True) if not stays]
    assert len(kept) == min(inputs.k, sum(g > 0 for g in gains))
    assert all(kept)
    assert max(dropped, default=0) <= min(kept, default=2**32) or inputs.k == 0
    everything = select_retention_set(replace(inputs, k=len(gains)))
    assert everything == tuple(g > 0 for g in gains)


@given(st.lists(integers(0, 2**32 - 1), max_size=8, unique=True), integers(0, 8), st.data())
def test_retention_follows_a_permutation(gains: list[int], k: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(gains))))
    mask = select_retention_set(RetentionInputs(tuple(gains), len(gains), k))
    moved = select_retention_set(RetentionInputs(tuple(gains[i] for i in order), len(gains), k))
    assert moved == tuple(mask[i] for i in order)


@given(records(EvictionCounts))
def test_eviction_share(counts: EvictionCounts) -> None:
    assert 0 <= eviction_basis_points(counts) <= 10_000
    assert eviction_basis_points(replace(counts, total_entries=0)) == 0


# cache_eviction_heat

TIMES = st.floats(-1e6, 1e6) | st.sampled_from([float("nan"), float("inf")])
ENTRIES = st.lists(
    records(HeatEntry, hit_count=st.integers(0, 9), last_hit_time_s=TIMES, weight=st.just(1.0)), max_size=8
).map(lambda entries: tuple(replace(entry, id=i) for i, entry in enumerate(entries)))


@given(ENTRIES, st.integers(0, 9), TIMES)
def test_the_coldest_leave_first(entries: tuple[HeatEntry, ...], capacity: int, now: float) -> None:
    out = entries_to_evict(HeatEvictionInputs(entries, capacity, now))
    assert len(out) == max(len(entries) - capacity, 0)
    leaving = [heat(entries[i], now) for i in out]
    staying = [heat(e, now) for e in entries if e.id not in out]
    assert leaving == sorted(leaving)
    assert max(leaving, default=0.0) <= min(staying, default=float("inf"))
    cold = [i for i in out if heat(entries[i], now) == 0.0]
    assert cold == sorted(cold) == list(out[: len(cold)])
    unclocked = {e.id for e in entries if not (math.isfinite(e.last_hit_time_s) and math.isfinite(now))}
    assert all(heat(entries[i], now) == 0.0 for i in unclocked)


@given(st.integers(0, 2**32 - 1), st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.integers(0, 10**6))
def test_only_the_age_counts(hits: int, last: int, now: int, shift: int) -> None:
    """Whole seconds below 2^53, so that adding the shift rounds nothing."""
    assert heat(HeatEntry(0, hits, last + shift), now + shift) == heat(HeatEntry(0, hits, last), now)


@given(records(HeatEntry), st.floats(), st.floats())
def test_heat_is_finite_and_cools(entry: HeatEntry, now: float, later: float) -> None:
    assert 0.0 <= heat(entry, now) < math.inf
    if math.isfinite(now) and math.isfinite(later):
        assert heat(entry, max(now, later)) <= heat(entry, min(now, later))


# cache_invalidation


@st.composite
def tables(draw: st.DrawFn) -> InvalidationInputs:
    n = draw(st.integers(0, 5))
    square = st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n).map(tuple)
    mask = st.lists(st.integers(0, 1), min_size=n, max_size=n).map(tuple)
    cells = st.lists(st.integers(0, n + 1), max_size=5).map(tuple)
    return InvalidationInputs(draw(mask), draw(square), draw(square), draw(square), n, draw(cells))


def reached(start: set[int], edges: tuple[int, ...], n: int) -> set[int]:
    found = set(start)
    for _ in range(n):
        found |= {j for i in found for j in range(n) if edges[i * n + j]}
    return found


@given(tables())
def test_impact_is_reachability(inputs: InvalidationInputs) -> None:
    n, found = inputs.n, impacted_entries(inputs)
    changed = {i for i in range(n) if inputs.intervention_mask[i]}
    impacted = reached(changed, inputs.rule_adj, n)
    assert found.impacted_rules == tuple(i in impacted for i in range(n))
    derived = {
        c: reached({j for j in range(n) if inputs.state[c * n + j]}, inputs.join_rules, n) | {c} for c in range(n)
    }
    assert found.entries == tuple(c < n and bool(derived[c] & impacted) for c in inputs.lineage_cells)
    assert all(hit for c, hit in zip(inputs.lineage_cells, found.entries, strict=True) if c in changed)


@given(tables(), st.sampled_from(["intervention_mask", "rule_adj", "state", "join_rules"]), st.data())
def test_more_edges_never_spare_an_entry(inputs: InvalidationInputs, field: str, data: st.DataObject) -> None:
    values = getattr(inputs, field)
    more = tuple(max(v, data.draw(st.integers(0, 1))) for v in values)
    grown = impacted_entries(replace(inputs, **dict[str, Any]({field: more})))
    found = impacted_entries(inputs)
    assert all(b or not a for a, b in zip(found.entries, grown.entries, strict=True))
    assert all(b or not a for a, b in zip(found.impacted_rules, grown.impacted_rules, strict=True))


# routing


@given(st.lists(st.integers(0, 9), max_size=60), st.randoms())
def test_order_changes_only_the_longest_run(keys: list[int], random: Random) -> None:
    seen = observe(keys)
    assert (seen.len, seen.unique) == (len(keys), len(set(keys)))
    runs = [n for n in range(1, len(keys) + 1) for i in range(len(keys) - n + 1) if len(set(keys[i : i + n])) == 1]
    assert seen.max_run == max(runs, default=0)
    shuffled = list(keys)
    random.shuffle(shuffled)
    other = observe(shuffled)
    assert (other.len, other.unique) == (seen.len, seen.unique)
    assert observe(sorted(keys)).max_run >= seen.max_run
    assert str(select_sort_backend(seen).why)


# fixpoint_iterations


@given(st.none() | integers(1, 2**32 - 1))
def test_at_least_one_iteration(asked: int | None) -> None:
    assert resolve_fixpoint_iterations(FixpointInputs(asked, "b")) == (asked or 1) >= 1


# extraction_cost


@given(records(NodeCostInputs), records(NodeCostInputs))
def test_node_costs_are_monotone(inputs: NodeCostInputs, other: NodeCostInputs) -> None:
    cost = device_aware_cost(inputs)
    assert 0 <= cost < 2**64
    assert device_aware_cost(replace(inputs, base_cost=max(inputs.base_cost, other.base_cost))) >= cost
    forbidden = device_aware_cost(inputs, ExtractionThresholds(forbid_zero=True))
    assert forbidden == (max(cost, 1) if inputs.base_cost else cost)


@given(records(NodeCostInputs), st.booleans())
def test_only_both_capability_bits_together_matter(inputs: NodeCostInputs, constant: bool) -> None:
    profile = inputs.profile
    capable = profile.supports_tensor_cores and profile.supports_f16
    plain = replace(inputs, profile=replace(profile, supports_tensor_cores=False, supports_f16=False))
    if not capable or not inputs.hints.fp16_eligible:
        assert device_aware_cost(inputs) == device_aware_cost(plain)
    hints = replace(inputs.hints, compile_time_constant=constant)
    assert device_aware_cost(replace(inputs, hints=hints)) == device_aware_cost(inputs)


# device_extraction


@st.composite
def egraphs(draw: st.DrawFn) -> ExtractionInputs:
    """Small e-graphs with cycles, free nodes, and classes that cannot be priced."""
    count = draw(st.integers(1, 4))
    children = st.lists(st.integers(0, count), max_size=2).map(tuple)
    nodes = st.builds(
        ENode, st.integers(0, 9), st.integers(0, 50) | st.just(2**64 - 1), records(NodeHints), children | st.just(())
    )
    classes = draw(
        st.lists(st.lists(nodes, max_size=3).map(tuple).map(EClass), min_size=count, max_size=count).map(tuple)
    )
    autotune = draw(st.none() | st.just(AutotuneRecord(4, (8, 1, 1))))
    speculate = draw(st.none() | st.just(TraceJitInputs(9, 9_000, 0, 1_000)))
    return ExtractionInputs(classes, count - 1, draw(records(ExtractionProfile)), autotune, speculate)


Choice = tuple[int, ...]


def choices(inputs: ExtractionInputs) -> list[Choice]:
    """Every way to take one node of each class."""
    return list(product(*(range(max(len(c.nodes), 1)) for c in inputs.classes)))


def tree_cost(inputs: ExtractionInputs, choice: Choice, eclass: int, depth: int = 0) -> float:
    """Cost of the term that takes node ``choice[c]`` of class c; infinite for cycles and classes without nodes."""
    if eclass >= len(inputs.classes) or depth > len(inputs.classes) or not inputs.classes[eclass].nodes:
        return math.inf
    node = inputs.classes[eclass].nodes[choice[eclass]]
    return node_cost(inputs, node) + sum(tree_cost(inputs, choice, c, depth + 1) for c in node.children)


def shared_cost(inputs: ExtractionInputs, choice: Choice) -> float:
    """The same with every class counted once."""
    if tree_cost(inputs, choice, inputs.root) == math.inf:
        return math.inf
    used, new = {inputs.root}, {inputs.root}
    while new:
        new = {child for c in new for child in inputs.classes[c].nodes[choice[c]].children} - used
        used |= new
    return sum(node_cost(inputs, inputs.classes[c].nodes[choice[c]]) for c in used)


LIMIT = 2**64 - 1


@given(egraphs())
def test_extraction_is_the_cheapest_tree(inputs: ExtractionInputs) -> None:
    best = min(tree_cost(inputs, choice, inputs.root) for choice in choices(inputs))
    found = extract_best_for_device(inputs)
    if found is None:
        assert best == math.inf
        return
    assert found.cost == min(best, LIMIT)
    chosen = tuple(found.chosen.get(c, 0) for c in range(len(inputs.classes)))
    again = tree_cost(inputs, chosen, inputs.root)
    assert again < math.inf and min(again, LIMIT) == found.cost
    assert all(tree_cost(inputs, chosen, c) < math.inf for c in found.chosen)
    assert dag_cost(inputs, found) <= found.cost
    assert found.node is inputs.classes[inputs.root].nodes[found.chosen[inputs.root]]


@given(egraphs())
def test_dag_extraction_is_a_term_no_dearer_than_the_cheapest_tree(inputs: ExtractionInputs) -> None:
    tree = extract_best_for_device(inputs)
    found = extract_best_for_device(replace(inputs, cost_model=CostModel.DAG))
    if tree is None or found is None:
        assert tree is found is None
        return
    chosen = tuple(found.chosen.get(c, 0) for c in range(len(inputs.classes)))
    assert found.cost == dag_cost(inputs, found) == min(shared_cost(inputs, chosen), LIMIT)
    assert min(shared_cost(inputs, choice) for choice in choices(inputs)) <= found.cost or found.cost == LIMIT
    assert found.cost <= dag_cost(inputs, tree)
    for c, nodes in enumerate(eclass.nodes for eclass in inputs.classes):
        for n in range(len(nodes)):  # no exchange of one node is left that saves anything
            assert shared_cost(inputs, (*chosen[:c], n, *chosen[c + 1 :])) >= shared_cost(inputs, chosen)


# subgroup


@given(records(SubgroupFeatureRange))
def test_subgroup_capabilities(reported: SubgroupFeatureRange) -> None:
    found = from_feature_range(reported)
    assert found.is_usable == (reported.supports_feature and 0 < reported.min_size <= reported.max_size)
    assert found.is_usable or found == SubgroupCapabilities(False, False, 0)


@given(st.integers(0, 31), integers(0, 2**31))
def test_reduction_offsets_reach_every_lane(power: int, size: int) -> None:
    assert sum(reduction_offsets(ReductionInputs(2**power))) == 2**power - 1
    offsets = reduction_offsets(ReductionInputs(size))
    assert all(larger == 2 * smaller for larger, smaller in pairwise(offsets))
    assert sum(offsets) + 1 >= size
    assert not offsets or offsets[-1] == 1


# strategy

STRATEGIES = st.lists(
    st.builds(Strategy, st.sampled_from("abcd"), st.booleans(), st.integers(0, 2)),
    max_size=4,
    unique_by=lambda s: s.name,
)


@given(STRATEGIES)
def test_the_highest_priority_wins_and_by_name_in_any_order(strategies: list[Strategy]) -> None:
    applicable = [s for s in strategies if s.applies]
    found = {select_strategy(StrategyInputs(order, by_name=True)) for order in permutations(strategies)}
    assert len(found) == 1
    for chosen in (select_strategy(StrategyInputs(tuple(strategies))), *found):
        assert (chosen is None) == (not applicable)
        assert chosen is None or (chosen.applies and chosen.priority == max(s.priority for s in applicable))


# dispatch_shape

SIMILAR = records(
    LaunchConfig,
    profile=st.none() | st.sampled_from(["a", "b"]),
    label=st.none() | st.just("x"),
    workgroup_override=st.none() | st.just((1, 1, 1)),
    grid_override=st.none(),
    max_output_bytes=st.none() | st.integers(0, 1),
    ulp_budget=st.none() | st.integers(0, 1),
    fixpoint_iterations=st.none() | st.integers(0, 2),
)


@given(SIMILAR, SIMILAR, SIMILAR)
def test_launch_shapes_are_an_equivalence(a: LaunchConfig, b: LaunchConfig, c: LaunchConfig) -> None:
    share = dispatch_configs_share_launch_shape
    assert share(a, b) == share(b, a)
    assert share(a, a) == (a.fixpoint_iterations != 0)
    assert share(a, c) or not (share(a, b) and share(b, c))
    assert share(a, replace(a, timeout_ms=77, label="other")) == share(a, a)
    assert share(a, b) == (launch_shape_key(a) is not None and launch_shape_key(a) == launch_shape_key(b))


@given(st.lists(st.lists(st.integers(0, 2), max_size=2).map(tuple), max_size=4).map(tuple))
def test_batch_shapes(lengths: tuple[tuple[int, ...], ...]) -> None:
    assert input_batch_shapes_match(lengths) == (len(set(lengths)) <= 1)
