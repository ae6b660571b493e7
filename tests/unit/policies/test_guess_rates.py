"""``GuessRate``: the rate of a guess is that of a speculator whose dispatches have one item each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.speculate import SpeculationReport, SpeculatorState
from vyre.domain.dispatch import SpeculationMode
from vyre.policies.prediction.speculate import (
    FULL_RATE_PPM,
    GuessRate,
    PathInputs,
    SpeculationPath,
    choose_path,
)


@given(st.lists(st.booleans(), max_size=60))
def test_a_rate_moves_as_that_of_a_speculator(calls: list[bool]) -> None:
    rate, speculator = GuessRate(), SpeculatorState.start()
    assert (rate.ema_ppm, rate.enabled) == (speculator.ema_ppm, speculator.enabled)
    for held in calls:
        rate, speculator = rate.after(held), speculator.record(SpeculationReport(int(held), int(not held)))
        assert (rate.ema_ppm, rate.enabled) == (speculator.ema_ppm, speculator.enabled)
        chosen = choose_path(PathInputs(None, rate)).path
        assert (chosen is SpeculationPath.SPECIAL) is speculator.should_speculate


def test_the_rate_of_a_guess_that_always_holds_reaches_its_limit() -> None:
    rate = GuessRate(enabled=False)
    for _ in range(100):
        rate = rate.after(True)
    assert (rate.ema_ppm, rate.enabled) == (FULL_RATE_PPM, True)
    assert rate.after(True) == rate


def test_the_mode_of_a_config_overrules_the_rate() -> None:
    for rate in (GuessRate(), GuessRate(7, enabled=False)):
        for mode, path in ((SpeculationMode.FORCE, "special"), (SpeculationMode.DISABLE, "general")):
            assert choose_path(PathInputs(mode, rate)).path.value == path
        rated = choose_path(PathInputs(SpeculationMode.AUTO, rate))
        assert rated == choose_path(PathInputs(None, rate))
        assert f"{rate.ema_ppm} ppm" in str(rated.why)
