"""Every pass of the optimizer, alone and in random orders, keeps the bytes and errors of programs, and their rules."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from support.optimizer.disguised_programs import disguised
from support.optimizer.optimized_programs import check_kept, check_passes_kept, random_case
from support.profiles import SOAK
from support.programs import Case
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES

SEEDS = range(3_000 if SOAK else 40)


@cache
def _case(seed: int) -> Case:
    return random_case(seed)


def random_cases(seeds: range) -> Iterator[Case]:
    """The programs of some seeds, which are drawn once unless they are many."""
    yield from map(random_case if SOAK else _case, seeds)


RARELY: Final = frozenset({"forwarding"})
"""Passes with hardly anything to do in random programs; the tests of these have programs of their own."""


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_alone(name: str) -> None:
    changed = sum(check_passes_kept(case, [PASSES[name]]) is not case.program for case in random_cases(SEEDS))
    assert changed > (0 if name in RARELY else len(SEEDS) // 20)


def test_passes_in_random_orders() -> None:
    for seed, case in zip(SEEDS, random_cases(SEEDS), strict=True):
        order = random.Random(seed).choices(list(PASSES), k=len(PASSES) + 2)
        check_passes_kept(case, [PASSES[name] for name in order])


def test_passes_in_the_default_order() -> None:
    assert set(DEFAULT_ORDER) <= set(PASSES)
    for case in random_cases(SEEDS):
        check_passes_kept(case, [PASSES[name] for name in DEFAULT_ORDER])


def test_passes_on_programs_written_in_a_roundabout_way() -> None:
    disguises = 0
    for seed, case in zip(SEEDS, random_cases(SEEDS), strict=True):
        other = disguised(case, seed)
        disguises += other is not case
        order = random.Random(-seed).choices(list(PASSES), k=1 + seed % 8)
        check_passes_kept(other, [PASSES[name] for name in order])
    assert disguises > 9 * len(SEEDS) // 10


def test_a_disguise_keeps_the_outcome() -> None:
    for seed, case in zip(SEEDS[:30], random_cases(SEEDS[:30]), strict=True):
        check_kept(case, lambda _: disguised(case, seed).program)  # noqa: B023
