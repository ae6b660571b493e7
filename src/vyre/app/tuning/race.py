"""Races between variants of one dispatch: configs or specialization constants that should compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from vyre.app.tuning.keys import time_kind
from vyre.app.tuning.timing import WARM_UP, bytes_of, estimated_cost, run_ns
from vyre.app.views import as_html
from vyre.domain.arguments import expect
from vyre.domain.errors import BackendError, InvalidConfig
from vyre.domain.tuning import TimeKind
from vyre.policies.journal import Decision, DecisionSink, decide, sifted
from vyre.policies.tuning.paired_race import PairedRace, RaceOutcome, RaceThresholds, RaceVerdict, judge_race

if TYPE_CHECKING:
    from vyre.app.pipeline import Inputs, Pipeline
    from vyre.domain.dispatch import DispatchConfig
    from vyre.ports.backend import Backend


class Raced(NamedTuple):
    """One variant compared with the first.  ``pairs``: times of the first and of this one in ns, in order."""

    name: str
    verdict: RaceVerdict
    pairs: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.verdict.why}"


class RaceReport(NamedTuple):
    """The result of a race.

    ``winner``: of the variants that are significantly faster than the first, the one with the largest gain; else the
    first. ``config``: the config of the winner.  ``raced``: every variant except the first.  ``estimates``: where
    ``kind`` is ESTIMATED, the model's count for each variant; then nothing was raced, and it is not known which is
    faster.
    """

    kind: TimeKind
    baseline: str
    winner: str
    config: DispatchConfig
    why: str
    raced: tuple[Raced, ...] = ()
    estimates: Mapping[str, int] = {}

    @property
    def measured(self) -> bool:
        """Whether times were measured."""
        return self.kind.is_measured

    def _repr_html_(self) -> str:
        return as_html(self)

    def __str__(self) -> str:
        lines = [f"{self.winner}: {self.why}", *map(str, self.raced)]
        lines += [f"{name}: {cost} by the model" for name, cost in self.estimates.items()]
        return "\n  ".join(lines)


class VariantRace:
    """A race of two or more ``variants``; the first is the baseline.

    ``sink`` receives the last verdict of each race; the verdicts before it, one after every pair, say that it goes on.
    Raises ``InvalidConfig`` for fewer, and for variants whose bytes differ from those of the first; and what runs
    raise.
    """

    def __init__(
        self,
        backend: Backend,
        variants: Mapping[str, Pipeline],
        inputs: Inputs,
        thresholds: RaceThresholds,
        now_ns: Callable[[], int],
        sink: DecisionSink | None = None,
    ) -> None:
        expect("thresholds", thresholds, RaceThresholds, "RaceThresholds")
        if len(variants) < 2:
            raise InvalidConfig(f"{len(variants)} variant(s) make no race", fix="give the one in use, then others.")
        self._backend, self._variants = backend, variants
        self._thresholds, self._now_ns = thresholds, now_ns
        self._sink = sifted(sink, _ends)
        self._baseline, *self._challengers = variants
        self._views = variants[self._baseline].views(inputs)
        self.kind: TimeKind = time_kind(backend)

    def run(self) -> RaceReport:
        """Checks the bytes, runs the race and returns the report."""
        expected = self._bytes(self._baseline)
        for _ in range(WARM_UP):
            self._check(expected)
        if not self.kind.is_measured:
            return self._estimated()
        raced = self._raced()
        self._check(expected)
        faster = [each for each in raced if each.verdict.outcome is RaceOutcome.FASTER]
        if not faster:
            return self._report(self._baseline, "no other variant is surely faster", raced=raced)
        best = max(faster, key=lambda each: each.verdict.gain_bps)
        return self._report(best.name, str(best.verdict.why), raced=raced)

    # ---- details
    def _bytes(self, name: str) -> dict[str, bytes]:
        try:
            return bytes_of(self._variants[name], self._views)
        except BackendError as error:
            error.add_note(f"variant={name}")
            raise

    def _check(self, expected: dict[str, bytes]) -> None:
        for name in self._variants:
            outputs = self._bytes(name)
            wrong = [output for output in expected if outputs[output] != expected[output]]
            if wrong:
                raise InvalidConfig(
                    f"variants `{self._baseline}` and `{name}` give different bytes in {', '.join(wrong)}",
                    fix="race variants that compute the same; look for data races on `reference`.",
                )

    def _raced(self) -> tuple[Raced, ...]:
        """Runs rounds of one pair each, so that all variants see the same disturbances.

        Each of n challengers may err with 1/n of the allowed probability, so that all together err no more often.
        """
        t = self._thresholds
        share = RaceThresholds(t.error / len(self._challengers), t.min_gain_bps, t.worth_bps, t.max_pairs)
        races = {name: PairedRace.start(share) for name in self._challengers}
        pairs: dict[str, list[tuple[int, int]]] = {name: [] for name in races}
        verdicts: dict[str, RaceVerdict] = {}
        racing = list(races)
        while racing:
            for name in racing:
                pair = self._pair(name, baseline_first=races[name].baseline_first)
                pairs[name].append(pair)
                races[name] = races[name].record(*pair)
                verdicts[name] = decide(self._sink, judge_race, races[name])
            racing = [name for name in racing if verdicts[name].outcome is RaceOutcome.KEEP_RACING]
        return tuple(Raced(name, verdicts[name], tuple(pairs[name])) for name in races)

    def _pair(self, challenger: str, *, baseline_first: bool) -> tuple[int, int]:
        if baseline_first:
            baseline_ns = self._run_ns(self._baseline)
            return baseline_ns, self._run_ns(challenger)
        challenger_ns = self._run_ns(challenger)
        return self._run_ns(self._baseline), challenger_ns

    def _run_ns(self, name: str) -> int:
        return run_ns(self._variants[name], self._views, self.kind, self._now_ns)

    def _estimated(self) -> RaceReport:
        costs = {name: estimated_cost(each, self._views, self._backend) for name, each in self._variants.items()}
        why = f"`{self._backend.id}` only estimates: nothing was measured, so the first stays"
        return self._report(self._baseline, why, estimates=costs)

    def _report(
        self, winner: str, why: str, raced: tuple[Raced, ...] = (), estimates: Mapping[str, int] | None = None
    ) -> RaceReport:
        config = self._variants[winner].config
        return RaceReport(self.kind, self._baseline, winner, config, why, raced, estimates or {})


def _ends(decision: Decision) -> bool:
    """Returns whether the race is over."""
    return isinstance(decision.verdict, RaceVerdict) and decision.verdict.outcome is not RaceOutcome.KEEP_RACING
