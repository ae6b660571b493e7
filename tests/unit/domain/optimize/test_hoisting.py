"""Values that leave loops, and values that stay."""

from __future__ import annotations

import pytest

from support.optimizer.pass_texts import after, is_kept, normal
from vyre.domain.optimize.hoisting import HOISTING

REWRITES = {
    "an expression": (
        "for i in 0u .. 4u { out[i] = n * 3u + i }",
        "let invariant = n * 3u for i in 0u .. 4u { out[i] = invariant + i }",
    ),
    "a declaration": (
        "for i in 0u .. n % 4u { let a = n * 3u out[i] = a + i }",
        "let a = n * 3u for i in 0u .. n % 4u { out[i] = a + i }",
    ),
    "out of both loops": (
        "for i in 0u .. 2u { for j in 0u .. 2u { out[i * 2u + j] = n / 3u } }",
        "let invariant_1 = n / 3u for i in 0u .. 2u { let invariant = i * 2u "
        "for j in 0u .. 2u { out[invariant + j] = invariant_1 } }",
    ),
    "the condition of a branch": (
        "for i in 0u .. 4u { if n % 3u == 1u { out[i] = i * 2u } }",
        "let invariant = n % 3u == 1u for i in 0u .. 4u { if invariant { out[i] = i * 2u } }",
    ),
    "a load of what is never written": (
        "for i in 0u .. 4u { out[i] = input[gid.x] + i }",
        "let invariant = input[gid.x] for i in 0u .. 4u { out[i] = invariant + i }",
    ),
    "a local that is assigned outside only": (
        "let x = n x := x + 1u for i in 0u .. 4u { out[i] = x * 3u + i } x := 0u",
        "let x = n x := x + 1u let invariant = x * 3u for i in 0u .. 4u { out[i] = invariant + i } x := 0u",
    ),
}
KEPT = {
    "a load in a loop that may run no round": "for i in 0u .. n % 4u { out[i] = input[gid.x] + i }",
    "a load behind the end of some lanes": "for i in 0u .. 4u { if i > gid.x { break } out[i] = input[gid.x] }",
    "a load under a guard": "for i in 0u .. 4u { if i < gid.x { out[i] = input[gid.x] } }",
    "a load of what is written": "for i in 0u .. 4u { data[i] = data[gid.x] }",
    "what few lanes compute": "for i in 0u .. 4u { if i == gid.x { out[i] = n / 3u } }",
    "what is assigned in the loop": "let x = n for i in 0u .. 4u { out[i] = x * 3u x := x + 1u }",
    "an atomic": "for i in 0u .. 4u { let a = atomic_add(count, 0u, 1u) }",
    "a sum over a subgroup": "for i in 0u .. 4u { out[i] = subgroup_add(n) }",
    "leaves": "for i in 0u .. 4u { out[i] = gid.x }",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, HOISTING) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [HOISTING])
