"""Operations that become cheaper, and those that must stay."""

from __future__ import annotations

import pytest

from support.optimizer.pass_texts import after, is_kept, normal
from vyre.domain.optimize.strength import STRENGTH

REWRITES = {
    "a division": (
        "out[0u] = gid.x / 8u",
        "out[0u] = gid.x >> 3u",
    ),
    "a remainder": (
        "out[0u] = gid.x % 8u",
        "out[0u] = gid.x & 7u",
    ),
    "a signed division of what is not negative": (
        "out[0u] = cast<u32>(cast<i32>(lid.x) / 2i)",
        "out[0u] = cast<u32>(cast<i32>(lid.x) >> 1i)",
    ),
    "a wide product": (
        "out[0u] = cast<u32>((cast<u64>(n) * 8u64) / 3u64)",
        "out[0u] = cast<u32>((cast<u64>(n) << 3u64) / 3u64)",
    ),
    "a remainder that changes nothing": (
        "out[0u] = lid.x % 5u",
        "out[0u] = lid.x",
    ),
    "a quotient of less than the divisor": (
        "out[0u] = lid.x / 5u",
        "out[0u] = 0u",
    ),
    "a mask that changes nothing": (
        "out[0u] = bytes[gid.x] & 255u",
        "out[0u] = bytes[gid.x]",
    ),
    "a minimum": (
        "out[0u] = min(lid.x, 9u)",
        "out[0u] = lid.x",
    ),
    "a narrow value": (
        "out[0u] = narrow<u8>(bytes[gid.x])",
        "out[0u] = bytes[gid.x]",
    ),
    "casts there and back": (
        "out[0u] = cast<u32>(cast<i32>(gid.x))",
        "out[0u] = gid.x",
    ),
    "casts of three types": (
        "out[0u] = cast<u32>(cast<u64>(cast<i32>(gid.x)))",
        "out[0u] = gid.x",
    ),
    "a negated comparison": (
        "if (gid.x < n) != true { out[0u] = 1u }",
        "if gid.x >= n { out[0u] = 1u }",
    ),
    "a negated truth": (
        "if cast<bool>(gid.x) == false { out[0u] = 1u }",
        "if gid.x == 0u { out[0u] = 1u }",
    ),
    "a doubled negation": (
        "if not(not(reals[0u] < 1.0f)) { out[0u] = 1u }",
        "if reals[0u] < 1.0f { out[0u] = 1u }",
    ),
}
KEPT = {
    "a signed division of what may be negative": "out[0u] = cast<u32>(cast<i32>(gid.x) / 2i)",
    "a division by another constant": "out[0u] = gid.x / 7u",
    "a comparison of floats": "if not(reals[0u] < 1.0f) { out[0u] = 1u }",
    "a cast that cuts": "reals[0u] = cast<f32>(cast<u32>(cast<u64>(n) * 3u64))",
    "a cast that extends the sign": "reals[0u] = cast<f32>(cast<i64>(cast<i32>(n)))",
    "a minimum that is an atomic": "let x = max(atomic_add(count, 0u, 1u), 0u)",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, STRENGTH) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [STRENGTH])
