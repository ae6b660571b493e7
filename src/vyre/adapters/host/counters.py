"""Counters of a backend's work, each of which is named once, by the annotation of a field."""

from __future__ import annotations


class NamedCounters:
    """``MetricSource``: whole numbers since the backend was made; they only grow.

    The counters of a subclass are its annotations of the type ``int``.  They are incremented without a lock: if two
    threads raise a count in the same instant, one increment may be lost.
    """

    __slots__ = ()

    def __init__(self) -> None:
        for name in self.names():
            setattr(self, name, 0)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Returns the names of the counters."""
        return tuple(name for name, type in cls.__annotations__.items() if type == "int")

    def metrics(self) -> dict[str, int]:
        """Returns all counters by name."""
        return {name: int(getattr(self, name)) for name in self.names()}
