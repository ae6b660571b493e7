"""Which candidates are measured next, and when is one of them certainly faster?

Candidate 0 is the one in use.  Every round measures all remaining candidates equally often; then the half with the
worse medians is dropped, and the others are measured more.  The last challenger is compared with candidate 0 on fresh
samples only: the samples by which it was chosen prove nothing, because the luckiest of many equal candidates looks
fast.  That final is one test of fixed size, so its error rate is the stated one: exact Wilcoxon signed ranks of the
paired differences, one-sided.  A significant gain must also be large enough.

A state consists of the samples themselves, so every decision can be taken again from them.  Cost: linear in samples,
except for the test, which takes O(n^3) for n pairs.

vyre-driver times each candidate once and takes the minimum, so that noise decides.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import Annotated, Final, TypeAlias

from vyre.policies.record import U64, U64_MAX, BasisPoints, FloatRange, IntRange, Reason, record, verdict, why_field

Time: TypeAlias = Annotated[int, IntRange(1, U64_MAX)]


@record
class Race:
    """The times of each candidate's runs in ns, in the order of the rounds; ``incumbent`` is candidate 0."""

    incumbent: tuple[Time, ...]
    challengers: tuple[tuple[Time, ...], ...] = ()


@record
class HalvingThresholds:
    """Settings of the measurement.

    - ``first_round``: samples of each candidate before the first ones are dropped.
    - ``growth``: factor by which each round has more samples than the one before.
    - ``final_pairs``: pairs of samples in the final.
    - ``error``: probability that a challenger that is not faster wins.
    - ``min_gain_bps``: least median of the paired gains that justifies a change.
    """

    first_round: Annotated[int, IntRange(1, 1_000)] = 5
    growth: Annotated[int, IntRange(1, 16)] = 2
    final_pairs: Annotated[int, IntRange(1, 200)] = 20
    error: Annotated[float, FloatRange(0.0, 1.0, above=True)] = 0.01
    min_gain_bps: BasisPoints = 200


@verdict
class Step:
    """The next measurement, or the choice.

    ``measure`` lists the candidates to run once more each, in any order.  If it is empty, the measurement is over and
    ``winner`` is the choice; 0 keeps the candidate in use.  ``challenger`` is the candidate in the final.
    """

    measure: tuple[int, ...] = ()
    winner: int = 0
    challenger: int | None = None
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """``measure``, ``replace`` or ``keep``, for telemetry."""
        if self.measure:
            return "measure"
        return "replace" if self.winner else "keep"


DEFAULT_THRESHOLDS: Final = HalvingThresholds()


def next_measurement(race: Race, thresholds: HalvingThresholds = DEFAULT_THRESHOLDS) -> Step:
    """Returns the next step after the runs so far, which were made as earlier steps said."""
    samples = (race.incumbent, *race.challengers)
    alive, used, round_ = tuple(range(len(samples))), 0, thresholds.first_round
    while len(alive) > 2:
        used += round_
        if behind := _fewer_than(used, alive, samples):
            return Step(behind, why=Reason("{} candidates are left", (len(alive),)))
        medians = {one: median(samples[one][:used]) for one in alive[1:]}
        ranked = sorted(medians, key=medians.__getitem__)  # stable: ties to the first
        alive = (0, *sorted(ranked[: len(ranked) // 2]))
        round_ *= thresholds.growth
    if len(alive) == 1:
        return Step(why=Reason("there is nothing to choose from"))
    return _final(alive[1], samples, used, thresholds)


def _fewer_than(count: int, alive: tuple[int, ...], samples: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Returns the candidates with the fewest samples, if these are fewer than ``count``."""
    least = min(len(samples[one]) for one in alive)
    return tuple(one for one in alive if len(samples[one]) == least) if least < count else ()


def _final(challenger: int, samples: tuple[tuple[int, ...], ...], used: int, thresholds: HalvingThresholds) -> Step:
    """Tests on the samples after the first ``used``, by which the challenger was chosen."""
    pairs = thresholds.final_pairs
    if behind := _fewer_than(used + pairs, (0, challenger), samples):
        return Step(behind, challenger=challenger, why=Reason("candidate {} is in the final", (challenger,)))
    test = paired_gain(samples[0][used : used + pairs], samples[challenger][used : used + pairs])
    winner, what = challenger, "wins"
    if test.p > thresholds.error:
        winner, what = 0, "is not proven faster"
    elif test.gain_bps < thresholds.min_gain_bps:
        winner, what = 0, "gains too little"
    why = Reason(
        "candidate {} {}: gain {} bps over {} pairs, p = {:.2g}", (challenger, what, test.gain_bps, pairs, test.p)
    )
    return Step((), winner, challenger, why)


@verdict
class PairedGain:
    """The result of the test.

    ``gain_bps`` is the median over the pairs of the time saved, relative to the baseline's time; negative if slower.
    ``p`` is the probability of such ranks, or more extreme ones, if neither is faster.
    """

    gain_bps: int
    p: float


def paired_gain(baseline: tuple[int, ...], challenger: tuple[int, ...]) -> PairedGain:
    """Computes the exact one-sided Wilcoxon signed-rank test of paired times; pairs of equal times count for neither
    side.

    It is exact if the difference of a pair is as likely to be positive as negative when neither is faster.  That holds
    when the two runs of a pair are alike and take turns in going first.  Equal differences share the mean of their
    ranks.  Raises ``ValueError`` if the two have different numbers of times.
    """
    gains = [Fraction(base - new, base) for base, new in zip(baseline, challenger, strict=True)]
    if not gains:
        return PairedGain(0, 1.0)
    moved = sorted((gain for gain in gains if gain), key=abs)
    ranks = _doubled_ranks([abs(gain) for gain in moved])
    reached = sum(rank for rank, gain in zip(ranks, moved, strict=True) if gain > 0)
    ways = [1] + [0] * sum(ranks)  # ways[s]: choices of signs with s as the sum of positive ranks
    top = 0
    for rank in ranks:
        top += rank
        for total in range(top, rank - 1, -1):
            ways[total] += ways[total - rank]
    p = sum(ways[reached:]) / 2 ** len(ranks)
    return PairedGain(int(median(gains) * 10_000), p)


def _doubled_ranks(ordered: list[Fraction]) -> list[int]:
    """Returns twice the rank of each, starting at 1 for the smallest; ties share the mean."""
    ranks: list[int] = []
    while len(ranks) < len(ordered):
        first = len(ranks)
        last = first
        while last + 1 < len(ordered) and ordered[last + 1] == ordered[first]:
            last += 1
        ranks += [first + last + 2] * (last - first + 1)
    return ranks


@record
class Estimates:
    """A model's cost of each candidate, in any one unit; candidate 0 is the one in use."""

    costs: tuple[U64, ...]


def cheapest_estimate(estimates: Estimates, thresholds: HalvingThresholds = DEFAULT_THRESHOLDS) -> Step:
    """Returns the candidate that a model finds cheapest, ties to the first, if it saves enough.

    A model has no noise, and it has not measured anything either; callers must say so in what they report.
    """
    costs = estimates.costs
    if len(costs) < 2:
        return Step(why=Reason("there is nothing to choose from"))
    best = min(range(len(costs)), key=lambda one: (costs[one], one))
    saved = (costs[0] - costs[best]) * 10_000 // costs[0] if costs[0] else 0
    winner = best if saved and saved >= thresholds.min_gain_bps else 0
    return Step((), winner, best or None, Reason("the model saves {} bps with candidate {}", (saved, best)))
