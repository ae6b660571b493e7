"""A value is of no use after the branch or loop in which it was made, and of every use inside it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import vyre
from vyre import BuildError, ProgramBuilder, Value, f32, i32, select, u32
from vyre.domain.ir.scopes import innermost_scope


class Kernel:
    def __init__(self) -> None:
        self.p = ProgramBuilder("kernel", workgroup=32)
        self.y = self.p.inout("y", u32)
        self.n = self.p.param("n", u32)
        self.c = self.p.let(0)
        self.i = self.p.global_id()


def adding_in_a_branch(k: Kernel) -> None:
    c = k.c
    with k.p.if_(k.n > 1):
        c += 1
    k.y[k.i] = c


def adding_in_a_loop(k: Kernel) -> None:
    c = k.c
    with k.p.for_(0, k.n):
        c = c + 1
    k.y[k.i] = c


def adding_in_a_while(k: Kernel) -> None:
    c, v = k.c, k.p.var(0)
    with k.p.while_(v < k.n):
        c = c + 1
        v += 1
    k.y[k.i] = c


def adding_in_an_else(k: Kernel) -> None:
    c = k.c
    with k.p.if_(k.n > 1):
        pass
    with k.p.else_():
        c = c + 1
    k.y[k.i] = c


def using_in_the_else_what_the_branch_made(k: Kernel) -> None:
    c = k.c
    with k.p.if_(k.n > 1):
        c = c + 1
    with k.p.else_():
        k.y[k.i] = c


def choosing_a_literal(k: Kernel) -> None:
    c = u32(0)
    with k.p.if_(k.n > 1):
        c = u32(1)
    k.y[k.i] = c


def choosing_a_parameter(k: Kernel) -> None:
    c = k.n
    with k.p.if_(k.n > 1):
        c = k.p.param("m", u32)
    k.y[k.i] = c


def choosing_an_id(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        i = k.p.local_id()
    k.y[i] = 0


def rebinding_a_variable(k: Kernel) -> None:
    v = k.p.var(0)
    with k.p.if_(k.n > 1):
        v = v + 1  # type: ignore[assignment]
    k.y[k.i] = v


def loading_in_a_branch(k: Kernel) -> None:
    c = k.c
    with k.p.if_(k.n > 1):
        c = k.y[0]
    k.p.let(c)


def made_two_blocks_deep(k: Kernel) -> None:
    c = k.c
    with k.p.if_(k.n > 1), k.p.block():
        c = c + 1
    k.y[k.i] = c


def made_in_an_inner_branch(k: Kernel) -> None:
    c = k.c
    with k.p.for_(0, k.n):
        with k.p.if_(k.n > 1):
            c = c + 1
        k.y[k.i] = c


def chosen_by_a_helper(k: Kernel) -> None:
    def larger(a: Value, b: Value) -> Value:
        with k.p.if_(b > a):
            a = b + 0
            k.y[0] = a
        return a

    k.y[k.i] = larger(k.n, k.i)


def rebound_in_an_enclosing_function(k: Kernel) -> None:
    c = k.c

    def add() -> None:
        nonlocal c
        with k.p.if_(k.n > 1):
            c = c + 1

    add()
    k.y[k.i] = c


TRAPS = [
    adding_in_a_branch,
    adding_in_a_loop,
    adding_in_a_while,
    adding_in_an_else,
    using_in_the_else_what_the_branch_made,
    choosing_a_literal,
    choosing_a_parameter,
    choosing_an_id,
    rebinding_a_variable,
    loading_in_a_branch,
    made_two_blocks_deep,
    made_in_an_inner_branch,
    chosen_by_a_helper,
    rebound_in_an_enclosing_function,
]


def line_of(function: Callable[..., object], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    (found,) = (first + k for k, line in enumerate(lines) if text in line)
    return found


@pytest.mark.parametrize("trap", TRAPS)
def test_a_value_of_an_ended_branch_or_loop_is_refused(trap: Callable[[Kernel], None]) -> None:
    with pytest.raises(BuildError, match=r"is used after that block.*Fix: write \w+ = p\.var\(\.\.\.\)") as caught:
        trap(Kernel())
    assert caught.value.loc is not None and caught.value.loc.file == __file__


def test_the_error_names_the_variable_the_block_and_both_lines() -> None:
    with pytest.raises(BuildError) as caught:
        adding_in_a_branch(Kernel())
    made, used, block = (line_of(adding_in_a_branch, text) for text in ("c += 1", "k.y[k.i]", "p.if_"))
    message = str(caught.value)
    assert message.startswith(f"{__file__}:{used}: `c` made inside the p.if_ block of {__file__}:{block}, at ")
    assert f"at {__file__}:{made}, is used" in message
    assert "c = p.var(...) before the block, and c.assign(...)" in message


USES: list[Callable[[Kernel, Value], object]] = [
    lambda k, c: c + 1,
    lambda k, c: 1 + c,
    lambda k, c: k.n + c,
    lambda k, c: -c.cast(i32),
    lambda k, c: c.cast(f32),
    lambda k, c: c.bitcast(f32),
    lambda k, c: ~c,
    lambda k, c: c == 1,
    lambda k, c: select(c > 0, 1, 2),
    lambda k, c: select(k.n > 0, c, 2),
    lambda k, c: vyre.min_(3, c),
    lambda k, c: vyre.popcount(c),
    lambda k, c: vyre.subgroup_shuffle(k.n, c),
    lambda k, c: k.y[c],
    lambda k, c: k.y.__setitem__(c, 1),
    lambda k, c: k.y.__setitem__(0, c),
    lambda k, c: k.y.atomic_add(c, 1),
    lambda k, c: k.y.atomic_add(0, c),
    lambda k, c: k.y.atomic_compare_exchange(0, c, 1),
    lambda k, c: k.p.let(c),
    lambda k, c: k.p.var(c),
    lambda k, c: k.p.var(0).assign(c),
    lambda k, c: k.p.var(0).__iadd__(c),
    lambda k, c: k.p.if_(c),
    lambda k, c: k.p.for_(0, c),
    lambda k, c: k.p.for_(c, 9),
    lambda k, c: k.p.for_(0, 9, c),
    lambda k, c: k.p.while_(c),
    lambda k, c: k.p.while_(lambda: c > 0).__enter__(),
    lambda k, c: k.p.trap(c, "t"),
    lambda k, c: k.p.async_load(k.y, k.y, offset=c, size=4, tag="t"),
    lambda k, c: k.p.spec("s", c),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [lambda k: k.n + 1, lambda k: u32(7)], ids=["expression", "literal"])
def test_every_use_after_the_block_is_refused(
    make: Callable[[Kernel], Value], use: Callable[[Kernel, Value], object]
) -> None:
    k = Kernel()
    with k.p.if_(k.n > 1):
        c = make(k)
    with pytest.raises(BuildError, match="is used after that block"):
        use(k, c)


def helper_temporaries(k: Kernel) -> None:
    def mixed(x: Value) -> Value:
        x += 1
        if isinstance(x, Value):
            x *= 3
        return x

    with k.p.for_(0, 3) as j:
        c = k.c
        c += mixed(j)
        with k.p.if_(c > 1):
            k.y[k.i] = c
        with k.p.else_():
            k.y[k.i] = c + 1


def named_in_a_block_and_used_in_one_inside(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        t = k.p.let(k.n + 1)
        with k.p.for_(0, t), k.p.while_(lambda: k.y[0] < t):
            k.y[k.i] = t


def made_before_and_used_inside(k: Kernel) -> None:
    e = k.n * 2 + u32(1)
    with k.p.if_(k.n > 1), k.p.for_(0, e) as j:
        k.y[j] = e


def made_in_a_plain_scope(k: Kernel) -> None:
    """Every lane runs it, once: what Python bound is what every lane means."""
    with k.p.block(), k.p.region("r"):
        e = k.n + 1
    k.y[k.i] = e


def assigned_to_a_variable(k: Kernel) -> None:
    c = k.p.var(0)
    with k.p.for_(0, k.n):
        c += 1
        with k.p.if_(c > 3):
            c.assign(c * 2)
    k.y[k.i] = c


def bound_again_after_the_block(k: Kernel) -> None:
    for _ in range(2):
        with k.p.if_(k.n > 1):
            c = k.n + 1
            k.y[0] = c
        c = k.n + 2
        k.y[k.i] = c


def opened_by_a_generator(k: Kernel) -> None:
    @contextmanager
    def unless(test: Value) -> Iterator[Value]:
        with k.p.if_(~test):
            yield k.n + 1

    with unless(k.n > 1) as e:
        k.y[k.i] = e + 1


def another_program_inside_a_block(k: Kernel) -> None:
    with k.p.if_(k.n > 1):
        with ProgramBuilder("inner", workgroup=1) as q:
            z = q.inout("z", u32)
            with q.if_(z[0] > 1):
                z[0] = z[0] + 1
            z[1] = z[0] + u32(1)
        q.build()
        k.y[0] = k.n + 1


LEGAL = [
    helper_temporaries,
    named_in_a_block_and_used_in_one_inside,
    made_before_and_used_inside,
    made_in_a_plain_scope,
    assigned_to_a_variable,
    bound_again_after_the_block,
    opened_by_a_generator,
    another_program_inside_a_block,
]


@pytest.mark.parametrize("write", LEGAL)
def test_a_value_is_usable_while_its_branch_or_loop_is_open(write: Callable[[Kernel], None]) -> None:
    k = Kernel()
    write(k)
    k.p.build(check=False)
    assert innermost_scope() is None


def test_a_local_that_left_its_block_names_the_line_that_declares_it() -> None:
    k = Kernel()
    with k.p.block():
        v = k.p.var(0)
        declared = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    with pytest.raises(BuildError, match=f"outside the block that declares it \\({__file__}:{declared}\\)"):
        v += 1


def test_two_kernels_built_by_turns_keep_their_scopes_apart() -> None:
    async def build(turns: int) -> vyre.Program:
        with ProgramBuilder("turns", workgroup=1) as p:
            y = p.inout("y", u32)
            with p.if_(y[0] > 1):
                for _ in range(turns):
                    e = y[1] + u32(1)
                    await asyncio.sleep(0)
                    y[1] = e
            y[2] = y[1] + u32(3)
        return p.build()

    async def both() -> tuple[vyre.Program, vyre.Program]:
        return await asyncio.gather(build(1), build(5))

    short, long = asyncio.run(both())
    assert len(short.body) == len(long.body) == 2


def test_the_fix_computes_what_was_meant() -> None:
    with ProgramBuilder("count", workgroup=32) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        c = p.var(0)
        with p.if_(y[i] > 5):
            c += 1
        y[i] = c
    data = np.arange(10, dtype=np.uint32)
    with vyre.open(backend="reference") as session:
        assert session.dispatch(p.build(), {"y": data})["y"].tolist() == [int(n > 5) for n in data]
