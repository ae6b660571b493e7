"""Copy propagation: what a local copies stands for it until one of the two changes."""

from __future__ import annotations

from collections import Counter

from support.optimizer.pass_texts import after, is_kept, lines, program_of
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_PROGRAM_NODES
from vyre.domain.ir.stmt import Store
from vyre.domain.optimize.copies import COPIES


def test_literals_ids_and_locals_are_propagated() -> None:
    made = after("let a = gid.x\nlet b = 3u\nlet c = a\nlet d = len(any)\nout[c] = b + d", COPIES)
    assert made.splitlines()[-1] == "out[gid.x] = 3u + len(any)"


def test_values_that_are_computed_are_not() -> None:
    assert is_kept("let a = gid.x + 1u\nout[a] = a", [COPIES])


def test_a_copy_ends_where_the_copied_local_is_assigned() -> None:
    body = "let x = gid.x + 1u\nlet y = x\nout[0u] = y\nx := 7u\nout[1u] = y\nout[2u] = x"
    made = after(body, COPIES).splitlines()
    assert made[2:] == ["out[0u] = x", "x := 7u", "out[1u] = y", "out[2u] = 7u"]


def test_a_copy_ends_after_a_branch_that_assigns() -> None:
    body = (
        "let x = gid.x + 1u\nlet y = x\nif x < 3u {\n  x := 1u\n  out[0u] = y + x\n} else {\n  out[1u] = y\n}\n"
        "out[2u] = y + x"
    )
    assert after(body, COPIES).splitlines()[2:] == [
        "if x < 3u {",
        "x := 1u",
        "out[0u] = y + 1u",
        "} else {",
        "out[1u] = x",
        "}",
        "out[2u] = y + x",
    ]


def test_what_one_branch_assigns_is_not_known_in_another() -> None:
    body = "let x = gid.x + 1u\nif x < 3u {\n  x := 1u\n} else {\n  out[1u] = x\n}"
    assert is_kept(body, [COPIES])


def test_a_loop_ends_copies_of_what_its_body_assigns() -> None:
    body = (
        "let x = gid.x + 1u\nlet y = x\nlet z = 5u\nfor i in 0u .. 3u {\n  let j = i\n  out[j] = y + x + z\n"
        "  x := x + 1u\n}\nout[9u] = y"
    )
    made = after(body, COPIES)
    assert "out[i] = y + x + 5u" in made and "out[9u] = y" in made


def test_a_local_of_an_inner_scope_does_not_leave_it() -> None:
    body = "let x = 0u\nblock {\n  let y = gid.x + 1u\n  x := y\n  out[0u] = x\n}\nout[1u] = x"
    made = after(body, COPIES)
    assert "out[0u] = y" in made and "out[1u] = x" in made


def test_a_local_assigned_to_itself_is_left_out() -> None:
    body = "let x = gid.x + 1u\nlet y = x\nx := y\nout[0u] = x"
    assert after(body, COPIES) == lines("let x = gid.x + 1u", "let y = x", "out[0u] = x")


def test_a_literal_that_breaks_a_rule_is_not_written() -> None:
    assert is_kept("let i = 16u\nout[i] = 1u", [COPIES])
    assert is_kept("let i = 0u\nfor k in 0u .. 4u step i {\n  out[k] = 1u\n}", [COPIES])


def test_shadowed_names_are_told_apart() -> None:
    body = "let a = 1u\nif gid.x < 2u {\n  let b = a\n  out[0u] = b\n}\nif gid.x < 3u {\n  let b = 2u\n  out[1u] = b\n}"
    made = after(body, COPIES)
    assert "out[0u] = 1u" in made and "out[1u] = 2u" in made


def test_what_was_done_is_counted_and_places_are_kept() -> None:
    program = program_of("let a = 4u\nout[0u] = a")
    counts: Counter[str] = Counter()
    store, old = COPIES.run(program, counts).body[1], program.body[1]
    assert counts == {"propagated": 1}
    assert isinstance(store, Store) and isinstance(old, Store) and isinstance(store.value, Literal)
    assert store.value.loc == old.value.loc is not None


def test_conversions_that_keep_all_bits_are_copies() -> None:
    made = after("let a = cast<i32>(gid.x)\nlet b = a + 1i\nout[cast<u32>(b)] = cast<u32>(a)", COPIES)
    assert made.splitlines()[1:] == ["let b = cast<i32>(gid.x) + 1i", "out[cast<u32>(b)] = cast<u32>(cast<i32>(gid.x))"]
    assert is_kept("let a = cast<u64>(gid.x)\nlet b = a + 1u64\nout[a] = 1u", [COPIES])
    assert is_kept("let a = cast<i32>(gid.x + 1u)\nout[a] = 1u", [COPIES])
    body = "let x = gid.x + 1u\nlet a = cast<i32>(x)\nx := 2u\nout[a] = x + gid.x"
    assert "out[a] = 2u + gid.x" in after(body, COPIES)


def test_copies_of_conversions_stay_within_the_legal_depth() -> None:
    deep = "cast<u32>(a)" + " + 1u" * (MAX_EXPRESSION_DEPTH - 1)
    assert is_kept(f"let a = cast<i32>(gid.x)\nout[gid.x] = {deep}", [COPIES])
    assert not is_kept(f"let a = cast<i32>(gid.x)\nout[gid.x] = {deep.removesuffix(' + 1u')}", [COPIES])


def test_copies_of_conversions_leave_a_program_within_the_legal_size() -> None:
    many = "\n".join(f"out[{k % 16}u] = cast<u32>(a)" for k in range(MAX_PROGRAM_NODES // 6))
    assert is_kept(f"let a = cast<i32>(gid.x)\n{many}", [COPIES])
