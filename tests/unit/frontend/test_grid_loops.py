"""Grid loops in plain Python: the program of the builder, and what is refused where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre
from vyre import InOut, Kernel, KernelSourceError, ProgramBuilder, u32
from vyre.domain.errors import UnsupportedUse
from vyre.domain.ir.program import Program, program_of
from vyre.domain.ir.stmt import GridLoop
from vyre.domain.program_report import InvalidProgram


@vyre.kernel(workgroup=32)
def spread(x: InOut[u32], y: InOut[u32], changed: InOut[u32], n: InOut[u32], limit: u32) -> None:
    i = vyre.global_id()
    with vyre.grid_loop(limit, changed) as rounds:
        if i < len(x):
            y[i] = x[i]
            if i > 0:
                y[i] = min(x[i], x[i - 1] + 1)
        vyre.grid_sync()
        if i < len(x) and y[i] != x[i]:
            x[i] = y[i]
            changed[0] = 1
    if i == 0:
        n[0] = rounds


def built() -> Program:
    with ProgramBuilder("spread", workgroup=32) as p:
        x, y, changed, n = (p.inout(name, u32) for name in ("x", "y", "changed", "n"))
        limit = p.param("limit", u32)
        i = p.let(p.global_id())
        with p.grid_loop(limit, changed) as rounds:
            with p.if_(i < x.length):
                y[i] = x[i]
                with p.if_(i > 0):
                    y[i] = vyre.min_(x[i], x[i - 1] + 1)
            p.grid_sync()
            with p.if_((i < x.length) & (y[i] != x[i])):
                x[i] = y[i]
                changed[0] = 1
        with p.if_(i == 0):
            n[0] = rounds
    return p.build()


def test_it_is_the_program_of_the_builder() -> None:
    assert program_of(spread).digest == built().digest


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_a_call_runs_until_nothing_changes(backend: str) -> None:
    with vyre.open(backend):
        x, y = np.full(70, 1000, np.uint32), np.zeros(70, np.uint32)
        x[0] = 0
        changed, n = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        spread(x, y, changed, n, 500)
    assert x.tolist() == [*range(70)]
    assert n.tolist() == [70]


def test_a_name_is_not_needed() -> None:
    @vyre.kernel(workgroup=32)
    def one(x: InOut[u32], changed: InOut[u32]) -> None:
        with vyre.grid_loop(3, changed):
            x[vyre.global_id()] = 1

    (loop,) = program_of(one).body
    assert isinstance(loop, GridLoop)


def test_the_rounds_may_be_a_variable() -> None:
    @vyre.kernel(workgroup=32)
    def twice(x: InOut[u32], changed: InOut[u32]) -> None:
        with vyre.grid_loop(3, changed) as rounds:
            x[0] = 1
        rounds = rounds + 1
        x[1] = rounds

    with vyre.open("reference") as session:
        found = session.dispatch(twice, [np.zeros(2, np.uint32), np.zeros(1, np.uint32)])
    assert found["x"].tolist() == [1, 2]


def rounds_in_the_loop(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    with vyre.grid_loop(3, c) as rounds:
        x[0] = rounds


def float_flag(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    with vyre.grid_loop(3, f):
        x[0] = 1


def workgroup_flag(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    tile = vyre.workgroup_array(u32, 1)
    with vyre.grid_loop(3, tile):
        x[0] = 1


def another_context(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    with open("x"):  # noqa: PTH123
        x[0] = 1


def no_block(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    vyre.grid_loop(3, c)


def fraction(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    with vyre.grid_loop(3.5, c):  # type: ignore[arg-type]
        x[0] = 1


def two_names(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    with vyre.grid_loop(3, c) as (_, _):  # type: ignore[misc]
        x[0] = 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (rounds_in_the_loop, "`rounds` may have no value here"),
        (float_flag, "`f` cannot be the flag of a grid loop"),
        (workgroup_flag, "`tile` cannot be the flag of a grid loop"),
        (another_context, "`with` cannot stand in a kernel"),
        (no_block, r"grid_loop\(\) is no value"),
        (fraction, "the limit of a grid loop must be u32"),
        (two_names, "a grid loop gives one number"),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_misuse_is_named_at_its_line(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(KernelSourceError, match=message) as caught:
        program_of(vyre.kernel(workgroup=32)(function))
    assert "Fix: " in str(caught.value)


def changed_variable(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    v = u32(0)
    with vyre.grid_loop(3, c):
        v += 1
        x[0] = v


def returning(x: InOut[u32], f: InOut[vyre.f32], c: InOut[u32]) -> None:
    with vyre.grid_loop(3, c):
        return


@pytest.mark.parametrize(("function", "code"), [(changed_variable, "V208"), (returning, "V210")])
def test_rules_of_the_language_hold(function: Callable[..., Any], code: str) -> None:
    kernel: Kernel[...] = vyre.kernel(workgroup=32)(function)
    with pytest.raises(InvalidProgram, match=code):
        program_of(kernel)


def test_it_is_refused_outside_a_kernel() -> None:
    with pytest.raises(UnsupportedUse, match=r"grid_loop\(\) is called outside a kernel"):
        vyre.grid_loop(3, None)  # type: ignore[arg-type]
