"""Two views of order-independence agree: how the generator builds programs, and what the race check observes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from support.profiles import SOAK, examples
from support.programs import Case, Order, cases, generate
from support.running import has_data_race, oracle

SEEDS = 5_000 if SOAK else 80


@pytest.mark.parametrize("order", [Order.INDEPENDENT, Order.ATOMIC])
def test_programs_without_races_have_none_reported(order: Order) -> None:
    for seed in range(SEEDS):
        assert not has_data_race(generate(seed, order=order)), f"seed {seed}"


def test_most_programs_with_races_are_caught() -> None:
    caught = sum(has_data_race(generate(seed, order=Order.RACY)) for seed in range(SEEDS))
    assert caught > SEEDS // 2


@examples(40)
@given(case=cases())
def test_watching_for_races_changes_no_result(case: Case) -> None:
    watched = replace(case, config=replace(case.config, race_check=True))
    assert oracle(watched) == oracle(case)
