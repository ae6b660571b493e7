"""Inlining: a value that is read once moves to its reader, unless what it depends on may change on the way."""

from __future__ import annotations

from collections import Counter

from support.optimizer.pass_texts import after, is_kept, lines, program_of
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Binary, Literal, Var
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Let, Store
from vyre.domain.ir.types import ScalarType, u32
from vyre.domain.optimize.inlining import INLINING
from vyre.domain.validation.validator import validate


def test_chains_of_values_become_one_expression() -> None:
    made = after("let a = gid.x + 1u\nlet b = a * 2u\nlet c = input[b]\nout[gid.x] = c - 1u", INLINING)
    assert made == "out[gid.x] = input[(gid.x + 1u) * 2u] - 1u"


def test_values_that_are_read_twice_stay() -> None:
    assert is_kept("let a = gid.x + 1u\nout[a] = a", [INLINING])


def test_literals_are_left_to_other_passes() -> None:
    assert is_kept("let a = 16u\nout[a] = 1u", [INLINING])


def test_an_operand_that_two_readers_share_is_read_twice() -> None:
    with ProgramBuilder("k", workgroup=1) as p:
        y = p.output("y", u32, count=4)
        a = p.let(p.global_id() + 1, "a")
        shared = a * 2
        y[0] = shared
        y[1] = shared
    program = p.build()
    assert INLINING.run(program, Counter()) is program


def test_a_value_does_not_pass_an_assignment_of_what_it_reads() -> None:
    body = "let x = gid.x + 1u\nlet a = x + 1u\nx := 3u\nout[0u] = a\nout[1u] = x"
    assert is_kept(body, [INLINING])
    moved = after("let x = gid.x + 1u\nlet a = x + 1u\nlet b = a\nx := b\nout[1u] = x", INLINING)
    assert moved == lines("let x = gid.x + 1u", "x := x + 1u", "out[1u] = x")


def test_a_load_does_not_pass_a_store_a_barrier_or_an_atomic() -> None:
    for between in ("data[gid.x] = 7u", "barrier(seq_cst)", "let o = atomic_add(count, 0u, 1u)"):
        assert is_kept(f"let a = data[gid.x]\n{between}\nout[gid.x] = a\ndata[gid.x] = 1u", [INLINING])
    for between in ("barrier(seq_cst)", "let o = atomic_add(count, 0u, 1u)"):
        moved = after(f"let a = input[gid.x]\n{between}\nout[gid.x] = a", INLINING)
        assert moved.splitlines()[-1] == "out[gid.x] = input[gid.x]"
    for between in ("data[gid.x] = 7u", "if gid.x < 3u {\ndata[gid.x] = 7u\n}"):
        assert is_kept(f"let a = input[gid.x]\n{between}\nout[gid.x] = a", [INLINING])
    assert after("let a = data[gid.x]\nlet b = a + 1u\ndata[gid.x] = b", INLINING) == lines(
        "data[gid.x] = data[gid.x] + 1u"
    )


def test_private_memory_does_not_change_at_barriers() -> None:
    made = after("mine[0u] = gid.x\nlet a = mine[0u]\nbarrier(seq_cst)\nout[gid.x] = a", INLINING)
    assert made.splitlines()[-1] == "out[gid.x] = mine[0u]"
    assert is_kept("mine[0u] = gid.x\nlet a = mine[0u]\nmine[1u] = 2u\nout[gid.x] = a", [INLINING])


def test_values_move_into_branches_but_loads_do_not() -> None:
    made = after(
        "let a = gid.x * 3u\nlet b = input[gid.x]\nlet c = gid.x < 5u\n"
        "if gid.x < 2u {\n  out[0u] = a\n} else if c {\n  out[1u] = b\n}",
        INLINING,
    )
    assert made == lines(
        "let b = input[gid.x]",
        "if gid.x < 2u {",
        "out[0u] = gid.x * 3u",
        "} else if gid.x < 5u {",
        "out[1u] = b",
        "}",
    )


def test_a_load_does_not_move_into_the_condition_of_an_else_if() -> None:
    assert is_kept(
        "let b = input[0u] < 5u\nif gid.x < 2u {\n  out[0u] = 1u\n} else if b {\n  out[1u] = 2u\n}", [INLINING]
    )


def test_nothing_moves_into_a_loop_but_to_its_bounds() -> None:
    made = after("let a = gid.x * 3u\nlet n = input[0u] & 3u\nfor i in 0u .. n {\n  out[i] = a\n}", INLINING)
    assert made == lines("let a = gid.x * 3u", "for i in 0u .. input[0u] & 3u {", "out[i] = a", "}")


def test_atomics_and_subgroup_operations_stay_where_they_are() -> None:
    assert is_kept("let a = atomic_add(count, 0u, 1u)\nout[gid.x] = a", [INLINING])
    assert is_kept("let a = subgroup_add(gid.x)\nout[gid.x] = a", [INLINING])
    made = after("let a = gid.x + 1u\nlet b = subgroup_add(a)\nout[gid.x] = b", INLINING)
    assert made == lines("let b = subgroup_add(gid.x + 1u)", "out[gid.x] = b")
    assert is_kept("let a = data[gid.x]\nout[gid.x] = atomic_add(count, 0u, 1u) + a\ndata[gid.x] = 1u", [INLINING])


def test_expressions_stay_within_the_legal_depth() -> None:
    one = Literal.of(ScalarType.U32, 1)
    body: list[Let | Store] = [Let("v0", Binary(BinaryOp.MUL, one, one))]
    body += [Let(f"v{k}", Binary(BinaryOp.ADD, Var(f"v{k - 1}"), one)) for k in range(1, 2 * MAX_EXPRESSION_DEPTH + 9)]
    body.append(Store("y", Literal.of(ScalarType.U32, 0), Var(f"v{2 * MAX_EXPRESSION_DEPTH + 8}")))
    program = Program((Buffer.make("y", 0, Access.WRITE_ONLY, ScalarType.U32, 1),), (1, 1, 1), tuple(body))
    made = INLINING.run(program, Counter())
    validate(made).raise_if_invalid()
    assert len(made.body) == 3


def test_what_was_done_is_counted_and_places_are_kept() -> None:
    program = program_of("let a = gid.x + 4u\nout[0u] = a")
    counts: Counter[str] = Counter()
    (store,) = INLINING.run(program, counts).body
    declared, old = program.body
    assert counts == {"inlined": 1}
    assert isinstance(store, Store) and isinstance(declared, Let)
    assert store.loc == old.loc is not None
    assert store.value.loc == declared.value.loc is not None
