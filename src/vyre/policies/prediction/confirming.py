"""Does a confirmer run on every tile at once, or only on the tiles that passed the prefilter?

Both ways commit the same tiles.  ``EVERY`` does not wait for the prefilter, and takes the same time whatever passes;
the time of ``PASSED`` grows with the share of tiles that pass, by at most what ``EVERY`` takes for all of them.  So
``PASSED`` is expected to take its measured time, plus or minus the time of ``EVERY`` for the share of tiles by which
the present rate differs from the rate of that measurement, and the shorter of the two is taken.

Each way is tried ``TRIED`` times before, and once again after ``RETRIED`` runs of the other; its first run, which may
compile, does not count.  Times and rates are moving averages, of which each run is a quarter; a time counts as at most
twice the average, so that one slow run does not decide.  All O(1); states are values, and ``after`` returns the next
one.

vyre-driver confirms every tile from a commit rate of 15 % on, and measures no time.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from vyre.domain.dispatch import SpeculationMode
from vyre.policies.arith import PPM
from vyre.policies.record import U32, Nanoseconds, Reason, record, verdict, why_field

TRIED: Final = 3
"""The runs of each way before their times are compared; the first of them does not count."""
RETRIED: Final = 64
"""The runs of one way after which the other is tried again."""


class ConfirmWay(Enum):
    """The tiles that the confirmer runs on.

    ``EVERY``: all of them, without waiting for the prefilter.  ``PASSED``: those that passed the prefilter.
    """

    EVERY = "every"
    PASSED = "passed"


@record
class WayTimes:
    """The measured times of both ways in ns, and the rates of tiles that pass in ppm.

    ``every_runs`` and ``passed_runs`` count the runs of each way up to ``TRIED``.  ``passed_ppm`` is the rate when
    ``passed_ns`` was measured, and ``rate_ppm`` that of all runs.  The way ``latest`` was taken in the last
    ``in_a_row`` runs.
    """

    every_ns: Nanoseconds = 0
    passed_ns: Nanoseconds = 0
    passed_ppm: U32 = 0
    rate_ppm: U32 = 0
    every_runs: U32 = 0
    passed_runs: U32 = 0
    latest: ConfirmWay = ConfirmWay.PASSED
    in_a_row: U32 = 0

    def after(self, way: ConfirmWay, ns: int, rate_ppm: int) -> WayTimes:
        """Returns the state after one more run, of which ``rate_ppm`` of the tiles passed."""
        every, passed, passed_rate = self.every_ns, self.passed_ns, self.passed_ppm
        every_runs, passed_runs = self.every_runs, self.passed_runs
        if way is ConfirmWay.EVERY:
            every = _moved(every, min(ns, 2 * every or ns), every_runs - 1)
            every_runs = min(every_runs + 1, TRIED)
        else:
            passed = _moved(passed, min(ns, 2 * passed or ns), passed_runs - 1)
            passed_rate = _moved(passed_rate, rate_ppm, passed_runs - 1)
            passed_runs = min(passed_runs + 1, TRIED)
        rate = _moved(self.rate_ppm, rate_ppm, self.every_runs + self.passed_runs)
        in_a_row = min(self.in_a_row + 1, RETRIED) if way is self.latest else 1
        return WayTimes(every, passed, passed_rate, rate, every_runs, passed_runs, way, in_a_row)


def _moved(average: int, value: int, measured: int) -> int:
    """Returns the average after one more value, of which there were so many before; the one at -1 does not count."""
    return average + ((value - average) >> 2) if measured > 0 else value if measured == 0 else average


@record
class WayInputs:
    """The mode that the config of the confirmer asks for, whether a tile could fail it, and what was measured."""

    mode: SpeculationMode | None
    may_fail: bool
    times: WayTimes


@verdict
class WayVerdict:
    """The tiles that the confirmer runs on."""

    way: ConfirmWay
    why: Reason = why_field()


def choose_way(inputs: WayInputs) -> WayVerdict:
    """Returns the tiles that the confirmer of the next run runs on."""
    times, every, passed = inputs.times, ConfirmWay.EVERY, ConfirmWay.PASSED
    if inputs.mode is SpeculationMode.FORCE:
        return WayVerdict(every, Reason("forced"))
    if inputs.mode is SpeculationMode.DISABLE:
        return WayVerdict(passed, Reason("disabled"))
    if inputs.may_fail:
        return WayVerdict(passed, Reason("the confirmer could fail on a tile that did not pass"))
    for way, runs in ((passed, times.passed_runs), (every, times.every_runs)):
        if runs < TRIED:
            return WayVerdict(way, Reason("run {} of {} before times are compared", (runs + 1, TRIED)))
    if times.in_a_row >= RETRIED:
        other = passed if times.latest is every else every
        return WayVerdict(other, Reason("tried again after {} runs of the other way", (times.in_a_row,)))
    expected = max(0, times.passed_ns + (times.rate_ppm - times.passed_ppm) * times.every_ns // PPM)
    costs = (times.every_ns, expected, times.rate_ppm)
    if times.every_ns < expected:
        return WayVerdict(every, Reason("{} ns for every tile, {} ns for the {} ppm that pass", costs))
    return WayVerdict(passed, Reason("{} ns for every tile, {} ns for the {} ppm that pass", costs))
