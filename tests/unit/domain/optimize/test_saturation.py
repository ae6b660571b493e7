"""The pass that saturates expressions: what it rewrites, and what it leaves alone."""

from __future__ import annotations

from collections import Counter

import pytest

from support.optimizer.optimized_programs import check_passes_kept, random_cases
from support.optimizer.pass_texts import after, lines, program_of
from support.profiles import SOAK
from vyre.domain.ir.expr import Binary
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.stmt import Store
from vyre.domain.optimize.saturation import NODES_PER_GRAPH, SATURATION, SURE_GRAPHS, rewrites_of

REWRITTEN = {
    "a division by a power of two": ("out[gid.x] = input[0u] / 8u", "out[gid.x] = input[0u] >> 3u"),
    "a division and a remainder": ("out[0u] = input[0u] / 4u % 8u", "out[0u] = (input[0u] >> 2u) & 7u"),
    "Hacker's Delight": ("out[0u] = (gid.x ^ lid.x) + (gid.x & lid.x) * 2u", "out[0u] = gid.x + lid.x"),
    "a common factor": (
        "let a = data[0u]\nlet b = data[1u]\nlet c = data[2u]\nout[0u] = a * b + c * a",
        lines("let a = data[0u]", "let b = data[1u]", "let c = data[2u]", "out[0u] = a * (b + c)"),
    ),
    "two factors that are literals": ("out[0u] = gid.x * 2u * 3u", "out[0u] = gid.x * 6u"),
    "an index": ("out[0u] = input[gid.x + 1u - 1u]", "out[0u] = input[gid.x]"),
    "a local with a value": (
        "let a = gid.x ^ 255u\nout[0u] = a ^ 255u",
        lines("let a = gid.x ^ 255u", "out[0u] = gid.x"),
    ),
    "but no load is evaluated twice": (
        "let a = input[0u] + 7u\nout[0u] = (a - 7u) / 4u",
        lines("let a = input[0u] + 7u", "out[0u] = (a - 7u) >> 2u"),
    ),
    "what stands beside an atomic": (
        "out[0u] = atomic_add(count, gid.x / 16u, 1u) + gid.x / 2u / 2u",
        "out[0u] = atomic_add(count, gid.x >> 4u, 1u) + (gid.x >> 2u)",
    ),
}
KEPT = {
    "an assigned local": lines("let a = gid.x + 1u", "let b = a", "b := 9u", "out[0u] = b - gid.x"),
    "a load that may have changed": lines("let a = data[gid.x] ^ 1u", "data[gid.x] = 5u", "out[gid.x] = a ^ 1u"),
    "two atomics that look equal": "out[0u] = atomic_add(count, 0u, 1u) - atomic_add(count, 0u, 1u)",
    "a dropped atomic": "out[0u] = atomic_add(count, 0u, 1u) * 0u",
    "a float sum with zero": "reals[0u] = reals[1u] + 0.0f",
    "a float difference": "reals[0u] = reals[1u] - reals[1u]",
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_expressions_become_cheaper(name: str) -> None:
    body, wanted = REWRITTEN[name]
    assert after(body, SATURATION) == wanted


@pytest.mark.parametrize("name", KEPT)
def test_what_may_differ_stays(name: str) -> None:
    assert after(KEPT[name], SATURATION) == KEPT[name]


def test_a_program_without_anything_to_do_is_the_same_object() -> None:
    program = program_of("out[gid.x] = input[gid.x] + data[0u]")
    assert SATURATION.run(program, Counter()) is program


def test_changes_are_counted_and_source_locations_stay() -> None:
    program = program_of("out[gid.x] = input[0u] / 8u")
    counts: Counter[str] = Counter()
    made = SATURATION.run(program, counts)
    assert counts == {"saturated": 1, "cheaper": 1}
    (old,), (new,) = program.body, made.body
    assert isinstance(old, Store) and isinstance(new, Store) and isinstance(new.value, Binary)
    assert new.value.loc == old.value.loc is not None
    assert new.index is old.index


def test_the_number_of_e_graphs_is_bounded_by_the_nodes() -> None:
    count = 400
    program = program_of("\n".join(f"out[{i % 16}u] = input[gid.x] / 8u" for i in range(count)))
    counts: Counter[str] = Counter()
    SATURATION.run(program, counts)
    assert counts["saturated"] == SURE_GRAPHS + node_facts(program).nodes // NODES_PER_GRAPH < count


def test_each_rewrite_is_explained_by_laws() -> None:
    program = program_of("let a = input[0u] ^ 255u\nout[a & a] = (a ^ 255u) / 8u")
    found = rewrites_of(program)
    assert [str(rewrite).replace("<text>", "k") for rewrite in found.rewrites] == [
        "a & a => a  (k:15:7)\n  a & a -> a  [and.self]",
        "(a ^ 255u) / 8u => (a ^ 255u) >> 3u  (k:15:25)\n"
        "  (a ^ 255u) / 8u -> (a ^ 255u) >> ctz(8u)  [div.power_of_two]\n"
        "  ctz(8u) -> 3u  [constant folding]",
    ]
    for rewrite in found.rewrites:
        assert found.replay.replayed(rewrite.before, rewrite.steps) == rewrite.after


@pytest.mark.parametrize("first", [0, 10])
def test_the_explanations_of_random_programs_replay(first: int) -> None:
    count = 0
    for case in random_cases(range(first, first + 10)):
        found = rewrites_of(case.program)
        for rewrite in found.rewrites:
            assert found.replay.replayed(rewrite.before, rewrite.steps) == rewrite.after
            count += 1
    assert count > 100


@pytest.mark.parametrize("first", range(0, 300, 60) if SOAK else [0])
def test_random_programs_keep_their_bytes(first: int) -> None:
    for case in random_cases(range(first, first + 60)):
        check_passes_kept(case, [SATURATION])
