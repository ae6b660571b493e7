"""Subgroup operations that the pass ``strength`` leaves out or joins, and those that stay."""

from __future__ import annotations

import pytest

from support.optimizer.pass_texts import after, is_kept, normal
from vyre.domain.optimize.strength import STRENGTH

REWRITES = {
    "a sum of nothing": ("out[gid.x] = subgroup_add(0u)", "out[gid.x] = 0u"),
    "a sum of +0": ("reals[gid.x] = subgroup_add(0.0f)", "reals[gid.x] = 0.0f"),
    "two sums": (
        "out[gid.x] = subgroup_add(input[gid.x]) + subgroup_add(gid.x)",
        "out[gid.x] = subgroup_add(input[gid.x] + gid.x)",
    ),
    "three sums": (
        "out[gid.x] = subgroup_add(input[gid.x]) + subgroup_add(gid.x) - subgroup_add(n)",
        "out[gid.x] = subgroup_add(input[gid.x] + gid.x - n)",
    ),
    "a vote of nobody": ("out[gid.x] = subgroup_ballot(false)", "out[gid.x] = 0u"),
    "two votes": (
        "out[gid.x] = subgroup_ballot(gid.x < n) & subgroup_ballot(gid.x > 1u)",
        "out[gid.x] = subgroup_ballot(gid.x < n and gid.x > 1u)",
    ),
    "one of two votes": (
        "out[gid.x] = subgroup_ballot(gid.x < n) ^ subgroup_ballot(gid.x > 1u)",
        "out[gid.x] = subgroup_ballot((gid.x < n) != (gid.x > 1u))",
    ),
    "the value of the lane itself": (
        "out[gid.x] = subgroup_shuffle(input[gid.x], subgroup_lane())",
        "out[gid.x] = input[gid.x]",
    ),
    "a zero of another lane": ("out[gid.x] = subgroup_shuffle(0u, gid.x)", "out[gid.x] = 0u"),
    "what the first lane has like all": ("out[gid.x] = subgroup_shuffle(n, 0u)", "out[gid.x] = n"),
}
KEPT = {
    "a sum of -0": "reals[gid.x] = subgroup_add(-0.0f)",
    "sums of floats, which round": "reals[gid.x] = subgroup_add(reals[gid.x]) + subgroup_add(1.0f)",
    "a vote of all, since lanes may be missing": "out[gid.x] = subgroup_ballot(true)",
    "a sum and a vote": "out[gid.x] = subgroup_add(n) + subgroup_ballot(gid.x < n)",
    "a number of another lane, which may be missing": "out[gid.x] = subgroup_shuffle(n, 1u)",
    "what only the first lane has": "out[gid.x] = subgroup_shuffle(gid.x, 0u)",
    "sums of two statements": "let a = subgroup_add(n) let b = subgroup_add(gid.x) out[gid.x] = a + b",
    "a product of sums": "out[gid.x] = subgroup_add(n) * subgroup_add(gid.x)",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, STRENGTH) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [STRENGTH])
