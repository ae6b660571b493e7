"""The vectorised engine and the scalar oracle give the same bytes, and the same errors at the same lanes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fuzzing.programs import Campaign, disagreement, permitted_chunks
from support.profiles import SOAK, examples
from support.programs import Case, Order, cases, generate
from support.running import oracle

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"
chunks = st.integers(1, 7)


@examples(50)
@given(case=cases(traps=True), chunk=chunks)
def test_order_independent_programs_agree_for_any_chunk(case: Case, chunk: int) -> None:
    for size in (chunk, None):
        assert disagreement(case, size) is None


@pytest.mark.parametrize("order", [Order.ATOMIC, Order.RACY])
@examples(30)
@given(data=st.data())
def test_other_programs_agree_one_workgroup_at_a_time(order: Order, data: st.DataObject) -> None:
    case = data.draw(cases(order=order, traps=True))
    for size in permitted_chunks(case):
        assert disagreement(case, size) is None


@pytest.mark.parametrize("order", Order)
def test_seeded_programs_agree(order: Order) -> None:
    for seed in range(60):
        case = generate(seed, order=order, traps=True)
        for size in permitted_chunks(case):
            assert disagreement(case, size) is None, f"seed {seed}"


def test_the_oracle_is_deterministic() -> None:
    for seed in range(20):
        case = generate(seed, order=Order.RACY, traps=True)
        assert oracle(case) == oracle(case)


@pytest.mark.skipif(not SOAK, reason="a long run: set VYRE_SOAK=1 (make soak)")
def test_a_long_campaign_finds_no_disagreement() -> None:
    seconds = float(os.environ.get("VYRE_SOAK_SECONDS", "1800"))
    first_seed = int.from_bytes(os.urandom(4), "little") << 16
    campaign = Campaign.run(first_seed, seconds)
    campaign.write(RESULTS / "differential-fuzzing.json")
    assert not campaign.failures, campaign.failures[0]
