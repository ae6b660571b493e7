"""Invariants of shape prediction, races and the adaptive speculator."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records import integers, records
from vyre.domain.dispatch import SpeculationMode
from vyre.domain.errors import InvalidField, InvalidProgram
from vyre.policies.shape_prediction import WINDOW, ContextModel, Prediction, ShapeHistory
from vyre.policies.speculate import (
    CounterTail,
    PairedWindow,
    PathInputs,
    RaceWinner,
    SpeculationPath,
    SpeculationReport,
    SpeculatorSettings,
    SpeculatorState,
    VariantRaceInputs,
    choose_path,
    parse_counter_tail,
    race_variants,
    read_fused_result,
)
from vyre.policies.speculation import (
    SpeculationChoice,
    SpeculationObservation,
    SpeculationTest,
    SpeculationThresholds,
    SpeculationVerdict,
    decide_speculation,
)

ORDER = [SpeculationChoice.REJECT, SpeculationChoice.KEEP_RACING, SpeculationChoice.ADOPT]


def history(items: list[int]) -> ShapeHistory:
    built = ShapeHistory()
    for item in items:
        built = built.record((item,))
    return built


@given(st.lists(st.integers(0, 2), max_size=40))
def test_prediction_is_from_the_window_only(items: list[int]) -> None:
    h = history(items)
    assert h == history(items[-WINDOW:])
    assert len(h) == min(len(items), WINDOW)
    assert h.latest == ((items[-1],) if items else None)
    predicted = h.predict_next()
    assert predicted is None or predicted in h


@given(st.integers(1, 15), st.integers(0, 40))
def test_cycles_of_distinct_items_are_predicted(period: int, more: int) -> None:
    seen = period + 1 + more
    assert history([i % period for i in range(seen)]).predict_next() == (seen % period,)


def rank(observation: SpeculationObservation) -> int:
    return ORDER.index(decide_speculation(observation).choice)


@given(records(SpeculationObservation), integers(8, 2**32 - 1), integers(0, 2**64 - 1))
def test_compile_cost_and_dispatches_are_monotone(o: SpeculationObservation, more: int, compile_ns: int) -> None:
    raced = replace(o, baseline_dispatches=max(o.baseline_dispatches, 8), speculative_dispatches=8)
    costlier = replace(raced, side_compile_cost_ns=max(compile_ns, o.side_compile_cost_ns))
    assert rank(costlier) <= rank(raced)
    assert rank(replace(raced, speculative_dispatches=more)) >= rank(raced)


@given(records(SpeculationObservation))
def test_adopting_needs_the_saving(o: SpeculationObservation) -> None:
    if decide_speculation(o).choice is SpeculationChoice.ADOPT:
        effective = o.speculative_mean_ns + o.side_compile_cost_ns // o.speculative_dispatches
        assert 100 * effective <= 85 * o.baseline_mean_ns


def test_racing_without_a_minimum_needs_no_dispatches() -> None:
    free = SpeculationThresholds(min_dispatches=0)
    observed = SpeculationObservation(0, 100, 0, 10, 10**9)
    assert decide_speculation(observed, free).choice is SpeculationChoice.ADOPT
    assert decide_speculation(observed).choice is SpeculationChoice.KEEP_RACING
    timeless = replace(observed, baseline_mean_ns=0)
    assert decide_speculation(timeless, free).choice is SpeculationChoice.KEEP_RACING


@given(records(SpeculationReport), st.binary(max_size=9))
def test_reports_survive_their_tail(report: SpeculationReport, prefix: bytes) -> None:
    whole = prefix[: len(prefix) // 4 * 4] + report.to_tail()
    assert parse_counter_tail(whole) == report
    assert parse_counter_tail(whole + b"x") is None
    assert 0 <= report.commit_rate_ppm <= 1_000_000
    assert report.worthwhile(0)
    result = read_fused_result((b"ab", whole), CounterTail(1))
    assert (result.report, result.outputs) == (report, (b"ab", whole[:-8]))
    assert read_fused_result((b"ab", whole), CounterTail(1, strip=False)).outputs == (b"ab", whole)


def test_a_fused_program_must_report() -> None:
    with pytest.raises(InvalidProgram, match=r"has 1 output"):
        read_fused_result((b"",), CounterTail(1))
    with pytest.raises(InvalidProgram, match="4 bytes"):
        read_fused_result((b"abcd",), CounterTail(0))


REPORTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30)


@given(st.integers(0, 200), REPORTS)
def test_the_average_stays_between_what_was_seen(threshold_pct: int, reports: list[tuple[int, int]]) -> None:
    state = SpeculatorState.start(SpeculatorSettings(threshold_pct))
    seen = [state.ema_ppm]
    margin = state.settings.threshold_ppm // 4
    for committed, rolled_back in reports:
        report = SpeculationReport(committed, rolled_back)
        after = state.record(report)
        if report.attempted == 0:
            assert after is state
            continue
        seen.append(report.commit_rate_ppm)
        assert min(seen) - 3 <= after.ema_ppm <= max(seen)
        assert after.samples == state.samples + 1
        if abs(after.ema_ppm - state.settings.threshold_ppm) < margin:
            assert after.enabled == state.enabled
        state = after


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


@given(records(VariantRaceInputs))
def test_the_winner_is_faster_and_ties_are_conservative(inputs: VariantRaceInputs) -> None:
    result = race_variants(inputs)
    gain = inputs.conservative_total_ns - inputs.speculative_total_ns
    assert result.saved_ns == abs(gain)
    assert (result.winner is RaceWinner.SPECULATIVE) == (gain > 0)


@given(st.lists(records(VariantRaceInputs, **{n: st.integers(0, 10**6) for n in VariantRaceInputs.__annotations__})))
def test_windows_keep_exact_means(pairs: list[VariantRaceInputs]) -> None:
    window = PairedWindow()
    for pair in pairs:
        window = window.record(pair)
    seen, n = window.observation, max(len(pairs), 1)
    assert seen.baseline_dispatches == seen.speculative_dispatches == len(pairs)
    assert seen.baseline_mean_ns == sum(p.conservative_dispatch_ns for p in pairs) // n
    assert seen.speculative_mean_ns == sum(p.speculative_dispatch_ns for p in pairs) // n
    assert seen.side_compile_cost_ns == sum(p.speculative_compile_ns for p in pairs)


def test_a_window_does_not_wrap() -> None:
    full = PairedWindow(conservative_total_ns=2**64 - 1)
    with pytest.raises(InvalidField, match="conservative_total_ns"):
        full.record(VariantRaceInputs(1, 0, 0, 0))


def shape_hits(model: ContextModel, items: list[int]) -> int:
    hits = 0
    for item in items:
        found = model.predict()
        hits += found is not None and found.fingerprint == (item,)
        model.record((item,))
    return hits


@pytest.mark.parametrize("period", [[0], [0, 1, 2], [0, 0, 1], [0, 0, 0, 1, 2, 2], list(range(20))])
def test_contexts_predict_cycles(period: list[int]) -> None:
    model = ContextModel()
    shape_hits(model, period * 10)
    assert shape_hits(model, period * 10) == 10 * len(period)
    found = model.predict()
    assert found == Prediction((period[0],), 10_000)


def test_confidence_is_the_share_of_recent_weight() -> None:
    model = ContextModel(max_order=1, decay=1.0)
    assert model.predict() is None
    for item in (0, 1, 0, 1, 0, 1, 0, 2, 0):
        model.record((item,))
    assert model.predict() == Prediction((1,), 7_500)
    forgetful = ContextModel(max_order=1, decay=0.0)
    for item in (0, 1, 0, 1, 0, 2, 0):
        forgetful.record((item,))
    assert forgetful.predict() == Prediction((2,), 10_000)


def test_contexts_are_bounded() -> None:
    model = ContextModel(max_order=1, capacity=2)
    for item in (0, 1, 2, 3, 0):
        model.record((item,))
    assert model.predict() is None  # what followed 0 was the first to be forgotten
    model.record((1,))
    model.record((0,))
    assert model.predict() == Prediction((1,), 10_000)


@pytest.mark.parametrize("bad", [{"max_order": 0}, {"decay": 1.5}, {"decay": -0.1}, {"capacity": 0}])
def test_malformed_context_models(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match=next(iter(bad))):
        ContextModel(**bad)


def race(gain: float, noise: float, seed: int) -> SpeculationVerdict:
    """Race of a variant faster by ``gain``, with log-normal noise on both sides, to its end."""
    rng, test = random.Random(seed), SpeculationTest()
    while (verdict := test.decide()).choice is SpeculationChoice.KEEP_RACING:
        times = (100_000 * math.exp(rng.gauss(0, noise)), 100_000 * (1 - gain) * math.exp(rng.gauss(0, noise)))
        test = test.record(*map(round, times))
    return verdict


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
