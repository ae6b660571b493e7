"""Every default threshold is pinned: moving one by a step changes the answer to a golden vector or to a case here.

Mutation tools leave constants alone, so this moves them: integers by 1, floats by 1 %, flags to the other value.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

import vyre.adapters.cpu.decisions
import vyre.policies
from support.launch_costs import EVERY_MODE, launch_costs, measured
from vectors.rows import FILES
from vectors.runner import Tally, run_file
from vectors.seeds import fusion
from vectors.seeds.speculate import ADAPTIVE, SpeculatorSettings
from vyre.adapters.caching import cost_eviction
from vyre.adapters.caching.cost_eviction import CostEviction
from vyre.adapters.cpu.decisions.effort_choice import (
    EffortInputs,
    EffortThresholds,
    TextInputs,
    TextThresholds,
    compiler_effort,
    first_effort,
)
from vyre.adapters.cpu.decisions.private_atomics import (
    AtomicBuffer,
    PrivateInputs,
    PrivateThresholds,
    private_atomics,
)
from vyre.adapters.cpu.decisions.thread_plan import ThreadInputs, ThreadThresholds, thread_plan
from vyre.app import shape_predictor
from vyre.app.shape_predictor import ShapePredictor
from vyre.domain.analysis.atomic_uses import AtomicUse
from vyre.domain.analysis.lane_facts import LaneFacts
from vyre.domain.device import EngineKind
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch_costs import Measured, Provenance
from vyre.domain.record import U32_MAX
from vyre.policies.caching.cache_eviction_heat import HeatEntry, heat
from vyre.policies.caching.cost_eviction import CostThresholds
from vyre.policies.egraphs.egraph_kernels import ClosureInputs, ClosureThresholds, plan_closure
from vyre.policies.evidence.claims import ClaimInputs, ClaimThresholds, MeasuredSide, judge_claim
from vyre.policies.evidence.shadow import ShadowLoad, admit_sample
from vyre.policies.frontiers.fixpoint import FixpointProfile, RoundCosts, choose_executor, may_pay
from vyre.policies.frontiers.wave_kernel import WaveKernelInputs, choose_wave_kernel
from vyre.policies.launching.cost_observation import CostSamples, ObservationThresholds, judge_cost
from vyre.policies.launching.execution_prices import ExecutionMode, Workload
from vyre.policies.launching.grid_sync_mode import GridSyncInputs
from vyre.policies.launching.param_inlining import (
    DISABLED,
    SMALL_INLINE_DEFAULT,
    ParamInliningInputs,
    ParamInliningPolicy,
    decide_param_inlining,
)
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionThresholds, plan_execution
from vyre.policies.optimizing.program_passes import MEASURED, PassGain, PassInputs, choose_passes
from vyre.policies.prediction.shape_prediction import LEARNING, WINDOW, PredictionThresholds
from vyre.policies.transfer.packing import Packer, PackingInputs, plan_packing
from vyre.policies.transfer.readback import SlabInputs, plan_slab
from vyre.policies.transfer.transfers import ReadRequest
from vyre.policies.tuning.paired_race import Bet, PairedRace, RaceThresholds, RaceVerdict, judge_race
from vyre.policies.tuning.successive_halving import (
    Estimates,
    HalvingThresholds,
    Race,
    Step,
    cheapest_estimate,
    next_measurement,
)
from vyre.policies.tuning.workgroup_candidates import (
    CandidateThresholds,
    LaunchFacts,
    SizeOccupancy,
    shortlist,
    workgroup_candidates,
)

VECTORS = Path(__file__).parents[2] / "data" / "vectors"
STEMS = {"fixpoint": "device_convergence"}
"""Vector file of a module, where the names differ."""


class Default(NamedTuple):
    """A number, flag or text in a default: ``path`` leads to it from the record that ``function`` takes by default."""

    module: str
    record: str
    path: tuple[str | int, ...]

    def __str__(self) -> str:
        return ".".join(map(str, (self.module, self.record, *self.path)))


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """Functions and methods that a module defines."""
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if not inspect.isclass(value):
            members = [value]
        elif is_dataclass(value):  # whose constructor runs before anything here
            members = [member for name, member in vars(value).items() if name != "__init__"]
        else:
            members = list(vars(value).values())
        yield from (m for member in members if isinstance(m := getattr(member, "__func__", member), FunctionType))


def defaults(function: FunctionType) -> tuple[Any, ...]:
    return (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths to everything in a record that is no record or tuple itself."""
    if is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from leaves(item, (*path, place))
    else:
        yield path


def moved(value: Any, path: tuple[str | int, ...]) -> Any:
    """``value`` with what ``path`` leads to one step further."""
    match path:
        case (str(name), *rest):
            return replace(value, **{name: moved(getattr(value, name), tuple(rest))})
        case (int(place), *rest):
            return (*value[:place], moved(value[place], tuple(rest)), *value[place + 1 :])
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 1.01 if value else 0.01
    return value + ("x" if isinstance(value, str) else 1)


def modules() -> Iterator[ModuleType]:
    for package in (vyre.policies, vyre.adapters.cpu.decisions):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)
    yield from (cost_eviction, shape_predictor)


def found_defaults() -> dict[Default, Any]:
    """Every default, and the record it is in."""
    return {
        Default(module.__name__.rpartition(".")[2], type(record).__name__, path): record
        for module in modules()
        for function in functions(module)
        for record in defaults(function)
        if is_dataclass(record)
        for path in leaves(record)
    }


ALL = found_defaults()


def failures(module: str) -> int:
    tally = Tally(lambda _: None)
    run_file(VECTORS / f"{STEMS.get(module, module)}.jsonl.xz", tally)
    return tally.failed


def seen_by_vectors(default: Default, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Does a vector fail when the default is another in every function of its module?"""
    if STEMS.get(default.module, default.module) not in FILES:
        return False
    record = ALL[default]
    other = moved(record, default.path)
    with monkeypatch.context() as patch:
        named = [module for module in modules() if module.__name__.rpartition(".")[2] == default.module]
        for function in (function for module in named for function in functions(module)):
            positional, keywords = function.__defaults__ or (), function.__kwdefaults__ or {}
            patch.setattr(function, "__defaults__", tuple(other if d is record else d for d in positional))
            patch.setattr(function, "__kwdefaults__", {n: other if d is record else d for n, d in keywords.items()})
        return failures(default.module) > 0


def lower_bound(thresholds: ClaimThresholds) -> float | None:
    """Of 2 252 ratios, for which 25 000 and 25 001 ppm are on two sides of a rank."""
    count = 2252
    slower = MeasuredSide("b", "d", "r", tuple(float(1 + i) for i in range(count)))
    return judge_claim(ClaimInputs(MeasuredSide("a", "d", "r", (1.0,) * count), slower, 1.0), thresholds).lower_bound_x


def race(t: RaceThresholds) -> tuple[PairedRace, RaceVerdict]:
    """Where a race starts, and how one stands after 200 pairs and a bet that is worth a little less than 40."""
    nearly = Bet(0.0, True, capitals=(39.8,) * 4)
    return PairedRace.start(t), judge_race(PairedRace(t, nearly, nearly, nearly, (0.0,) * 200))


def learned(thresholds: CostThresholds) -> object:
    """From keys that are asked for again in many ways, then from those that never are, but one."""
    cache: CostEviction[int] = CostEviction(thresholds)
    found: list[object] = []
    for step in range(1, 400):
        cache.admit(step, 1, 1)
        cache.admit(step - step % 7, 1, 1)
        for _ in range(step // 8):
            cache.hit(step)
        if step > 8:
            found.append((cache.evict(), cache.ghosts, cache.credits))
    for step in range(400, 2000):
        cache.admit(step, 1, 1)
        cache.admit(0, 1, 10**9)
        for _ in range(8):
            cache.hit(0)
        cache.evict()
    return found, cache.credits


def guesses(thresholds: PredictionThresholds, *, every_order: bool = True) -> object:
    """After each shape of a sequence with patterns and without."""
    t = replace(thresholds, max_order=8) if every_order else thresholds
    predictor: ShapePredictor[int] = ShapePredictor(t)
    found: list[object] = []
    for step in range(1000):
        predictor.record((step * step // 5 + step % 3) % 11)
        found.append(predictor.predict())
    for step in range(600):
        predictor.record(step)
    return found, len(predictor)


def sizes(**more: Any) -> Callable[[CandidateThresholds], object]:
    """The sizes that an untied program may have, with some thresholds as given."""
    launch = LaunchFacts((64, 1, 1), 1, active_lanes=0)
    return lambda t: workgroup_candidates(LaneFacts(), launch, replace(t, **more))


def execution(**costs: int | Measured) -> Callable[[ExecutionThresholds], object]:
    """How one launch of 10 000 ns is run, if a graph costs nothing but this, and a resident kernel is faster."""
    free = dict.fromkeys(("graph_record", "graph_record_node", "graph_replay", "graph_replay_node"), 0)
    priced = launch_costs(**(free | {"launch": 10_000, "launch_gap": 0} | costs))
    workload = Workload(1, 1, 1, measured(1_000), resident_kernel=measured(0))
    return lambda t: plan_execution(ExecutionInputs(workload, priced, EVERY_MODE, ExecutionMode.PLAIN), t)


def observed(count: int, believed_ns: int, error_ns: int = 0) -> Callable[[ObservationThresholds], object]:
    """What is believed of a cost after so many samples of 3 ms."""
    inputs = CostSamples("launch", measured(believed_ns, error_ns), (3_000_000,) * count, Provenance.MEASURED)
    return lambda t: type(judge_cost(inputs, t))


def nearly_significant(thresholds: HalvingThresholds) -> Step:
    """A final of 100 pairs whose p is a little above 1 %."""
    ranks = (rank if rank <= 80 and rank != 41 else -rank for rank in range(1, 101))  # positive ones: 3 199
    base = (10**6,) * 100
    race = Race(base, (tuple(10**6 - 1_000 * rank for rank in ranks),))
    return next_measurement(race, replace(thresholds, final_pairs=100, min_gain_bps=0))


def round_of(*counts: int) -> Callable[[HalvingThresholds], object]:
    """The step after so many runs of each candidate, a later candidate being slower."""
    incumbent, *challengers = ((1_000 + 20 * (one == 0),) * count for one, count in enumerate(counts))
    return lambda t: next_measurement(Race(incumbent, tuple(challengers)), t)


def length(blocks: int, lines: int) -> Callable[[TextThresholds], object]:
    """The first effort for a text of this length."""
    return lambda t: first_effort(TextInputs(blocks, lines), t)


def hot_and_quick(spent_ns: int, nodes: int) -> Callable[[EffortThresholds], object]:
    """The pipeline for a kernel with quick code that was launched nine times."""
    return lambda t: compiler_effort(EffortInputs(9, spent_ns, nodes, quick=True), t)


def hot(launches: int, spent_ns: int, light_ns: int | None = None) -> Callable[[EffortThresholds], object]:
    """The pipeline for a kernel of ten nodes that was launched so often."""
    return lambda t: compiler_effort(EffortInputs(launches, spent_ns, 10, light_ns), t)


def copied(lanes: int, nbytes: int) -> Callable[[PrivateThresholds], object]:
    """Whether one buffer of counters is copied for two threads."""
    counters = AtomicBuffer(AtomicUse("counters", ScalarType.U32, frozenset({AtomicOp.ADD})), nbytes)
    return lambda t: private_atomics(PrivateInputs((counters,), 2, lanes), t)


def divided(groups: int, group_ns: int | None, handoff_ns: int) -> Callable[[ThreadThresholds], object]:
    """The division of a launch among four threads."""
    return lambda t: thread_plan(ThreadInputs(groups, group_ns, handoff_ns, 4, group_nodes=100), t)


def reads(most_packed: int | None, *ranges: tuple[int, int]) -> PackingInputs:
    """Reads of one allocation, by address and bytes."""
    return PackingInputs(tuple(ReadRequest(0, *each) for each in ranges), Packer.LAUNCHES, most_packed)


SIX_READS = reads(None, (0, 1), (126_872, 1), *((10**6 * i, 1) for i in range(1, 5)))
"""Packing them costs 1 ns less than reading the first gap and making five copies."""


OFTEN = PassInputs(engine=EngineKind.INTERPRETER, nodes=1, runs=1 << 21, laws=1)
"""A program that has run often enough for every pass."""
WITNESSES: dict[tuple[str, str], Callable[[Any], object]] = {
    **{
        ("PassTables", f"interpreter.{place}.{field.name}"): lambda t: str(choose_passes(OFTEN, t))
        for place in range(len(MEASURED.interpreter))
        for field in fields(PassGain)
    },
    ("FixpointThresholds", "paid_rounds"): lambda t: may_pay(
        FixpointProfile(2**32 - 1, None, True, costs=RoundCosts(1, 0, 0, 0, 100_000)), t
    ),
    ("ClaimThresholds", "error_ppm"): lower_bound,
    ("CandidateThresholds", "max_lanes"): sizes(sizes=(1024, 1025)),
    **{("CandidateThresholds", f"sizes.{place}"): sizes() for place in range(6)},
    ("HalvingThresholds", "first_round"): round_of(5, 5, 5),
    ("HalvingThresholds", "growth"): round_of(15, 15, 15, 5, 5),
    ("HalvingThresholds", "final_pairs"): round_of(20, 20),
    ("HalvingThresholds", "error"): nearly_significant,
    ("HalvingThresholds", "min_gain_bps"): lambda t: cheapest_estimate(Estimates((10_000, 9_800)), t),
    ("ShortlistThresholds", "most"): lambda t: shortlist(tuple(map(SizeOccupancy, range(1, 9))), t),
    ("ShortlistThresholds", "worst_bps"): lambda t: shortlist((SizeOccupancy(1, 10_000), SizeOccupancy(2, 5_000)), t),
    **{("CostThresholds", field.name): learned for field in fields(CostThresholds)},
    ("ObservationThresholds", "min_samples"): observed(9, 1_000),
    ("ObservationThresholds", "standard_errors"): observed(9, 4_400_000, error_ns=300_000),
    ("ObservationThresholds", "min_change_bps"): observed(9, 4_000_100),
    ("RaceThresholds", "error"): lambda t: race(t)[1],
    ("RaceThresholds", "max_pairs"): lambda t: race(t)[1],
    ("RaceThresholds", "min_gain_bps"): lambda t: race(t)[0].faster.line,
    ("RaceThresholds", "worth_bps"): lambda t: race(t)[0].futile.line,
    **{("PredictionThresholds", field.name): guesses for field in fields(PredictionThresholds)},
    ("PredictionThresholds", "max_order"): lambda t: guesses(t, every_order=False),
    ("ExecutionThresholds", "standard_errors"): execution(graph_replay=measured(8_000, 200)),
    ("ExecutionThresholds", "min_gain_bps"): execution(graph_replay=9_799),
    **{
        ("ClosureThresholds", field.name): lambda t: plan_closure(ClosureInputs(10_000, 10_000, 0, U32_MAX), t)
        for field in fields(ClosureThresholds)
    },
    ("FixpointThresholds", "max_unrolled_steps"): lambda t: choose_executor(
        FixpointProfile(1025, GridSyncInputs(False, 1, 1, 1), False), t
    ),
    ("WaveKernelThresholds", "min_gain_bps"): lambda t: (
        choose_wave_kernel(WaveKernelInputs(2, 6_999, 3_001), t).one_kernel
    ),
    ("HeatThresholds", "half_life_s"): lambda t: heat(HeatEntry(1, 1, 0.0), 300.0, t),
    ("ParamInliningPolicy", "max_inline_bytes"): lambda p: decide_param_inlining(
        ParamInliningInputs(3073), replace(p, align_bytes=1)
    ),
    ("ParamInliningPolicy", "align_bytes"): lambda p: decide_param_inlining(ParamInliningInputs(4), p),
    ("ParamInliningPolicy", "allow_padding_to_align"): lambda p: decide_param_inlining(ParamInliningInputs(3), p),
    ("EffortThresholds", "saving_bps"): hot(2, 250_000_000 - 1),
    ("EffortThresholds", "min_launches"): hot(2, 250_000_000),
    ("EffortThresholds", "light_multiple"): hot(2, 15_000_000, 1_000_000),
    ("EffortThresholds", "compile_ns"): hot(2, 250_000_000),
    ("EffortThresholds", "node_ns"): hot(2, 250_000_000),
    ("EffortThresholds", "quick_saving_bps"): hot_and_quick(150_000_000 - 1, 10),
    ("EffortThresholds", "quick_node_ns"): hot_and_quick(150_000_000, 10),
    ("EffortThresholds", "most_nodes"): hot_and_quick(10**12, 4_097),
    ("TextThresholds", "most_blocks"): length(501, 0),
    ("TextThresholds", "most_lines"): length(0, 8_001),
    ("PrivateThresholds", "locked_ns"): copied(2, 4 * 9),
    ("PrivateThresholds", "plain_ns"): copied(9, 4 * 36),
    ("PrivateThresholds", "element_ns"): copied(9, 4 * 40),
    ("PrivateThresholds", "bytes_per_thread"): copied(10**6, (1 << 20) + 1),
    ("ThreadThresholds", "pieces"): divided(288, 100_000, 10_000),
    ("ThreadThresholds", "piece_ns"): divided(800, 50, 1_000),
    ("ThreadThresholds", "node_ns"): divided(2, None, 3_000),
    ("ThreadThresholds", "rounds"): divided(2, None, 1_650),
    ("PackingThresholds", "alignment"): lambda t: plan_packing(reads(1, (0, 1), (9, 1)), t),
    ("PackingThresholds", "most_packed_bytes"): lambda t: plan_packing(
        reads(None, *((10**6 * i, 65_536 + i % 2) for i in range(100))), t
    ),
    ("PackingThresholds", "copy_ns"): lambda t: plan_packing(
        reads(None, (0, 1), (2 + 2**30 * 8_000 // 43_000_000, 1)), t
    ),
    ("PackingThresholds", "gib_ns"): lambda t: plan_packing(
        replace(reads(None, (0, 1), (1 + 2**30 * 10**9 // 43_000_000, 1)), packer=Packer.NONE),
        replace(t, copy_ns=10**9),
    ),
    ("PackingThresholds", "pack_ns"): lambda t: plan_packing(SIX_READS, t),
    ("PackingThresholds", "launch_ns"): lambda t: plan_packing(SIX_READS, t),
    ("ShadowLimits", "budget"): lambda t: admit_sample(ShadowLoad(10**6, 50 * 10**6 - 1, 0, 0, 0, 0), t),
    ("ShadowLimits", "most_waiting"): lambda t: admit_sample(ShadowLoad(0, 0, 0, 8, 0, 0), t),
    ("ShadowLimits", "dispatch_ns"): lambda t: admit_sample(ShadowLoad(10**6, 50 * 10**6, 1, 0, 0, 0), t),
    ("ShadowLimits", "most_bytes"): lambda t: admit_sample(ShadowLoad(0, 0, 0, 0, 0, (64 << 20) + 1), t),
    ("SlabThresholds", "alignment"): lambda t: plan_slab(SlabInputs((1, 1), 1), t),
    ("SlabThresholds", "first_chunk_bytes"): lambda t: plan_slab(SlabInputs((65_536,), 1), replace(t, alignment=1)),
}
"""What no vector sees, and an answer in which it shows."""


def test_thresholds_are_found() -> None:
    assert len(ALL) > 60
    found = {(default.record, ".".join(map(str, default.path))) for default in ALL}
    assert WITNESSES.keys() <= found


@pytest.mark.parametrize("module", sorted({d.module for d in ALL}))
def test_every_default_of_a_module_is_seen(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unseen = []
    for default, record in ALL.items():
        if default.module != module:
            continue
        witness = WITNESSES.get((default.record, ".".join(map(str, default.path))))
        if witness is not None:
            seen = witness(record) != witness(moved(record, default.path))
        else:
            seen = seen_by_vectors(default, monkeypatch)
        if not seen:
            unseen.append(str(default))
    assert unseen == []


def test_the_vectors_pass_with_the_defaults_as_they_are() -> None:
    assert [d for d in {d.module for d in ALL} if STEMS.get(d, d) in FILES and failures(d)] == []


@pytest.mark.parametrize(
    ("found", "number"),
    [
        (SMALL_INLINE_DEFAULT, ParamInliningPolicy(128, 4, True)),
        (DISABLED, ParamInliningPolicy(0, 4, False)),
        (fusion.CONSERVATIVE_CAPS, fusion.FusionCaps(16_384, 256)),
        (fusion.HIGH_END_CAPS, fusion.FusionCaps(131_072, 1_024)),
        (SpeculatorSettings(), SpeculatorSettings(15, 0, False)),
        (ADAPTIVE, SpeculatorSettings(15, 64, True)),
        (WINDOW, 16),
        (LEARNING, PredictionThresholds(20, 4096, 8, 8_000, 9_800, 1)),
    ],
    ids=str,
)
def test_presets(found: object, number: object) -> None:
    assert found == number
