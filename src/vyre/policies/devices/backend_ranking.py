"""Which of the backends that can run here should ``auto`` take?

A device of its own precedes the processor of this machine, on which the program that asks runs as well.  Then backends
are compared by capability score (higher first), timing quality (higher), memory bandwidth (higher, unknown
last), registered rank (lower), and id.  Nothing is timed, so the order is the same on every run.  O(n log n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from vyre.domain.device import DeviceProfile
from vyre.domain.ir.program import BackendId


class Candidate(NamedTuple):
    """A backend whose probe succeeded; ``on_host`` says that it runs programs on the processor of this machine."""

    id: BackendId
    rank: int
    profile: DeviceProfile
    on_host: bool = False


SCORES: Final[tuple[tuple[str, int, Callable[[DeviceProfile], bool]], ...]] = (
    ("storage limit reported", 16, lambda p: (p.max_storage_buffer_bytes or 0) > 0),
    ("at least 64 invocations", 8, lambda p: (p.max_invocations_per_workgroup or 0) >= 64),
    ("at least 256 invocations", 4, lambda p: (p.max_invocations_per_workgroup or 0) >= 256),
    ("subgroup size known", 8, lambda p: p.subgroup_size is not None),
    ("subgroup operations", 8, lambda p: p.supports_subgroup_ops),
    ("subgroup shuffle", 4, lambda p: p.has_subgroup_shuffle),
    ("shared memory", 4, lambda p: p.has_shared_memory),
    ("f16", 2, lambda p: p.supports_f16),
    ("bf16", 2, lambda p: p.supports_bf16),
    ("tensor cores", 4, lambda p: p.supports_tensor_cores),
    ("indirect dispatch", 2, lambda p: p.supports_indirect_dispatch),
    ("device timestamps", 2, lambda p: p.supports_device_timestamps),
    ("hardware counters", 2, lambda p: p.supports_hardware_counters),
)
"""Name, points and condition of each capability."""


def capability_score(profile: DeviceProfile) -> int:
    """Returns the sum of the points of every row of ``SCORES`` whose condition holds; at most 66."""
    return sum(points for _, points, holds in SCORES if holds(profile))


def rank_candidates(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Returns ``candidates``, best first; the result does not depend on their order."""
    return tuple(sorted(candidates, key=_sort_key))


def _sort_key(candidate: Candidate) -> tuple[bool, int, int, int, int, str]:
    profile = candidate.profile
    return (
        candidate.on_host,
        -capability_score(profile),
        -profile.timing_quality,
        -(profile.mem_bw_gbps or 0),
        candidate.rank,
        candidate.id,
    )
