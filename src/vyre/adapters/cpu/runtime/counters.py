"""Counters of the native CPU backend's work so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakSet

from vyre.adapters.host.counters import NamedCounters
from vyre.domain.shared_dicts import members_of


class OpenStep(Protocol):
    """A bound launch, which counts its runs now and then."""

    def uncounted(self) -> tuple[int, int]:
        """Returns the runs that are not counted yet, and the kernels in all of them."""


class Counters(NamedCounters):
    """Counts, bytes and nanoseconds of the backend's work.

    Every kernel that ran is counted once: by ``kernel_launches`` where a native call ran it alone, by ``list_kernels``
    where it was a command of one of ``list_launches`` lists, and by ``persistent_jobs`` where a ring handed it to
    resident workers.  Lists run dispatches (``dispatches``), sequences on resident memory (``resident_runs``) and bound
    launches (``bound_runs``).
    """

    list_launches: int
    list_kernels: int
    caller_runs: int
    worker_runs: int
    workgroups: int
    bound_runs: int
    resident_runs: int
    submitted: int
    copied_bytes: int
    resident_allocations: int
    pool_reuses: int
    native_ns: int
    full_compiles: int
    full_compile_ns: int
    full_compile_failures: int
    swaps: int
    stored_loads: int
    interrupts: int
    __slots__ = (*__annotations__, "jobs_of_open_rings", "now_ns", "open_steps")

    def __init__(self, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        super().__init__()
        self.now_ns: Final = now_ns
        """Returns the time on a clock that never goes back, in nanoseconds."""
        self.jobs_of_open_rings: Callable[[], int] = int
        """Returns the ended jobs of rings that are open; ``persistent_jobs`` gets those of a ring when it is closed."""
        self.open_steps: Final[WeakSet[OpenStep]] = WeakSet()
        """Bound launches that are open, some of whose runs are not counted yet."""

    def ran_bound(self, runs: int, kernels: int) -> None:
        """Counts runs of a bound launch, with the kernels in all of them."""
        self.bound_runs += runs
        self.list_launches += runs
        self.list_kernels += kernels

    def metrics(self) -> dict[str, int]:
        """Returns all counters by name."""
        totals = super().metrics()
        totals["persistent_jobs"] += self.jobs_of_open_rings()
        for step in members_of(self.open_steps):
            runs, kernels = step.uncounted()
            totals["bound_runs"] += runs
            totals["list_launches"] += runs
            totals["list_kernels"] += kernels
        return totals
