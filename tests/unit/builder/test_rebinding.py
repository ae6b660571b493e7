"""A name that a branch or loop binds to something made before it is not read after it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from vyre import BuildError, ProgramBuilder, UnfinishedBuild, u32


class Kernel:
    def __init__(self) -> None:
        self.p = ProgramBuilder("kernel", workgroup=32)
        self.x = self.p.input("x", u32)
        self.y = self.p.inout("y", u32)
        self.i = self.p.global_id()
        self.a, self.b = self.p.let(self.x[0]), self.p.let(self.x[1])


def taking_the_larger(k: Kernel) -> None:
    best = k.a
    with k.p.if_(k.b > k.a):
        best = k.b  # bound
    k.y[k.i] = best  # read


def taking_a_number(k: Kernel) -> None:
    best = k.a
    with k.p.if_(k.b > k.a):
        best = 1  # type: ignore[assignment]  # bound
    k.y[k.i] = best  # read


def replacing_a_number(k: Kernel) -> None:
    best: object = 0
    with k.p.if_(k.b > k.a):
        best = k.b  # bound
    k.y[k.i] = best  # read


def choosing_a_buffer(k: Kernel) -> None:
    source = k.x
    with k.p.if_(k.b > k.a):
        source = k.y  # bound
    k.y[k.i] = source[k.i]  # read


def swapping_in_a_loop(k: Kernel) -> None:
    a, b = k.a, k.b
    with k.p.for_(0, 3):
        a, b = b, a  # bound
    k.y[k.i] = a - b  # read


def choosing_in_an_else(k: Kernel) -> None:
    best = k.a
    with k.p.if_(k.b > k.a):
        k.y[0] = best
    with k.p.else_():
        best = k.b  # bound
    k.y[k.i] = best  # read


def reducing_in_an_unrolled_loop(k: Kernel) -> None:
    best, *others = k.a, k.b
    for other in others:
        with k.p.if_(other > best):
            best = other  # bound
    k.y[k.i] = best  # read


def naming_another_variable(k: Kernel) -> None:
    mine, yours = k.p.var(0), k.p.var(1)
    with k.p.while_(mine < 5):
        mine = yours  # bound
    k.y[k.i] = mine  # read


def reading_in_a_function_defined_later(k: Kernel) -> None:
    best = k.a
    with k.p.if_(k.b > k.a):
        best = k.b  # bound

    def store() -> None:
        k.y[k.i] = best

    store()


TRAPS = [
    taking_the_larger,
    taking_a_number,
    replacing_a_number,
    choosing_a_buffer,
    swapping_in_a_loop,
    choosing_in_an_else,
    reducing_in_an_unrolled_loop,
    naming_another_variable,
    reading_in_a_function_defined_later,
]


@pytest.mark.parametrize("trap", TRAPS)
def test_a_name_bound_in_a_block_and_read_after_it_is_refused(trap: Callable[[Kernel], None]) -> None:
    k = Kernel()
    with pytest.raises(BuildError, match=r"is bound to another value inside the p\.\w+ block") as caught:
        trap(k)
    lines, first = inspect.getsourcelines(trap)
    at = {
        mark: first + n
        for n, line in enumerate(lines)
        for mark in ("# bound", "# read")
        if line.rstrip().endswith(mark)
    }
    assert caught.value.loc is not None and caught.value.loc.line == at["# bound"]
    assert f"is used at {__file__}:{at.get('# read', '')}" in str(caught.value)
    with pytest.raises(UnfinishedBuild):
        k.p.build()


def test_names_of_a_module_are_looked_at_too() -> None:
    k = Kernel()
    source = "best = k.a\nwith k.p.if_(k.b > k.a):\n    best = k.b\nk.y[0] = best\n"
    with pytest.raises(BuildError, match=r"kernel.py:3: `best` is bound .* used at kernel.py:4"):
        exec(compile(source, "kernel.py", "exec"), {"k": k})


def reading_inside_only(k: Kernel) -> None:
    best = k.a
    k.y[0] = best
    with k.p.if_(k.b > k.a):
        best = k.b
        k.y[k.i] = best


def binding_again_before_reading(k: Kernel) -> None:
    best = k.a
    k.y[0] = best
    with k.p.if_(k.b > k.a):
        best = k.b
        k.y[1] = best
    best = k.a
    k.y[k.i] = best


def binding_in_a_loop_of_python(k: Kernel) -> None:
    for one in (k.a, k.b):
        with k.p.if_(one > 3):
            other = k.b if one is k.a else k.a
            k.y[k.i] = other


def binding_in_a_plain_scope(k: Kernel) -> None:
    best = k.a
    k.y[0] = best
    with k.p.block(), k.p.region("r"):
        best = k.b
    k.y[k.i] = best


def counting_in_python(k: Kernel) -> None:
    stores = 0
    with k.p.if_(k.b > k.a):
        k.y[stores] = k.a
        stores += 1
    k.y[stores] = k.b


def assigning_in_place(k: Kernel) -> None:
    best = k.p.var(k.a)
    with k.p.if_(k.b > k.a):
        best.assign(k.b)
        best += 1
    k.y[k.i] = best


def opening_through_python(k: Kernel) -> None:
    """The frame that opens the block is not the one that reads names; nothing is known of these, nor refused."""

    @contextmanager
    def larger() -> Iterator[None]:
        with k.p.if_(k.b > k.a):
            yield

    best = k.a
    with larger(), ExitStack() as stack:
        stack.enter_context(k.p.if_(k.b > 3))
        k.y[k.i] = best


LEGAL = [
    reading_inside_only,
    binding_again_before_reading,
    binding_in_a_loop_of_python,
    binding_in_a_plain_scope,
    counting_in_python,
    assigning_in_place,
    opening_through_python,
]


@pytest.mark.parametrize("write", LEGAL)
def test_other_names_are_pythons_business(write: Callable[[Kernel], None]) -> None:
    k = Kernel()
    write(k)
    k.p.build(check=False)
