"""Typed nodes of a frontier program become waves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vectors.seeds.frontier_execution import WaveEnvelope
from vectors.seeds.frontier_ir import FrontierWaveSizes, node_waves, waves_from_frontier_ir
from vyre.domain.errors import PlanError
from vyre.policies.frontiers.frontier_ir import FrontierDomain, FrontierIr, FrontierNode, plan_frontier_ir
from vyre.policies.frontiers.waves import BarrierInputs, Dependencies, plan_barriers
from vyre.policies.record import U64_MAX

PARSER, SEMANTIC, DATAFLOW, DIAGNOSTIC = FrontierDomain


def ir(nodes: Sequence[tuple[int, FrontierDomain, int]], dependencies: Dependencies = ()) -> FrontierIr:
    return FrontierIr(tuple(FrontierNode(*node) for node in nodes), dependencies)


def test_nodes_of_a_wave_stand_by_domain_and_id() -> None:
    nodes = [(9, DIAGNOSTIC, 1), (7, PARSER, 2), (3, DATAFLOW, 4), (2, PARSER, 8), (5, SEMANTIC, 16)]
    plan = plan_frontier_ir(ir(nodes, ((9, 5),)))
    first, second = plan.waves
    assert (first.index, first.node_ids, first.active_items) == (0, (2, 7, 3, 9), 15)
    assert first.domains == (PARSER, DATAFLOW, DIAGNOSTIC)
    assert (second.index, second.node_ids, second.domains, second.active_items) == (1, (5,), (SEMANTIC,), 16)
    assert str(plan.why) == "a chain of 2 of the 5 nodes is the longest"


def test_no_node_is_no_wave() -> None:
    assert plan_frontier_ir(ir([])).waves == ()


@pytest.mark.parametrize(
    ("ids", "dependencies", "kind", "fields"),
    [
        ((4, 4), ((9, 9),), "DuplicateNode", {"id": 4}),
        ((4,), ((8, 9),), "UnknownDependencyNode", {"id": 8}),
        ((4,), ((4, 9),), "UnknownDependencyNode", {"id": 9}),
        ((4,), ((4, 4),), "Cycle", {"unscheduled_nodes": 1}),
        ((1, 2, 3, 4), ((1, 2), (2, 3), (3, 2), (3, 4)), "Cycle", {"unscheduled_nodes": 3}),
    ],
)
def test_what_has_no_order_is_refused(
    ids: Sequence[int], dependencies: Dependencies, kind: str, fields: dict[str, int]
) -> None:
    with pytest.raises(PlanError) as error:
        plan_frontier_ir(ir([(node, PARSER, 1) for node in ids], dependencies))
    assert (error.value.kind, error.value.fields) == (kind, fields)


def test_waves_take_memory_by_their_items() -> None:
    made = waves_from_frontier_ir(FrontierWaveSizes((3, 0, 5), 2, 7, 11))
    assert made.waves == (WaveEnvelope(6, 21, 11), WaveEnvelope(0, 0, 11), WaveEnvelope(10, 35, 11))
    assert made.active_items == (3, 0, 5)
    assert made.dependencies == ((0, 1), (1, 2))
    assert str(made.why) == "3 waves run one after the other, for nobody says what they depend on"


@pytest.mark.parametrize(
    ("frontier", "scratch", "field"), [(2, 0, "wave frontier bytes"), (0, 2, "wave scratch bytes")]
)
def test_bytes_stay_in_64_bits(frontier: int, scratch: int, field: str) -> None:
    half = U64_MAX // 2
    assert waves_from_frontier_ir(FrontierWaveSizes((half,), frontier, scratch, 0)).active_items == (half,)
    with pytest.raises(PlanError) as error:
        waves_from_frontier_ir(FrontierWaveSizes((half + 1,), frontier, scratch, 0))
    assert (error.value.kind, error.value.fields["field"]) == ("ByteCountOverflow", field)


def test_given_dependencies_keep_what_can_run_side_by_side() -> None:
    """Two chains of two: as a chain of four waves they take three barriers, by their own edges one."""
    program = ir([(node, DATAFLOW, 1) for node in (10, 20, 30, 40)], ((10, 20), (30, 40)))
    items, edges = node_waves(program)
    assert (items, edges) == ((1, 1, 1, 1), ((0, 1), (2, 3)))
    chain = waves_from_frontier_ir(FrontierWaveSizes(items, 1, 1, 1))
    kept = waves_from_frontier_ir(FrontierWaveSizes(items, 1, 1, 1, edges))
    assert plan_barriers(BarrierInputs(4, chain.dependencies)).global_barriers == 3
    assert plan_barriers(BarrierInputs(4, kept.dependencies)).groups == ((0, 2), (1, 3))
    assert str(kept.why) == "4 waves run as 2 dependencies allow"
