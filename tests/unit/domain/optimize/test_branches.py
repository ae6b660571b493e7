"""Branches and guards that are decided, dropped, merged and turned into selections, and those that are left alone."""

from __future__ import annotations

from collections import Counter

import pytest

from support.optimizer.pass_texts import after, is_kept, normal, program_of
from vyre.domain.ir.stmt import If
from vyre.domain.optimize.branches import BRANCHES

REWRITES = {
    "a literal condition": ("if true { out[0u] = 1u } else { out[0u] = 2u }", "out[0u] = 1u"),
    "a local id below the workgroup size": ("if lid.x < 4u { out[lid.x] = 1u }", "out[lid.x] = 1u"),
    "a remainder below its divisor": ("if gid.x % 8u < 8u { out[0u] = 1u } else { out[1u] = 1u }", "out[0u] = 1u"),
    "a byte below 256": ("let b = bytes[gid.x] if b >= 256u { out[0u] = b }", "let b = bytes[gid.x]"),
    "the condition of a guard around": (
        "if gid.x < n { out[0u] = 1u if n > gid.x { out[1u] = 1u } }",
        "if gid.x < n { out[0u] = 1u out[1u] = 1u }",
    ),
    "the negation in the other branch": (
        "if gid.x < n { out[0u] = 1u } else { out[2u] = 1u if gid.x < n { out[1u] = 1u } }",
        "if gid.x < n { out[0u] = 1u } else { out[2u] = 1u }",
    ),
    "a guard that returns": (
        "if gid.x >= n { return } if gid.x < n { out[gid.x] = 1u }",
        "if gid.x >= n { return } out[gid.x] = 1u",
    ),
    "a range from a guard": (
        "let i = gid.x if i < 10u { out[0u] = 1u if i + 1u < 20u { out[i] = 2u } }",
        "let i = gid.x if i < 10u { out[0u] = 1u out[i] = 2u }",
    ),
    "the bounds of a loop": (
        "let m = n % 8u for i in 0u .. m { out[i] = 1u if i < m { out[i] = 2u } }",
        "let m = n % 8u for i in 0u .. m { out[i] = 1u out[i] = 2u }",
    ),
    "an earlier link of a chain": (
        "if gid.x == 3u { out[0u] = 1u } else if gid.x == 3u { out[1u] = 1u } else { out[2u] = 1u }",
        "if gid.x == 3u { out[0u] = 1u } else { out[2u] = 1u }",
    ),
    "empty arms": ("if gid.x < n { } else { }", ""),
    "an empty first arm": ("if gid.x < n { } else { out[0u] = 1u }", "if gid.x >= n { out[0u] = 1u }"),
    "an empty first arm of floats": (
        "let f = reals[0u] if f < 1.0f { } else { out[0u] = 1u }",
        "let f = reals[0u] if not(f < 1.0f) { out[0u] = 1u }",
    ),
    "equal arms": ("if gid.x < n { out[0u] = 1u } else { out[0u] = 1u }", "out[0u] = 1u"),
    "nested ifs": (
        "if gid.x < n { if gid.x > 3u { out[0u] = 1u out[1u] = 2u } }",
        "if gid.x < n and gid.x > 3u { out[0u] = 1u out[1u] = 2u }",
    ),
    "two assignments": (
        "let x = 0u if gid.x < n { x := gid.x } else { x := 7u } out[0u] = x",
        "let x = 0u x := select(gid.x < n, gid.x, 7u) out[0u] = x",
    ),
    "one assignment": (
        "let x = 0u if gid.x < n { x := gid.x } out[0u] = x",
        "let x = 0u x := select(gid.x < n, gid.x, x) out[0u] = x",
    ),
    "a known selection": ("out[0u] = select(lid.x < 4u, gid.x, input[0u])", "out[0u] = gid.x"),
    "a literal switch": (
        "switch 2u { case 1u { out[0u] = 1u } case 2u { out[1u] = 1u } else { } }",
        "out[1u] = 1u",
    ),
    "labels out of range": (
        "switch lid.x % 3u { case 1u, 9u { out[0u] = 1u } case 7u { out[1u] = 1u } else { } }",
        "switch lid.x % 3u { case 1u { out[0u] = 1u } else { } }",
    ),
    "statements behind an end": ("if lid.x < 4u { return } out[0u] = 1u", "return"),
}
KEPT = {
    "a condition that may change": "let x = gid.x if x < n { x := x + 1u out[3u] = x if x < n { out[0u] = 1u } }",
    "a load under its guard": "if gid.x < 8u { if input[gid.x] == 0u { out[0u] = 1u } }",
    "a selected load": "let x = 0u if gid.x < n { x := input[gid.x] } out[0u] = x",
    "an atomic condition": "if atomic_add(out, 0u, 1u) < 4294967295u { } else { }",
    "equal atomics": "let x = 0u if gid.x < n { x := atomic_add(out, 1u, 1u) } else { x := atomic_add(out, 1u, 1u) }",
    "a comparison of floats with NaN": "let f = reals[0u] if f == f { out[0u] = 1u }",
    "an index that may wrap": "let i = gid.x if i < n { out[3u] = 1u if i + 1u < n { out[0u] = 1u } }",
    "a signed range": "let i = cast<i32>(input[0u]) if i < 3i { out[1u] = 1u if i >= 0i { out[0u] = 1u } }",
    "a division": "let x = 0u if gid.x < n { x := n / gid.x } out[0u] = x",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, BRANCHES) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [BRANCHES])


def test_new_statements_have_the_locations_of_old_ones() -> None:
    program = program_of("let x = 0u\nif gid.x < n { x := 3u }\nif gid.x < n {} else { out[0u] = x }")
    made = BRANCHES.run(program, Counter())
    old, new = program.body[1:], made.body[1:]
    assert [stmt.loc for stmt in new] == [stmt.loc for stmt in old] and None not in [stmt.loc for stmt in new]
    assert isinstance(new[1], If) and new[1].condition.loc is not None
