"""Loops that become their rounds, and loops that stay."""

from __future__ import annotations

import pytest

from support.pass_texts import after, is_kept, normal
from vyre.domain.optimize.unrolling import UNROLLING

REWRITES = {
    "few rounds": (
        "for i in 1u .. 4u { let a = i * n out[i] = a }",
        "let a_1 = 1u * n out[1u] = a_1 let a_2 = 2u * n out[2u] = a_2 let a_3 = 3u * n out[3u] = a_3",
    ),
    "a negative step": (
        "for i in 3i .. -2i step -2i { out[cast<u32>(i + 1i)] = 1u }",
        "out[cast<u32>(3i + 1i)] = 1u out[cast<u32>(1i + 1i)] = 1u out[cast<u32>(-1i + 1i)] = 1u",
    ),
    "a step beyond the end": (
        "for i in 4294967290u .. 4294967295u step 7u { out[0u] = i }",
        "out[0u] = 4294967290u",
    ),
    "no rounds": (
        "for i in 4u .. 3u { out[i] = 1u } out[0u] = 2u",
        "out[0u] = 2u",
    ),
    "one long round": (
        "for i in 2u .. 3u { for k in 0u .. n % 4u { out[k] = i } }",
        "for k in 0u .. n % 4u { out[k] = 2u }",
    ),
    "nested loops": (
        "for i in 0u .. 2u { for j in 0u .. 2u { out[j] = i } }",
        "out[0u] = 0u out[1u] = 0u out[0u] = 1u out[1u] = 1u",
    ),
    "a store that misses": (
        "for i in 15u .. 17u { out[i] = i }",
        "out[15u] = 15u",
    ),
    "a store that misses but counts": (
        "for i in 15u .. 17u { out[i] = atomic_add(count, 0u, 1u) }",
        "out[15u] = atomic_add(count, 0u, 1u) let unused = atomic_add(count, 0u, 1u)",
    ),
    "a step that becomes zero": (
        "for i in 0u .. 2u { for k in 0u .. n % 4u step i { out[k] = 1u } }",
        "for k_1 in 0u .. n % 4u step 1u { out[k_1] = 1u }",
    ),
    "an assignment to a local of the round": (
        "for i in 0u .. 2u { let a = i a := a + n out[i] = a }",
        "let a_1 = 0u a_1 := a_1 + n out[0u] = a_1 let a_2 = 1u a_2 := a_2 + n out[1u] = a_2",
    ),
}
KEPT = {
    "many rounds": "for i in 0u .. 9u { out[i] = 1u }",
    "a limit that is no literal": "for i in 0u .. n % 4u { out[i] = 1u }",
    "a loop that is left": "for i in 0u .. 3u { out[i] = 1u if i == n { break } }",
    "a loop that ends lanes": "for i in 0u .. 3u { out[i] = 1u return }",
    "a loop that skips": "for i in 0u .. 1u { if i == n { continue } out[i] = 1u }",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, UNROLLING) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [UNROLLING])
