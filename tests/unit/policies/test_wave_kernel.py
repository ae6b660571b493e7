"""``choose_wave_kernel``: measured times decide where both ways have one, else the price of the launches does."""

from __future__ import annotations

import pytest

from vyre.policies.frontiers.wave_kernel import WaveKernelInputs, WaveKernelThresholds, choose_wave_kernel


@pytest.mark.parametrize(
    ("launches", "kernel_ns", "gap_ns", "wanted"),
    [
        (2, 1_000, 900, True),  # 900 ns of 3800
        (2, 1_000_000, 900, False),  # launches cost little beside their kernels
        (1, 0, 900, False),  # a launch of one kernel has its gap too
        (0, 1, 1, False),
        (3, 70, 20, False),  # 40 ns of 270, and the margin is 40
        (3, 70, 21, True),
    ],
)
def test_without_both_times_the_price_of_the_launches_decides(
    launches: int, kernel_ns: int, gap_ns: int, wanted: bool
) -> None:
    for one, apart in ((None, None), (1, None), (None, 1)):
        chosen = choose_wave_kernel(WaveKernelInputs(launches, kernel_ns, gap_ns, one, apart))
        assert chosen.one_kernel is wanted
        assert "not measured" in str(chosen.why)


def test_a_larger_margin_keeps_launches() -> None:
    inputs = WaveKernelInputs(2, 1_000, 900)
    assert not choose_wave_kernel(inputs, WaveKernelThresholds(min_gain_bps=2_500)).one_kernel


@pytest.mark.parametrize("gap_ns", [0, 10_000])
@pytest.mark.parametrize(("one", "apart", "wanted"), [(9, 10, True), (10, 10, False), (11, 10, False), (0, 1, True)])
def test_the_faster_way_wins_where_both_were_measured(gap_ns: int, one: int, apart: int, wanted: bool) -> None:
    chosen = choose_wave_kernel(WaveKernelInputs(5, 1_000, gap_ns, one, apart))
    assert chosen.one_kernel is wanted
    assert (chosen.label == "one kernel") is wanted
    assert f"{one} ns in one kernel, {apart} ns in launches" in str(chosen.why)
