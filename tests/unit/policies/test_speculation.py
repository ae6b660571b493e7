"""The reference rule for races, and the adaptive speculator; their invariants are in ``test_policy_invariants``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vectors.seeds.fused_speculation import CounterTail, counter_tail, read_fused_result
from vectors.seeds.speculate import (
    ADAPTIVE,
    PairedWindow,
    PathInputs,
    SpeculationPath,
    SpeculationReport,
    SpeculatorSettings,
    SpeculatorState,
    VariantRaceInputs,
    choose_path,
)
from vectors.seeds.speculation import (
    SpeculationChoice,
    SpeculationObservation,
    SpeculationThresholds,
    decide_speculation,
)
from vyre.domain.dispatch import SpeculationMode
from vyre.domain.errors import InvalidField
from vyre.domain.program_report import InvalidProgram


def test_racing_without_a_minimum_needs_no_dispatches() -> None:
    free = SpeculationThresholds(min_dispatches=0)
    observed = SpeculationObservation(0, 100, 0, 10, 10**9)
    assert decide_speculation(observed, free).choice is SpeculationChoice.ADOPT
    assert decide_speculation(observed).choice is SpeculationChoice.KEEP_RACING
    timeless = replace(observed, baseline_mean_ns=0)
    assert decide_speculation(timeless, free).choice is SpeculationChoice.KEEP_RACING


def test_a_fused_result_is_split_from_its_report() -> None:
    report = SpeculationReport(3, 1)
    whole = b"data" + counter_tail(report)
    assert read_fused_result((b"ab", whole), CounterTail(1)) == (report, (b"ab", b"data"))
    assert read_fused_result((b"ab", whole), CounterTail(1, strip=False)).outputs == (b"ab", whole)
    assert (report.commit_rate_pct, report.worthwhile(75), report.worthwhile(76)) == (75, True, False)


def test_a_fused_program_must_report() -> None:
    with pytest.raises(InvalidProgram, match=r"has 1 output"):
        read_fused_result((b"",), CounterTail(1))
    with pytest.raises(InvalidProgram, match="4 bytes"):
        read_fused_result((b"abcd",), CounterTail(0))


FUSED, TWO_STAGE = SpeculationPath.FUSED, SpeculationPath.TWO_STAGE
NOTHING, EVERYTHING, EMPTY = SpeculationReport(0, 100), SpeculationReport(100, 0), SpeculationReport(0, 0)


def unlucky(settings: SpeculatorSettings | None = None) -> SpeculatorState:
    """After so much bad luck that it is off."""
    state = SpeculatorState.start(settings)
    for _ in range(8):
        state = state.after(FUSED, NOTHING)
    assert not state.enabled
    return state


def test_without_probes_it_stays_off() -> None:
    state = unlucky()
    for _ in range(1_000):
        state = state.after(TWO_STAGE)
        assert not state.should_speculate


@pytest.mark.parametrize("probed", [NOTHING, EMPTY, None])
def test_probes_keep_their_distance_whatever_they_report(probed: SpeculationReport | None) -> None:
    state, paths = unlucky(SpeculatorSettings(probe_interval=3)), ""
    for _ in range(12):
        path = FUSED if state.should_speculate else TWO_STAGE
        paths += path.value[0]
        state = state.after(path, probed if path is FUSED else None)
    assert paths == "tttftttftttf"


def test_a_probe_that_is_forbidden_stays_due() -> None:
    state = unlucky(SpeculatorSettings(probe_interval=2)).after(TWO_STAGE).after(TWO_STAGE).after(TWO_STAGE)
    assert state.should_speculate
    assert not state.after(FUSED).should_speculate


def test_probing_brings_a_speculator_back() -> None:
    state, taken = unlucky(ADAPTIVE), 0
    while not state.enabled:
        path = FUSED if state.should_speculate else TWO_STAGE
        state = state.after(path, EVERYTHING if path is FUSED else None)
        taken += 1
    assert taken == 65
    assert state.idle_dispatches == 0


def test_when_on_only_reports_change_it() -> None:
    state = SpeculatorState.start(ADAPTIVE)
    assert state.after(TWO_STAGE) is state.after(FUSED) is state.after(FUSED, EMPTY) is state
    assert state.after(FUSED, EVERYTHING).samples == 1


def test_the_two_stage_path_brings_a_speculator_back() -> None:
    state = unlucky()
    for _ in range(3):
        state = state.after(TWO_STAGE, SpeculationReport.of_prefilter(candidates=10, confirmed=9))
    assert state.enabled
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


def test_no_dispatches_spread_no_compile() -> None:
    seen = SpeculationObservation(0, 100, 0, 99, 1_000)
    assert decide_speculation(seen, SpeculationThresholds(0, 0)).choice is SpeculationChoice.ADOPT
