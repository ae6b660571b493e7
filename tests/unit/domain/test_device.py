from __future__ import annotations

from dataclasses import fields, replace

from vyre.domain.device import DeviceProfile, claimed_features
from vyre.domain.dispatch import TimingQuality
from vyre.domain.ir.program import BackendId


def test_the_default_profile_claims_nothing_and_knows_nothing() -> None:
    profile = DeviceProfile(backend=BackendId("b"))
    assert claimed_features(profile) == frozenset()
    assert profile.timing_quality is TimingQuality.HOST_ONLY
    numbers = {
        f.name: getattr(profile, f.name) for f in fields(profile) if "None" in str(f.type) or "Optional" in str(f.type)
    }
    assert len(numbers) > 10
    assert set(numbers.values()) == {None}


def test_a_claim_is_a_flag_that_is_set() -> None:
    profile = replace(DeviceProfile(backend=BackendId("b")), supports_f16=True, subgroup_size=32)
    assert claimed_features(profile) == {"supports_f16"}


def test_timing_quality_is_ordered_and_has_stable_names() -> None:
    assert [q.text for q in sorted(TimingQuality)] == [
        "host_only",
        "host_enqueue_wait",
        "device_timestamps",
        "hardware_counters",
    ]
