from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import TimingQuality
from vyre.domain.ir.program import BackendId
from vyre.policies.devices.backend_ranking import SCORES, Candidate, capability_score, rank_candidates

BLANK = DeviceProfile(backend=BackendId("b"))
FULL = replace(
    BLANK,
    max_storage_buffer_bytes=1,
    max_invocations_per_workgroup=256,
    subgroup_size=32,
    supports_subgroup_ops=True,
    has_subgroup_shuffle=True,
    has_shared_memory=True,
    supports_f16=True,
    supports_bf16=True,
    supports_tensor_cores=True,
    supports_indirect_dispatch=True,
    supports_device_timestamps=True,
    supports_hardware_counters=True,
)


def test_scores_add_up() -> None:
    assert capability_score(BLANK) == 0
    assert capability_score(FULL) == 66 == sum(points for _, points, _ in SCORES)
    assert capability_score(replace(BLANK, max_invocations_per_workgroup=64)) == 8
    assert capability_score(replace(BLANK, max_invocations_per_workgroup=255)) == 8
    assert capability_score(replace(BLANK, max_invocations_per_workgroup=63, max_storage_buffer_bytes=0)) == 0


def candidate(name: str, rank: int = 0, **facts: Any) -> Candidate:
    return Candidate(BackendId(name), rank, replace(BLANK, **facts))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (candidate("z", 9, supports_f16=True), candidate("a", 0, timing_quality=TimingQuality.HARDWARE_COUNTERS)),
        (candidate("z", 9, timing_quality=TimingQuality.DEVICE_TIMESTAMPS), candidate("a", 0, mem_bw_gbps=900)),
        (candidate("z", 9, mem_bw_gbps=2), candidate("a", 0, mem_bw_gbps=1)),
        (candidate("z", 9, mem_bw_gbps=1), candidate("a", 0, mem_bw_gbps=None)),
        (candidate("z", 0), candidate("a", 1)),
        (candidate("a", 1), candidate("b", 1)),
    ],
)
def test_order_of_comparison(better: Candidate, worse: Candidate) -> None:
    assert rank_candidates([worse, better]) == rank_candidates([better, worse]) == (better, worse)


def test_ranking_ignores_the_order_of_candidates() -> None:
    found = [candidate("a"), candidate("b", supports_f16=True), candidate("c", mem_bw_gbps=3), candidate("d", -1)]
    assert len({rank_candidates(p) for p in permutations(found)}) == 1
