"""What policies refuse, as a person reads it; fields that a record checks are in ``test_input_domains``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.async_copy_overlap import CopyOverlapInputs
from vectors.seeds.bindless import BindlessInputs, BindlessSupport
from vectors.seeds.cache_invalidation import InvalidationInputs
from vectors.seeds.convergence import ConvergenceInputs, plan_convergence
from vectors.seeds.dispatch_bundle import DispatchPolicyInputs
from vectors.seeds.fused_speculation import CounterTail, read_fused_result
from vectors.seeds.fusion import BufferPlace
from vectors.seeds.fusion_pressure import FusionPressureInputs, fusion_pressures
from vectors.seeds.megakernel_plan_cache import MegakernelPlanCache
from vectors.seeds.pass_selection import PassCandidate, SelectionInputs, WorkloadSample, select_passes
from vectors.seeds.queue_expansion import ExpansionProfile, plan_queue_with_expansion
from vectors.seeds.ratios import align_up, float_to_u64
from vectors.seeds.residency import (
    GraphQuery,
    QueryBatch,
    Readback,
    ResidencyCounters,
    SessionProfile,
    plan_queries,
    plan_session,
)
from vectors.seeds.speedup_gate import HEADER, GateInputs, SpeedupSample, parse_csv
from vectors.seeds.speedup_gate import validate as validate_samples
from vectors.seeds.subgroup import ReductionInputs, reduction_offsets
from vectors.seeds.topology import FrontierSample, Topology, WaveMemory, memory_of
from vyre.adapters.caching.cost_eviction import CostEviction
from vyre.domain.errors import VyreError
from vyre.policies.concurrency.hazards import Access, AccessMode
from vyre.policies.egraphs.egraph_kernels import ClosureInputs, plan_closure
from vyre.policies.frontiers import fixpoint
from vyre.policies.launching.command_reuse import CommandReuseInputs
from vyre.policies.launching.fixpoint_iterations import FixpointInputs, resolve_fixpoint_iterations
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, GridSyncMode
from vyre.policies.launching.persistent_kernel import PersistentKernelInputs
from vyre.policies.launching.queueing import (
    DrainProfile,
    HostSync,
    QueueDiscipline,
    QueueProfile,
    plan_backpressure,
    plan_queue,
)
from vyre.policies.prediction.trace_jit import TraceJitInputs
from vyre.policies.tuning.paired_race import PairedRace

TOP = 2**64 - 1
ANY_VALUES = "Fix: change the values named, or plan for less."


class Refusal(NamedTuple):
    call: Callable[..., object]
    arguments: tuple[Any, ...]
    text: str


NO_ARM = ArmAccess(frozenset(), frozenset())


def bundle(start: int, stop: int) -> DispatchPolicyInputs:
    return DispatchPolicyInputs(
        PersistentKernelInputs(1, 1, 1, 1),
        NO_ARM,
        NO_ARM,
        1,
        CommandReuseInputs(1, 1, 1, 1),
        BindlessInputs(1, BindlessSupport.FULL, False),
        TraceJitInputs(1, 1, 1, 1),
        (start, stop),
    )


BOUNDS = [
    Refusal(
        align_up,
        (8, 0),
        "align_up.alignment = 0 is not a positive int. Fix: pass a positive int.",
    ),
    Refusal(
        align_up,
        (TOP, 16),
        f"align_up.value = {TOP} is not an int that aligns within 64 bits. "
        "Fix: pass an int that aligns within 64 bits.",
    ),
    Refusal(
        float_to_u64,
        (-0.5,),
        "float_to_u64.value = -0.5 is not a finite float in 0..2^64-1. Fix: pass a finite float in 0..2^64-1.",
    ),
    Refusal(
        reduction_offsets,
        (ReductionInputs(2**31 + 1),),
        "ReductionInputs.subgroup_size = 2147483649 is not an int in 0..2147483648. Fix: pass an int in 0..2147483648.",
    ),
    Refusal(
        PairedRace.start().record,
        (0, 1),
        "PairedRace.baseline_ns = 0 is not a positive int. Fix: pass a positive int.",
    ),
    Refusal(
        PairedRace.start().record,
        (1, 1.0),
        "PairedRace.challenger_ns = 1.0 is not a positive int. Fix: pass a positive int.",
    ),
    *(
        Refusal(
            MegakernelPlanCache,
            (size,),
            f"max_entries={size} is not an int in 0..{TOP}. Fix: use 0..{TOP}, or leave it out.",
        )
        for size in (-1, TOP + 1, True)
    ),
    Refusal(
        CostEviction[str]().admit,
        ("key", -1, 0),
        f"CostEviction.nbytes = -1 is not an int in 0..{TOP}. Fix: pass an int in 0..{TOP}.",
    ),
    *(
        Refusal(
            InvalidationInputs,
            (*tables, 2, ()),
            f"InvalidationInputs.{field} = '<3 values>' is not {count} values. Fix: pass {count} values.",
        )
        for field, count, tables in (
            ("intervention_mask", 2, ((0,) * 3, (0,) * 4, (0,) * 4, (0,) * 4)),
            ("rule_adj", 4, ((0,) * 2, (0,) * 3, (0,) * 4, (0,) * 4)),
            ("state", 4, ((0,) * 2, (0,) * 4, (0,) * 3, (0,) * 4)),
            ("join_rules", 4, ((0,) * 2, (0,) * 4, (0,) * 4, (0,) * 3)),
        )
    ),
    *(
        Refusal(
            call,
            arguments,
            f"{field} = (5, 5) is not an interval of at least one byte that starts at {start} or later. "
            f"Fix: pass an interval of at least one byte that starts at {start} or later.",
        )
        for call, arguments, field, start in (
            (Access, (1, AccessMode.READ, ((5, 5),)), "Access.intervals", 0),
            (Access, (1, AccessMode.READ, ((0, 6), (5, 5))), "Access.intervals", 6),
            (BufferPlace, ("b", 1, ((5, 5),)), "BufferPlace.upstream", 0),
            (BufferPlace, ("b", 1, ((0, 1),), ((5, 5),)), "BufferPlace.downstream", 0),
            (CopyOverlapInputs, (1, NO_ARM, (5, 5)), "CopyOverlapInputs.copy_bytes", 0),
            (bundle, (5, 5), "DispatchPolicyInputs.copy_bytes", 0),
        )
    ),
]

OVERFLOW = "byte count overflow: field = "
QUERY = GraphQuery(1, 2, 3, 10, 1, 1, 1)
SESSION = SessionProfile(1, 10, 4, 2, 3, 4, 100, Readback.FINAL_ONLY)
WAVE = WaveMemory(10, 20, 4, 8, 1, 1, 1, 10_000)
SAMPLE = WorkloadSample(10, 10, 10, 100, 100)
PASS = PassCandidate("p", 1, 1, 1, 60, 60, 10_001, False)
MUST = replace(PASS, mandatory_when_profitable=True)
OVER = "mandatory profitable pass over budget: pass_id = "
QUEUE = QueueProfile(2, 4, 16, 10_000, HostSync.FINAL_ONLY, 8)
DRAIN = DrainProfile(2, 4, 16, 10_000, HostSync.FINAL_ONLY, 8, 3)
RING = replace(QUEUE, discipline=QueueDiscipline.RING, entry_bytes=8, control_bytes=32)
FRONTIER = FrontierSample(1.0, 0.5, 0)
MEASURED = SpeedupSample("cuda", 0, 2**40, 9, 0, 10**6, 10**6, 100, 300.0, 100.0, 1.0, 0, 0, 0, 0)


def gate(*samples: SpeedupSample, required: float = 1.0) -> tuple[GateInputs]:
    return (GateInputs(samples, required),)


PLANS = [
    Refusal(
        plan_closure,
        (ClosureInputs(1, 1, 0, 0),),
        "no lanes: most_items = 0. Fix: take a device whose grids have lanes.",
    ),
    Refusal(
        ResidencyCounters(0, 1).delta_since,
        (ResidencyCounters(0, 2),),
        f"counter underflow: counter = warm_reuses. {ANY_VALUES}",
    ),
    Refusal(
        plan_queries,
        (QueryBatch((replace(QUERY, scratch_bytes=TOP),), 100),),
        f"{OVERFLOW}resident bytes. {ANY_VALUES}",
    ),
    Refusal(
        plan_queries,
        (QueryBatch((QUERY,), 12),),
        "over budget: graph_layout_hash = 2, traversal_key = 3, required_bytes = 13, budget_bytes = 12. "
        "Fix: give the launch more memory, or split the query.",
    ),
    Refusal(
        plan_session,
        (replace(SESSION, readback=Readback.PER_RUN),),
        "per run readback rejected. Fix: read back once, after the last run.",
    ),
    Refusal(
        plan_session,
        (replace(SESSION, budget_bytes=18),),
        "over budget: required_bytes = 19, budget_bytes = 18. "
        "Fix: bind fewer arrays at once, or give the session more memory.",
    ),
    Refusal(
        plan_session,
        (replace(SESSION, run_count=2**62, graph_bytes=5),),
        f"{OVERFLOW}avoided graph upload bytes. {ANY_VALUES}",
    ),
    Refusal(
        plan_session,
        (replace(SESSION, run_count=2**62, graph_bytes=1, per_run_frontier_bytes=5),),
        f"{OVERFLOW}frontier refresh bytes. {ANY_VALUES}",
    ),
    Refusal(
        plan_session,
        (replace(SESSION, run_count=2**63, graph_bytes=1, per_run_frontier_bytes=0, per_run_output_bytes=0),),
        f"{OVERFLOW}avoided allocations. {ANY_VALUES}",
    ),
    *(
        Refusal(select_passes, (SelectionInputs(passes, sample),), f"{said}. {ANY_VALUES}")
        for passes, sample, said in (
            ((MUST, replace(MUST, pass_id="q")), SAMPLE, f"{OVER}q, reason = SkipReason.PLANNING_BUDGET_EXCEEDED"),
            ((replace(MUST, scratch_bytes=101),), SAMPLE, f"{OVER}p, reason = SkipReason.SCRATCH_BUDGET_EXCEEDED"),
            ((replace(PASS, pass_id=""),), SAMPLE, "empty pass id"),
            ((PASS, PASS), SAMPLE, "duplicate pass id: pass_id = p"),
            ((replace(PASS, expected_speedup_bps=10_000),), SAMPLE, "missing speedup evidence: pass_id = p"),
            (
                (replace(PASS, planning_cost_ns=TOP), replace(PASS, pass_id="q")),
                replace(SAMPLE, planning_budget_ns=TOP),
                "count overflow: field = planning cost",
            ),
            (
                (replace(PASS, scratch_bytes=TOP), replace(PASS, pass_id="q")),
                replace(SAMPLE, planning_budget_ns=TOP, scratch_budget_bytes=TOP),
                "count overflow: field = scratch bytes",
            ),
            (
                tuple(replace(PASS, pass_id=str(i), expected_speedup_bps=2**32 - 1, scratch_bytes=0) for i in range(4)),
                replace(SAMPLE, planning_budget_ns=TOP),
                "count overflow: field = projected speedup product",
            ),
        )
    ),
    *(
        Refusal(memory_of, (Topology.DENSE_FRONTIER, replace(WAVE, **changed)), f"{OVERFLOW}{what}. {ANY_VALUES}")
        for changed, what in (
            ({"node_count": TOP}, "node layout bytes"),
            ({"edge_count": TOP}, "edge layout bytes"),
            (
                {"node_count": 2**63, "bytes_per_node": 1, "edge_count": 2**63, "bytes_per_edge": 1},
                "graph layout bytes",
            ),
            ({"frontier_bytes": TOP}, "graph plus frontier bytes"),
            ({"output_bytes": TOP}, "required bytes"),
        )
    ),
    Refusal(
        memory_of,
        (Topology.DENSE_FRONTIER, replace(WAVE, scratch_bytes=TOP)),
        f"{OVERFLOW}dense_frontier scratch bytes. {ANY_VALUES}",
    ),
    Refusal(
        memory_of,
        (Topology.SPARSE_FRONTIER, replace(WAVE, frontier_bytes=TOP - 200)),
        f"{OVERFLOW}scratch bytes. {ANY_VALUES}",
    ),
    Refusal(
        memory_of,
        (Topology.SPARSE_FRONTIER, replace(WAVE, scratch_bytes=500, budget_bytes=701)),
        "over budget: topology = Topology.SPARSE_FRONTIER, required_bytes = 702, budget_bytes = 701, "
        "node_count = 10, edge_count = 20. Fix: give the wave more memory, or split the graph.",
    ),
    *(
        Refusal(fusion_pressures, (FusionPressureInputs(samples, launch, 1, step),), f"{said}. {ANY_VALUES}")
        for samples, launch, step, said in (
            ((), 1.0, -1.0, "invalid step: value = -1.0"),
            ((), -1.0, 1.0, "invalid launch overhead: value = -1.0"),
            ((FRONTIER, replace(FRONTIER, dispatch_cost_ns=-2.0)), 1.0, 1.0, "invalid cost: index = 1, value = -2.0"),
            (
                (FRONTIER, replace(FRONTIER, frontier_density=2.0)),
                1.0,
                1.0,
                "invalid frontier density: index = 1, value = 2.0",
            ),
        )
    ),
    *(
        Refusal(plan_queue, (replace(RING, **changed),), f"{said}.{fix}")
        for changed, said, fix in (
            ({"queue_capacity": 0}, "zero capacity", f" {ANY_VALUES}"),
            ({"entry_bytes": 0}, "zero entry bytes", f" {ANY_VALUES}"),
            (
                {"initial_items": 9},
                "initial items exceed capacity: initial_items = 9, queue_capacity = 8",
                f" {ANY_VALUES}",
            ),
            (
                {"host_sync": HostSync.HOST_PARTICIPATES},
                "host participation rejected",
                " Fix: read the queue once, after the last launch.",
            ),
            (
                {"entry_bytes": 7},
                "layout too small: entry_bytes = 7",
                " Fix: a ring queue needs at least 8.",
            ),
            (
                {"control_bytes": 31},
                "layout too small: control_bytes = 31",
                " Fix: a ring queue needs at least 32.",
            ),
            (
                {"queue_capacity": 12},
                "invalid ring capacity: queue_capacity = 12",
                " Fix: take a power of two from 2 on.",
            ),
            ({"queue_capacity": 2**62}, f"{OVERFLOW}queue bytes", f" {ANY_VALUES}"),
            ({"control_bytes": TOP}, f"{OVERFLOW}resident bytes", f" {ANY_VALUES}"),
            ({"budget_bytes": 95}, "over budget: required_bytes = 96, budget_bytes = 95", f" {ANY_VALUES}"),
        )
    ),
    Refusal(
        plan_queue_with_expansion,
        (ExpansionProfile(2, 4, 16, 100, HostSync.FINAL_ONLY, TOP),),
        f"{OVERFLOW}queue expansion capacity. {ANY_VALUES}",
    ),
    Refusal(
        plan_queue_with_expansion,
        (ExpansionProfile(2, 0, 16, 100, HostSync.FINAL_ONLY, 5),),
        f"zero entry bytes. {ANY_VALUES}",
    ),
    Refusal(
        plan_queue_with_expansion,
        (ExpansionProfile(0, 1, 16, 10, HostSync.FINAL_ONLY, 5),),
        f"zero capacity. {ANY_VALUES}",
    ),
    Refusal(plan_backpressure, (replace(DRAIN, max_items_per_drain_launch=0),), f"zero drain chunk. {ANY_VALUES}"),
    Refusal(
        plan_backpressure,
        (replace(DRAIN, total_items=1),),
        f"total items below initial: total_items = 1, initial_items = 2. {ANY_VALUES}",
    ),
    Refusal(plan_convergence, (ConvergenceInputs(0, 4, 0),), f"empty iteration budget. {ANY_VALUES}"),
    Refusal(
        plan_convergence,
        (ConvergenceInputs(1, 8, 0),),
        "invalid changed flag width: bytes = 8. Fix: a flag takes 4 bytes.",
    ),
    Refusal(
        plan_convergence,
        (ConvergenceInputs(1, 4, 2),),
        "host polled convergence: polls = 2. Fix: read the flag once, after the loop.",
    ),
    Refusal(
        fixpoint.choose_executor,
        (fixpoint.FixpointProfile(5, GridSyncInputs(False, 1, 1, 1, GridSyncMode.NATIVE), True),),
        "grid barrier impossible. Fix: do not force it: the device launches no cooperative kernels.",
    ),
    Refusal(
        resolve_fixpoint_iterations,
        (FixpointInputs(0, "cuda"),),
        "backend `cuda` was asked for 0 fixpoint iterations. Fix: leave the field unset for one run.",
    ),
    Refusal(
        read_fused_result,
        ((b"12345678",), CounterTail(1)),
        "a fused program reports in output 1, but has 1 output(s). "
        "Fix: name the output whose last two u32 are the committed and rolled back counts.",
    ),
    Refusal(
        read_fused_result,
        ((b"", b"1234567"), CounterTail(1)),
        "output 1 of a fused program has 7 bytes, which end in no two u32. "
        "Fix: append the committed and rolled back counts as two u32 to an output of whole words.",
    ),
]

SAID = [
    (gate(), "empty samples"),
    (gate(MEASURED, required=0.0), "invalid required speedup: required_x = 0.0"),
    (gate(MEASURED), "insufficient sample count: sample_count = 1"),
    (
        gate(MEASURED, replace(MEASURED, repetitions=TOP)),
        "repetition count overflow: index = 1",
    ),
    (gate(MEASURED, replace(MEASURED, backend_id="x")), "non cuda evidence: index = 1, backend_id = x"),
    (
        gate(replace(MEASURED, device_memory_bytes=1)),
        "insufficient cuda device: index = 0, device_memory_bytes = 1, "
        "compute_capability_major = 9, compute_capability_minor = 0",
    ),
    (gate(MEASURED, replace(MEASURED, repetitions=1)), "not repeated fixed graph: index = 1"),
    (
        gate(MEASURED, replace(MEASURED, repetitions=63)),
        "insufficient scale: index = 1, graph_nodes = 1000000, graph_edges = 1000000, repetitions = 63",
    ),
    (
        gate(MEASURED, replace(MEASURED, timed_host_syncs=3)),
        "polluted timed region: index = 1, graph_uploads = 0, host_allocations = 0, host_syncs = 3, "
        "borrowed_fallback_dispatches = 0",
    ),
    (
        gate(MEASURED, replace(MEASURED, repetitions=2)),
        "insufficient scale: index = 1, graph_nodes = 1000000, graph_edges = 1000000, repetitions = 2",
    ),
    *(
        (gate(MEASURED, replace(MEASURED, **dict[str, Any]({field: value}))), "invalid timing: index = 1")
        for field, value in (
            ("setup_ns", -1.0),
            ("host_orchestrated_ns", 0.0),
            ("host_orchestrated_ns", float("inf")),
            ("resident_megakernel_ns", 0.0),
        )
    ),
    (
        gate(MEASURED, required=3.5),
        "speedup below threshold: index = 0, observed_x = 3.0, required_x = 3.5",
    ),
]
CLAIMS = [
    *(Refusal(validate_samples, arguments, f"{said}. {ANY_VALUES}") for arguments, said in SAID),
    Refusal(parse_csv, ("\n", 1.0), f"empty samples. {ANY_VALUES}"),
    Refusal(parse_csv, ("a,b", 1.0), f"invalid evidence header: observed = a,b. Fix: begin with the line {HEADER}."),
    Refusal(parse_csv, (f"{HEADER}\n\n1,2", 1.0), f"invalid evidence row: line = 2. {ANY_VALUES}"),
    Refusal(
        parse_csv,
        (f"{HEADER}\ncuda,0,1099511627776,9,0,1000000,1000000,100,x,100,1,0,0,0,0", 1.0),
        f"invalid evidence value: line = 2, field = host_orchestrated_ns, value = x. {ANY_VALUES}",
    ),
]


@pytest.mark.parametrize("refusal", [*BOUNDS, *PLANS, *CLAIMS], ids=lambda refusal: refusal.text[:60])
def test_refusals(refusal: Refusal) -> None:
    with pytest.raises(VyreError) as error:
        refusal.call(*refusal.arguments)
    assert str(error.value) == refusal.text
