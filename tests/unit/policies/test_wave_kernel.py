"""``choose_wave_kernel``: measured times decide where both ways have one, else the shape does."""

from __future__ import annotations

import pytest

from vyre.policies.frontiers.topology import Topology, WaveKernelInputs, choose_wave_kernel


@pytest.mark.parametrize("topology", Topology)
def test_without_both_times_the_shape_decides(topology: Topology) -> None:
    for one, apart in ((None, None), (1, None), (None, 1)):
        found = choose_wave_kernel(WaveKernelInputs(topology, one, apart))
        assert found.one_kernel is (topology is Topology.FUSED_WAVE)
        assert topology.value in str(found.why)


@pytest.mark.parametrize("topology", Topology)
@pytest.mark.parametrize(("one", "apart", "wanted"), [(9, 10, True), (10, 10, False), (11, 10, False), (0, 1, True)])
def test_the_faster_way_wins_where_both_were_measured(topology: Topology, one: int, apart: int, wanted: bool) -> None:
    found = choose_wave_kernel(WaveKernelInputs(topology, one, apart))
    assert found.one_kernel is wanted
    assert (found.label == "one kernel") is wanted
    assert f"{one} ns in one kernel, {apart} ns in launches" in str(found.why)
