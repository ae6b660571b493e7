"""A builder gives no program while its blocks are open, nor after one of them ended with an exception."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable

import pytest

from vyre import BuildError, ErrorCode, ProgramBuilder, UnfinishedBuild, u32
from vyre.domain.errors import UnfinishedProgram


class Mistake(Exception):
    pass


def raise_in_the_kernel(p: ProgramBuilder) -> None:
    with p:
        p.inout("y", u32)[0] = 1
        raise Mistake


def raise_in_a_branch_of_the_kernel(p: ProgramBuilder) -> None:
    with p, p.if_(p.inout("y", u32)[0] > 1):
        raise Mistake


def raise_in_a_branch_and_go_on(p: ProgramBuilder) -> None:
    with p:
        y = p.inout("y", u32)
        try:
            with p.if_(y[0] > 1):
                y[0] = 1
                raise Mistake
        except Mistake:
            y[1] = 1
    raise Mistake


def raise_in_a_branch_without_with(p: ProgramBuilder) -> None:
    with p.block():
        raise Mistake


def raise_in_a_condition(p: ProgramBuilder) -> None:
    def condition() -> bool:
        raise Mistake

    with p.while_(condition):
        pass


@pytest.mark.parametrize(
    "record",
    [
        raise_in_the_kernel,
        raise_in_a_branch_of_the_kernel,
        raise_in_a_branch_and_go_on,
        raise_in_a_branch_without_with,
        raise_in_a_condition,
    ],
)
def test_a_kernel_that_raised_does_not_build(record: Callable[[ProgramBuilder], None]) -> None:
    p = ProgramBuilder("half", workgroup=1)
    with pytest.raises(Mistake):
        record(p)
    for _ in range(2):
        with pytest.raises(
            UnfinishedBuild, match=r"block.* ended with Mistake, so a part of this kernel is missing"
        ) as e:
            p.build(check=False)
    assert e.value.code is ErrorCode.UNFINISHED_BUILD


def test_the_first_exception_is_named() -> None:
    p = ProgramBuilder("half", workgroup=1)
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    with pytest.raises(BuildError), p, p.if_(True):
        p.break_()
    with pytest.raises(UnfinishedBuild, match=f"p.if_ block of {__file__}:{line} ended with BuildError"):
        p.build()


def test_a_kernel_whose_blocks_are_open_does_not_build() -> None:
    with ProgramBuilder("open", workgroup=1) as p:
        y = p.inout("y", u32)
        with pytest.raises(UnfinishedBuild, match="inside an open block"):
            p.build()
        with p.if_(y[0] > 1):
            y[0] = 1
            with pytest.raises(UnfinishedBuild, match="inside an open block") as caught:
                p.build()
    assert len(p.build().body) == 1, "asking too early spoils nothing"
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, UnfinishedProgram | BuildError) and error.loc is not None and error.loc.file == __file__


def test_an_error_between_the_blocks_leaves_the_builder_usable() -> None:
    with ProgramBuilder("careful", workgroup=1) as p:
        y = p.inout("y", u32)
        with pytest.raises(BuildError):
            y[1.5] = 1
        y[0] = 1
    assert len(p.build().body) == 1


@pytest.mark.parametrize("managed", [True, False])
def test_a_program_is_built_once_and_for_all(managed: bool) -> None:
    p = ProgramBuilder("twice", workgroup=1)
    y = p.inout("y", u32)
    y[0] = 1
    if managed:
        with p:
            y[1] = 1
    program = p.build()
    assert p.build() == program
    for late in (lambda: y.__setitem__(0, 2), lambda: p.input("z", u32), lambda: p.let(1), lambda: p.__enter__()):
        with pytest.raises(BuildError):
            late()
    assert p.build() == program


def test_a_builder_is_entered_once() -> None:
    p = ProgramBuilder("again", workgroup=1)
    with pytest.raises(BuildError, match="entered or built before"), p, p:
        pass


def test_blocks_that_end_in_another_order_are_refused() -> None:
    p = ProgramBuilder("crossed", workgroup=1)
    y = p.inout("y", u32)
    outer = p.if_(y[0] > 1)
    outer.__enter__()
    inner = p.for_(0, 3)
    inner.__enter__()
    with pytest.raises(BuildError, match=r"the p\.if_ block of .* ends before a block inside it"):
        outer.__exit__(None, None, None)
    with pytest.raises(UnfinishedBuild):
        p.build()


def test_a_block_that_was_never_entered_is_missing() -> None:
    p = ProgramBuilder("pending", workgroup=1)
    p.if_(p.inout("y", u32)[0] > 1)
    with pytest.raises(BuildError, match="was never entered"):
        p.build()
    with pytest.raises(UnfinishedBuild, match=r"the p.if_ block of .* was never entered"):
        p.build()


def test_a_block_whose_end_is_refused_is_missing() -> None:
    p = ProgramBuilder("pending", workgroup=1)
    y = p.inout("y", u32)
    with pytest.raises(BuildError, match="was never entered"), p.block():
        y[0] = 1
        p.if_(y[0] > 1)
    y[1] = 1
    with pytest.raises(UnfinishedBuild, match=r"the p.if_ block of .* was never entered, so a part"):
        p.build()


def test_a_kernel_inside_another_is_finished_on_its_own() -> None:
    with ProgramBuilder("outer", workgroup=1) as p:
        y = p.inout("y", u32)
        with pytest.raises(Mistake), ProgramBuilder("inner", workgroup=1) as q:
            raise Mistake
        with pytest.raises(UnfinishedBuild):
            q.build()
        y[0] = 1
    assert len(p.build().body) == 1
