"""Counters of a backend's work so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMES: Final = (
    "h2d_bytes",
    "d2h_bytes",
    "readback_bytes",
    "transient_allocation_bytes_requested",
    "resident_allocation_bytes_requested",
    "param_upload_bytes",
    "kernel_launches",
    "persistent_launches",
    "persistent_jobs",
    "graph_launches",
    "graph_kernels",
    "graph_recordings",
    "graph_evictions",
    "graph_fallbacks",
    "sync_points",
    "host_upload_ops",
    "device_readback_ops",
    "timed_dispatches",
    "timed_wall_ns",
    "timed_device_ns",
    "timed_enqueue_ns",
    "timed_wait_ns",
    "timed_device_max_ns",
    "scheduled_thread_slots",
    "launched_elements",
    "emit_count",
    "emit_ns",
    "assemble_count",
    "assemble_ns",
    "jit_count",
    "jit_ns",
    "kernel_cache_hits",
    "kernel_cache_misses",
    "allocation_retries",
    "quarantined_leases",
    "trap_count",
    "timeout_count",
    "lost_count",
)


class Counters:
    """``MetricSource``: bytes, counts and nanoseconds since the backend was made; they only grow.

    They are incremented without a lock: if two threads raise a count in the same instant, one increment may be lost.
    """

    __slots__ = NAMES

    h2d_bytes: int
    d2h_bytes: int
    readback_bytes: int
    transient_allocation_bytes_requested: int
    resident_allocation_bytes_requested: int
    param_upload_bytes: int
    kernel_launches: int
    persistent_launches: int
    persistent_jobs: int
    graph_launches: int
    graph_kernels: int
    graph_recordings: int
    graph_evictions: int
    graph_fallbacks: int
    sync_points: int
    host_upload_ops: int
    device_readback_ops: int
    timed_dispatches: int
    timed_wall_ns: int
    timed_device_ns: int
    timed_enqueue_ns: int
    timed_wait_ns: int
    timed_device_max_ns: int
    scheduled_thread_slots: int
    launched_elements: int
    emit_count: int
    emit_ns: int
    assemble_count: int
    assemble_ns: int
    jit_count: int
    jit_ns: int
    kernel_cache_hits: int
    kernel_cache_misses: int
    allocation_retries: int
    quarantined_leases: int
    trap_count: int
    timeout_count: int
    lost_count: int

    def __init__(self) -> None:
        for name in NAMES:
            setattr(self, name, 0)

    def metrics(self) -> Mapping[str, int]:
        """Returns all counters, and two derived values.

        ``utilisation_bps`` is the share of launched lanes that covered elements, in 1/10 000; ``wasted_thread_slots``
        is the number of those that did not.
        """
        found = {name: int(getattr(self, name)) for name in NAMES}
        slots, elements = self.scheduled_thread_slots, self.launched_elements
        found["utilisation_bps"] = min(10_000, 10_000 * elements // slots) if slots else 0
        found["wasted_thread_slots"] = max(0, slots - elements)
        return found
