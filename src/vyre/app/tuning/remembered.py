"""Verdicts on stored records of earlier tuning runs, recomputed by the present policy."""

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
    """The verdict on one run.

    ``candidates``: those whose bytes were right, the present one first.  ``wrong``: those whose bytes were not.
    ``step``: the verdict; its indices refer to ``candidates``.
    """

    candidates: tuple[Candidate, ...]
    samples: tuple[tuple[int, ...], ...]
    wrong: tuple[Candidate, ...]
    step: Step

    @property
    def winner(self) -> Candidate | None:
        """The winning candidate, or None."""
        return self.candidates[self.step.winner] if self.step.winner else None


def why_of(step: Step, candidates: tuple[Candidate, ...]) -> str:
    """Returns the reason of a step; it names a candidate by its workgroup in place of its number."""
    number = step.challenger or 0
    return str(step.why).replace(f"candidate {number}", str(candidates[number]))


def step_of(
    kind: TimeKind,
    samples: tuple[tuple[int, ...], ...],
    thresholds: HalvingThresholds,
    sink: DecisionSink | None = None,
) -> Step:
    """Returns the verdict on samples; those of the present candidate come first."""
    if kind.is_measured:
        return decide(sink, next_measurement, Race(samples[0], samples[1:]), thresholds)
    return decide(sink, cheapest_estimate, Estimates(tuple(sample for (sample,) in samples)), thresholds)


def told(
    records: Iterable[TuningRecord], kind: TimeKind, thresholds: HalvingThresholds = DEFAULT_THRESHOLDS
) -> Told | None:
    """Returns the verdict on the latest complete run; ``records`` are those of one key, latest first.

    None if no run of this kind is complete and long enough for these thresholds.
    """
    runs: dict[str, list[TuningRecord]] = {}
    for record in records:
        if record.kind is kind:
            runs.setdefault(record.run, []).append(record)
    for run in runs.values():
        places = sorted(run, key=lambda record: record.place)
        if [record.place for record in places] != list(range(places[0].of)):
            continue
        right = [record for record in places if record.matched]
        samples = tuple(record.samples for record in right)
        if not right or (not kind.is_measured and {len(times) for times in samples} != {1}):
            continue
        step = step_of(kind, samples, thresholds)
        if not step.measure:
            wrong = tuple(record.candidate for record in places if not record.matched)
            return Told(tuple(record.candidate for record in right), samples, wrong, step)
    return None


def winners(records: Iterable[TuningRecord], thresholds: HalvingThresholds = DEFAULT_THRESHOLDS) -> Pins:
    """Returns the winner of each key that has one, as pins; measured winners take precedence over estimated ones."""
    pins: dict[TuningKey, Pin] = {}
    ordered = sorted(records, key=lambda each: (repr(each.key), -each.at_s))
    for key, group in groupby(ordered, key=lambda each: each.key):
        of_key = list(group)
        for kind in TimeKind:
            verdict = told(of_key, kind, thresholds)
            if verdict is not None and verdict.winner is not None:
                pins.setdefault(key, Pin(key, verdict.winner, kind))
    return Pins(pins)
