"""Random prefilters, confirmers and commits: both ways commit what plain Python does, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fixed_points import keeping_session
from support.llvm import NEEDS_LLVM
from support.speculations import Case, bound
from vyre import Session, SpeculationMode
from vyre.policies.arith import PPM
from vyre.policies.prediction.confirming import RETRIED, TRIED, ConfirmWay, WayInputs, WayTimes, choose_way

BACKENDS: Final = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with keeping_session(request.param) as opened:
        yield opened


@st.composite
def cases(draw: st.DrawFn) -> Case:
    width = draw(st.integers(1, 6))
    moduli = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    return Case(
        draw(st.integers(1, 20)),
        width,
        moduli[0],
        draw(st.integers(0, moduli[0])),
        moduli[1],
        draw(st.integers(0, moduli[1])),
        stray=draw(st.integers(0, width)),
        reach=draw(st.integers(0, width)),
        flag_stray=draw(st.sampled_from([0, 0, 0, 1])),
        index_type=draw(st.sampled_from(["u32", "i32", "u64", "i64"])),
    )


@settings(max_examples=6)
@given(case=cases(), seed=st.integers(0, 99))
def test_both_ways_commit_the_same(session: Session, case: Case, seed: int) -> None:
    x, y = case.x(seed), np.random.default_rng(seed).integers(0, 1 << 32, (case.tiles, case.width)).astype(np.uint32)
    after, passed, committed = case.expected(x, y)
    for mode in (SpeculationMode.FORCE, SpeculationMode.DISABLE):
        held = bound(session, case, x, y, mode)
        result = held()
        assert (result.passed, result.committed) == (passed.sum(), committed.sum())
        np.testing.assert_array_equal(held.y.download(), after)
        np.testing.assert_array_equal(held.passed.download(), np.where(passed, np.arange(case.tiles) + 1, 0))
        np.testing.assert_array_equal(held.confirmed.download(), committed)
        held.run.close()


@settings(max_examples=20)
@given(every_ns=st.integers(0, 10**6), fixed_ns=st.integers(0, 10**6), rates=st.lists(st.integers(0, PPM), min_size=20))
def test_the_shorter_way_is_taken_but_for_trials(every_ns: int, fixed_ns: int, rates: list[int]) -> None:
    """The time of ``PASSED`` grows with the rate as is expected, and the rate stays as it is after a while."""
    rates += [rates[-1]] * 200

    def took(way: ConfirmWay, rate: int) -> int:
        return every_ns if way is ConfirmWay.EVERY else fixed_ns + rate * every_ns // PPM

    times, ways = WayTimes(), []
    for rate in rates:
        way = choose_way(WayInputs(None, False, times)).way
        ways.append(way)
        times = times.after(way, took(way, rate), rate)
    assert ways[: 2 * TRIED] == [ConfirmWay.PASSED] * TRIED + [ConfirmWay.EVERY] * TRIED
    difference = took(ConfirmWay.PASSED, rates[-1]) - every_ns
    if abs(difference) > 100:
        better = ConfirmWay.EVERY if difference > 0 else ConfirmWay.PASSED
        assert ways[-100:].count(better) >= 100 - 100 // RETRIED - 1


def test_one_slow_run_does_not_decide() -> None:
    times = WayTimes()
    for way in (*[ConfirmWay.PASSED] * TRIED, *[ConfirmWay.EVERY] * TRIED):
        times = times.after(way, 1000 if way is ConfirmWay.PASSED else 1300, PPM // 2)
    slow = times.after(ConfirmWay.PASSED, 10**9, PPM // 2)
    assert choose_way(WayInputs(None, False, slow)).way is ConfirmWay.PASSED
    for _ in range(2):
        slow = slow.after(ConfirmWay.PASSED, 10**9, PPM // 2)
    assert choose_way(WayInputs(None, False, slow)).way is ConfirmWay.EVERY


@pytest.mark.parametrize("mode", SpeculationMode)
def test_a_mode_and_a_tile_that_could_fail_decide_alone(mode: SpeculationMode) -> None:
    found = {fails: choose_way(WayInputs(mode, fails, WayTimes())) for fails in (False, True)}
    wanted = ConfirmWay.EVERY if mode is SpeculationMode.FORCE else ConfirmWay.PASSED
    assert {verdict.way for verdict in found.values()} == {wanted}
    assert (found[False].why != found[True].why) == (mode is SpeculationMode.AUTO)
