"""What records of earlier runs of the tuner say, told anew by the policy of now."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from vyre.domain.tuning import Candidate, TimeKind, TuningKey, TuningRecord
from vyre.domain.tuning_pins import Pin, Pins
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.tuning.successive_halving import (
    DEFAULT_THRESHOLDS,
    Estimates,
    HalvingThresholds,
    Race,
    Step,
    cheapest_estimate,
    next_measurement,
)


class Told(NamedTuple):
    """``candidates``: that gave the right bytes, the one in use first.  ``wrong``: those that did not.

    ``step``: the verdict; it counts candidates by their place here.
    """

    candidates: tuple[Candidate, ...]
    samples: tuple[tuple[int, ...], ...]
    wrong: tuple[Candidate, ...]
    step: Step

    @property
    def winner(self) -> Candidate | None:
        return self.candidates[self.step.winner] if self.step.winner else None


def step_of(
    kind: TimeKind,
    samples: tuple[tuple[int, ...], ...],
    thresholds: HalvingThresholds,
    sink: DecisionSink | None = None,
) -> Step:
    """What samples say, those of the candidate in use first."""
    if kind.is_measured:
        return decide(sink, next_measurement, Race(samples[0], samples[1:]), thresholds)
    return decide(sink, cheapest_estimate, Estimates(tuple(sample for (sample,) in samples)), thresholds)


def told(
    records: Iterable[TuningRecord], kind: TimeKind, thresholds: HalvingThresholds = DEFAULT_THRESHOLDS
) -> Told | None:
    """What the latest whole run says: ``records`` of one key, latest first.

    None if no run of this kind is whole, or was long enough for these thresholds.
    """
    runs: dict[str, list[TuningRecord]] = {}
    for found in records:
        if found.kind is kind:
            runs.setdefault(found.run, []).append(found)
    for run in runs.values():
        places = sorted(run, key=lambda found: found.place)
        if [found.place for found in places] != list(range(places[0].of)):
            continue
        right = [found for found in places if found.matched]
        samples = tuple(found.samples for found in right)
        if not right or (not kind.is_measured and {len(times) for times in samples} != {1}):
            continue
        step = step_of(kind, samples, thresholds)
        if not step.measure:
            wrong = tuple(found.candidate for found in places if not found.matched)
            return Told(tuple(found.candidate for found in right), samples, wrong, step)
    return None


def winners(records: Iterable[TuningRecord], thresholds: HalvingThresholds = DEFAULT_THRESHOLDS) -> Pins:
    """The winner of each key that has one, to be pinned; what is measured goes before what is estimated."""
    found: dict[TuningKey, Pin] = {}
    ordered = sorted(records, key=lambda each: (repr(each.key), -each.at_s))
    for key, group in groupby(ordered, key=lambda each: each.key):
        of_key = list(group)
        for kind in TimeKind:
            verdict = told(of_key, kind, thresholds)
            if verdict is not None and verdict.winner is not None:
                found.setdefault(key, Pin(key, verdict.winner, kind))
    return Pins(found)
