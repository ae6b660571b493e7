"""Dead code: what goes, and what looks dead and stays."""

from __future__ import annotations

from collections import Counter

import pytest

from support.optimizer.pass_texts import after, is_kept, lines, program_of
from vyre.domain.optimize.dead_code import DEAD_CODE


def dead(*wanted: str, body: str) -> None:
    assert after(body, DEAD_CODE) == lines(*wanted)


def test_locals_that_nothing_reads_go_with_what_only_they_read() -> None:
    dead("out[0u] = 1u", body="let a = input[0u]\nlet b = a + 1u\nlet c = b * b\nout[0u] = 1u")


@pytest.mark.parametrize(
    "value", ["atomic_add(count, 0u, 1u)", "subgroup_add(gid.x)", "atomic_max(count, 1u, 2u) + 1u"]
)
def test_effects_in_unread_locals_stay(value: str) -> None:
    assert is_kept(f"let a = {value}\nout[0u] = 1u", [DEAD_CODE])


def test_assignments_that_are_overwritten_go() -> None:
    dead(
        "let x = gid.x + 3u",
        "out[gid.x] = x",
        body="let x = 1u\nx := gid.x + 2u\nx := gid.x + 3u\nout[gid.x] = x\nx := 4u",
    )


def test_an_assignment_that_one_path_reads_stays() -> None:
    assert is_kept("let x = gid.x\nif gid.x < 3u {\nx := 2u\n}\nout[gid.x] = x", [DEAD_CODE])
    dead(
        "let x = gid.x",
        "if x < 3u {",
        "x := 1u",
        "} else {",
        "x := 3u",
        "}",
        "out[gid.x] = x",
        body="let x = gid.x\nif x < 3u {\nx := 1u\n} else {\nx := 2u\nx := 3u\n}\n"
        "out[gid.x] = x\nif gid.x < 9u {\nx := 8u\n}",
    )


def test_a_round_of_a_loop_may_read_what_the_last_one_assigned() -> None:
    assert is_kept("let x = gid.x\nfor i in 0u .. 3u {\nout[i] = x\nx := i\n}", [DEAD_CODE])
    assert is_kept(
        "let x = gid.x\nfor i in 0u .. 9u {\nx := i\nif i == gid.x {\nbreak\n}\nx := 77u\n}\nout[gid.x] = x",
        [DEAD_CODE],
    )
    assert is_kept(
        "let x = gid.x\nfor i in 0u .. 3u {\nout[i] = x\nx := 5u\nif i == gid.x {\ncontinue\n}\nx := i\n}",
        [DEAD_CODE],
    )


def test_the_first_assignment_becomes_the_declaration() -> None:
    made = "let acc = 1u\nfor i in 0u .. 3u {\nacc := acc + i\n}\nout[gid.x] = acc"
    assert after("let acc = 0u\nlet n = 3u\nacc := 1u\n" + made.split("\n", 1)[1], DEAD_CODE) == lines(
        *(line.strip() for line in made.splitlines())
    )
    assert is_kept(
        "let x = 0u\nif gid.x < 2u {\nx := 1u\n} else {\nx := 2u\n}\nout[gid.x] = x",
        [DEAD_CODE],
    )


def test_statements_that_no_lane_reaches_go() -> None:
    dead(
        "for i in 0u .. 3u {",
        "if gid.x < i {",
        "break",
        "}",
        "out[i] = 1u",
        "}",
        "if gid.x < 3u {",
        "return",
        "} else {",
        "out[4u] = 5u",
        "return",
        "}",
        body="for i in 0u .. 3u {\nif gid.x < i {\nblock {\nbreak\n}\nout[i] = 7u\n}\nout[i] = 1u\n"
        "continue\n}\nif gid.x < 3u {\nreturn\n} else {\nout[4u] = 5u\nreturn\n}\nout[5u] = 1u",
    )


def test_branches_on_literals_are_decided() -> None:
    dead(
        "out[0u] = 1u",
        body="if true {\nlet a = 1u\nout[0u] = a + 0u\n} else {\nout[1u] = 1u\n}".replace("a + 0u", "1u"),
    )
    dead("out[1u] = 1u", body="if false {\nout[0u] = 1u\n} else {\nout[1u] = 1u\n}")
    dead(
        "if gid.x < 2u {",
        "out[0u] = 1u",
        "} else {",
        "out[2u] = 1u",
        "}",
        body="if false {\nout[9u] = 1u\n} else if gid.x < 2u {\nout[0u] = 1u\n} else if false {\nout[1u] = 1u\n"
        "} else if true {\nout[2u] = 1u\n} else {\nout[3u] = 1u\n}",
    )
    dead(
        "out[1u] = 2u",
        body="switch 2u {\ncase 1u {\nout[0u] = 2u\n}\ncase 2u, 3u {\nout[1u] = 2u\n}\n}",
    )
    dead("out[2u] = 2u", body="switch 7u {\ncase 1u {\nout[0u] = 2u\n}\nelse {\nout[2u] = 2u\n}\n}")


def test_branches_and_loops_in_which_nothing_is_left_go() -> None:
    dead(
        "out[0u] = 1u",
        body="for i in 0u .. data[0u] {\nif i < 3u {\nlet a = i\n} else {\nbreak\n}\n}\n"
        "switch gid.x {\ncase 1u {\nlet b = 2u\n}\n}\nfor j in 3u .. 3u {\nout[1u] = 1u\n}\n"
        "for j in 3i .. 9i step -1i {\nout[1u] = 1u\n}\nout[0u] = 1u",
    )
    assert is_kept("if atomic_add(count, 0u, 1u) < 3u {\n}", [DEAD_CODE])
    assert is_kept("for i in 0u .. 3u {\nif gid.x == i {\nreturn\n}\n}\nout[gid.x] = 1u", [DEAD_CODE])
    assert is_kept("for i in 0u .. 3u {\nbarrier(seq_cst)\n}", [DEAD_CODE])


def test_stores_to_memory_that_nothing_reads_go() -> None:
    dead("out[0u] = 1u", body="mine[0u] = gid.x\nshared[lid.x] = gid.x\nout[0u] = 1u")
    assert is_kept("mine[0u] = gid.x\nout[gid.x] = mine[0u]", [DEAD_CODE])


def test_a_store_that_the_lane_overwrites_goes() -> None:
    dead("let a = gid.x", "data[a] = 2u", body="let a = gid.x\ndata[a] = 1u\ndata[a] = 2u")
    dead("mine[1u] = 2u", "out[gid.x] = mine[gid.x]", body="mine[1u] = 1u\nmine[1u] = 2u\nout[gid.x] = mine[gid.x]")


@pytest.mark.parametrize(
    "between",
    [
        "let o = data[3u]\nout[gid.x] = o",
        "barrier(seq_cst)",
        "let o = atomic_add(count, 0u, 1u)",
        "if gid.x < 3u {\nout[gid.x] = data[gid.x]\n}",
        "if gid.x < 3u {\nreturn\n}",
        "x := 5u",
        "data[gid.x] = 5u",
    ],
)
def test_a_store_stays_if_it_may_be_seen(between: str) -> None:
    assert is_kept(f"let x = gid.x\ndata[x] = 1u\n{between}\ndata[x] = 2u\nx := 3u\nout[x] = 1u", [DEAD_CODE])


def test_a_store_stays_if_the_index_is_read_from_memory() -> None:
    assert is_kept("data[data[0u] & 7u] = 1u\ndata[0u] = 3u\nout[0u] = 1u\ndata[data[0u] & 7u] = 2u", [DEAD_CODE])


def test_what_was_done_is_counted_and_places_are_kept() -> None:
    program = program_of("let a = 1u\nout[0u] = 2u\nlet b = 3u")
    counts: Counter[str] = Counter()
    (store,) = DEAD_CODE.run(program, counts).body
    assert +counts == {"unread": 2}
    assert store is program.body[1]
