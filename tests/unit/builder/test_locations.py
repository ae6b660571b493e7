"""Nodes remember the line of the user's code that made them."""

from __future__ import annotations

import inspect

from vyre import ProgramBuilder, Value, f32, fma, u32
from vyre.domain.ir.expr import Expr, walk
from vyre.domain.ir.stmt import operands, walk_statements


def scaled(x: Value) -> Value:
    return x * 2


def test_statements_expressions_and_buffers_carry_the_line_that_made_them() -> None:
    with ProgramBuilder("located", workgroup=1) as p:
        x = p.inout("x", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            x[i] = fma(
                x[i],
                scaled(x[i]),
                u32(1).cast(f32),
            )
        with p.for_(0, 3) as k, p.while_(lambda: x[k] > 0):
            p.break_()
    program = p.build(check=False)
    first = inspect.getsourcelines(test_statements_expressions_and_buffers_carry_the_line_that_made_them)[1]
    last = first + 30
    helper = inspect.getsourcelines(scaled)[1] + 1

    located: list[Expr] = [e for s in walk_statements(program.body) for o in operands(s) for e in walk(o)]
    lines = [(node.loc.file, node.loc.line) for node in [*walk_statements(program.body), *located] if node.loc]
    assert {file for file, _ in lines} == {__file__}
    assert all(first < line < last or line == helper for _, line in lines)
    assert helper in {line for _, line in lines}, "a helper function's own line is kept"
    (buffer,) = program.buffers
    assert buffer.loc is not None and buffer.loc.line == first + 2
    assert program.loc is not None and program.loc.line == first + 1
    assert all(statement.loc is not None for statement in walk_statements(program.body))


def test_locations_do_not_count_in_equality() -> None:
    def build() -> object:
        with ProgramBuilder(workgroup=1) as p:
            p.output("x", u32, 1)[0] = 1
        return p.build(check=False)

    assert build() == build()
    there = ProgramBuilder(workgroup=1)
    there.output("x", u32, 1)[0] = 1
    assert there.build(check=False) == build()
