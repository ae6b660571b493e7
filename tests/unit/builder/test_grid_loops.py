"""Grid loops of both builders: what they record, and how misuse is answered at its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from vyre import ProgramBuilder, f32, u32
from vyre.domain.errors import BuildError
from vyre.domain.ir.builder import BufferHandle
from vyre.domain.program_report import InvalidProgram
from vyre.ir import Access, EventBuilder, GridLoop, Literal, ScalarType, Store, Var

ONE: Final = Literal.of(ScalarType.U32, 1)
ZERO: Final = Literal.of(ScalarType.U32, 0)


class Kernel(NamedTuple):
    p: ProgramBuilder
    x: BufferHandle
    f: BufferHandle
    changed: BufferHandle


def kernel() -> Kernel:
    p = ProgramBuilder("k", workgroup=32)
    return Kernel(p, p.inout("x", u32), p.inout("f", f32), p.inout("changed", u32, 1))


def test_the_number_of_rounds_is_usable_behind_the_loop() -> None:
    k = kernel()
    with k.p.grid_loop(7, k.changed, name="passes") as passes:
        k.changed[0] = 1
    k.x[0] = passes
    loop, store = k.p.build().body
    assert loop == GridLoop("passes", Literal.of(ScalarType.U32, 7), "changed", (Store("changed", ZERO, ONE),))
    assert isinstance(loop, GridLoop) and loop.loc is not None and loop.loc.file == __file__
    assert store == Store("x", ZERO, Var("passes"))


def test_names_of_several_loops_are_told_apart() -> None:
    k = kernel()
    for _ in range(2):
        with k.p.grid_loop(1, k.changed):
            k.x[0] = 1
    first, second = k.p.build().body
    assert isinstance(first, GridLoop) and isinstance(second, GridLoop)
    assert (first.name, second.name) == ("rounds", "rounds_1")


def test_values_read_before_a_round_are_stale_in_it() -> None:
    k = kernel()
    before = k.x[0] + 1
    with pytest.raises(BuildError, match="may have changed"), k.p.grid_loop(1, k.changed):
        k.x[1] = before


def test_values_read_in_the_loop_are_stale_behind_it() -> None:
    k = kernel()
    kept = k.p.var(0)
    with k.p.grid_loop(1, k.changed):
        k.x[1] = 2
    before = k.x[0] + 1
    with k.p.grid_loop(1, k.changed):
        k.x[1] = 2
    with pytest.raises(BuildError, match="may have changed"):
        kept.assign(before)


def _in_the_loop(k: Kernel) -> None:
    with k.p.grid_loop(3, k.changed) as rounds:
        k.x[0] = rounds


def _left(k: Kernel) -> None:
    with k.p.grid_loop(3, k.changed):
        k.p.break_()


def _cut_short(k: Kernel) -> None:
    with k.p.grid_loop(3, k.changed):
        k.p.continue_()


def _float_flag(k: Kernel) -> None:
    with k.p.grid_loop(3, k.f):
        k.x[0] = 1


def _read_only_flag(k: Kernel) -> None:
    with k.p.grid_loop(3, k.p.input("r", u32)):
        k.x[0] = 1


def _workgroup_flag(k: Kernel) -> None:
    with k.p.grid_loop(3, k.p.workgroup("w", u32, 1)):
        k.x[0] = 1


def _number_flag(k: Kernel) -> None:
    flag: Any = 3
    with k.p.grid_loop(3, flag):
        k.x[0] = 1


def _fraction(k: Kernel) -> None:
    with k.p.grid_loop(3.5, k.changed):
        k.x[0] = 1


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (_in_the_loop, "is used inside the grid loop that counts them"),
        (_left, r"p.break_\(\) is in a grid loop"),
        (_cut_short, r"p.continue_\(\) is in a grid loop"),
        (_float_flag, "the flag `f` of a grid loop is no u32 buffer"),
        (_read_only_flag, "the flag `r` of a grid loop is no u32 buffer"),
        (_workgroup_flag, "the flag `w` of a grid loop is no u32 buffer"),
        (_number_flag, "the flag of a grid loop is 3"),
        (_fraction, "the limit of a grid loop must be u32"),
    ],
)
def test_misuse_is_answered_at_its_line(misuse: Callable[[Kernel], None], message: str) -> None:
    with pytest.raises(BuildError, match=message) as caught:
        misuse(kernel())
    assert caught.value.loc is not None and caught.value.loc.file == __file__
    assert "Fix: " in str(caught.value)


def test_inner_loops_may_be_left() -> None:
    k = kernel()
    with k.p.grid_loop(3, k.changed), k.p.for_(0, 4):
        k.p.break_()
    assert k.p.build()


def test_the_validator_names_the_users_line() -> None:
    k = kernel()
    with k.p.grid_loop(k.p.global_id(), k.changed):
        k.x[0] = 1
    with pytest.raises(InvalidProgram, match="V207") as caught:
        k.p.build()
    assert __file__ in str(caught.value)


def test_events_make_the_same_node() -> None:
    b = EventBuilder("k", workgroup=32)
    b.buffer("changed", ScalarType.U32, Access.READ_WRITE, 1)
    b.grid_loop("passes", ONE, "changed")
    assert b.depth == 1
    b.store("changed", ZERO, ONE)
    made = b.close()
    assert made == GridLoop("passes", ONE, "changed", (Store("changed", ZERO, ONE),))
    b.let("n", Var("passes"))
    assert len(b.build().body) == 2


def test_an_open_grid_loop_is_named() -> None:
    b = EventBuilder(workgroup=1)
    b.buffer("changed", ScalarType.U32, Access.READ_WRITE, 1)
    b.grid_loop("passes", ONE, "changed")
    with pytest.raises(BuildError, match="the grid loop `passes`"):
        b.build()
