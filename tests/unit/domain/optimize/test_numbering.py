"""Value numbering: equal expressions are shared where the first dominates the others and nothing changed."""

from __future__ import annotations

from collections import Counter

import pytest

from support.optimizer.pass_texts import after, is_kept, lines, program_of
from vyre.domain.ir.limits import MAX_PROGRAM_NODES
from vyre.domain.ir.stmt import Let
from vyre.domain.optimize.numbering import NUMBERING
from vyre.domain.validation.validator import validate

E = "(gid.x * 3u + 1u)"


def shared(*wanted: str, body: str) -> None:
    assert after(body, NUMBERING) == lines(*wanted)


def test_an_expression_that_occurs_twice_gets_a_local() -> None:
    shared(
        "let same = gid.x * 3u + 1u",
        "out[0u] = same",
        "out[1u] = same + 2u",
        body=f"out[0u] = {E}\nout[1u] = {E} + 2u",
    )
    shared("let same = gid.x * 3u + 1u", "out[same] = same", body=f"out[{E}] = {E}")


def test_one_operator_gets_a_local_if_it_occurs_three_times() -> None:
    assert is_kept("out[0u] = gid.x + 1u\nout[1u] = gid.x + 1u", [NUMBERING])
    made = after("out[0u] = gid.x + 1u\nout[1u] = gid.x + 1u\nout[2u] = 1u + gid.x", NUMBERING)
    assert made == lines("let same = gid.x + 1u", "out[0u] = same", "out[1u] = same", "out[2u] = same")


def test_a_local_that_has_the_value_is_read() -> None:
    shared(
        "let a = gid.x + 1u",
        "out[0u] = a",
        "let b = a",
        "out[b] = a",
        body="let a = gid.x + 1u\nout[0u] = gid.x + 1u\nlet b = 1u + gid.x\nout[b] = gid.x + 1u",
    )


def test_parts_of_a_shared_expression_are_shared_with_others() -> None:
    shared(
        "let same_1 = gid.x * 3u + 1u",
        "let same = same_1 * 5u",
        "out[0u] = same",
        "out[1u] = same",
        "out[2u] = same_1",
        body=f"out[0u] = {E} * 5u\nout[1u] = {E} * 5u\nout[2u] = {E}",
    )


def test_only_statements_that_dominate_count() -> None:
    assert is_kept(f"if gid.x < 3u {{\nout[0u] = {E}\n}} else {{\nout[1u] = {E}\n}}\nout[2u] = {E}", [NUMBERING])
    shared(
        "let same = gid.x * 3u + 1u",
        "out[2u] = same",
        "if gid.x < 3u {",
        "out[0u] = same",
        "} else if same < 5u {",
        "out[1u] = 1u",
        "}",
        "for i in 0u .. same {",
        "out[i & 7u] = 2u",
        "}",
        body=f"out[2u] = {E}\nif gid.x < 3u {{\nout[0u] = {E}\n}} else if {E} < 5u {{\nout[1u] = 1u\n}}\n"
        f"for i in 0u .. {E} {{\nout[i & 7u] = 2u\n}}",
    )


def test_a_condition_of_an_else_if_declares_nothing() -> None:
    links = f"else if {E} < 5u {{\nout[1u] = 1u\n}} else if {E} < 6u {{\nout[1u] = {E}\n}}"
    body = f"if gid.x < 3u {{\nout[0u] = 1u\n}} {links}"
    assert is_kept(body, [NUMBERING])


def test_assigned_locals_have_a_number_for_each_change() -> None:
    x = "(x * 3u + 1u)"
    body = (
        f"let x = gid.x\nout[0u] = {x}\nif gid.x < 3u {{\nout[1u] = {x}\nx := 7u\nout[2u] = {x}\n}} else {{\n"
        f"out[3u] = {x}\n}}\n"
        f"out[4u] = {x}\nfor i in 0u .. 2u {{\nout[5u] = {x}\nx := x + i\n}}\nout[6u] = {x}"
    )
    assert after(body, NUMBERING) == lines(
        *("let x = gid.x", "let same = x * 3u + 1u", "out[0u] = same"),
        *("if gid.x < 3u {", "out[1u] = same", "x := 7u", "out[2u] = x * 3u + 1u", "} else {", "out[3u] = same", "}"),
        *("out[4u] = x * 3u + 1u", "for i in 0u .. 2u {", "out[5u] = x * 3u + 1u", "x := x + i", "}"),
        "out[6u] = x * 3u + 1u",
    )


def test_loads_are_shared_until_the_memory_may_change() -> None:
    shared(
        *("let same = input[gid.x]", "out[0u] = same", "barrier(seq_cst)", "out[1u] = same"),
        body="out[0u] = input[gid.x]\nbarrier(seq_cst)\nout[1u] = input[gid.x]",
    )
    shared(
        *("let same = data[gid.x]", "out[0u] = same", "data[gid.x] = same + 1u", "out[1u] = data[gid.x]"),
        body="out[0u] = data[gid.x]\ndata[gid.x] = data[gid.x] + 1u\nout[1u] = data[gid.x]",
    )


@pytest.mark.parametrize(
    "between",
    [
        "barrier(seq_cst)",
        "let o = atomic_add(count, 0u, 1u)",
        "data[gid.x] = 1u",
        "if gid.x < 3u {\ndata[gid.x] = 1u\n}",
        "for i in 0u .. 2u {\ndata[gid.x] = 1u\n}",
    ],
)
def test_what_may_change_memory_ends_the_sharing_of_loads(between: str) -> None:
    assert is_kept(f"out[0u] = data[gid.x]\n{between}\nout[1u] = data[gid.x]\ndata[gid.x] = 2u", [NUMBERING])


def test_private_memory_is_shared_across_barriers() -> None:
    shared(
        *("mine[0u] = gid.x", "let same = mine[0u]", "out[0u] = same", "barrier(seq_cst)", "out[1u] = same"),
        body="mine[0u] = gid.x\nout[0u] = mine[0u]\nbarrier(seq_cst)\nout[1u] = mine[0u]",
    )


def test_effects_are_never_shared() -> None:
    assert is_kept("out[0u] = atomic_add(count, 0u, 1u)\nout[1u] = atomic_add(count, 0u, 1u)", [NUMBERING])
    assert is_kept("out[0u] = subgroup_add(lid.x)\nout[1u] = subgroup_add(lid.x)", [NUMBERING])


def test_nothing_is_shared_across_a_barrier_of_the_grid() -> None:
    assert is_kept(f"out[0u] = {E}\nbarrier(grid_sync)\nout[1u] = {E}", [NUMBERING])


def test_floats_commute_and_operators_that_do_not_are_told_apart() -> None:
    made = after(
        "reals[0u] = reals[1u] * 2.0f\nlet a = gid.x - 1u\nout[0u] = 1u - gid.x\nout[1u] = gid.x - 1u", NUMBERING
    )
    assert made.splitlines()[2:] == ["out[0u] = 1u - gid.x", "out[1u] = a"]
    bits = "let r = cast<f32>(gid.x)\nlet a = r * 2.0f\nlet b = 2.0f * r\nreals[gid.x] = a + b"
    assert "let b = a" in after(bits, NUMBERING)


def test_a_program_of_the_largest_size_stays_legal() -> None:
    full = "\n".join(f"out[0u] = input[{k}u]\nout[1u] = input[{k}u]" for k in range((MAX_PROGRAM_NODES - 9) // 8))
    program = program_of(full)
    validate(program).raise_if_invalid()
    assert NUMBERING.run(program, Counter()) is program


def test_what_was_done_is_counted_and_places_are_kept() -> None:
    program = program_of(f"out[0u] = {E}\nout[1u] = {E}")
    counts: Counter[str] = Counter()
    declared, store, _ = NUMBERING.run(program, counts).body
    assert counts == {"named": 1, "shared": 1}
    assert isinstance(declared, Let) and declared.loc == declared.value.loc is not None
    assert store.loc == program.body[0].loc
