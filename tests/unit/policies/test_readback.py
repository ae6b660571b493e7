"""Read-backs: where results and diagnostics lie in the slab, and what the host reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vectors.seeds.diagnostics import CompactRange, DiagnosticInputs, DiagnosticPlan, DiagnosticShard, plan_diagnostics
from vyre.domain.errors import PlanError
from vyre.policies.transfer.readback import (
    CompactRecord,
    ResultInputs,
    ResultPlan,
    ResultSlot,
    SlabInputs,
    SlabPlan,
    SlabReadback,
    SlabThresholds,
    plan_results,
    plan_slab,
)

TOP = 2**64 - 1
SLOTS = (ResultSlot(4, 33, 64), ResultSlot(2, 0, 128), ResultSlot(3, 24, 256), ResultSlot(1, 12, 128))
RESULTS = ResultInputs(SLOTS, 32)
SHARDS = (
    DiagnosticShard(9, 10, 2, 4, 8, 4, 1),
    DiagnosticShard(3, 10, 5, 4, 8, 4, 6),
    DiagnosticShard(5, 10, 0, 4, 0, 4, 0),
)
DIAGNOSTICS = DiagnosticInputs(SHARDS, 3, 999)


def test_short_results_share_a_copy_and_long_ones_have_their_own() -> None:
    found = plan_results(RESULTS)
    records = (CompactRecord(1, 0, 12), CompactRecord(3, 12, 24))
    assert found == ResultPlan(records, (4,), 576, 36, 33, 69, 507, 8802)
    assert str(found.why) == "2 results share a copy, 1 have their own: 69 of 576 bytes"


@pytest.mark.parametrize(("limit", "direct"), [(0, (1, 3, 4)), (11, (1, 3, 4)), (12, (3, 4)), (32, (4,)), (33, ())])
def test_the_limit_is_the_longest_that_is_packed(limit: int, direct: tuple[int, ...]) -> None:
    found = plan_results(replace(RESULTS, max_compact_record_bytes=limit))
    assert found.direct_slots == direct
    assert found.selected_readback_bytes == 69


def test_aligned_records() -> None:
    found = plan_results(replace(RESULTS, alignment=16))
    assert [r.compact_offset for r in found.compact_records] == [0, 16]
    assert (found.compact_bytes, found.selected_readback_bytes, found.avoided_readback_bytes) == (40, 73, 503)


def test_padding_may_cost_more_than_the_buffers() -> None:
    found = plan_results(ResultInputs((ResultSlot(0, 1, 1), ResultSlot(1, 1, 1)), 1, 16))
    assert (found.selected_readback_bytes, found.avoided_readback_bytes) == (17, 0)


def test_no_results() -> None:
    assert plan_results(ResultInputs((), 9)) == ResultPlan((), (), 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (replace(RESULTS, slots=SLOTS[:1] * 2), "duplicate slot: slot = 4"),
        (
            ResultInputs((ResultSlot(4, 65, 64),), 0),
            "meaningful exceeds capacity: slot = 4, meaningful_bytes = 65, capacity_bytes = 64",
        ),
        (
            ResultInputs((ResultSlot(1, 0, TOP), ResultSlot(2, 0, 1)), 0),
            "byte count overflow: field = full capacity bytes",
        ),
        (
            ResultInputs((ResultSlot(1, 1, 1), ResultSlot(2, 1, 1)), 1, TOP),
            "byte count overflow: field = compact bytes",
        ),
        (
            ResultInputs((ResultSlot(1, 1, 1), ResultSlot(2, 1, 1), ResultSlot(3, 2, 2)), 1, TOP - 1),
            "byte count overflow: field = selected readback bytes",
        ),
    ],
)
def test_refused_results(inputs: ResultInputs, text: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_results(inputs)
    assert str(error.value) == f"{text}. Fix: change the values named, or plan for less."


def test_diagnostics_are_packed_up_to_the_cap_and_counted_beyond() -> None:
    found = plan_diagnostics(DIAGNOSTICS)
    ranges = (CompactRange(3, 0, 3, 24), CompactRange(9, 24, 2, 16))
    assert found == DiagnosticPlan(ranges, 12, 40, 52, 120, 68, 4333, 2, True, True)
    assert str(found.why) == "52 bytes instead of 120; 2 diagnostics are only counted"


def test_one_diagnostic_beyond_the_cap_is_overflow() -> None:
    found = plan_diagnostics(replace(DIAGNOSTICS, max_records_per_shard=4))
    assert (found.overflow_records, found.requires_overflow_flag) == (1, True)


def test_no_diagnostics() -> None:
    found = plan_diagnostics(DiagnosticInputs((), 1, 0))
    assert found == DiagnosticPlan((), 0, 0, 0, 0, 0, 0, 0, False, False, True)


def test_records_are_dense_unless_aligned() -> None:
    assert ResultInputs((), 0) == ResultInputs((), 0, alignment=1)
    assert DiagnosticInputs((), 1, 0) == DiagnosticInputs((), 1, 0, alignment=1)


def test_a_single_list_needs_no_scan() -> None:
    found = plan_diagnostics(replace(DIAGNOSTICS, shards=SHARDS[1:], max_records_per_shard=5))
    assert (found.requires_device_prefix_scan, found.requires_overflow_flag) == (False, False)


def test_aligned_ranges() -> None:
    found = plan_diagnostics(replace(DIAGNOSTICS, alignment=16))
    assert [r.compact_offset for r in found.compact_ranges] == [0, 32]
    assert found.host_readback_bytes == 12 + 48


def test_records_may_be_larger_than_what_they_are_about() -> None:
    found = plan_diagnostics(DiagnosticInputs((DiagnosticShard(1, 1, 1, 1, 999, 8, 1),), 2, 5000))
    assert (found.avoided_readback_bytes, found.compression_ratio_bps) == (0, 10_070_000)


def shard(**change: int) -> DiagnosticInputs:
    return replace(DIAGNOSTICS, shards=(SHARDS[0], replace(SHARDS[1], **dict[str, Any](change))))


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (DiagnosticInputs((), 0, 0), "zero record cap"),
        (shard(shard=9), "duplicate shard: shard = 9"),
        (shard(raw_item_bytes=0), "zero raw item bytes: shard = 3"),
        (
            shard(emitted_diagnostics=11),
            "emitted exceeds candidates: shard = 3, emitted_diagnostics = 11, candidate_items = 10",
        ),
        (shard(diagnostic_record_bytes=0), "zero diagnostic record bytes: shard = 3"),
        (shard(severity_mask=0), "missing severity mask: shard = 3"),
        (shard(raw_item_bytes=2**63), "byte count overflow: field = raw candidate readback bytes"),
        (shard(counter_bytes=TOP), "byte count overflow: field = counter readback bytes"),
        (shard(diagnostic_record_bytes=TOP), "byte count overflow: field = compact bytes"),
        (shard(counter_bytes=TOP - 4), "byte count overflow: field = host readback bytes"),
        (replace(DIAGNOSTICS, budget_bytes=51), "over budget: required_bytes = 52, budget_bytes = 51"),
    ],
)
def test_refused_diagnostics(inputs: DiagnosticInputs, text: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_diagnostics(inputs)
    assert str(error.value) == f"{text}. Fix: change the values named, or plan for less."


def test_a_budget_may_be_used_up() -> None:
    assert plan_diagnostics(replace(DIAGNOSTICS, budget_bytes=52)).host_readback_bytes == 52


def test_a_small_slab_comes_with_its_header() -> None:
    found = plan_slab(SlabInputs((12, 0, 24, 16), 20))
    assert found == SlabPlan(32, 64, 96, SlabReadback.ONE_COPY, 1)
    assert str(found.why) == "header and slab take 96 bytes, a first copy 65536"


def test_a_slab_may_have_all_bytes_that_32_bits_count() -> None:
    assert plan_slab(SlabInputs((2**32 - 48,), 32)).resident_bytes == 2**32 - 16


@pytest.mark.parametrize(("chunk", "copies"), [(96, 1), (95, 2)])
def test_a_large_slab_comes_after_its_header(chunk: int, copies: int) -> None:
    found = plan_slab(SlabInputs((64,), 32), SlabThresholds(first_chunk_bytes=chunk))
    assert found.copies == copies
    assert found.readback is (SlabReadback.ONE_COPY if copies == 1 else SlabReadback.HEADER_FIRST)


def test_an_empty_slab_needs_no_copy_of_its_own() -> None:
    assert plan_slab(SlabInputs((0, 0), 32), SlabThresholds(first_chunk_bytes=8)).copies == 1


def test_default_slab() -> None:
    assert SlabThresholds() == SlabThresholds(16, 65_536)
    inputs = SlabInputs((65_536 - 16,), 16)
    assert plan_slab(inputs).copies == 1
    assert plan_slab(replace(inputs, header_bytes=17)).copies == 2
    assert plan_slab(SlabInputs((1, 1), 1)).resident_bytes == 48


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (SlabInputs((2**32 - 32,), 32), "over budget: required_bytes = 4294967296, budget_bytes = 4294967295"),
        (SlabInputs((TOP,), 0), "byte count overflow: field = slab bytes"),
        (SlabInputs((1,), TOP - 15), "byte count overflow: field = resident bytes"),
    ],
)
def test_refused_slabs(inputs: SlabInputs, text: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_slab(inputs)
    assert str(error.value) == f"{text}. Fix: change the values named, or plan for less."
