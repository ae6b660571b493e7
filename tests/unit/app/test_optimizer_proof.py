"""Proofs that two programs do the same in every lane."""

from __future__ import annotations

import pytest

from vyre.adapters.proving.prover import Z3Prover
from vyre.app.optimizer_proof import ProgramProof, prove_programs
from vyre.app.optimizing import optimize
from vyre.domain.ir.program import Program

pytest.importorskip("z3", reason="z3-solver is not installed: install the extra `prove`")

HEAD = "program k\nworkgroup_size 8, 1, 1\nbuffer x @0 read u32[64]\nbuffer y @1 read_write u32[64]\nbody {\n"


def program(*lines: str) -> Program:
    return Program.from_text(HEAD + "\n".join(lines) + "\n}\n")


def proof(before: Program, after: Program) -> ProgramProof:
    return prove_programs(before, after, Z3Prover())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("y[gid.x] = x[gid.x] * 2u",), ("y[gid.x] = x[gid.x] << 1u",)),
        (("y[gid.x] = x[gid.x + 0u] + 1u",), ("let i = gid.x", "y[i] = 1u + x[i]")),
        (("if gid.x < len(x) {", "y[gid.x] = 1u", "}"), ("if gid.x < 64u {", "y[gid.x] = 1u", "}")),
        (("if lid.x < 8u {", "y[gid.x] = 1u", "}"), ("y[gid.x] = 1u",)),
        (("y[gid.x] = wid.x * 8u + lid.x",), ("y[gid.x] = gid.x",)),
        (
            ("let s = 1u", "if gid.x == 3u {", "s := 2u", "}", "y[gid.x] = s"),
            ("y[gid.x] = select(gid.x == 3u, 2u, 1u)",),
        ),
        (
            ("if gid.x > 9u {", "return", "}", "y[gid.x] = 5u"),
            ("if gid.x <= 9u {", "y[gid.x] = 5u", "}"),
        ),
        (("y[gid.x] = y[gid.x] ^ 0u", "y[0u] = y[1u]"), ("y[gid.x] = y[gid.x]", "y[0u] = y[1u]")),
    ],
)  # fmt: skip
def test_equal_programs_are_proved(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    found = proof(program(*before), program(*after))
    assert found.proved, found.why
    assert found.text == "proof: both programs do the same for all inputs"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (("y[gid.x] = x[gid.x] * 2u",), ("y[gid.x] = x[gid.x] << 2u",), "effect 1, on `y`, was not proved equal"),
        (("y[gid.x] = x[gid.x]",), ("y[gid.x] = x[gid.x + 1u]",), "effect 1, on `y`, was not proved equal"),
        (("y[gid.x] = 1u",), (), "effect 1 is another one"),
        (("if gid.x < 63u {", "y[gid.x] = 1u", "}"), ("y[gid.x] = 1u",), "effect 1, on `y`, was not proved equal"),
        (("y[0u] = 1u", "y[2u] = y[0u]"), ("y[0u] = 1u", "y[2u] = 1u"), "effect 2, on `y`, was not proved equal"),
        (('trap(gid.x, "a")',), ('trap(gid.x, "b")',), "effect 1 is another one"),
        (('trap(gid.x, "a")', "y[0u] = 1u"), ('trap(gid.x, "a")',), "effect 2 is another one"),
        (("for i in 0u .. 3u {", "y[i] = 1u", "}"), ("y[0u] = 1u",), "there is a statement of kind Loop"),
        (("y[0u] = x[gid.x] / x[0u]",), ("y[0u] = x[gid.x] / x[0u]",), "a divisor varies"),
        (("y[0u] = subgroup_add(1u)",), ("y[0u] = 1u",), "there is an expression of kind SubgroupReduce"),
    ],
)  # fmt: skip
def test_other_programs_are_not_proved_and_the_reason_is_told(
    before: tuple[str, ...], after: tuple[str, ...], why: str
) -> None:
    found = proof(program(*before), program(*after))
    assert not found.proved and found.why == why
    assert found.text == f"proof: none, since {why}"


def test_the_optimizer_is_proved_on_a_program() -> None:
    written = program(
        "let i = cast<i32>(gid.x)",
        "let j = i + 0i",
        "if gid.x < len(x) {",
        "y[cast<u32>(j)] = x[cast<u32>(i)] * 8u",
        "}",
    )
    assert proof(written, optimize(written).program).proved
