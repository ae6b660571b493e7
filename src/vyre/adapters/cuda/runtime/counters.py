"""Counters of a backend's work so far."""

from __future__ import annotations

from vyre.adapters.host.counters import NamedCounters


class Counters(NamedCounters):
    """Bytes, counts and nanoseconds of a backend's work."""

    readback_bytes: int
    transient_allocation_bytes_requested: int
    graph_launches: int
    graph_kernels: int
    graph_recordings: int
    graph_evictions: int
    graph_fallbacks: int
    sync_points: int
    timed_wall_ns: int
    timed_device_ns: int
    timed_enqueue_ns: int
    timed_wait_ns: int
    timed_device_max_ns: int
    scheduled_thread_slots: int
    launched_elements: int
    jit_count: int
    jit_ns: int
    allocation_retries: int
    quarantined_leases: int
    losses: int

    __slots__ = tuple(__annotations__)

    def metrics(self) -> dict[str, int]:
        """Returns all counters, and two derived values.

        ``utilisation_bps`` is the share of launched lanes that covered elements, in 1/10 000; ``wasted_thread_slots``
        is the number of those that did not.
        """
        totals = super().metrics()
        slots, elements = self.scheduled_thread_slots, self.launched_elements
        totals["utilisation_bps"] = min(10_000, 10_000 * elements // slots) if slots else 0
        totals["wasted_thread_slots"] = max(0, slots - elements)
        return totals
