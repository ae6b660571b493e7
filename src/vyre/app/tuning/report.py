"""Reports of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from vyre.app.views import as_html
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.tuning import Candidate, TimeKind, TuningKey


class TuningSource(Enum):
    """Where a choice comes from.  RUN: measured now.  DECLARED: the config as given, because nothing else applies."""

    RUN = "run"
    STORE = "store"
    PIN = "pin"
    DECLARED = "declared"


class Rejected(NamedTuple):
    """A candidate that was not measured to the end, with the reason."""

    candidate: Candidate
    reason: str


class TuningReport(NamedTuple):
    """The result of tuning one launch.

    ``candidates``: the present one first.  ``samples``: of each candidate, in ns, or in the units of the model.
    ``winner``: the candidate that is faster; None: keep the present one.  ``config``: the config to dispatch with;
    without a winner the given one.  ``source``: RUN, or STORE or PIN, for which nothing was launched.
    """

    key: TuningKey
    kind: TimeKind
    source: TuningSource
    candidates: tuple[Candidate, ...]
    samples: tuple[tuple[int, ...], ...]
    winner: Candidate | None
    config: DispatchConfig
    why: str
    rejected: tuple[Rejected, ...] = ()

    @property
    def measured(self) -> bool:
        """False if the samples are estimates of a model, so that it is not known which candidate is faster."""
        return self.kind.is_measured

    @property
    def medians(self) -> tuple[float | None, ...]:
        """The median of each candidate's samples; None without samples."""
        return tuple(median(times) if times else None for times in self.samples)

    def _repr_html_(self) -> str:
        return as_html(self)


class Tuned(NamedTuple):
    """The choice that applies to a launch.

    ``config``: the config to dispatch with.  ``source``: PIN, STORE or DECLARED.  ``measured``: False if only a model
    preferred it.  ``constants``: values of static parameters to pass to the kernel in place of those that were given.
    """

    config: DispatchConfig
    source: TuningSource
    why: str
    measured: bool = False
    constants: Mapping[str, int] = MappingProxyType({})
