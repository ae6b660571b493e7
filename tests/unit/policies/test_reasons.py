"""Every reason of a verdict, as a person reads it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.arm_verdicts import can_dispatch_concurrently
from vectors.seeds.async_copy_overlap import CopyOverlapInputs, can_overlap_copy_with_kernel
from vectors.seeds.bindless import BindlessInputs, BindlessSupport, decide_bindless
from vectors.seeds.dispatch_policy import select_primary_execution_mode
from vectors.seeds.fused_speculation import race_variants
from vectors.seeds.fusion import BufferRelation, FusionCaps, FusionHazards, FusionInputs, KernelShape, decide_fusion
from vectors.seeds.pipeline_fusion import decide_cross_pipeline_fusion
from vectors.seeds.precision_lowering import (
    DefaultHint,
    F16Eligible,
    PolynomialOp,
    PrecisionInputs,
    TranscendentalPolynomial,
    select_precision_lowering,
)
from vectors.seeds.routing import KeyDistribution, select_sort_backend
from vectors.seeds.speculate import PathInputs, SpeculatorSettings, SpeculatorState, VariantRaceInputs, choose_path
from vectors.seeds.speculation import SpeculationObservation, decide_speculation
from vyre.app.shape_predictor import ShapePredictor
from vyre.domain.dispatch import SpeculationMode
from vyre.policies.concurrency.hazards import Access, AccessMode
from vyre.policies.evidence.claims import ClaimInputs, MeasuredSide, judge_claim
from vyre.policies.launching.bindless import ResourceTableInputs, plan_resource_table
from vyre.policies.launching.command_reuse import (
    CommandReuseInputs,
    PlainLaunches,
    RecordAndReplay,
    decide_command_reuse,
)
from vyre.policies.launching.param_inlining import ParamInliningInputs, ParamInliningPolicy, decide_param_inlining
from vyre.policies.launching.persistent_kernel import (
    PersistentKernel,
    PersistentKernelInputs,
    StandardLaunches,
    decide_persistent_kernel,
)
from vyre.policies.prediction.shape_prediction import LEARNING, PINNED, PredictionThresholds
from vyre.policies.prediction.trace_jit import TraceJitInputs, decide_trace_jit_speculation
from vyre.policies.record import Reason, verdict, why_field
from vyre.policies.stage_fusion.launch_fusion import AccessRelation
from vyre.policies.tuning.paired_race import PairedRace, RaceThresholds, judge_race


class Case(NamedTuple):
    decide: Callable[..., Any]
    inputs: tuple[Any, ...]
    text: str

    def why(self) -> Reason:
        why: Reason = self.decide(*self.inputs).why
        return why


def predictor(shapes: str, thresholds: PredictionThresholds) -> ShapePredictor[str]:
    found: ShapePredictor[str] = ShapePredictor(thresholds)
    for shape in shapes:
        found.record(shape)
    return found


def race(pairs: int, baseline_ns: int, challenger_ns: int, worth_bps: int = 100) -> PairedRace:
    found = PairedRace.start(RaceThresholds(worth_bps=worth_bps))
    for _ in range(pairs):
        found = found.record(baseline_ns, challenger_ns)
    return found


FULL, STATIC, NONE = BindlessSupport.FULL, BindlessSupport.STATIC, BindlessSupport.UNSUPPORTED
READER, WRITER = ArmAccess(frozenset({1, 2}), frozenset()), ArmAccess(frozenset(), frozenset({2, 1}))
OTHER_WRITER = ArmAccess(frozenset(), frozenset({0, 2}))
FIRST_HALF = Access(3, AccessMode.READ, ((0, 8),))
STATE = SpeculatorState.start()
OFF = SpeculatorState(SpeculatorSettings(), 7, 3, False)


def arm(*ranges: Access) -> ArmAccess:
    return ArmAccess(frozenset(), frozenset(), ranges)


def kernel(inputs: str, outputs: str, shared: int = 0, lanes: int = 32) -> KernelShape:
    return KernelShape((lanes, 1, 1), shared, tuple(inputs), tuple(outputs))


def fusion(
    up: KernelShape, down: KernelShape, others: str = "", relations: dict[str, AccessRelation] | None = None
) -> FusionInputs:
    hazards = None
    if relations is not None:
        hazards = FusionHazards(tuple(BufferRelation(name, relation) for name, relation in relations.items()))
    return FusionInputs(up, down, FusionCaps(1_000, 64), tuple(others), hazards)


PRODUCER, CONSUMER = kernel("a", "bcdef"), kernel("fedcb", "g")
OWN_LANE = dict.fromkeys("bcdef", AccessRelation.POINTWISE)
NEIGHBOURS = OWN_LANE | {"b": AccessRelation.WORKGROUP}

SIDE, OTHER = MeasuredSide("a", "d", "r", (3.0,) * 6), MeasuredSide("b", "d", "r", (10.0,) * 6)
CASES = [
    Case(decide_persistent_kernel, (PersistentKernelInputs(1, 9, 9, 9),), "a batch of 1 is below the minimum of 2"),
    Case(
        decide_persistent_kernel,
        (PersistentKernelInputs(4, 100, 9, 150),),
        "4 launches of 100 ns cost 250 ns more than a setup of 150 ns",
    ),
    Case(
        decide_persistent_kernel,
        (PersistentKernelInputs(3, 50, 9, 150),),
        "3 launches of 50 ns cost no more than a setup of 150 ns",
    ),
    Case(decide_param_inlining, (ParamInliningInputs(4), ParamInliningPolicy(0, 4, True)), "inlining is switched off"),
    Case(
        decide_param_inlining,
        (ParamInliningInputs(5), ParamInliningPolicy(64, 4, False)),
        "5 bytes are no multiple of 4 and padding is not allowed",
    ),
    Case(
        decide_param_inlining,
        (ParamInliningInputs(5), ParamInliningPolicy(64, 4, True)),
        "8 bytes fit the budget of 64",
    ),
    Case(
        decide_param_inlining,
        (ParamInliningInputs(65), ParamInliningPolicy(64, 4, True)),
        "68 bytes exceed the budget of 64",
    ),
    Case(decide_bindless, (BindlessInputs(23, FULL, False),), "23 resource(s) are below the threshold of 24"),
    Case(decide_bindless, (BindlessInputs(25, NONE, False),), "the device has no resource tables"),
    Case(
        decide_bindless,
        (BindlessInputs(25, STATIC, True),),
        "the device indexes tables by constants only, the program at run time",
    ),
    Case(decide_bindless, (BindlessInputs(25, FULL, False),), "25 resources reach the threshold of 24"),
    Case(
        plan_resource_table,
        (ResourceTableInputs(2, True, 4, 19),),
        "20 bytes of parameters exceed the 19 there are",
    ),
    Case(plan_resource_table, (ResourceTableInputs(2, True, 4, 20),), "20 bytes of parameters fit 20"),
    Case(
        plan_resource_table,
        (ResourceTableInputs(2, False, 4, 19),),
        "20 bytes of parameters exceed the 19 there are",
    ),
    Case(decide_command_reuse, (CommandReuseInputs(1, 9, 9, 9),), "1 run(s) are below the minimum of 2"),
    Case(
        decide_command_reuse,
        (CommandReuseInputs(2, 8, 9, 10),),
        "a launch of 8 ns is no dearer than a replay of 10 ns",
    ),
    Case(
        decide_command_reuse,
        (CommandReuseInputs(2, 10, 9, 10),),
        "a launch of 10 ns is no dearer than a replay of 10 ns",
    ),
    Case(
        decide_command_reuse,
        (CommandReuseInputs(5, 30, 40, 10),),
        "5 replays save 60 ns after recording for 40 ns",
    ),
    Case(
        decide_command_reuse,
        (CommandReuseInputs(5, 30, 140, 10),),
        "5 replays save 100 ns, no more than recording costs (140 ns)",
    ),
    Case(
        select_primary_execution_mode,
        (PersistentKernel(9), RecordAndReplay(8)),
        "a resident kernel saves 9 ns, replaying 8 ns",
    ),
    Case(
        select_primary_execution_mode,
        (PersistentKernel(7), RecordAndReplay(8)),
        "replaying saves 8 ns, a resident kernel 7 ns",
    ),
    Case(
        select_primary_execution_mode,
        (StandardLaunches(), PlainLaunches()),
        "neither a resident kernel nor replaying saves time",
    ),
    Case(decide_trace_jit_speculation, (TraceJitInputs(7, 9_000, 0, 9),), "7 hit(s) are below the 8 of a hot kernel"),
    Case(
        decide_trace_jit_speculation,
        (TraceJitInputs(9, 5_000, 0, 9),),
        "a confidence of 5000 bps is below 6000 bps",
    ),
    Case(
        decide_trace_jit_speculation,
        (TraceJitInputs(9, 7_000, 60, 100),),
        "an expected stall of 70 ns exceeds the cost of 60 ns",
    ),
    Case(
        decide_trace_jit_speculation,
        (TraceJitInputs(9, 7_000, 80, 100),),
        "an expected stall of 70 ns does not exceed the cost of 80 ns",
    ),
    Case(can_dispatch_concurrently, (READER, READER), "no slot written by one arm is touched by the other"),
    Case(can_dispatch_concurrently, (WRITER, WRITER), "both arms write slot(s) [1, 2]"),
    Case(can_dispatch_concurrently, (WRITER, READER), "the later arm reads slot(s) [1, 2]"),
    Case(can_dispatch_concurrently, (READER, WRITER), "the later arm overwrites slot(s) [1, 2]"),
    Case(can_dispatch_concurrently, (WRITER, OTHER_WRITER), "both arms write slot(s) [2]"),
    Case(can_dispatch_concurrently, (OTHER_WRITER, READER), "the later arm reads slot(s) [2]"),
    Case(can_dispatch_concurrently, (READER, OTHER_WRITER), "the later arm overwrites slot(s) [2]"),
    Case(
        can_dispatch_concurrently,
        (ArmAccess(frozenset(), frozenset(range(9))),) * 2,
        "both arms write slot(s) [0, 1, 2, 3]",
    ),
    Case(
        can_dispatch_concurrently,
        (arm(FIRST_HALF), arm(Access(3, AccessMode.WRITE, ((8, 9),)))),
        "no byte written by one arm is touched by the other",
    ),
    Case(
        can_dispatch_concurrently,
        (arm(FIRST_HALF), arm(Access(3, AccessMode.WRITE, ((7, 9),)))),
        "the later arm overwrites slot(s) [3]",
    ),
    Case(
        decide_cross_pipeline_fusion,
        (READER, READER),
        "no slot written by one arm is touched by the other",
    ),
    Case(decide_cross_pipeline_fusion, (WRITER, READER), "the later arm reads slot(s) [1, 2]"),
    Case(
        can_overlap_copy_with_kernel,
        (CopyOverlapInputs(1, WRITER),),
        "the kernel writes slot 1, the copy's destination",
    ),
    Case(
        can_overlap_copy_with_kernel,
        (CopyOverlapInputs(2, READER),),
        "the kernel reads slot 2, the copy's destination",
    ),
    Case(
        can_overlap_copy_with_kernel,
        (CopyOverlapInputs(3, arm(FIRST_HALF)),),
        "the kernel reads bytes of slot 3 that the copy fills",
    ),
    Case(
        can_overlap_copy_with_kernel,
        (CopyOverlapInputs(3, arm(Access(3, AccessMode.WRITE, ((0, 8),))), (7, 9)),),
        "the kernel writes bytes of slot 3 that the copy fills",
    ),
    Case(can_overlap_copy_with_kernel, (CopyOverlapInputs(4, READER),), "the kernel does not touch slot 4"),
    Case(
        decide_fusion,
        (fusion(kernel("a", "b"), kernel("b", "c", lanes=16)),),
        "workgroups (32, 1, 1) and (16, 1, 1) must be equal and at most 64 lanes",
    ),
    Case(
        decide_fusion,
        (fusion(kernel("a", "b", 600), kernel("b", "c", 401)),),
        "1001 bytes of shared memory exceed 1000",
    ),
    Case(decide_fusion, (fusion(PRODUCER, CONSUMER, "fedcb"),), "others read ['b', 'c', 'd', 'e']"),
    Case(
        decide_fusion,
        (fusion(kernel("a", "b"), kernel("c", "d")),),
        "the consumer reads nothing the producer writes",
    ),
    Case(
        decide_fusion,
        (fusion(PRODUCER, CONSUMER),),
        "intermediates ['b', 'c', 'd', 'e'] stay inside one kernel",
    ),
    Case(
        decide_fusion,
        (fusion(kernel("a", "b"), kernel("b", "c"), relations={}),),
        "b is shared between workgroups; only a launch boundary orders them",
    ),
    Case(
        decide_fusion,
        (fusion(PRODUCER, CONSUMER, relations=NEIGHBOURS),),
        "['b', 'c', 'd', 'e'] pass between lanes of one workgroup",
    ),
    Case(
        decide_fusion,
        (fusion(PRODUCER, CONSUMER, relations=OWN_LANE),),
        "['b', 'c', 'd', 'e'] stay in the lane that wrote them",
    ),
    Case(select_sort_backend, (KeyDistribution(32, 32, 1),), "32 keys are few"),
    Case(select_sort_backend, (KeyDistribution(80, 20, 1),), "only 20 of 80 keys are distinct"),
    Case(select_sort_backend, (KeyDistribution(80, 21, 16),), "a run of 16 equal neighbours"),
    Case(select_sort_backend, (KeyDistribution(80, 21, 15),), "21 distinct of 80 keys, no long run"),
    Case(decide_speculation, (SpeculationObservation(8, 100, 7, 50, 0),), "8 and 7 dispatches; 8 of each are needed"),
    Case(decide_speculation, (SpeculationObservation(8, 0, 8, 50, 0),), "the baseline took no measurable time"),
    Case(
        decide_speculation,
        (SpeculationObservation(8, 100, 10, 90, 100),),
        "100 ns with its compile is no faster than 100 ns",
    ),
    Case(decide_speculation, (SpeculationObservation(8, 100, 10, 50, 100),), "4000 bps faster than 100 ns"),
    Case(decide_speculation, (SpeculationObservation(8, 100, 10, 80, 60),), "1400 bps faster; 1500 bps are needed"),
    Case(judge_race, (race(9, 200, 100),), "faster: 5000 bps gained over 9 pair(s)"),
    Case(judge_race, (race(9, 100, 200),), "slower: -10000 bps gained over 9 pair(s)"),
    Case(judge_race, (race(9, 100, 100),), "0 bps gained over 9 pair(s): surely fewer than 100"),
    Case(judge_race, (race(200, 100, 100, worth_bps=0),), "200 pair(s) prove nothing; 0 bps gained"),
    Case(
        judge_race,
        (race(1, 200, 100),),
        "5000 bps gained over 1 pair(s); the best bet is worth 1.5 of 40",
    ),
    Case(
        ShapePredictor.predict,
        (predictor("aab" * 9, LEARNING),),
        "by what followed the last 2 shape(s); 9736 bps of 17.9 guesses like it came true",
    ),
    Case(
        ShapePredictor.predict,
        (predictor("abcaabcaabcdefghijklmnoooopppqqqrrrstttuuvvvw", LEARNING),),
        "by repetition; 3981 bps of 29.4 guesses like it came true",
    ),
    Case(
        ShapePredictor.predict,
        (predictor("aaaa", PINNED),),
        "by the period of the window; 8322 bps of 2.0 guesses like it came true",
    ),
    Case(choose_path, (PathInputs(SpeculationMode.FORCE, True, OFF),), "forced"),
    Case(choose_path, (PathInputs(SpeculationMode.FORCE, False, OFF),), "forced, but the backend cannot speculate"),
    Case(choose_path, (PathInputs(SpeculationMode.DISABLE, True, STATE),), "disabled"),
    Case(choose_path, (PathInputs(None, False, STATE, True),), "the backend cannot speculate"),
    Case(choose_path, (PathInputs(None, True, STATE, True),), "a commit rate of 150000 ppm pays"),
    Case(choose_path, (PathInputs(None, True, OFF),), "a commit rate of 7 ppm does not pay"),
    Case(
        race_variants,
        (VariantRaceInputs(1, 20, 300, 4_000),),
        "301 ns conservative, 4020 ns speculative, compiles included",
    ),
    Case(
        select_precision_lowering,
        (PrecisionInputs(True, False, F16Eligible(2.0), 4095),),
        "an error budget of 4095 ulps is below the 4096 of f16",
    ),
    Case(
        select_precision_lowering,
        (PrecisionInputs(True, False, F16Eligible(2.0)),),
        "operands stay within 2.0 and the device has f16",
    ),
    Case(
        select_precision_lowering,
        (PrecisionInputs(False, True, TranscendentalPolynomial(PolynomialOp.SIN, 0.25), 9),),
        "an error budget of 9 ulps does not allow degree 3 within 0.25",
    ),
    Case(
        select_precision_lowering,
        (PrecisionInputs(False, True, TranscendentalPolynomial(PolynomialOp.COS, 0.5)),),
        "cos within 0.5 needs degree 6",
    ),
    Case(select_precision_lowering, (PrecisionInputs(True, True, DefaultHint()),), "no cheaper lowering is offered"),
    *(
        Case(judge_claim, (ClaimInputs(faster, slower, factor),), text)
        for faster, slower, factor, text in (
            (SIDE, OTHER, 0.0, "a factor of 0.0"),
            (SIDE, None, 2.0, "a side was not measured"),
            (SIDE, SIDE, 2.0, "`a` is compared with itself"),
            (SIDE, replace(OTHER, run="s"), 2.0, "`a` and `b` were measured in different runs"),
            (SIDE, replace(OTHER, device="e"), 2.0, "one side was measured on `d`, the other on `e`"),
            (SIDE, replace(OTHER, samples=(1.0,)), 2.0, "one side has 6 samples, the other 1"),
            (SIDE, replace(OTHER, samples=(9.0,) * 5 + (0.0,)), 2.0, "the samples of round 5 are 0.0 and 3.0"),
            (
                replace(SIDE, samples=(3.0,)),
                replace(OTHER, samples=(10.0,)),
                2.0,
                "1 samples are too few for a bound",
            ),
            (SIDE, OTHER, 2.0, "the median is at least 3.333; 2.000 is claimed"),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_reasons(case: Case) -> None:
    assert str(case.why()) == case.text


def test_reasons_are_carried_along_and_not_compared() -> None:
    @verdict
    class Yes:
        why: Reason = why_field()

    assert Yes() == Yes(Reason("{} of {}", (1, 2)))
    assert (str(Yes().why), str(Yes(Reason("{} of {}", (1, 2))).why)) == ("", "1 of 2")


def templates(path: Path) -> Iterator[str]:
    """What ``Reason`` is called with as a literal."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(ast.Name("Reason"), [ast.Constant(str(text)), *_]) if text:
                yield text


@pytest.mark.parametrize("module", sorted({case.decide.__module__ for case in CASES}))
def test_no_reason_of_a_module_is_left_out(module: str) -> None:
    file = importlib.import_module(module).__file__
    assert file is not None
    seen = {case.why().template for case in CASES}
    assert set(templates(Path(file))) - seen == set()
