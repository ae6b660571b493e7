from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vyre.domain.device import DeviceProfile
from vyre.domain.device_signature import DeviceSignature
from vyre.domain.errors import InvalidField
from vyre.domain.ir.program import BackendId

SIGNATURE = DeviceSignature(
    "hopper_90", "hopper", device_name_contains=("H200",), max_sm=132, l1_kb=256, mem_bw_gbps=4800
)


def test_unknown_facts_are_filled_and_probed_ones_kept() -> None:
    probed = DeviceProfile(backend=BackendId("b"), compute_units=64)
    done = SIGNATURE.completed(probed)
    assert (done.compute_units, done.l1_cache_bytes, done.mem_bw_gbps) == (64, 256 * 1024, 4800)
    assert done.l2_cache_bytes is None  # the signature does not know it either
    assert done.ideal_workgroup_tile is None  # nor this
    assert replace(SIGNATURE, ideal_workgroup_tile=(8, 4, 1)).completed(probed).ideal_workgroup_tile == (8, 4, 1)
    assert SIGNATURE.completed(done) == done


def test_the_memory_of_a_multiprocessor_is_no_limit_of_a_workgroup() -> None:
    probed = DeviceProfile(backend=BackendId("b"))
    assert replace(SIGNATURE, shared_mem_per_sm_kb=228).completed(probed).max_shared_memory_bytes is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", " "),
        ("family", ""),
        ("warp_size", 0),
        ("warp_size", 48),
        ("ideal_vector_pack_bits", 0),
        ("ideal_vector_pack_bits", 33),
        ("ideal_workgroup_tile", (1, 0, 1)),
        ("bank_count", 0),
        ("bank_width_bytes", 0),
        ("shared_mem_per_sm_kb", 2**22),
        ("l1_kb", 2**22),
        ("l2_kb", 2**22),
    ],
)
def test_malformed_signatures(field: str, value: Any) -> None:
    with pytest.raises(InvalidField, match=field):
        replace(SIGNATURE, **{field: value})


def test_names_match_whatever_their_case() -> None:
    assert SIGNATURE.matches_name("NVIDIA h200 NVL")
    assert not SIGNATURE.matches_name("NVIDIA H100")
    assert not replace(SIGNATURE, device_name_contains=()).matches_name("NVIDIA H200")
