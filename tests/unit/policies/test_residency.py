"""Invariants of resident data, captures, pass selection and vyre-driver's speed-up gate."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records import records
from vectors.seeds.capture import BindingRole, CaptureBinding, CaptureInputs, plan_capture
from vectors.seeds.pass_selection import PassCandidate, SelectionInputs, SkipReason, WorkloadSample, select_passes
from vectors.seeds.residency import (
    GraphQuery,
    QueryBatch,
    Readback,
    ResidencyCounters,
    SessionProfile,
    plan_queries,
    plan_session,
)
from vectors.seeds.speedup_gate import (
    HEADER,
    GateInputs,
    GateThresholds,
    SpeedupSample,
    format_csv,
    parse_csv,
    validate,
)
from vyre.domain.errors import PlanError

COUNTERS = records(ResidencyCounters, **{n: st.integers(0, 2**62) for n in ResidencyCounters.__annotations__})


@given(COUNTERS, COUNTERS, COUNTERS)
def test_counters_are_a_monoid(a: ResidencyCounters, b: ResidencyCounters, c: ResidencyCounters) -> None:
    assert a.add(ResidencyCounters()) == a
    assert a.add(b) == b.add(a)
    assert a.add(b).add(c) == a.add(b.add(c))
    assert a.add(b).delta_since(a) == b


@pytest.mark.parametrize(
    ("field", "prefix"),
    [("cold_uploads", "C"), ("warm_reuses", "C"), ("upload_bytes", "ByteC"), ("avoided_upload_bytes", "ByteC")],
)
def test_counters_never_wrap(field: str, prefix: str) -> None:
    one, full = ResidencyCounters(**{field: 1}), ResidencyCounters(**{field: 2**64 - 1})
    with pytest.raises(PlanError) as over:
        full.add(one)
    with pytest.raises(PlanError) as under:
        ResidencyCounters().delta_since(one)
    assert (over.value.kind, under.value.kind) == (f"{prefix}ounterOverflow", f"{prefix}ounterUnderflow")
    assert over.value.fields == under.value.fields == {"counter": field}


GRAPH_BYTES = {1: 100, 2: 50, 3: 7}
SMALL = st.integers(0, 20)
QUERIES = st.lists(
    st.builds(
        lambda graph, traversal, sizes: (graph, traversal, GRAPH_BYTES[graph], *sizes),
        st.sampled_from([1, 2, 3]),
        st.integers(1, 2),
        st.tuples(SMALL, SMALL, SMALL),
    ),
    max_size=12,
).map(lambda rows: tuple(GraphQuery(i, *row) for i, row in enumerate(rows)))


@given(QUERIES, st.integers(160, 400), st.booleans())
def test_query_batches(queries: tuple[GraphQuery, ...], budget: int, stay: bool) -> None:
    batch = QueryBatch(queries, budget + 60 * stay, graphs_stay_resident=stay)
    try:
        plan = plan_queries(batch)
    except PlanError as error:
        assert error.kind == "OverBudget" and stay
        return
    assert sorted(q for group in plan.groups for q in group.queries) == [q.query for q in queries]
    assert all(group.resident_bytes <= batch.budget_bytes for group in plan.groups)
    uses = Counter(q.graph_layout_hash for q in queries)
    for graph, count in uses.items():
        groups = [g for g in plan.groups if g.graph_layout_hash == graph]
        assert sum(g.graph_reuse.cold_uploads for g in groups) == 1
        moved = sum(g.graph_upload_bytes + g.avoided_graph_upload_bytes for g in groups)
        assert moved == count * GRAPH_BYTES[graph]
    assert plan.avoided_launches == len(queries) - plan.launch_count
    assert plan.peak_resident_bytes == max((g.resident_bytes for g in plan.groups), default=0)
    assert plan_queries(replace(batch, queries=queries[::-1])) == plan
    roomier = plan_queries(replace(batch, budget_bytes=batch.budget_bytes * 2))
    assert roomier.launch_count <= plan.launch_count


def test_graphs_that_stay_count_against_the_budget() -> None:
    queries = (GraphQuery(1, 1, 1, 100, 1, 1, 1), GraphQuery(2, 2, 1, 50, 1, 1, 1))
    assert plan_queries(QueryBatch(queries, 103)).peak_resident_bytes == 103
    assert plan_queries(QueryBatch(queries, 153, graphs_stay_resident=True)).peak_resident_bytes == 153
    with pytest.raises(PlanError) as error:
        plan_queries(QueryBatch(queries, 152, graphs_stay_resident=True))
    assert error.value.fields["required_bytes"] == 153
    one_graph = (GraphQuery(1, 1, 1, 100, 1, 1, 1), GraphQuery(2, 1, 2, 100, 1, 1, 1))
    assert plan_queries(QueryBatch(one_graph, 103, graphs_stay_resident=True)).peak_resident_bytes == 103


def test_queries_may_fill_the_budget() -> None:
    queries = (GraphQuery(1, 1, 1, 100, 1, 1, 1), GraphQuery(2, 1, 1, 100, 1, 1, 1))
    assert plan_queries(QueryBatch(queries, 105)).launch_count == 1
    assert plan_queries(QueryBatch(queries, 104)).launch_count == 2
    largest = GraphQuery(1, 1, 1, 2**64 - 4, 1, 1, 1)
    assert plan_queries(QueryBatch((largest,), 2**64 - 1)).peak_resident_bytes == 2**64 - 1


@pytest.mark.parametrize("field", ["frontier_bytes", "scratch_bytes", "output_bytes", "graph_upload_bytes"])
def test_query_bytes_never_wrap(field: str) -> None:
    query = replace(GraphQuery(1, 1, 1, 1, 1, 1, 1), **{field: 2**64 - 1})
    with pytest.raises(PlanError) as error:
        plan_queries(QueryBatch((query,), 2**64 - 1))
    assert error.value.kind == "ByteCountOverflow"


def test_malformed_queries() -> None:
    good = GraphQuery(1, 1, 1, 1, 1, 1, 1)
    for kind, bad in (
        ("ZeroGraphHash", replace(good, graph_layout_hash=0)),
        ("ZeroTraversalKey", replace(good, traversal_key=0)),
        ("ZeroGraphUploadBytes", replace(good, graph_upload_bytes=0)),
    ):
        with pytest.raises(PlanError) as error:
            plan_queries(QueryBatch((bad,), 100))
        assert error.value.kind == kind


PROFILES = records(
    SessionProfile,
    **{n: st.integers(1, 10**6) for n in SessionProfile.__annotations__ if n not in ("readback", "budget_bytes")},
    budget_bytes=st.just(10**7),
    readback=st.just(Readback.FINAL_ONLY),
)


@given(PROFILES)
def test_sessions_save_what_runs_of_their_own_would_cost(profile: SessionProfile) -> None:
    plan, runs = plan_session(profile), profile.run_count
    assert plan.one_time_graph_upload_bytes + plan.avoided_graph_upload_bytes == runs * profile.graph_bytes
    assert plan.avoided_device_allocations + 3 == 3 * runs
    assert plan.avoided_host_fences + 1 == runs
    assert plan.peak_resident_bytes <= profile.budget_bytes
    assert plan_session(profile) == plan


@pytest.mark.parametrize(
    ("field", "kind"),
    [("graph_layout_hash", "ZeroGraphHash"), ("graph_bytes", "ZeroGraphBytes"), ("run_count", "ZeroRuns")],
)
def test_empty_sessions(field: str, kind: str) -> None:
    profile = SessionProfile(1, 1, 1, 1, 1, 1, 100, Readback.FINAL_ONLY)
    with pytest.raises(PlanError) as error:
        plan_session(replace(profile, **dict[str, Any]({field: 0})))
    assert error.value.kind == kind


@given(st.lists(records(CaptureBinding), max_size=6))
def test_captures_count_every_buffer_once(bindings: list[CaptureBinding]) -> None:
    plan = plan_capture(CaptureInputs(tuple(bindings)))
    assert plan.input_device_capacity + plan.output_device_capacity == plan.kernel_pointer_capacity
    assert plan.kernel_argument_capacity == plan.kernel_pointer_capacity + 1
    assert plan == plan_capture(CaptureInputs((*bindings, CaptureBinding(BindingRole.SHARED, 1, 1))))
    assert plan == plan_capture(CaptureInputs(tuple(bindings[::-1])))


CANDIDATES = st.lists(
    records(
        PassCandidate,
        **{n: st.integers(0, 20) for n in PassCandidate.__annotations__ if n.startswith("min_")},
        pass_id=st.text("abc", min_size=1, max_size=3),
        planning_cost_ns=st.integers(0, 20),
        scratch_bytes=st.integers(0, 20),
        expected_speedup_bps=st.integers(10_001, 20_000),
        mandatory_when_profitable=st.just(False),
        predicted_saving_ns=st.none() | st.integers(0, 100),
    ),
    max_size=6,
    unique_by=lambda c: c.pass_id,
)
SAMPLE = WorkloadSample(10, 10, 10, 25, 25)


@given(CANDIDATES)
def test_selection_keeps_its_budgets(candidates: list[PassCandidate]) -> None:
    found = select_passes(SelectionInputs(tuple(candidates), SAMPLE))
    chosen = [c for c in candidates if c.pass_id in found.selected_pass_ids]
    assert found.total_planning_cost_ns == sum(c.planning_cost_ns for c in chosen) <= 25
    assert found.total_scratch_bytes == sum(c.scratch_bytes for c in chosen) <= 25
    assert len(found.selected_pass_ids) + len(found.skipped_passes) == len(candidates)
    assert found == select_passes(SelectionInputs(tuple(candidates[::-1]), SAMPLE))
    assert found.projected_speedup_bps >= 10_000


def test_predicted_savings_rank_passes() -> None:
    rare = PassCandidate("rare", 9, 9, 9, 20, 1, 20_000, False)
    useful = PassCandidate("useful", 1, 0, 0, 20, 1, 11_000, False)
    assert select_passes(SelectionInputs((rare, useful), SAMPLE)).selected_pass_ids == ("rare",)
    predicted = (replace(rare, predicted_saving_ns=5), replace(useful, predicted_saving_ns=500))
    found = select_passes(SelectionInputs(predicted, SAMPLE))
    assert found.selected_pass_ids == ("useful",)
    assert found.skipped_passes[0].reason is SkipReason.PLANNING_BUDGET_EXCEEDED


def test_selection_refuses_nameless_passes_and_overflowing_scratch() -> None:
    good = PassCandidate("a", 0, 0, 0, 0, 2**64 - 1, 20_000, False)
    sample = replace(SAMPLE, scratch_budget_bytes=2**64 - 1)
    for kind, candidates in (
        ("EmptyPassId", (replace(good, pass_id=""),)),
        ("CountOverflow", (good, replace(good, pass_id="b"))),
    ):
        with pytest.raises(PlanError) as error:
            select_passes(SelectionInputs(candidates, sample))
        assert error.value.kind == kind
    mandatory = replace(good, mandatory_when_profitable=True)
    with pytest.raises(PlanError) as error:
        select_passes(SelectionInputs((mandatory,), SAMPLE))
    assert error.value.fields["reason"] is SkipReason.SCRATCH_BUDGET_EXCEEDED


GOOD = SpeedupSample("cuda", 0, 2**35, 9, 0, 10_000, 80_000, 64, 64_000.0, 6_400.0, 10.0, 0, 0, 0, 0)


@given(st.lists(st.builds(lambda ns: replace(GOOD, resident_megakernel_ns=ns), st.floats(1e-3, 1e4)), min_size=2))
def test_evidence_survives_its_file(samples: list[SpeedupSample]) -> None:
    inputs = GateInputs(tuple(samples), 4.0)
    text = format_csv(inputs)
    assert "e" not in text.split("\n", 1)[1]  # no exponents
    assert parse_csv(text, 4.0) == validate(inputs)


def kind_of(inputs: GateInputs) -> str:
    with pytest.raises(PlanError) as error:
        validate(inputs)
    return error.value.kind


def test_the_gate() -> None:
    assert kind_of(GateInputs((), 4.0)) == "EmptySamples"
    assert kind_of(GateInputs((GOOD,), float("inf"))) == "InvalidRequiredSpeedup"
    assert kind_of(GateInputs((replace(GOOD, repetitions=2**64 - 1), GOOD), 4.0)) == "RepetitionCountOverflow"
    synced = GateInputs((replace(GOOD, timed_host_syncs=1), GOOD), 4.0)
    assert kind_of(synced) == "PollutedTimedRegion"
    assert validate(synced, GateThresholds(max_timed_host_syncs=1)).sample_count == 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "EmptySamples"),
        ("a,b\n", "InvalidEvidenceHeader"),
        (HEADER, "InsufficientSampleCount"),
        (f"{HEADER}\n1,2", "InvalidEvidenceRow"),
        (f"{HEADER}\ncuda,4294967296,1,9,0,1,1,1,1,1,1,0,0,0,0", "InsufficientCudaDevice"),
        (f"{HEADER}\ncuda,0,1,4294967296,0,1,1,1,1,1,1,0,0,0,0", "InvalidEvidenceValue"),
        (f"{HEADER}\ncuda,0,18446744073709551616,9,0,1,1,1,1,1,1,0,0,0,0", "InvalidEvidenceValue"),
        (f"{HEADER}\ncuda,0,{'9' * 5000},9,0,1,1,1,1,1,1,0,0,0,0", "InvalidEvidenceValue"),
        (f"{HEADER}\ncuda,0,1,9,0,1,1,1,fast,1,1,0,0,0,0", "InvalidEvidenceValue"),
        (f"{HEADER}\ncuda,0,1,9,0,1,1,1,\u0661,1,1,0,0,0,0", "InvalidEvidenceValue"),
        (f"{HEADER}\ncuda,0,1,9,0,1,1,1,1_0,1,1,0,0,0,0", "InvalidEvidenceValue"),
        (f"{HEADER}\ncuda,0,1,9,0,1,1,-1,1,1,1,0,0,0,0", "InvalidEvidenceValue"),
    ],
)
def test_malformed_evidence(text: str, kind: str) -> None:
    with pytest.raises(PlanError) as error:
        parse_csv(text, 4.0)
    assert error.value.kind == kind


def test_evidence_is_written_without_exponents() -> None:
    large = replace(GOOD, host_orchestrated_ns=1e22, resident_megakernel_ns=0.5, setup_ns=1e-7)
    written = format_csv(GateInputs((large, GOOD), 4.0)).splitlines()[1]
    assert written == "cuda,0,34359738368,9,0,10000,80000,64,10000000000000000000000,0.5,0.0000001,0,0,0,0"
    numbers = written.replace("34359738368", "+00034359738368")
    assert parse_csv(f"{HEADER}\n{numbers}\n{numbers}", 4.0).min_speedup_x == 2e22


def test_times_below_a_nanosecond_are_times() -> None:
    quick = replace(GOOD, host_orchestrated_ns=1.0, resident_megakernel_ns=0.125, setup_ns=0.0)
    assert validate(GateInputs((quick, GOOD), 4.0)).min_speedup_x == 8.0


def test_what_is_written_passed_the_gate() -> None:
    few = GateInputs((GOOD,), 4.0)
    with pytest.raises(PlanError):
        format_csv(few)
    one = GateThresholds(min_samples=1)
    written = format_csv(few, one)
    assert parse_csv(written, 4.0, one) == validate(few, one)
