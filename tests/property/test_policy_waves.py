"""Invariants of waves, of groups that fit a budget, and of typed nodes that become waves, for any input."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.frontier_execution import FrontierInputs, FrontierPlan, WaveEnvelope, fused_wave_bytes, plan_frontier
from vectors.seeds.frontier_ir import FrontierWaveSizes, node_waves, waves_from_frontier_ir
from vyre.domain.errors import PlanError
from vyre.domain.record import U64_MAX
from vyre.policies.frontiers.frontier_ir import FrontierDomain, FrontierIr, FrontierNode, plan_frontier_ir
from vyre.policies.frontiers.waves import BarrierInputs, Dependencies, plan_barriers

SIZES = st.integers(0, 30)
SMALL = st.builds(WaveEnvelope, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
ENVELOPES = st.lists(SMALL | SMALL | SMALL | st.builds(WaveEnvelope, SIZES, SIZES, SIZES), max_size=9).map(tuple)
GRAPH = 10
LARGEST = 180
"""Fused bytes of the largest wave."""
SCARCE = st.integers(GRAPH + 50, GRAPH + LARGEST)
AMPLE = st.integers(GRAPH + LARGEST, 1000)
ENVELOPE = tuple(f.name for f in fields(WaveEnvelope))


@st.composite
def orders(draw: st.DrawFn, count: int) -> Dependencies:
    """Dependencies of ``count`` waves along some order of theirs, hence without a cycle; some twice."""
    pairs = tuple(combinations(draw(st.permutations(range(count))), 2))
    return tuple(draw(st.lists(st.sampled_from(pairs), max_size=20))) if pairs else ()


@st.composite
def frontiers(draw: st.DrawFn, budgets: st.SearchStrategy[int] = AMPLE) -> FrontierInputs:
    waves = draw(ENVELOPES)
    return FrontierInputs(waves, draw(orders(len(waves))), GRAPH, draw(budgets), draw(SIZES), draw(st.booleans()))


@st.composite
def programs(draw: st.DrawFn) -> FrontierIr:
    """Acyclic programs whose ids say nothing about their order."""
    ids = draw(st.lists(st.integers(0, 99), unique=True, max_size=12))
    edges = draw(orders(len(ids)))
    items = st.integers(0, 2**32 - 1)
    nodes = [FrontierNode(node, draw(st.sampled_from(FrontierDomain)), draw(items)) for node in ids]
    return FrontierIr(tuple(nodes), tuple((ids[before], ids[after]) for before, after in edges))


def layers_of(inputs: FrontierInputs) -> tuple[tuple[int, ...], ...]:
    return plan_barriers(BarrierInputs(len(inputs.waves), inputs.dependencies)).groups


def place_of(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Which group each wave is in."""
    return {wave: place for place, group in enumerate(groups) for wave in group}


def longest_chain(waves: int, dependencies: Dependencies) -> int:
    depth = [1] * waves
    for _ in range(waves):
        for before, after in dependencies:
            depth[after] = max(depth[after], depth[before] + 1)
    return max(depth, default=0)


def planned(inputs: FrontierInputs) -> FrontierPlan | None:
    """The plan, or None if the budget is too small."""
    try:
        return plan_frontier(inputs)
    except PlanError as error:
        assert error.kind == "GroupOverBudget"
        return None


def fused(inputs: FrontierInputs, group: Sequence[int]) -> int:
    return sum(fused_wave_bytes(inputs.waves[wave]) for wave in group)


@given(frontiers())
def test_layers_are_as_few_as_the_longest_chain(inputs: FrontierInputs) -> None:
    count = len(inputs.waves)
    plan = plan_barriers(BarrierInputs(count, inputs.dependencies))
    assert sorted(wave for group in plan.groups for wave in group) == list(range(count))
    layer = place_of(plan.groups)
    assert all(layer[before] < layer[after] for before, after in inputs.dependencies)
    assert len(plan.groups) == longest_chain(count, inputs.dependencies)
    assert plan.global_barriers == max(len(plan.groups) - 1, 0)


@given(frontiers(), st.randoms())
def test_other_names_for_waves_change_names_only(inputs: FrontierInputs, random: Random) -> None:
    count = len(inputs.waves)
    names = random.sample(range(count), count)
    renamed = tuple((names[before], names[after]) for before, after in inputs.dependencies)
    theirs = plan_barriers(BarrierInputs(count, renamed)).groups
    assert [{names[wave] for wave in group} for group in layers_of(inputs)] == [set(group) for group in theirs]


@given(frontiers(), st.randoms())
def test_order_and_repetition_of_dependencies_change_no_layer(inputs: FrontierInputs, random: Random) -> None:
    twice = inputs.dependencies * 2
    shuffled = replace(inputs, dependencies=tuple(random.sample(twice, len(twice))))
    assert list(map(set, layers_of(shuffled))) == list(map(set, layers_of(inputs)))


@given(frontiers())
def test_an_edge_back_leaves_no_order(inputs: FrontierInputs) -> None:
    for before, after in inputs.dependencies:
        with pytest.raises(PlanError) as error:
            plan_frontier(replace(inputs, dependencies=(*inputs.dependencies, (after, before))))
        source = error.value.fields["source"]
        assert error.value.kind == "Barrier" and isinstance(source, PlanError) and source.kind == "Cycle"


@given(frontiers(SCARCE | AMPLE))
def test_groups_are_layers_cut_in_order(inputs: FrontierInputs) -> None:
    before = copy.deepcopy(inputs)
    plan = planned(inputs)
    assert planned(inputs) == plan
    assert inputs == before
    if plan is None:
        return
    groups, layers = plan.barriers.groups, layers_of(inputs)
    assert [wave for group in groups for wave in group] == [wave for layer in layers for wave in layer]
    layer = place_of(layers)
    assert all(len({layer[wave] for wave in group}) == 1 for group in groups)
    assert plan.barriers.global_barriers == max(len(groups) - 1, 0)
    assert plan.max_group_width == max(map(len, groups), default=0)
    assert plan.peak_live_bytes == GRAPH + max((fused(inputs, group) for group in groups), default=0)
    sums = [max((sum(getattr(inputs.waves[w], name) for w in g) for g in groups), default=0) for name in ENVELOPE]
    assert [plan.peak_frontier_bytes, plan.peak_scratch_bytes, plan.peak_output_bytes] == sums
    assert plan.amortized_readback_bytes == max(inputs.readback_bytes, plan.peak_output_bytes)


@given(frontiers(SCARCE | AMPLE))
def test_only_a_wave_that_nobody_checked_exceeds_the_budget(inputs: FrontierInputs) -> None:
    room = inputs.budget_bytes - GRAPH
    large = {wave for wave, envelope in enumerate(inputs.waves) if fused_wave_bytes(envelope) > room}
    plan = planned(inputs)
    firsts = {layer[0] for layer in layers_of(inputs)}
    assert (plan is None) == bool(large if inputs.check_every_wave else large & firsts)
    if plan is None:
        return
    groups = plan.barriers.groups
    assert all(fused(inputs, group) <= room or (len(group) == 1 and group[0] in large) for group in groups)
    for group, following in pairwise(groups):
        if following[0] not in firsts:  # as many waves as the budget holds
            assert fused(inputs, (*group, following[0])) > room


@given(frontiers(SCARCE | AMPLE), st.integers(0, 500))
def test_a_smaller_budget_takes_no_fewer_groups(inputs: FrontierInputs, more: int) -> None:
    poor, rich = planned(inputs), planned(replace(inputs, budget_bytes=inputs.budget_bytes + more))
    if poor is not None:
        assert rich is not None and len(poor.barriers.groups) >= len(rich.barriers.groups)


@given(frontiers())
def test_a_budget_for_everything_cuts_nothing(inputs: FrontierInputs) -> None:
    everything = GRAPH + fused(inputs, range(len(inputs.waves)))
    assert plan_frontier(replace(inputs, budget_bytes=everything)).barriers.groups == layers_of(inputs)


def extremes(inputs: FrontierInputs) -> Iterator[FrontierInputs]:
    """``inputs`` with one number of bytes at the upper end."""
    yield replace(inputs, resident_graph_bytes=U64_MAX)
    yield replace(inputs, readback_bytes=U64_MAX)
    for i, wave in enumerate(inputs.waves):
        for name in ENVELOPE:
            waves = (*inputs.waves[:i], replace(wave, **{name: U64_MAX}), *inputs.waves[i + 1 :])
            yield replace(inputs, waves=waves)


@given(frontiers())
def test_nothing_wraps(inputs: FrontierInputs) -> None:
    for extreme in extremes(replace(inputs, budget_bytes=U64_MAX, check_every_wave=True)):
        try:
            plan = plan_frontier(extreme)
        except PlanError as error:
            assert error.kind in {"ByteCountOverflow", "GroupOverBudget"}
        else:
            assert plan.peak_live_bytes <= U64_MAX
            assert plan.amortized_readback_bytes <= U64_MAX


@given(programs(), st.randoms())
def test_every_node_runs_once_and_after_all_it_depends_on(program: FrontierIr, random: Random) -> None:
    waves = plan_frontier_ir(program).waves
    wave_of = {node: wave.index for wave in waves for node in wave.node_ids}
    assert sorted(wave_of) == sorted(node.id for node in program.nodes) == sorted(n for w in waves for n in w.node_ids)
    for node, wave in wave_of.items():  # as early as it can
        before = [wave_of[first] for first, second in program.dependencies if second == node]
        assert wave == max(before, default=-1) + 1
    assert sum(wave.active_items for wave in waves) == sum(node.active_items for node in program.nodes)
    shuffled = tuple(random.sample(program.nodes, len(program.nodes)))
    assert plan_frontier_ir(replace(program, nodes=shuffled)).waves == waves


@given(programs(), st.tuples(SIZES, SIZES, SIZES))
def test_kept_edges_take_the_barriers_of_the_program(program: FrontierIr, bytes_per: tuple[int, int, int]) -> None:
    """Nodes that are waves of their own run as early as in the plan of the program; a chain runs them one by one."""
    items, edges = node_waves(program)
    kept = waves_from_frontier_ir(FrontierWaveSizes(items, *bytes_per, edges))
    chain = waves_from_frontier_ir(FrontierWaveSizes(items, *bytes_per))
    assert kept.waves == chain.waves and kept.active_items == chain.active_items == items
    groups = plan_barriers(BarrierInputs(len(items), kept.dependencies)).groups
    by_id = [sorted(program.nodes[place].id for place in group) for group in groups]
    assert by_id == [sorted(wave.node_ids) for wave in plan_frontier_ir(program).waves]
    assert plan_barriers(BarrierInputs(len(items), chain.dependencies)).groups == tuple((i,) for i in range(len(items)))
