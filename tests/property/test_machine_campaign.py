"""Random programs on the CUDA backend over the emulated device give the reference's bytes, in every schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from support.machine.fuzzing import MachineCampaign
from support.profiles import SOAK

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"
PROGRAMS: Final = 168
PARTS: Final = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_seeded_programs_agree(part: int) -> None:
    share = PROGRAMS // PARTS
    campaign = MachineCampaign.run(part * share, share)
    assert not campaign.failures, campaign.failures[0]
    assert campaign.programs == share
    assert campaign.executions > 2 * share and campaign.compared_bytes > 15_000 and campaign.traps


@pytest.mark.skipif(not SOAK, reason="a long run: set VYRE_SOAK=1 (make soak)")
def test_a_long_campaign_finds_no_disagreement() -> None:
    campaign = MachineCampaign.run(1_000_000, 20_000)
    campaign.write(RESULTS / "machine-fuzzing.json")
    assert not campaign.failures, campaign.failures[0]
