"""Stored values that reach loads of the same lane, and loads that must look at memory."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from support.optimizer.optimized_programs import check_passes_kept
from support.optimizer.pass_texts import after, is_kept, normal, program_of
from support.small_programs import case_of
from vyre.domain.optimize.forwarding import FORWARDING
from vyre.domain.optimize.passes import run_passes

REWRITES = {
    "an array that is missed": (
        "mine[0u] = n out[gid.x] = mine[0u] + mine[9u]",
        "let mine_stored = n mine[0u] = mine_stored out[gid.x] = mine_stored + mine[9u]",
    ),
    "an array with literal indices": (
        "mine[1u] = gid.x for i in 0u .. 3u { mine[1u] = mine[1u] + mine[2u] } out[gid.x] = mine[1u]",
        "let mine_1 = 0u let mine_2 = 0u mine_1 := gid.x for i in 0u .. 3u { mine_1 := mine_1 + mine_2 } "
        "out[gid.x] = mine_1",
    ),
    "an array in one branch of a loop": (
        "for i in 0u .. 3u { if i < n { mine[0u] = mine[0u] + i } } out[gid.x] = 1u",
        "let mine_0 = 0u for i in 0u .. 3u { if i < n { mine_0 := mine_0 + i } } out[gid.x] = 1u",
    ),
    "an array in a scope": (
        "block { mine[3u] = n out[gid.x] = mine[3u] }",
        "block { let mine_3 = 0u mine_3 := n out[gid.x] = mine_3 }",
    ),
    "a known index": (
        "let i = n % 4u mine[i] = 7u mine[(i + 1u) % 2u + 4u] = 1u out[gid.x] = mine[i]",
        "let i = n % 4u mine[i] = 7u mine[(i + 1u) % 2u + 4u] = 1u out[gid.x] = 7u",
    ),
    "a value that takes a local": (
        "let i = n % 4u mine[i] = n * 3u if n > 2u { out[gid.x] = mine[i] }",
        "let i = n % 4u let mine_stored = n * 3u mine[i] = mine_stored if n > 2u { out[gid.x] = mine_stored }",
    ),
    "the lane's own element": (
        "let x = input[gid.x] shared[lid.x] = x out[gid.x] = shared[lid.x]",
        "let x = input[gid.x] shared[lid.x] = x out[gid.x] = x",
    ),
}
KEPT = {
    "an index that may be out of range": "mine[n] = 7u out[gid.x] = mine[n]",
    "an index that may be the same": "let i = n % 4u mine[i] = 7u mine[n % 3u] = 1u out[gid.x] = mine[i]",
    "an index that changes": "let i = n % 2u mine[i] = 7u i := i + 1u out[gid.x] = mine[i]",
    "a store in a branch": "let i = n % 4u if n > 2u { mine[i] = 7u } out[gid.x] = mine[i]",
    "a store in a scope": "let i = n % 4u mine[i] = 1u block { mine[n % 3u] = 7u } out[gid.x] = mine[i]",
    "a store in a later round": "let i = n % 4u for k in 0u .. 2u { out[gid.x] = mine[i] mine[i] = 7u }",
    "a barrier": "shared[lid.x] = 1u barrier(seq_cst) out[gid.x] = shared[lid.x]",
    "an element of another lane": "shared[(lid.x + 1u) % 4u] = 1u barrier(seq_cst) out[gid.x] = shared[lid.x]",
    "a single element of workgroup memory": "if lid.x == 0u { shared[0u] = 1u out[gid.x] = shared[0u] }",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, FORWARDING) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [FORWARDING])


def test_the_buffer_goes_with_its_last_access() -> None:
    made = run_passes(program_of("mine[0u] = n\nout[gid.x] = mine[0u]"), [FORWARDING]).program
    assert "mine" not in made.buffers_by_name and "shared" in made.buffers_by_name


def test_a_statement_object_may_occur_twice() -> None:
    program = program_of("mine[0u] = n\nout[gid.x] = mine[0u]")
    store, load = program.body
    case = case_of(replace(program, body=(store, store, load)))
    assert "mine_0 := n\n  mine_0 := n\n" in check_passes_kept(case, [FORWARDING]).to_text()


def _random_body(choice: random.Random, depth: int, indices: list[str]) -> str:
    """Statements that store to and load from `mine` and the lane's own element of `shared`, and sum into `x`."""
    made = []
    for _ in range(choice.randint(2, 5)):
        index = choice.choice(indices)
        value = choice.choice(["n", "x", "x * 3u", f"mine[{choice.choice(indices)}] + 1u", "7u"])
        made.append(choice.choice([f"mine[{index}] = {value}", f"x := x * 5u + mine[{index}]"]))
        made.append(choice.choice([f"shared[lid.x] = {value}", "x := x + shared[lid.x]", "x := x ^ gid.x"]))
        if depth and choice.random() < 0.6:
            inner = _random_body(choice, depth - 1, indices)
            opening = choice.choice(["if x % 2u == 0u", "block", f"for k{depth} in 0u .. {choice.randint(1, 3)}u"])
            made.append(f"{opening} {{\n{inner}\n}}")
    return "\n".join(made)


@pytest.mark.parametrize("indices", [["0u", "1u", "3u"], ["0u", "j", "n % 2u", "lid.x"]], ids=["literal", "any"])
def test_random_uses_of_near_memory_are_kept(indices: list[str]) -> None:
    counts: Counter[str] = Counter()
    for seed in range(40):
        body = _random_body(random.Random(seed), 2, indices)
        body = f"let x = gid.x\nlet j = (gid.x * 7u) % 3u\n{body}\nout[gid.x] = x"
        after(body, FORWARDING)
        FORWARDING.run(program_of(body), counts)
    assert counts["forwarded"] > 50 and (counts["loads"] > 50) is (indices[-1] == "3u")
