"""Races and the adaptive speculator; their invariants are in ``test_policy_invariants``."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from vyre.domain.dispatch import SpeculationMode
from vyre.domain.errors import InvalidField, InvalidProgram
from vyre.policies.speculate import (
    CounterTail,
    PairedWindow,
    PathInputs,
    SpeculationPath,
    SpeculationReport,
    SpeculatorSettings,
    SpeculatorState,
    VariantRaceInputs,
    choose_path,
    read_fused_result,
)
from vyre.policies.speculation import (
    SequentialThresholds,
    SpeculationChoice,
    SpeculationObservation,
    SpeculationTest,
    SpeculationThresholds,
    SpeculationVerdict,
    decide_speculation,
)


def test_racing_without_a_minimum_needs_no_dispatches() -> None:
    free = SpeculationThresholds(min_dispatches=0)
    observed = SpeculationObservation(0, 100, 0, 10, 10**9)
    assert decide_speculation(observed, free).choice is SpeculationChoice.ADOPT
    assert decide_speculation(observed).choice is SpeculationChoice.KEEP_RACING
    timeless = replace(observed, baseline_mean_ns=0)
    assert decide_speculation(timeless, free).choice is SpeculationChoice.KEEP_RACING


def test_a_fused_result_is_split_from_its_report() -> None:
    report = SpeculationReport(3, 1)
    whole = b"data" + report.to_tail()
    assert read_fused_result((b"ab", whole), CounterTail(1)) == (report, (b"ab", b"data"))
    assert read_fused_result((b"ab", whole), CounterTail(1, strip=False)).outputs == (b"ab", whole)
    assert (report.commit_rate_pct, report.worthwhile(75), report.worthwhile(76)) == (75, True, False)


def test_a_fused_program_must_report() -> None:
    with pytest.raises(InvalidProgram, match=r"has 1 output"):
        read_fused_result((b"",), CounterTail(1))
    with pytest.raises(InvalidProgram, match="4 bytes"):
        read_fused_result((b"abcd",), CounterTail(0))


def test_probing_brings_a_speculator_back() -> None:
    stubborn, probing = SpeculatorState.start(), SpeculatorState.start(SpeculatorSettings(probe_interval=3))
    assert stubborn.skipped() is stubborn
    for _ in range(8):
        stubborn, probing = (s.record(SpeculationReport(0, 100)) for s in (stubborn, probing))
    assert not stubborn.should_speculate and not probing.should_speculate
    for _ in range(3):
        assert not probing.should_speculate
        stubborn, probing = stubborn.skipped(), probing.skipped()
    assert not stubborn.should_speculate
    assert probing.should_speculate
    while not probing.enabled:
        probing = probing.record(SpeculationReport(100, 0))
    assert probing.idle_dispatches == 0


def test_the_two_stage_path_brings_a_speculator_back() -> None:
    deaf = fed = SpeculatorState.start()
    for _ in range(8):
        deaf, fed = deaf.after(SpeculationReport(0, 100)), fed.after(SpeculationReport(0, 100))
    assert not fed.enabled
    for _ in range(100):
        deaf = deaf.after(None)
    for _ in range(3):
        fed = fed.after(SpeculationReport.of_prefilter(candidates=10, confirmed=9))
    assert fed.enabled and not deaf.enabled
    with pytest.raises(InvalidField, match="rolled_back"):
        SpeculationReport.of_prefilter(candidates=1, confirmed=2)


@pytest.mark.parametrize(
    ("threshold_pct", "reachable_band", "back"),
    [(79, False, True), (80, False, False), (80, True, True), (100, True, True), (101, True, False)],
)
def test_a_full_rate_switches_on(threshold_pct: int, reachable_band: bool, back: bool) -> None:
    state = SpeculatorState.start(SpeculatorSettings(threshold_pct, reachable_band=reachable_band))
    while state.enabled:
        state = state.record(SpeculationReport(0, 1))
    for _ in range(200):
        state = state.record(SpeculationReport(1, 0))
    assert state.enabled == back


OFF = replace(SpeculatorState.start(), enabled=False)


@pytest.mark.parametrize(
    ("mode", "supported", "state", "checked", "path"),
    [
        (SpeculationMode.FORCE, True, OFF, False, SpeculationPath.FUSED),
        (SpeculationMode.FORCE, False, OFF, False, SpeculationPath.UNSUPPORTED),
        (SpeculationMode.DISABLE, True, SpeculatorState.start(), False, SpeculationPath.TWO_STAGE),
        (None, True, OFF, False, SpeculationPath.TWO_STAGE),
        (None, False, SpeculatorState.start(), False, SpeculationPath.FUSED),
        (SpeculationMode.AUTO, False, SpeculatorState.start(), True, SpeculationPath.TWO_STAGE),
        (SpeculationMode.AUTO, True, SpeculatorState.start(), True, SpeculationPath.FUSED),
    ],
)
def test_paths(
    mode: SpeculationMode | None, supported: bool, state: SpeculatorState, checked: bool, path: SpeculationPath
) -> None:
    verdict = choose_path(PathInputs(mode, supported, state, checked))
    assert verdict.path is path
    assert str(verdict.why)


def test_a_window_does_not_wrap() -> None:
    full = PairedWindow(conservative_total_ns=2**64 - 1)
    with pytest.raises(InvalidField, match="conservative_total_ns"):
        full.record(VariantRaceInputs(1, 0, 0, 0))


def test_the_width_of_the_interval() -> None:
    """sqrt(2 * 0.125 * 39 / 81 * ln(sqrt(39 / 30) / 0.05))."""
    assert SpeculationTest(9, 0.0, 1.0).half_width() == pytest.approx(0.6135045600002631, rel=1e-12)
    assert SpeculationTest(1, 0.0, 0.0).half_width() == math.inf
    assert SpeculationTest(2, 0.0, 1.0).half_width() < math.inf


def test_means_and_deviations_of_a_race() -> None:
    """Gains of ln 2, ln 4 and ln 8: their mean is ln 4, and the squares about it are 2 (ln 2)^2."""
    test = SpeculationTest()
    for speculative in (50, 25):
        test = test.record(100, speculative)
    test = test.record(800, 100)
    assert test.pairs == 3
    assert test.mean == pytest.approx(math.log(4), rel=1e-12)
    assert test.squares == pytest.approx(2 * math.log(2) ** 2, rel=1e-12)


@pytest.mark.parametrize(
    ("test", "thresholds", "choice"),
    [
        (SpeculationTest(9, 0.5, 0.0), SequentialThresholds(), SpeculationChoice.ADOPT),
        (SpeculationTest(9, 0.0, 0.0), SequentialThresholds(), SpeculationChoice.REJECT),
        (SpeculationTest(9, 0.01, 0.0), SequentialThresholds(min_gain=1.0), SpeculationChoice.KEEP_RACING),
        (SpeculationTest(199, 0.0, 1e9), SequentialThresholds(), SpeculationChoice.KEEP_RACING),
        (SpeculationTest(200, 0.0, 1e9), SequentialThresholds(), SpeculationChoice.REJECT),
    ],
)
def test_limits_of_a_race(test: SpeculationTest, thresholds: SequentialThresholds, choice: SpeculationChoice) -> None:
    assert test.decide(thresholds).choice is choice


def test_no_dispatches_spread_no_compile() -> None:
    seen = SpeculationObservation(0, 100, 0, 99, 1_000)
    assert decide_speculation(seen, SpeculationThresholds(0, 0)).choice is SpeculationChoice.ADOPT


def race(gain: float, noise: float, seed: int) -> SpeculationVerdict:
    """Race of a variant faster by ``gain``, with log-normal noise on both sides, to its end."""
    rng, test = random.Random(seed), SpeculationTest()
    while (verdict := test.decide()).choice is SpeculationChoice.KEEP_RACING:
        times = (100_000 * math.exp(rng.gauss(0, noise)), 100_000 * (1 - gain) * math.exp(rng.gauss(0, noise)))
        test = test.record(*map(round, times))
    return verdict


@pytest.mark.thorough
def test_real_gains_are_adopted_and_noise_is_not() -> None:
    real = [race(0.3, 0.1, seed).choice for seed in range(200)]
    none = [race(0.0, 0.3, seed).choice for seed in range(200)]
    assert real.count(SpeculationChoice.ADOPT) == 200
    assert none.count(SpeculationChoice.ADOPT) <= 10  # at most 5 % of 200


def test_a_steady_loss_is_rejected_early() -> None:
    test = SpeculationTest()
    assert test.half_width() == math.inf
    for _ in range(4):
        assert test.decide().choice is SpeculationChoice.KEEP_RACING
        test = test.record(100, 110)
    assert test.decide().choice is SpeculationChoice.REJECT
    assert "after 4 pair(s)" in str(test.decide().why)


@pytest.mark.parametrize("times", [(0, 1), (1, 0), (1.0, 1), (1, -3)])
def test_pairs_must_have_times(times: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidField, match="_ns"):
        SpeculationTest().record(*times)
