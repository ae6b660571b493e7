"""What holds for every planner: same inputs, same plan; no order hidden in it; nothing wraps; savings are differences.

What only one planner promises is tested with it, in ``tests/unit/policies``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records import records
from vectors.seeds.capture import CaptureInputs, plan_capture
from vectors.seeds.egraph_image import EGraphSnapshot, ENodeRow
from vectors.seeds.egraph_plans import (
    BucketInputs,
    LaunchConfig,
    StructuralInputs,
    UnionInputs,
    WorkInputs,
    plan_signature_buckets,
    plan_structural_equivalences,
    plan_union_compaction,
    plan_work,
)
from vectors.seeds.occupancy_choices import BlockSizeInputs, pick_block_size
from vectors.seeds.pass_selection import PassCandidate, SelectionInputs, WorkloadSample, select_passes
from vectors.seeds.residency import (
    GraphQuery,
    QueryBatch,
    Readback,
    SessionProfile,
    plan_queries,
    plan_session,
)
from vectors.seeds.speedup_gate import GateInputs, SpeedupSample, validate
from vyre.domain.errors import PlanError
from vyre.domain.record import U64, U64_MAX
from vyre.policies.concurrency.hazards import HazardInputs, hazard_graph
from vyre.policies.devices.occupancy import (
    SM_MODELS,
    DeviceEnvelope,
    KernelUsage,
    LaunchShape,
    ShapeDiagnosisInputs,
    diagnose_shape,
)

SMALL = st.integers(0, 20)
GRAPHS = [(1, 100), (2, 50), (3, 7)]
"""Key and bytes."""
QUERIES = st.lists(st.tuples(st.sampled_from(GRAPHS), st.integers(1, 2), SMALL, SMALL, SMALL), max_size=8).map(
    lambda rows: tuple(GraphQuery(i, graph[0], key, graph[1], *sizes) for i, (graph, key, *sizes) in enumerate(rows))
)
SESSIONS = records(
    SessionProfile,
    **{f.name: st.integers(1, 10**6) for f in fields(SessionProfile) if f.name not in ("readback", "budget_bytes")},
    budget_bytes=st.just(10**7),
    readback=st.just(Readback.FINAL_ONLY),
)
CANDIDATES = st.lists(
    records(
        PassCandidate,
        **{f.name: SMALL for f in fields(PassCandidate) if f.name.startswith("min_")},
        pass_id=st.text("abc", min_size=1, max_size=3),
        planning_cost_ns=SMALL,
        scratch_bytes=SMALL,
        expected_speedup_bps=st.integers(10_001, 20_000),
        mandatory_when_profitable=st.just(False),
        predicted_saving_ns=st.none() | SMALL,
    ),
    max_size=6,
    unique_by=lambda c: c.pass_id,
).map(tuple)
GOOD = SpeedupSample("cuda", 0, 2**35, 9, 0, 10_000, 80_000, 64, 64_000.0, 6_400.0, 10.0, 0, 0, 0, 0)
SAMPLES = st.lists(
    st.builds(
        lambda ns, runs: replace(GOOD, resident_megakernel_ns=ns, repetitions=runs),
        st.floats(1e-3, 1e4),
        st.integers(64, 10**6),
    ),
    min_size=2,
    max_size=5,
).map(tuple)
SIZES = st.tuples(*[st.integers(0, 99)] * 3)
CONFIGS = st.builds(LaunchConfig, st.integers(1, 5), st.integers(1, 3))
ROWS = st.lists(st.builds(ENodeRow, st.integers(0, 5), st.sampled_from("fg"), st.just(())), max_size=8).map(tuple)


class Planner(NamedTuple):
    """``keyed``: the field whose order must not matter, if there is one."""

    plan: Callable[[Any], object]
    inputs: st.SearchStrategy[Any]
    keyed: str = ""


PLANNERS = {
    "queries": Planner(plan_queries, st.builds(QueryBatch, QUERIES, st.integers(400, 900), st.booleans()), "queries"),
    "session": Planner(plan_session, SESSIONS),
    "capture": Planner(plan_capture, records(CaptureInputs), "bindings"),
    "selection": Planner(
        select_passes, st.builds(SelectionInputs, CANDIDATES, st.just(WorkloadSample(10, 10, 10, 25, 25))), "candidates"
    ),
    "gate": Planner(validate, st.builds(GateInputs, SAMPLES, st.just(4.0)), "samples"),
    "block size": Planner(
        pick_block_size,
        st.builds(
            BlockSizeInputs,
            st.sampled_from(list(SM_MODELS.values())),
            records(KernelUsage, regs_per_thread=st.integers(0, 300)),
            st.lists(st.integers(0, 1100), max_size=5).map(tuple),
        ),
        "candidates",
    ),
    "shape": Planner(
        diagnose_shape,
        st.builds(
            ShapeDiagnosisInputs,
            st.just("k"),
            records(DeviceEnvelope),
            records(LaunchShape, grid=SIZES, block=SIZES),
            st.none() | SMALL,
        ),
    ),
    "e-graph work": Planner(plan_work, st.builds(WorkInputs, SMALL, SMALL, SMALL, CONFIGS)),
    "e-graph buckets": Planner(
        plan_signature_buckets, st.builds(BucketInputs, st.lists(st.integers(0, 4), max_size=9).map(tuple), CONFIGS)
    ),
    "e-graph unions": Planner(
        plan_union_compaction,
        st.builds(UnionInputs, st.lists(st.tuples(SMALL, SMALL), max_size=9).map(tuple), CONFIGS),
        "equivalences",
    ),
}


@pytest.mark.parametrize("name", PLANNERS)
@given(data=st.data())
def test_planners_are_pure_and_read_no_order(name: str, data: st.DataObject) -> None:
    planner = PLANNERS[name]
    inputs = data.draw(planner.inputs)
    before = copy.deepcopy(inputs)
    plan = planner.plan(inputs)
    assert planner.plan(inputs) == plan
    assert inputs == before
    if planner.keyed:
        order = data.draw(st.permutations(getattr(inputs, planner.keyed)))
        assert planner.plan(replace(inputs, **{planner.keyed: tuple(order)})) == plan


@given(ROWS, st.booleans(), st.randoms())
def test_equivalences_do_not_depend_on_the_order_of_rows(
    rows: tuple[ENodeRow, ...], leaders: bool, random: Any
) -> None:
    plan = plan_structural_equivalences(StructuralInputs(EGraphSnapshot(rows), leaders))
    shuffled = random.sample(rows, len(rows))
    assert plan_structural_equivalences(StructuralInputs(EGraphSnapshot(tuple(shuffled)), leaders)) == plan


def test_a_sequence_without_operations_has_no_hazards() -> None:
    assert hazard_graph(HazardInputs(())).predecessors == ()


def numbers(value: object) -> Iterator[int]:
    """Every integer of a plan."""
    if isinstance(value, tuple):
        for item in value:
            yield from numbers(item)
    elif is_dataclass(value):
        for field in fields(value):
            if field.compare:
                yield from numbers(getattr(value, field.name))
    elif isinstance(value, int) and not isinstance(value, bool | Enum):
        yield value


def extremes(inputs: Any) -> Iterator[Any]:
    """``inputs`` with one 64-bit field, of it or of one of its records, at the upper end."""
    hints = get_type_hints(type(inputs), include_extras=True)
    for field in fields(inputs):
        value = getattr(inputs, field.name)
        if hints[field.name] in (U64, U64 | None):
            yield replace(inputs, **{field.name: U64_MAX})
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            for i, item in enumerate(value):
                yield from (
                    replace(inputs, **{field.name: (*value[:i], extreme, *value[i + 1 :])})
                    for extreme in extremes(item)
                )


REFUSALS = {
    "ByteCountOverflow",
    "CountOverflow",
    "GraphUploadBytesMismatch",
    "OverBudget",
    "PollutedTimedRegion",
    "RepetitionCountOverflow",
}


@pytest.mark.parametrize("name", ["queries", "session", "selection", "gate"])
@given(data=st.data())
def test_nothing_wraps(name: str, data: st.DataObject) -> None:
    planner = PLANNERS[name]
    for inputs in extremes(data.draw(planner.inputs)):
        roomy = {f.name: U64_MAX for f in fields(inputs) if f.name == "budget_bytes"}
        try:
            plan = planner.plan(replace(inputs, **roomy))
        except PlanError as error:
            assert error.kind in REFUSALS
        else:
            assert all(0 <= number <= U64_MAX for number in numbers(plan))


@given(QUERIES, st.integers(400, 900), st.booleans())
def test_a_batch_saves_what_single_queries_would_cost(queries: tuple[GraphQuery, ...], budget: int, stay: bool) -> None:
    plan = plan_queries(QueryBatch(queries, budget, stay))
    naive_upload = sum(q.graph_upload_bytes for q in queries)
    assert plan.avoided_graph_upload_bytes == naive_upload - sum(g.graph_upload_bytes for g in plan.groups)
    assert plan.avoided_launches == plan.avoided_host_fences == len(queries) - len(plan.groups)
    for group in plan.groups:
        assert group.avoided_launches == group.avoided_host_fences == len(group.queries) - 1
    uploaded = {q.graph_layout_hash: q.graph_upload_bytes for q in queries}
    assert sum(g.graph_upload_bytes for g in plan.groups) == sum(uploaded.values())


@given(SESSIONS)
def test_a_session_saves_what_separate_runs_would_cost(profile: SessionProfile) -> None:
    plan, runs = plan_session(profile), profile.run_count
    assert plan.avoided_graph_upload_bytes == runs * profile.graph_bytes - plan.one_time_graph_upload_bytes
    assert plan.avoided_device_allocations == 3 * runs - 3
    assert plan.avoided_host_fences == runs - 1
    assert plan.total_frontier_refresh_bytes == runs * profile.per_run_frontier_bytes


@given(SAMPLES, st.floats(0.1, 4.0))
def test_a_lower_requirement_is_met_too(samples: tuple[SpeedupSample, ...], required: float) -> None:
    evidence = validate(GateInputs(samples, 4.0))
    assert validate(GateInputs(samples, required)) == evidence
    assert evidence.min_speedup_x >= 4.0
    assert evidence.total_repetitions == sum(sample.repetitions for sample in samples)
