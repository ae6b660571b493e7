"""What tuning tells."""

from __future__ import annotations

from enum import Enum
from statistics import median
from typing import NamedTuple

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.tuning import Candidate, TimeKind, TuningKey


class Source(Enum):
    """Where a choice comes from.  RUN: measured now.  DECLARED: nothing else applies."""

    RUN = "run"
    STORE = "store"
    PIN = "pin"
    DECLARED = "declared"


class Rejected(NamedTuple):
    """What was not tried to the end, and why."""

    candidate: Candidate
    reason: str


class TuningReport(NamedTuple):
    """``candidates``: the one in use first.  ``samples`` of each: in ns, or in what the model counts.

    ``winner``: what proved faster; None: leave things as they are.  ``config``: to dispatch with; the given one without
    a winner.  ``source``: RUN, or STORE or PIN, where nothing was launched.
    """

    key: TuningKey
    kind: TimeKind
    source: Source
    candidates: tuple[Candidate, ...]
    samples: tuple[tuple[int, ...], ...]
    winner: Candidate | None
    config: DispatchConfig
    why: str
    rejected: tuple[Rejected, ...] = ()

    @property
    def measured(self) -> bool:
        """False: the samples are estimates of a model, and nobody knows what is faster."""
        return self.kind.is_measured

    @property
    def medians(self) -> tuple[float | None, ...]:
        """Of each candidate; None without samples."""
        return tuple(median(times) if times else None for times in self.samples)


class Tuned(NamedTuple):
    """What applies to a launch.  ``config``: to dispatch with.  ``source``: PIN, STORE or DECLARED.

    ``measured``: False where only a model preferred it.
    """

    config: DispatchConfig
    source: Source
    why: str
    measured: bool = False
