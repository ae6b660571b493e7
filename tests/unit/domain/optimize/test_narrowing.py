"""Arithmetic of wider and of signed types that is done in u32, and that which must keep its type."""

from __future__ import annotations

import pytest

from support.optimizer.pass_texts import after, is_kept, normal
from vyre.domain.optimize.narrowing import NARROWING

REWRITES = {
    "a store that misses": (
        "out[cast<u32>(40i + 3i * cast<i32>(false))] = 1u",
        "out[40u + 3u * cast<u32>(false)] = 1u",
    ),
    "a store that misses by a literal": ("out[cast<u32>(99u64)] = 1u", "out[cast<u32>(99u)] = 1u"),
    "a step that is zero": (
        "for i in 0u .. 3u step cast<u32>(0u64) { out[i] = 1u }",
        "for i in 0u .. 3u step cast<u32>(0u) { out[i] = 1u }",
    ),
    "a chain of signed index arithmetic": (
        "let g = cast<i32>(gid.x) let i = (g << 2i) + -3i out[cast<u32>(i)] = 1u out[cast<u32>(i * i)] = 2u",
        "let g = cast<i32>(gid.x) let i = (gid.x << 2u) + 4294967293u out[i] = 1u out[i * i] = 2u",
    ),
    "a counter": (
        "for k in 0i .. 4i { out[cast<u32>(k * 2i)] = 1u }",
        "for k in 0u .. 4u step 1u { out[k * 2u] = 1u }",
    ),
    "an assigned local": (
        "let i = cast<i32>(lid.x) for k in 0u .. 4u { i := i + 3i } out[0u] = cast<u32>(i)",
        "let i = lid.x for k in 0u .. 4u { i := i + 3u } out[0u] = i",
    ),
    "a wide index that fits": ("out[cast<u64>(lid.x) * 4u64] = 1u", "out[lid.x * 4u] = 1u"),
    "wide comparisons that fit": (
        "if cast<u64>(gid.x) / 3u64 < 7u64 { out[0u] = 1u }",
        "if gid.x / 3u < 7u { out[0u] = 1u }",
    ),
    "signed comparisons of what is not negative": (
        "if cast<i32>(lid.x) < 2i { out[0u] = 1u }",
        "if lid.x < 2u { out[0u] = 1u }",
    ),
    "a selection": (
        "out[0u] = cast<u32>(select(n < 3u, cast<u64>(n), 4294967298u64))",
        "out[0u] = select(n < 3u, n, 2u)",
    ),
    "a division of what fits": ("out[0u] = cast<u32>(cast<i32>(lid.x) / 2i)", "out[0u] = lid.x / 2u"),
    "a conversion to float": ("reals[0u] = cast<f32>(cast<i32>(lid.x))", "reals[0u] = cast<f32>(lid.x)"),
}
KEPT = {
    "a division of what may be negative": "out[0u] = cast<u32>((cast<i32>(lid.x) - 2i) / 2i)",
    "a comparison of what may be negative": "if cast<i32>(gid.x) < 2i { out[0u] = 1u }",
    "a signed division by what may be zero": "out[0u] = cast<u32>(7i / cast<i32>(lid.x))",
    "a wide product that may not fit": "if cast<u64>(gid.x) * 4u64 < 7u64 { out[0u] = 1u }",
    "a signed index that may be negative": "out[cast<i32>(gid.x) - 2i] = 1u",
    "a shift by 32 and more": "out[0u] = cast<u32>(cast<u64>(gid.x) << 32u64)",
    "a shift of high bits": "out[0u] = cast<u32>((cast<u64>(gid.x) * 3u64) >> 2u64)",
    "a value with another use": "let i = cast<i32>(gid.x) * 3i out[cast<u32>(i)] = 1u reals[0u] = cast<f32>(i)",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, NARROWING) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [NARROWING])
