"""Is a variant certainly faster than the one in use, however often the race is evaluated?

Both run in pairs, and a pair gives one gain, ``ln(baseline / challenger)``.  Rule: a claim about the gain is accepted
when betting against its opposite has paid off ``2 / error`` times.  A bet on a side stakes a fixed part of its capital
on the sign of ``gain - line``: all of that part if the gain is at least as far from the line as the mean distance so
far, and less if it is nearer.  If gains lie symmetrically about the line, or about anything beyond it, no bet is
expected to win; so the capital, a mean over bets that stake 1/8 to all, is a non-negative supermartingale, which
reaches ``2 / error`` with a probability of at most ``error / 2`` (Ville's inequality).  That holds at all times at
once, and for any noise that is symmetric, even if it is heavy-tailed or changes.  Noise is symmetric when neither run
of a pair has an advantage except its speed: ``baseline_first`` says which run starts.

O(pairs) to record and O(pairs log pairs) to decide, with at most ``max_pairs`` pairs.

vyre-driver (``speculation``) compares two means after every pair, with neither variance nor allowance for repeated
evaluation: of races without any gain, with 30 % of noise, it adopts one in five.
"""

from __future__ import annotations

import math
from enum import Enum
from statistics import median
from typing import Annotated, Final, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.policies.record import U64_MAX, FloatRange, IntRange, Reason, record, verdict, why_field

STAKES: Final = (0.125, 0.25, 0.5, 1.0)
"""Parts of the capital at stake: the smallest ones win on small gains, the largest ones soonest on large gains."""

_MOST: Final = math.log(U64_MAX)
"""The largest gain of times of 64 bits; that of larger ones, in basis points, would be too long to be recorded."""
GainBps: TypeAlias = Annotated[int, IntRange(0, 9_999)]
Capital: TypeAlias = Annotated[float, FloatRange(0.0)]


@record
class RaceThresholds:
    """Settings of a race.

    - ``error``: probability that a race without a gain is ever called faster or slower, both together.
    - ``min_gain_bps``: time saved that a faster variant certainly exceeds.
    - ``worth_bps``: least time saved for which a race goes on.
    - ``max_pairs``: number of pairs after which a race is given up.
    """

    error: Annotated[float, FloatRange(0.0, 1.0, above=True)] = 0.05
    min_gain_bps: GainBps = 0
    worth_bps: GainBps = 100
    max_pairs: Annotated[int, IntRange(1, 1_000)] = 200


class RaceOutcome(Enum):
    """The state of a race.

    ``FUTILE`` means that the gain, if any, is certainly less than ``worth_bps``, or that there were ``max_pairs``
    pairs.
    """

    KEEP_RACING = "keep_racing"
    FASTER = "faster"
    SLOWER = "slower"
    FUTILE = "futile"


@verdict
class RaceVerdict:
    """The state of a race and its gain.

    ``gain_bps`` is the median over the pairs of the time saved, relative to the baseline's time; negative if slower.
    """

    outcome: RaceOutcome
    gain_bps: int
    why: Reason = why_field()


DEFAULT_THRESHOLDS: Final = RaceThresholds()


@record
class Bet:
    """A capital staked on gains above ``line``, or below it.

    ``distance`` is the sum of all distances from the line so far.  ``capitals`` has one capital for each of ``STAKES``.
    """

    line: Annotated[float, FloatRange(0.0)]
    above: bool
    distance: Annotated[float, FloatRange(0.0)] = 0.0
    capitals: tuple[Capital, Capital, Capital, Capital] = (1.0, 1.0, 1.0, 1.0)

    @property
    def capital(self) -> float:
        """The present value of an initial capital of 1."""
        return sum(self.capitals) / len(STAKES)

    def settle(self, gain: float, usual: float) -> Bet:
        """Returns the bet after one more gain.

        ``usual`` is the distance from the line, known before, from which on the whole part is at stake.
        """
        off = gain - self.line if self.above else self.line - gain
        won = max(-1.0, min(off / usual, 1.0)) if usual else math.copysign(1.0, off) if off else 0.0
        a, b, c, d = (capital * (1.0 + stake * won) for capital, stake in zip(self.capitals, STAKES, strict=True))
        return Bet(self.line, self.above, self.distance + abs(off), (a, b, c, d))


@record
class PairedRace:
    """The gains of all pairs, and the bets on them; ``start`` builds the first state, ``record`` the next."""

    thresholds: RaceThresholds
    faster: Bet
    slower: Bet
    futile: Bet
    gains: tuple[Annotated[float, FloatRange(-_MOST, _MOST)], ...] = ()

    @classmethod
    def start(cls, thresholds: RaceThresholds = DEFAULT_THRESHOLDS) -> PairedRace:
        """Returns the state before the first pair."""
        least, worth = (abs(math.log1p(-bps / 10_000)) for bps in (thresholds.min_gain_bps, thresholds.worth_bps))
        return cls(thresholds, Bet(least, True), Bet(0.0, False), Bet(worth, False))

    @property
    def pairs(self) -> int:
        """Number of pairs so far."""
        return len(self.gains)

    @property
    def baseline_first(self) -> bool:
        """Whether the baseline should run first in the next pair.

        Either is first as often, also against drifts (Thue-Morse).
        """
        return self.pairs.bit_count() % 2 == 0

    def record(self, baseline_ns: int, challenger_ns: int) -> PairedRace:
        """Returns the race with one more pair of times, both of which must be positive; a full race stays as it is.

        Raises ``InvalidField`` for other times.
        """
        for field, value in (("baseline_ns", baseline_ns), ("challenger_ns", challenger_ns)):
            if type(value) is not int or value <= 0:
                raise InvalidField(record="PairedRace", field=field, value=value, expected="a positive int")
        if self.pairs >= self.thresholds.max_pairs:
            return self
        gain = math.log(baseline_ns) - math.log(challenger_ns)
        before, bets = max(self.pairs, 1), (self.faster, self.slower, self.futile)
        faster, slower, futile = (bet.settle(gain, bet.distance / before) for bet in bets)
        return PairedRace(self.thresholds, faster, slower, futile, (*self.gains, gain))


def judge_race(race: PairedRace) -> RaceVerdict:
    """Returns the verdict after the pairs so far."""
    t, pairs = race.thresholds, race.pairs
    enough = 2 / t.error
    gain_bps = round(-math.expm1(-median(race.gains)) * 10_000) if race.gains else 0
    if race.faster.capital >= enough:
        why = Reason("faster: {} bps gained over {} pair(s)", (gain_bps, pairs))
        return RaceVerdict(RaceOutcome.FASTER, gain_bps, why)
    if race.slower.capital >= enough:
        why = Reason("slower: {} bps gained over {} pair(s)", (gain_bps, pairs))
        return RaceVerdict(RaceOutcome.SLOWER, gain_bps, why)
    if race.futile.capital >= enough:
        why = Reason("{} bps gained over {} pair(s): surely fewer than {}", (gain_bps, pairs, t.worth_bps))
        return RaceVerdict(RaceOutcome.FUTILE, gain_bps, why)
    if pairs >= t.max_pairs:
        why = Reason("{} pair(s) prove nothing; {} bps gained", (pairs, gain_bps))
        return RaceVerdict(RaceOutcome.FUTILE, gain_bps, why)
    best = max(race.faster.capital, race.slower.capital, race.futile.capital)
    why = Reason(
        "{} bps gained over {} pair(s); the best bet is worth {:.1f} of {:.0f}", (gain_bps, pairs, best, enough)
    )
    return RaceVerdict(RaceOutcome.KEEP_RACING, gain_bps, why)
