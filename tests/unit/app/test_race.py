"""Racing variants: the bytes are equal, the clock decides, and a model decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

import numpy as np
import pytest

import vyre
from support.small_programs import catalog_of, square_kernel, square_program
from vyre.app.journal import DecisionJournal
from vyre.app.tuning.race import RaceReport, VariantRace
from vyre.app.tuning.timing import WARM_UP
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import DispatchFailed, InvalidConfig, InvalidInput
from vyre.domain.tuning import TimeKind
from vyre.policies.journal import DecisionSink
from vyre.policies.tuning.paired_race import DEFAULT_THRESHOLDS, RaceOutcome, RaceThresholds, judge_race
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.fakes import BytesFunction, FunctionExecutor, function_backend

PROGRAM: Final = square_program()
X: Final = np.arange(64, dtype=np.uint32)
USUAL, OTHER, THIRD = (DispatchConfig(workgroup=(size, 1, 1)) for size in (64, 32, 16))


@dataclass
class Clocked:
    """An executor on which a dispatch takes what ``costs`` says of its workgroup size, in ns of ``now_ns``."""

    costs: Mapping[int, int]
    kernel: BytesFunction = square_kernel
    time_ns: int = 0
    sizes: list[int] = field(default_factory=list)

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        assert request.config.workgroup is not None
        size = request.config.workgroup[0]
        self.sizes.append(size)
        self.time_ns += self.costs[size]
        return FunctionExecutor(self.kernel).execute(request, outputs)

    def race(
        self,
        *configs: DispatchConfig,
        thresholds: RaceThresholds = DEFAULT_THRESHOLDS,
        sink: DecisionSink | None = None,
    ) -> RaceReport:
        backend = replace(function_backend(self.kernel), executor=self)
        with vyre.open(catalog=catalog_of(backend)) as session:
            pipelines = {f"of {c.workgroup[0]}": session.compile(PROGRAM, c) for c in configs if c.workgroup}
            return VariantRace(backend, pipelines, [X], thresholds, lambda: self.time_ns, sink).run()


def test_the_surely_faster_variant_wins() -> None:
    report = Clocked({64: 1_000, 32: 800, 16: 500}).race(USUAL, OTHER, THIRD)
    assert (report.baseline, report.winner, report.config, report.measured) == ("of 64", "of 16", THIRD, True)
    assert [each.verdict.outcome for each in report.raced] == [RaceOutcome.FASTER] * 2
    assert [each.verdict.gain_bps for each in report.raced] == [2_000, 5_000]
    assert set(report.raced[1].pairs) == {(1_000, 500)}
    assert "5000 bps gained" in report.why and report.why in str(report)
    assert not report.estimates


@pytest.mark.parametrize(
    ("cost", "outcome"),
    [(1_000, RaceOutcome.FUTILE), (950, RaceOutcome.FUTILE), (2_000, RaceOutcome.SLOWER)],
)
def test_the_one_in_use_stays_unless_another_is_faster(cost: int, outcome: RaceOutcome) -> None:
    """A gain of 5 % is less than what is asked for here."""
    thresholds = RaceThresholds(min_gain_bps=1_000, worth_bps=1_000)
    report = Clocked({64: 1_000, 32: cost}).race(USUAL, OTHER, thresholds=thresholds)
    assert (report.winner, report.config) == ("of 64", USUAL)
    assert [each.verdict.outcome for each in report.raced] == [outcome]
    assert report.why == "no other variant is surely faster"


def test_runs_come_in_pairs_that_take_turns() -> None:
    clocked = Clocked({64: 1_000, 32: 800, 16: 700})
    clocked.race(USUAL, OTHER, THIRD)
    checks = [64] + [64, 32, 16] * WARM_UP
    assert clocked.sizes[: len(checks)] == checks
    raced = clocked.sizes[len(checks) :]
    assert raced[:16] == [64, 32, 64, 16, 32, 64, 16, 64, 32, 64, 16, 64, 64, 32, 64, 16]


def test_an_error_is_shared_by_the_challengers() -> None:
    lone = Clocked({64: 1_000, 32: 500}).race(USUAL, OTHER, thresholds=RaceThresholds(error=0.01))
    shared = Clocked({64: 1_000, 32: 500, 16: 2_000}).race(USUAL, OTHER, THIRD, thresholds=RaceThresholds(error=0.02))
    assert lone.raced[0] == shared.raced[0]


def test_of_each_race_the_end_is_recorded() -> None:
    journal = DecisionJournal()
    report = Clocked({64: 1_000, 32: 800, 16: 500}).race(USUAL, OTHER, THIRD, sink=journal)
    assert [decision.policy for decision in journal.decisions] == [judge_race] * 2
    ended = sorted(report.raced, key=lambda each: len(each.pairs))
    assert [decision.verdict for decision in journal.decisions] == [each.verdict for each in ended]
    assert all(len(each.pairs) > 2 for each in ended)


def test_a_race_that_proves_nothing_ends() -> None:
    report = Clocked({64: 1_000, 32: 500}).race(USUAL, OTHER, thresholds=RaceThresholds(max_pairs=2))
    assert len(report.raced[0].pairs) == 2 and report.winner == "of 64"


def test_a_variant_that_fails_is_named() -> None:
    runs = count()

    def fails_second(inputs: Mapping[str, bytes]) -> dict[str, bytes]:
        if next(runs):
            raise DispatchFailed("not today")
        return square_kernel(inputs)

    with pytest.raises(DispatchFailed) as caught:
        Clocked({64: 1_000, 32: 800}, fails_second).race(OTHER, USUAL)
    assert "variant=of 32" in caught.value.__notes__  # the first to be checked


def test_variants_with_other_bytes_are_refused() -> None:
    runs = count()

    def wrong_later(first: int) -> BytesFunction:
        return lambda inputs: {"y": bytes(256)} if next(runs) >= first else square_kernel(inputs)

    for first in (1, 2, 12):
        runs = count()
        with pytest.raises(InvalidConfig, match=r"`of 64` and `of (64|32)` give different bytes in y"):
            Clocked({64: 1_000, 32: 500}, wrong_later(first)).race(USUAL, OTHER)


@pytest.mark.parametrize("variants", [{}, {"only": USUAL}])
def test_one_variant_is_no_race(variants: Mapping[str, DispatchConfig]) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidConfig, match="make no race"):
        session.race(PROGRAM, [X], variants)


def spec_program() -> vyre.Program:
    with vyre.ProgramBuilder("powers", workgroup=64) as p:
        unroll = p.spec("unroll", 1)
        x = p.input("x", vyre.u32)
        y = p.output("y", vyre.u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * (unroll | 1)
    return p.build()


def test_a_session_races_constants_by_the_clock() -> None:
    with vyre.open("reference") as session:
        found = session.race(
            spec_program(), [X], {"0": {"unroll": 0}, "1": {"unroll": 1}}, thresholds=RaceThresholds(max_pairs=3)
        )
        assert found.kind is TimeKind.HOST and found.measured
        assert all(first > 0 and second > 0 for first, second in found.raced[0].pairs)
        assert session.dispatch(spec_program(), [X], found.config)["y"].tobytes() == X.tobytes()
        with pytest.raises(InvalidConfig, match="`0` and `2` give different bytes"):
            session.race(spec_program(), [X], {"0": {"unroll": 0}, "2": {"unroll": 2}})
        with pytest.raises(InvalidInput):
            session.race(spec_program(), [], {"0": {"unroll": 0}, "1": {"unroll": 1}})


def test_the_emulated_machine_only_estimates() -> None:
    with vyre.open("cuda-machine", cache=False) as session:
        report = session.race(PROGRAM, [X], {"usual": USUAL, "other": OTHER})
    assert (report.kind, report.measured, report.raced) == (TimeKind.ESTIMATED, False, ())
    assert report.winner == "usual" and report.config is USUAL
    assert "nothing was measured" in report.why
    assert list(report.estimates) == ["usual", "other"] and min(report.estimates.values()) > 0
    assert "other: " in str(report) and "by the model" in str(report)
