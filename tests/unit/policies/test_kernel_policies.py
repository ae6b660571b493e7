"""Fusion, extraction, subgroups, strategies and arithmetic; invariants are in ``test_policy_invariants_compile``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import pytest

from support.egraphs.extraction_costs import dag_cost
from vectors.seeds import ratios
from vectors.seeds.device_extraction import (
    AutotuneRecord,
    BiasThresholds,
    CostModel,
    EClass,
    ENode,
    ExtractionInputs,
    extract_best_for_device,
    node_cost,
)
from vectors.seeds.extraction_cost import (
    ExtractionProfile,
    ExtractionThresholds,
    NodeCostInputs,
    NodeHints,
    device_aware_cost,
)
from vectors.seeds.fusion import (
    Accept,
    BufferRelation,
    CrossWorkgroupDependency,
    FusionCaps,
    FusionHazards,
    FusionInputs,
    KernelShape,
    decide_fusion,
)
from vectors.seeds.precision_lowering import (
    POLYNOMIALS,
    DefaultF32,
    F16Eligible,
    NativeF16,
    PolynomialOp,
    PolynomialTranscendental,
    PrecisionHint,
    PrecisionInputs,
    PrecisionPlan,
    TranscendentalPolynomial,
    select_precision_lowering,
)
from vectors.seeds.ratios import align_up, float_to_u64
from vectors.seeds.strategy import Strategy, StrategyInputs, select_strategy
from vectors.seeds.subgroup import (
    ReductionInputs,
    reduction_offsets,
)
from vyre.domain.errors import InvalidField
from vyre.policies import arith
from vyre.policies.prediction.trace_jit import TraceJitInputs
from vyre.policies.stage_fusion.launch_fusion import AccessRelation


@pytest.mark.parametrize(
    ("relations", "expected"),
    [
        ({"m": AccessRelation.POINTWISE}, Accept(needs_barrier=False)),
        ({"m": AccessRelation.WORKGROUP}, Accept(needs_barrier=True)),
        ({"m": AccessRelation.GLOBAL}, CrossWorkgroupDependency("m")),
        ({}, CrossWorkgroupDependency("m")),
    ],
)
def test_hazards_decide_how_kernels_are_stitched(
    relations: dict[str, AccessRelation], expected: Accept | CrossWorkgroupDependency
) -> None:
    producer = KernelShape((64, 1, 1), 0, ("x",), ("m",))
    consumer = KernelShape((64, 1, 1), 0, ("m",), ("y",))
    listed = tuple(BufferRelation(name, relation) for name, relation in relations.items())
    inputs = FusionInputs(producer, consumer, FusionCaps(0, 64), hazards=FusionHazards(listed))
    assert decide_fusion(inputs) == expected
    overwrites = replace(inputs, downstream=replace(consumer, outputs=("x",)))
    assert isinstance(decide_fusion(overwrites), CrossWorkgroupDependency)


def test_extraction_of_a_missing_root_and_of_shared_terms() -> None:
    profile, hints = ExtractionProfile(False, False, True), NodeHints()
    leaf = EClass((ENode(0, 100, hints),))
    twice = EClass((ENode(1, 2, hints, (0, 0)),))
    inputs = ExtractionInputs((leaf, twice), 1, profile)
    found = extract_best_for_device(inputs)
    assert found is not None
    assert (found.cost, dag_cost(inputs, found)) == (101, 51)
    assert extract_best_for_device(replace(inputs, root=2)) is None


PLAIN = ExtractionProfile(False, False, True)
"""Halves every cost."""


def test_free_nodes_do_not_make_a_term_of_itself() -> None:
    hints = NodeHints()
    loop = EClass((ENode(0, 0, hints, (1,)), ENode(1, 10, hints)))
    inputs = ExtractionInputs((loop, EClass((ENode(2, 0, hints, (0,)),))), 1, PLAIN)
    found = extract_best_for_device(inputs)
    assert found is not None
    assert (found.cost, found.chosen, dag_cost(inputs, found)) == (5, {0: 1, 1: 0}, 5)
    saturated = EClass((ENode(0, 50, hints, (0,)), ENode(1, 2**64 - 1, hints)))
    found = extract_best_for_device(ExtractionInputs((saturated,), 0, replace(PLAIN, hot=False)))
    assert found is not None
    assert (found.cost, found.chosen) == (2**64 - 1, {0: 1})


def test_a_shared_class_is_paid_once_if_asked() -> None:
    hints = NodeHints()
    shared = EClass((ENode(0, 100, hints),))
    left = EClass((ENode(1, 60, hints), ENode(2, 2, hints, (0,)), ENode(4, 0, hints, (2,)), ENode(5, 0, hints, (9,))))
    root = EClass((ENode(3, 2, hints, (0, 1)),))
    inputs = ExtractionInputs((shared, left, root), 2, PLAIN)
    tree = extract_best_for_device(inputs)
    dag = extract_best_for_device(replace(inputs, cost_model=CostModel.DAG))
    assert tree is not None and dag is not None
    assert (tree.cost, tree.chosen[1], dag_cost(inputs, tree)) == (81, 0, 81)
    assert (dag.cost, dag.chosen[1], dag_cost(inputs, dag)) == (52, 1, 52)


def test_classes_shared_on_several_levels_are_no_loop() -> None:
    hints = NodeHints()
    nodes = (ENode(0, 8, hints), ENode(1, 4, hints, (0,)), ENode(2, 4, hints, (1, 0)), ENode(3, 2, hints, (1, 2, 1, 0)))
    inputs = ExtractionInputs(tuple(EClass((node,)) for node in nodes), 3, PLAIN, cost_model=CostModel.DAG)
    found = extract_best_for_device(inputs)
    assert found is not None
    assert found.cost == dag_cost(inputs, found) == 9


def test_of_equally_cheap_terms_the_first_wins() -> None:
    twins = EClass((ENode(0, 10, NodeHints()), ENode(1, 10, NodeHints())))
    for cost_model in CostModel:
        found = extract_best_for_device(ExtractionInputs((twins,), 0, PLAIN, cost_model=cost_model))
        assert found is not None
        assert (found.chosen, found.tie) == ({0: 0}, True)


def test_a_chain_deeper_than_any_sweep_is_extracted() -> None:
    hints = NodeHints()
    depth = 5_000
    chain = (EClass((ENode(0, 2, hints),)), *(EClass((ENode(i, 2, hints, (i - 1,)),)) for i in range(1, depth)))
    found = extract_best_for_device(ExtractionInputs(chain, depth - 1, ExtractionProfile(False, False, True)))
    assert found is not None
    assert found.cost == depth


@pytest.mark.parametrize("width", [0, 1, 2, 3, 31, 32, 33, 64, 2**31])
def test_reduction_offsets(width: int) -> None:
    offsets = reduction_offsets(ReductionInputs(width))
    assert sum(offsets) == max(arith.next_power_of_two(width) - 1, 0)
    assert list(offsets) == sorted(offsets, reverse=True)


def test_reduction_of_too_wide_a_subgroup() -> None:
    with pytest.raises(InvalidField, match="subgroup_size"):
        reduction_offsets(ReductionInputs(2**31 + 1))


STRATEGIES = [Strategy("b", True, 50), Strategy("a", True, 50), Strategy("c", True, 10), Strategy("z", False, 99)]


def test_strategies_by_name_do_not_depend_on_order() -> None:
    found = {select_strategy(StrategyInputs(order, by_name=True)) for order in permutations(STRATEGIES)}
    assert found == {Strategy("a", True, 50)}
    assert select_strategy(StrategyInputs(tuple(STRATEGIES))) == Strategy("a", True, 50)
    assert select_strategy(StrategyInputs(tuple(reversed(STRATEGIES)))) == Strategy("b", True, 50)
    assert select_strategy(StrategyInputs((), by_name=True)) is None


SINE, EXP = TranscendentalPolynomial(PolynomialOp.SIN, 0.25), TranscendentalPolynomial(PolynomialOp.EXP, 1.0)


@pytest.mark.parametrize(
    ("hint", "enough", "lowered"),
    [
        (F16Eligible(1.0), 4_096, NativeF16(1.0)),
        (SINE, 550, PolynomialTranscendental(PolynomialOp.SIN, 0.25, 3)),
        (replace(SINE, argument_bound=0.7), 613, PolynomialTranscendental(PolynomialOp.SIN, 0.7, 5)),
        (EXP, 40_698, PolynomialTranscendental(PolynomialOp.EXP, 1.0, 5)),
    ],
)
def test_an_error_budget_is_kept(hint: PrecisionHint, enough: int, lowered: PrecisionPlan) -> None:
    inputs = PrecisionInputs(True, True, hint)
    assert select_precision_lowering(inputs) == lowered
    assert select_precision_lowering(replace(inputs, ulp_budget=enough)) == lowered
    for budget in (0, enough - 1):
        refused = select_precision_lowering(replace(inputs, ulp_budget=budget))
        assert refused == DefaultF32()
        assert str(budget) in str(refused.why)


@pytest.mark.parametrize("bound", [0.8, float("nan")])
def test_a_budget_holds_no_error_that_is_not_known(bound: float) -> None:
    inputs = PrecisionInputs(False, True, TranscendentalPolynomial(PolynomialOp.COS, bound))
    assert isinstance(select_precision_lowering(inputs), PolynomialTranscendental)
    assert select_precision_lowering(replace(inputs, ulp_budget=2**32 - 1)) == DefaultF32()


class Series(NamedTuple):
    """``coefficient(k)`` of ``(x - centre) ** k``, for arguments from ``start`` to the limit."""

    exact: Callable[[float], float]
    coefficient: Callable[[int], float]
    start: Callable[[float], float] = lambda limit: -limit
    centre: float = 0.0


SERIES = {
    PolynomialOp.SIN: Series(math.sin, lambda k: math.sin(k * math.pi / 2) / math.factorial(k)),
    PolynomialOp.COS: Series(math.cos, lambda k: math.cos(k * math.pi / 2) / math.factorial(k)),
    PolynomialOp.EXP: Series(math.exp, lambda k: 1 / math.factorial(k)),
    PolynomialOp.LN: Series(math.log, lambda k: -((-1) ** k) / k if k else 0.0, lambda limit: 1.0, 1.0),
}


@pytest.mark.parametrize(("op", "series"), SERIES.items(), ids=lambda item: getattr(item, "value", ""))
def test_errors_of_polynomials_are_those_of_the_series(op: PolynomialOp, series: Series) -> None:
    for degree, limit, ulps in POLYNOMIALS[op]:
        start = series.start(limit)
        worst = 0.0
        for x in (start + (limit - start) * i / 2001 for i in range(2002)):
            value = sum(series.coefficient(k) * (x - series.centre) ** k for k in range(degree + 1))
            exact = series.exact(x)
            worst = max(worst, abs(value - exact) / 2.0 ** (math.frexp(exact)[1] - 24) if exact else 0.0)
        assert worst <= ulps - 4 < worst + 1


@pytest.mark.parametrize("value", [-2.5, -0.5, 0.49999999999999994, 0.5, 1.5, 2.5, 2.0**52 + 1])
def test_halves_round_away_from_zero(value: float) -> None:
    rounded = ratios.round_half_away(value)
    assert abs(rounded - value) <= 0.5
    assert abs(rounded) >= abs(value) or abs(rounded - value) < 0.5


def test_alignment_within_64_bits() -> None:
    assert align_up(1, 16, 17) == 32
    with pytest.raises(InvalidField, match="alignment"):
        align_up(1, 0)
    with pytest.raises(InvalidField, match="value"):
        align_up(2**64 - 1, 16)


@pytest.mark.parametrize("value", [-1.0, 2.0**64, float("nan"), float("inf")])
def test_floats_outside_64_bits(value: float) -> None:
    with pytest.raises(InvalidField, match="float_to_u64"):
        float_to_u64(value)


@pytest.mark.parametrize(
    ("hints", "speculates", "expected"),
    [
        (NodeHints(), True, 50_000_000),
        (NodeHints(compile_time_constant=True), False, 40_000_000),
        (NodeHints(fp16_eligible=True), False, 47_500_000),
        (NodeHints(compile_time_constant=True), True, 28_000_000),
    ],
)
def test_biases(hints: NodeHints, speculates: bool, expected: int) -> None:
    jit = TraceJitInputs(9, 9_000, 0, 1_000) if speculates else None
    node = ENode(0, 10**8, hints)
    inputs = ExtractionInputs((), 0, ExtractionProfile(False, False, True), AutotuneRecord(2, (2, 1, 1)), jit)
    assert node_cost(inputs, node) == expected


def test_factors_of_a_caller_reach_every_node() -> None:
    thresholds = BiasThresholds(unroll_bps=0, extraction=ExtractionThresholds(hot_bps=10_000))
    constant = ENode(0, 50_000, NodeHints(compile_time_constant=True))
    inputs = ExtractionInputs((EClass((constant, ENode(1, 7, NodeHints()))),), 0, PLAIN, AutotuneRecord(2, (1, 1, 1)))
    assert node_cost(inputs, constant, thresholds) == 5  # never free
    found = extract_best_for_device(inputs, thresholds)
    assert found is not None
    assert (found.cost, found.chosen) == (5, {0: 0})


@pytest.mark.parametrize(
    ("base", "thresholds", "cost"),
    [
        (1_000, ExtractionThresholds(hot_bps=50_000), 4_000),
        (1_000, ExtractionThresholds(hot_bps=50_000, max_scale_bps=0), 5_000),
        (1_000, ExtractionThresholds(hot_bps=0), 1_000),
        (1, ExtractionThresholds(hot_bps=1), 0),
        (1, ExtractionThresholds(hot_bps=1, forbid_zero=True), 1),
        (0, ExtractionThresholds(hot_bps=1, forbid_zero=True), 0),
    ],
)
def test_costs_are_clamped(base: int, thresholds: ExtractionThresholds, cost: int) -> None:
    assert device_aware_cost(NodeCostInputs(PLAIN, base, NodeHints()), thresholds) == cost
