"""Counters of a backend's work, each of which is named once, by the annotation of a field."""

from __future__ import annotations


class NamedCounters:
    """``MetricSource``: whole numbers since the backend was made; they only grow.

    The counters here mean the same on every backend; a subclass has its own besides, its annotations of the type
    ``int``.  They are incremented without a lock: if two threads raise a count in the same instant, one increment may
    be lost.
    """

    dispatches: int
    kernel_launches: int
    persistent_launches: int
    persistent_jobs: int
    uploads: int
    uploaded_bytes: int
    downloads: int
    downloaded_bytes: int
    resident_bytes: int
    emits: int
    emit_ns: int
    compiles: int
    compile_ns: int
    kernel_cache_hits: int
    kernel_cache_misses: int
    traps: int
    timeouts: int

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        for name in self.names():
            setattr(self, name, 0)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Returns the names of the counters."""
        fields = {**NamedCounters.__annotations__, **cls.__annotations__}
        return tuple(name for name, type in fields.items() if type == "int")

    def metrics(self) -> dict[str, int]:
        """Returns all counters by name."""
        return {name: int(getattr(self, name)) for name in self.names()}
