"""``vyre.optimize`` and its check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vyre
from vyre import ProgramBuilder, f32, u32
from vyre.app.optimizer_check import check_runs
from vyre.domain.ir.expr import Literal, Var
from vyre.domain.ir.stmt import Let, Store
from vyre.domain.ir.types import ScalarType


def foldable() -> vyre.Program:
    with ProgramBuilder("foldable", workgroup=64) as p:
        scale = p.spec("scale", u32(3))
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.let(p.global_id())
        with p.if_(i < x.length):
            two = p.let(u32(1) + 1)
            y[i] = x[i] * two * scale
    return p.build()


def test_an_optimized_program_has_the_interface_and_the_results_of_the_one_before() -> None:
    program = foldable()
    found = vyre.optimize(program)
    assert found.program.abi_buffers == program.abi_buffers
    assert found.program.digest != program.digest
    assert check_runs(program, found.program).ok
    x = np.arange(100, dtype=np.uint32)
    with vyre.open("reference") as session:
        expected = session.dispatch(program, {"x": x}, spec={"scale": 5})["y"]
        assert np.array_equal(session.dispatch(found.program, {"x": x}, spec={"scale": 5})["y"], expected)


def test_the_text_of_a_result_says_what_each_pass_did() -> None:
    lines = str(vyre.optimize(foldable(), passes=["folding"])).splitlines()
    assert len(lines) == 1 and lines[0].startswith("folding: ") and "nothing changed" not in lines[0]


def test_values_of_constants_become_literals() -> None:
    text = vyre.optimize(foldable(), spec={"scale": 7}).program.to_text()
    assert "7u" in text and "spec" not in text


def test_an_unknown_pass_is_refused() -> None:
    with pytest.raises(vyre.InvalidConfig, match=r"there is no pass 'magic'\. Fix: use some of .*folding"):
        vyre.optimize(foldable(), passes=["magic"])


def test_an_invalid_program_is_refused() -> None:
    broken = replace(foldable(), workgroup_size=(0, 1, 1))
    with pytest.raises(vyre.InvalidProgram):
        vyre.optimize(broken)


def test_the_check_finds_a_changed_result() -> None:
    program = foldable()
    changed = vyre.Program.from_text(program.to_text().replace("1u + 1u", "1u + 2u"))
    assert changed.digest != program.digest
    found = check_runs(program, changed)
    assert not found.ok and found.differences
    assert "runs differ" in found.text


def test_the_check_finds_an_invalid_program() -> None:
    program = foldable()
    unbound = replace(program, body=(Store("y", Literal.of(ScalarType.U32, 0), Var("nobody")),))
    found = check_runs(program, unbound)
    assert not found.ok and "nobody" in found.invalid


def test_runs_that_say_nothing_are_counted_by_their_reason() -> None:
    with ProgramBuilder("racy", workgroup=64) as p:
        y = p.inout("y", u32)
        y[0] = p.global_id()
    racy = p.build()
    other = replace(
        racy,
        body=(Let("k", Literal.of(ScalarType.U32, 5)), Store("y", Literal.of(ScalarType.U32, 0), Var("k"))),
    )
    found = check_runs(racy, other, runs=4)
    assert found.ok and found.agreed == 0
    assert found.skipped == {"the program has a data race for these inputs": 4}


def test_a_trap_is_an_outcome() -> None:
    with ProgramBuilder("trapping", workgroup=32) as p:
        x = p.input("x", f32)
        with p.if_(p.global_id() < x.length):
            p.trap(p.global_id(), "always")
    program = p.build()
    assert check_runs(program, vyre.optimize(program).program).agreed > 0
    silent = replace(program, body=())
    assert not check_runs(program, silent).ok


def test_the_laws_that_rewrote_an_expression_are_told() -> None:
    with ProgramBuilder("laws", workgroup=32) as p:
        x = p.input("x", u32, 64)
        y = p.output("y", u32, 64)
        i = p.global_id()
        y[i] = (x[i] ^ 5) + ((x[i] & 5) << 1)
    found = vyre.optimize(p.build(), passes=["saturation"])
    (rewrite,) = found.rewrites()
    assert rewrite.splitlines()[-1].endswith("[hd.sum_of_xor_shift]")
    assert vyre.optimize(p.build(), passes=["folding"]).rewrites() == ()
