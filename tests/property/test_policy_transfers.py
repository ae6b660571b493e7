"""Invariants of fused launches, fused transfers and packed read-backs, for any input."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records import records
from vectors.seeds.chain_fusion import ChainInputs, ChainStage, plan_launch_fusion
from vectors.seeds.diagnostics import CompactRange, DiagnosticInputs, DiagnosticShard, plan_diagnostics
from vyre.domain.errors import PlanError
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.stage_fusion.launch_fusion import (
    AccessRelation,
    BufferUse,
    DataflowInputs,
    DataflowStage,
    LaunchFusionPlan,
    Stage,
    StageBuffer,
    plan_dataflow,
)
from vyre.policies.transfer.readback import (
    CompactRecord,
    ResultInputs,
    ResultSlot,
    SlabInputs,
    SlabThresholds,
    plan_results,
    plan_slab,
)
from vyre.policies.transfer.transfers import ReadInputs, ReadRequest, Write, WriteInputs, fuse_reads, fuse_writes

U64_MAX = 2**64 - 1
SMALL = st.integers(0, 20)
LAYOUTS = st.sampled_from([7, 7, 7, 8])
HOST = st.sampled_from([False, False, False, True])


def chains(count: int) -> st.SearchStrategy[ChainInputs]:
    stages = (st.builds(ChainStage, st.just(i), LAYOUTS, SMALL, HOST, SMALL, SMALL) for i in range(count))
    return st.builds(ChainInputs, st.tuples(*stages), st.integers(60, 150))


CHAINS = st.integers(0, 8).flatmap(chains)


def check_launches(plan: LaunchFusionPlan, stages: tuple[Stage, ...], budget: int) -> list[tuple[Stage, ...]]:
    """What holds for launches however their bytes are counted; the stages of each."""
    assert [i for g in plan.groups for i in g.stage_ids] == [s.id for s in stages]
    assert plan.launch_count == len(plan.groups)
    assert plan.launch_count + plan.avoided_launches == len(stages)
    assert plan.avoided_intermediate_bytes == sum(g.avoided_intermediate_bytes for g in plan.groups)
    by_id = {s.id: s for s in stages}
    groups = [tuple(by_id[i] for i in g.stage_ids) for g in plan.groups]
    for group, members in zip(plan.groups, groups, strict=True):
        assert group.required_bytes <= budget
        assert not any(s.requires_host_materialization for s in members[1:])
        assert {s.layout_hash for s in members} == {group.layout_hash}
    return groups


@given(CHAINS)
def test_chains(inputs: ChainInputs) -> None:
    plan = plan_launch_fusion(inputs)
    assert plan_launch_fusion(inputs) == plan
    groups = check_launches(plan, inputs.stages, inputs.max_group_bytes)
    by_id = {s.id: s for s in inputs.stages}
    for group in plan.groups:
        stages = [by_id[i] for i in group.stage_ids]
        assert group.required_bytes == stages[0].input_bytes + sum(s.output_bytes + s.scratch_bytes for s in stages)
        assert group.avoided_intermediate_bytes == sum(s.output_bytes for s in stages[:-1])
    for (group, members), (_, behind) in pairwise(zip(plan.groups, groups, strict=True)):
        following = by_id[behind[0].id]
        needed = group.required_bytes + following.output_bytes + following.scratch_bytes
        assert (
            following.requires_host_materialization
            or following.layout_hash != members[0].layout_hash
            or needed > inputs.max_group_bytes
        )


RESOURCES = range(1, 6)


def uses() -> st.SearchStrategy[tuple[BufferUse, ...]]:
    use = st.builds(BufferUse, st.sampled_from(RESOURCES), st.sampled_from(AccessMode), st.sampled_from(AccessRelation))
    return st.lists(use, max_size=3, unique_by=lambda u: u.resource).map(tuple)


def dataflows(count: int) -> st.SearchStrategy[DataflowInputs]:
    stages = (st.builds(DataflowStage, st.just(i), LAYOUTS, SMALL, HOST, uses()) for i in range(count))
    buffers = (st.builds(StageBuffer, st.just(r), SMALL, st.booleans()) for r in RESOURCES)
    return st.builds(DataflowInputs, st.tuples(*stages), st.tuples(*buffers), st.integers(80, 150), st.booleans())


DATAFLOWS = st.integers(0, 8).flatmap(dataflows)
WIDTHS = list(AccessRelation)


@given(DATAFLOWS)
def test_conflicting_stages_of_a_launch_are_ordered(inputs: DataflowInputs) -> None:
    plan = plan_dataflow(inputs)
    groups = check_launches(plan.launches, inputs.stages, inputs.max_group_bytes)
    by_id = {s.id: s for s in inputs.stages}
    for members, dataflow in zip(groups, plan.dataflow, strict=True):
        assert len(dataflow.barriers) == len(members) - 1
        assert inputs.cooperative or AccessRelation.GLOBAL not in dataflow.barriers
        for i, j in combinations(range(len(members)), 2):
            between = max(WIDTHS.index(b) for b in dataflow.barriers[i:j])
            for before in by_id[members[i].id].uses:
                for after in by_id[members[j].id].uses:
                    if before.resource == after.resource and {before.mode, after.mode} != {AccessMode.READ}:
                        assert between >= WIDTHS.index(after.relation)


@given(DATAFLOWS)
def test_barriers_that_no_conflict_needs_are_not_placed(inputs: DataflowInputs) -> None:
    readers = tuple(
        replace(s, uses=tuple(BufferUse(u.resource, AccessMode.READ, u.relation) for u in s.uses))
        for s in inputs.stages
    )
    for each in plan_dataflow(replace(inputs, stages=readers)).dataflow:
        assert set(each.barriers) <= {AccessRelation.POINTWISE}
        assert each.unallocated == ()


@given(DATAFLOWS)
def test_launches_bind_each_buffer_once(inputs: DataflowInputs) -> None:
    plan = plan_dataflow(inputs)
    assert plan_dataflow(inputs) == plan
    size = {b.resource: b.byte_len for b in inputs.buffers}
    kept = {b.resource for b in inputs.buffers if b.kept}
    by_id = {s.id: s for s in inputs.stages}
    for group, dataflow in zip(plan.launches.groups, plan.dataflow, strict=True):
        members = [by_id[i] for i in group.stage_ids]
        bound = {u.resource for s in members for u in s.uses} - set(dataflow.unallocated)
        scratch = sum(s.scratch_bytes for s in members)
        assert group.required_bytes == sum(size[r] for r in bound) + scratch
        assert group.avoided_intermediate_bytes == sum(size[r] for r in dataflow.unallocated)
        assert list(dataflow.unallocated) == sorted(set(dataflow.unallocated))
        for resource in dataflow.unallocated:
            everywhere = [(s.id, u) for s in inputs.stages for u in s.uses if u.resource == resource]
            assert {i for i, _ in everywhere} <= set(group.stage_ids) and len(everywhere) > 1
            assert everywhere[0][1].mode is AccessMode.WRITE and resource not in kept
            assert all(u.relation is AccessRelation.POINTWISE for _, u in everywhere[1:])


@given(DATAFLOWS)
def test_peak_of_live_bytes(inputs: DataflowInputs) -> None:
    """Against a walk over the launches that frees what nobody needs any more."""
    plan = plan_dataflow(inputs)
    absent = {r for d in plan.dataflow for r in d.unallocated}
    by_id = {s.id: s for s in inputs.stages}
    launches = [[u for i in g.stage_ids for u in by_id[i].uses] for g in plan.launches.groups]
    first: dict[int, AccessMode] = {}
    for use in (use for launch in launches for use in launch):
        first.setdefault(use.resource, use.mode)
    buffers = {b.resource: b for b in inputs.buffers if b.resource in first.keys() - absent}
    live = {r for r in buffers if first[r] is not AccessMode.WRITE}
    peaks = [0]
    for number, group in enumerate(plan.launches.groups):
        live |= {u.resource for u in launches[number]} & buffers.keys()
        scratch = sum(by_id[i].scratch_bytes for i in group.stage_ids)
        peaks.append(sum(buffers[r].byte_len for r in live) + scratch)
        later = {u.resource for launch in launches[number + 1 :] for u in launch}
        live = {r for r in live if r in later or buffers[r].kept}
    assert plan.peak_bytes == max(peaks)
    assert plan.peak_bytes >= max((g.required_bytes for g in plan.launches.groups), default=0)


REQUESTS = st.lists(st.builds(ReadRequest, st.integers(1, 3), st.integers(0, 60), st.integers(0, 12)), max_size=12)
MEMORY = {handle: bytes((handle * 80 + i) % 251 for i in range(80)) for handle in (1, 2, 3)}


@given(REQUESTS.map(tuple), st.integers(0, 6))
def test_views_hold_what_was_asked_for(requested: tuple[ReadRequest, ...], max_gap: int) -> None:
    inputs = ReadInputs(requested, max_gap)
    plan = fuse_reads(inputs)
    assert fuse_reads(inputs) == plan
    staged = [MEMORY[c.handle_id][c.src : c.src + c.byte_len] for c in plan.copies]
    for request, view in zip(requested, plan.views, strict=True):
        direct = MEMORY[request.handle_id][request.src : request.src + request.byte_len]
        held = staged[view.copy_slot] if request.byte_len else b""
        assert held[view.byte_offset : view.byte_offset + view.byte_len] == direct
    assert plan.bytes == sum(c.byte_len for c in plan.copies)
    assert plan.non_empty_copy_count == len(plan.copies) <= sum(r.byte_len > 0 for r in requested)
    for before, after in pairwise(plan.copies):
        assert before.handle_id < after.handle_id or (
            before.handle_id == after.handle_id and after.src - before.src - before.byte_len > max_gap
        )
    if max_gap == 0:
        assert plan.bytes <= sum(r.byte_len for r in requested)


@given(REQUESTS.map(tuple), st.integers(0, 6), st.randoms(use_true_random=False))
def test_the_order_of_reads_does_not_matter(requested: tuple[ReadRequest, ...], max_gap: int, random: Any) -> None:
    order = list(range(len(requested)))
    random.shuffle(order)
    plan = fuse_reads(ReadInputs(requested, max_gap))
    other = fuse_reads(ReadInputs(tuple(requested[i] for i in order), max_gap))
    assert other.copies == plan.copies
    assert other.views == tuple(plan.views[i] for i in order)


@given(REQUESTS.map(tuple), st.integers(0, 6))
def test_a_larger_gap_never_takes_more_copies(requested: tuple[ReadRequest, ...], max_gap: int) -> None:
    few, many = (fuse_reads(ReadInputs(requested, gap)) for gap in (max_gap + 1, max_gap))
    assert few.non_empty_copy_count <= many.non_empty_copy_count
    assert few.bytes >= many.bytes


WRITES = st.lists(st.builds(Write, st.integers(1, 2), st.integers(0, 20), st.binary(max_size=8)), max_size=12)


def written(copies: Iterable[tuple[int, int, bytes]]) -> dict[int, bytearray]:
    memory: dict[int, bytearray] = defaultdict(lambda: bytearray(b"\xee" * 40))
    for handle, address, data in copies:
        memory[handle][address : address + len(data)] = data
    return {handle: memory[handle] for handle in (1, 2)}


@given(WRITES.map(tuple))
def test_fused_writes_leave_the_same_memory(uploads: tuple[Write, ...]) -> None:
    inputs = WriteInputs(uploads)
    plan = fuse_writes(inputs)
    assert fuse_writes(inputs) == plan
    copies = [(c.handle_id, c.dst_ptr, c.data) for c in plan.copies]
    assert written(copies) == written((w.handle_id, w.dst_ptr, w.data) for w in uploads)
    assert plan.uploaded_bytes == sum(len(data) for _, _, data in copies) <= plan.requested_bytes
    assert plan.requested_bytes == sum(len(w.data) for w in uploads)
    assert all(copies) and all(data for _, _, data in copies)
    for (handle, at, data), (next_handle, next_at, next_data) in pairwise(copies):
        assert handle != next_handle or at + len(data) < next_at or next_at + len(next_data) < at
    assert all(c.owned or any(c.data is w.data for w in uploads) for c in plan.copies)


ALIGNMENTS = st.sampled_from([1, 1, 4, 16])


def slots() -> st.SearchStrategy[tuple[ResultSlot, ...]]:
    row = st.tuples(st.integers(0, 9), SMALL, SMALL)
    rows = st.lists(row, max_size=8, unique_by=lambda r: r[0])
    return rows.map(lambda found: tuple(ResultSlot(s, used, used + spare) for s, used, spare in found))


def check_packing(places: tuple[CompactRecord, ...] | tuple[CompactRange, ...], end: int, alignment: int) -> None:
    """Each record begins at the first aligned offset behind the one before."""
    at = 0
    for place in places:
        assert place.bytes > 0
        assert place.compact_offset % alignment == 0 and 0 <= place.compact_offset - at < alignment
        at = place.compact_offset + place.bytes
    assert at == end


@given(slots(), SMALL, ALIGNMENTS)
def test_results(found: tuple[ResultSlot, ...], limit: int, alignment: int) -> None:
    inputs = ResultInputs(found, limit, alignment)
    plan = plan_results(inputs)
    assert plan_results(replace(inputs, slots=found[::-1])) == plan
    check_packing(plan.compact_records, plan.compact_bytes, alignment)
    size = {s.slot: s.meaningful_bytes for s in found}
    packed = [r.slot for r in plan.compact_records]
    assert packed == sorted(s for s in size if 0 < size[s] <= limit)
    assert list(plan.direct_slots) == sorted(s for s in size if size[s] > limit)
    assert [r.bytes for r in plan.compact_records] == [size[s] for s in packed]
    assert plan.direct_bytes == sum(size[s] for s in plan.direct_slots)
    assert plan.selected_readback_bytes == plan.compact_bytes + plan.direct_bytes
    assert plan.full_capacity_bytes == sum(s.capacity_bytes for s in found)
    assert plan.avoided_readback_bytes == max(plan.full_capacity_bytes - plan.selected_readback_bytes, 0)
    if alignment == 1:
        assert plan.avoided_readback_bytes + plan.selected_readback_bytes == plan.full_capacity_bytes
    assert 0 <= plan.avoided_readback_basis_points <= 10_000


@given(slots(), SMALL, ALIGNMENTS, SMALL)
def test_a_slab_holds_results_of_any_length(
    found: tuple[ResultSlot, ...], limit: int, alignment: int, header: int
) -> None:
    packed = plan_results(ResultInputs(found, limit, alignment))
    capacities = tuple(min(s.capacity_bytes, limit) for s in found)
    slab = plan_slab(SlabInputs(capacities, header), SlabThresholds(alignment, 64))
    assert packed.compact_bytes <= slab.slab_bytes
    assert slab.slab_offset >= header and slab.slab_offset % alignment == 0
    assert slab.resident_bytes == slab.slab_offset + slab.slab_bytes
    assert slab.copies == (1 if slab.resident_bytes <= 64 or not any(capacities) else 2)


SHARDS = st.lists(
    st.tuples(st.integers(0, 9), SMALL, SMALL, *[st.integers(1, 20)] * 2, SMALL, st.integers(1, 15)),
    max_size=8,
    unique_by=lambda row: row[0],
).map(lambda rows: tuple(DiagnosticShard(s, emitted + spare, emitted, *rest) for s, emitted, spare, *rest in rows))


@given(SHARDS, st.integers(1, 25), ALIGNMENTS)
def test_diagnostics(shards: tuple[DiagnosticShard, ...], cap: int, alignment: int) -> None:
    inputs = DiagnosticInputs(shards, cap, U64_MAX, alignment)
    plan = plan_diagnostics(inputs)
    assert plan_diagnostics(replace(inputs, shards=shards[::-1])) == plan
    check_packing(plan.compact_ranges, plan.compact_readback_bytes, alignment)
    by_shard = {s.shard: s for s in shards}
    assert [r.shard for r in plan.compact_ranges] == sorted(s.shard for s in shards if s.emitted_diagnostics)
    for place in plan.compact_ranges:
        assert place.records == min(by_shard[place.shard].emitted_diagnostics, cap)
        assert place.bytes == place.records * by_shard[place.shard].diagnostic_record_bytes
    read = sum(r.records for r in plan.compact_ranges)
    assert read + plan.overflow_records == sum(s.emitted_diagnostics for s in shards)
    assert plan.requires_overflow_flag == (plan.overflow_records > 0)
    assert plan.requires_device_prefix_scan == (len(plan.compact_ranges) > 1)
    raw = sum(s.candidate_items * s.raw_item_bytes for s in shards)
    assert plan.raw_candidate_readback_bytes == raw
    assert plan.host_readback_bytes == plan.counter_readback_bytes + plan.compact_readback_bytes
    assert plan.avoided_readback_bytes == max(raw - plan.host_readback_bytes, 0)
    capacities = tuple(min(s.candidate_items, cap) * s.diagnostic_record_bytes for s in shards)
    slab = plan_slab(SlabInputs(capacities, plan.counter_readback_bytes), SlabThresholds(alignment))
    assert plan.compact_readback_bytes <= slab.slab_bytes


ANY_SHARDS = st.lists(records(DiagnosticShard), max_size=3).map(tuple)
ANY_INPUTS = st.one_of(
    records(ChainInputs),
    records(DataflowInputs),
    records(ReadInputs),
    records(ResultInputs),
    records(DiagnosticInputs),
    records(DiagnosticInputs, shards=ANY_SHARDS, max_records_per_shard=st.just(1), budget_bytes=st.just(U64_MAX)),
    records(SlabInputs),
)
PLANNERS: dict[type, Callable[[Any], object]] = {
    ChainInputs: plan_launch_fusion,
    DataflowInputs: plan_dataflow,
    ReadInputs: fuse_reads,
    ResultInputs: plan_results,
    DiagnosticInputs: plan_diagnostics,
    SlabInputs: plan_slab,
}


def numbers(value: Any) -> Iterable[int]:
    """Every integer of a plan."""
    if isinstance(value, tuple):
        yield from (n for item in value for n in numbers(item))
    elif hasattr(value, "__dataclass_fields__"):
        yield from (n for f in fields(value) if f.compare for n in numbers(getattr(value, f.name)))
    elif isinstance(value, int):
        yield value


@given(ANY_INPUTS)
def test_plans_stay_within_64_bits_or_are_refused(inputs: Any) -> None:
    try:
        plan = PLANNERS[type(inputs)](inputs)
    except PlanError:
        return
    assert all(0 <= n <= U64_MAX for n in numbers(plan))


STAGE = ChainStage(1, 7, 1, False, 1, 1)
SHARD = DiagnosticShard(1, 1, 1, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("planner", "inputs"),
    [
        *(
            (
                plan_launch_fusion,
                ChainInputs((STAGE, replace(STAGE, id=2, **dict[str, Any]({name: U64_MAX}))), U64_MAX),
            )
            for name in ("output_bytes", "scratch_bytes")
        ),
        (plan_launch_fusion, ChainInputs((replace(STAGE, input_bytes=U64_MAX),), U64_MAX)),
        *(
            (
                plan_diagnostics,
                DiagnosticInputs(
                    (replace(SHARD, shard=0), replace(SHARD, **dict[str, Any]({name: U64_MAX}))), 1, U64_MAX
                ),
            )
            for name in ("candidate_items", "raw_item_bytes", "diagnostic_record_bytes", "counter_bytes")
        ),
        (plan_results, ResultInputs((ResultSlot(0, 0, U64_MAX), ResultSlot(1, 0, 1)), 1)),
        (plan_slab, SlabInputs((1,), U64_MAX)),
        (plan_slab, SlabInputs((U64_MAX,), 1)),
        (fuse_reads, ReadInputs((ReadRequest(1, 0, U64_MAX), ReadRequest(2, 0, U64_MAX)))),
    ],
)
def test_sums_never_wrap(planner: Any, inputs: Any) -> None:
    with pytest.raises(PlanError) as error:
        planner(inputs)
    assert error.value.kind == "ByteCountOverflow"
