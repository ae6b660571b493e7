"""Turns: what is measured and what predictions rest on are timed in turns, so that both see the machine alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import vyre
from vyre.app.calibration.experiments import LINES, one_round
from vyre.app.tuning.keys import source_of
from vyre.domain.launch_costs import LaunchCosts, Provenance, of_samples
from vyre.ports.cost_probe import CostExperiment

LEARNED: Final = 11
"""The turns of a cell, about, in which what its predictions rest on is measured."""
LEAST_TIME_NS: Final = 6_000_000
"""How long each way of a cell is measured at least, unless ``MOST_SAMPLES`` were taken."""
LEAST_SAMPLES, MOST_SAMPLES = 11, 151
SETTLING: Final = 70
"""The runs before the first sample, at most, in which code is chosen anew and launches are looked at closely."""
SETTLING_NS: Final = 3_000_000
MOST_SETTLING_NS: Final = 30_000_000
"""How long they take: the first time, or the second if fewer than ``LEAST_SAMPLES`` runs fit into it."""
WARM_NS: Final = 60_000
"""How long runs of the same way precede a sample, at most ``MOST_WARM`` of them: its code is then in the caches."""
MOST_WARM: Final = 4
LONG_NS: Final = 1_000_000
"""The time from which a sample follows no run of the same way."""


def once(run: Callable[[], object]) -> int:
    """Returns the time of a call in ns."""
    began = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - began


def settle(run: Callable[[], object]) -> int:
    """Runs until launches are as later ones, and returns the time of a run in ns; the first may compile."""
    run()
    began, times = time.perf_counter_ns(), list[int]()
    for _ in range(SETTLING):
        times.append(once(run))
        took = time.perf_counter_ns() - began
        if took > MOST_SETTLING_NS or (took > SETTLING_NS and len(times) >= LEAST_SAMPLES):
            break
    return sorted(times)[len(times) // 2]


def warm(run: Callable[[], object], expected_ns: int) -> None:
    """Runs for a moment, unless a run takes long."""
    if expected_ns < LONG_NS:
        for _ in range(min(MOST_WARM, 1 + WARM_NS // max(1, expected_ns))):
            run()


class Costs:
    """Launch costs that the probe of a session's backend measures by some experiments, one round in each turn."""

    def __init__(self, session: vyre.Session, experiments: frozenset[CostExperiment]) -> None:
        backend = session._lease.backend
        self._source, probe = source_of(backend), backend.cost_probe
        assert probe is not None
        self._lines = [line for line in LINES if line.experiment in experiments & probe.experiments]
        self._open = ExitStack()
        self._timed = self._open.enter_context(probe.measuring())
        self._samples: dict[str, list[int]] = {}

    def restart(self) -> None:
        """Forgets all rounds."""
        self._samples = {}

    def take_round(self, number: int) -> None:
        """Runs each experiment once."""
        for name, sample in one_round(self._timed, self._lines, backwards=number % 2 == 1):
            self._samples.setdefault(name, []).append(sample)

    def found(self) -> LaunchCosts:
        """Returns the costs, as the medians of the rounds so far; raises ``InvalidField`` for too few."""
        values: dict[str, Any] = {
            name: of_samples(samples, Provenance.MEASURED) for name, samples in self._samples.items()
        }
        return LaunchCosts(self._source, int(time.time()), **values)

    def close(self) -> None:
        """Gives the probe's resources back."""
        self._open.close()


def take_turns(
    ways: Sequence[str], expected_ns: Mapping[str, int], learn: Callable[[int, str], None], sample: Callable[[str], int]
) -> dict[str, list[int]]:
    """Returns the samples of each way, in ns; every turn begins with another way.

    ``sample`` measures a way once.  ``learn`` measures what predictions about it rest on, in some turns, just before.
    """
    slowest = max(expected_ns.values())
    count = min(MOST_SAMPLES, max(LEAST_SAMPLES, LEAST_TIME_NS // max(1, slowest)))
    every = max(1, count // LEARNED)
    found: dict[str, list[int]] = {way: [] for way in ways}
    gc.collect()
    gc.disable()
    try:
        for number in range(count):
            for way in (*ways[number % len(ways) :], *ways[: number % len(ways)]):
                if number % every == 0:
                    learn(number, way)
                found[way].append(sample(way))
    finally:
        gc.enable()
    return found
