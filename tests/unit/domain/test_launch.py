"""Counts, bytes, grid and returned ranges of one launch, and every way in which they do not fit together."""

from __future__ import annotations

import pytest

from support.kernels import GID, kernel, lit, load
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import DeviceLimitExceeded, InvalidConfig, InvalidInput
from vyre.domain.geometry import GridRule, LaunchLimits
from vyre.domain.interface import interface_of, resolve_launch, uses_atomics
from vyre.domain.ir.expr import Atomic
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Access, Buffer, Dim3, MemoryKind, Program
from vyre.domain.ir.stmt import Let, Stmt, Store
from vyre.domain.ir.types import DataType, u8, u16, u32, u64
from vyre.domain.launch import Launch, geometry_of
from vyre.domain.program_report import InvalidProgram

UNLIMITED = LaunchLimits("free")
U32_MAX = 2**32 - 1
COPY = Store("y", GID, load("x", GID))


def _input(name: str, binding: int, element: DataType = u32, count: int = 0) -> Buffer:
    return Buffer.make(name, binding, Access.READ_ONLY, element, count)


def _output(
    name: str,
    binding: int,
    element: DataType = u32,
    count: int = 0,
    *,
    like: str | None = None,
    output_range: tuple[int, int] | None = None,
) -> Buffer:
    return Buffer.make(name, binding, Access.WRITE_ONLY, element, count, like=like, output_range=output_range)


def _program(*buffers: Buffer, body: tuple[Stmt, ...] = (), workgroup: Dim3 = (64, 1, 1)) -> Program:
    return kernel(*body, buffers=buffers, workgroup=workgroup)


def _launch(program: Program, *nbytes: int, config: DispatchConfig | None = None) -> Launch:
    return resolve_launch(program, nbytes, config or DispatchConfig(), UNLIMITED)


MAP = _program(_input("x", 0), _output("y", 1, u64, like="x"), body=(COPY,))


# ---------------------------------------------------------------- counts
def test_a_map_takes_its_size_from_its_input() -> None:
    launch = _launch(MAP, 400)
    assert launch == Launch(
        grid=(2, 1, 1),
        workgroup=(64, 1, 1),
        element_count=100,
        counts=(100, 100),
        nbytes=(400, 800),
        output_nbytes=(800,),
        output_ranges=((0, 800),),
    )


def test_inputs_without_elements_are_legal_and_run_nothing() -> None:
    launch = _launch(MAP, 0)
    assert (launch.counts, launch.nbytes, launch.output_nbytes) == ((0, 0), (0, 0), (0,))
    assert (launch.element_count, launch.grid) == (0, (0, 1, 1))


def test_static_counts_fix_the_byte_lengths() -> None:
    program = _program(_input("x", 0, u16, 3), _output("y", 1, u64, 5))
    launch = _launch(program, 6)
    assert (launch.counts, launch.nbytes) == ((3, 5), (6, 40))


@pytest.mark.parametrize(
    ("buffer", "nbytes", "message"),
    [
        (_input("x", 0, u16, 3), 5, r"`x` got 5 bytes, but holds 3 elements of 2 bytes.*exactly 6 bytes"),
        (_input("x", 0, u16, 3), 8, r"`x` got 8 bytes, but holds 3 elements.*exactly 6 bytes"),
        (_input("x", 0, u16, 3), 0, r"`x` got 0 bytes, but holds 3 elements"),
        (_input("x", 0, u64), 12, r"`x` got 12 bytes, no multiple of its element size 8"),
        (_input("x", 0, u8), U32_MAX + 1, r"`x` has 4294967296 elements.*at most 2\^32-1"),
    ],
)
def test_inputs_of_the_wrong_length(buffer: Buffer, nbytes: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        _launch(_program(buffer), nbytes)


def test_the_largest_count_is_accepted() -> None:
    assert _launch(_program(_input("x", 0, u8)), U32_MAX).counts == (U32_MAX,)


@pytest.mark.parametrize(
    ("program", "nbytes", "message"),
    [
        (MAP, (), r"0 inputs are given, the program takes 1.*in binding order: `x`"),
        (MAP, (4, 4), r"2 inputs are given, the program takes 1"),
        (_program(_output("y", 0, count=4)), (4,), r"1 inputs are given, the program takes 0.*: none"),
    ],
)
def test_inputs_of_the_wrong_number(program: Program, nbytes: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        _launch(program, *nbytes)


CHAIN = _program(_output("a", 0, like="b"), _output("b", 1, like="c"), _output("c", 2))


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({"c": 7}, (7, 7, 7)),
        ({"c": 0}, (0, 0, 0)),
    ],
)
def test_like_may_be_chained(counts: dict[str, int], found: tuple[int, ...]) -> None:
    assert _launch(CHAIN, config=DispatchConfig(output_counts=counts)).counts == found


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_buffer_like_another_one_has_its_size(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"output_counts names `{name}`.*name only `c`"):
        _launch(CHAIN, config=DispatchConfig(output_counts={"c": 7, name: 5}))


def test_an_output_without_a_count_is_refused_by_name() -> None:
    with pytest.raises(InvalidProgram, match=r"the output `a` has no element count.*output_counts={'a'"):
        _launch(CHAIN)


def test_outputs_sized_like_each_other_have_no_size() -> None:
    circle = _program(_output("a", 0, like="b"), _output("b", 1, like="a"))
    with pytest.raises(InvalidProgram, match="the output `a` has no element count"):
        _launch(circle)


@pytest.mark.parametrize(
    ("name", "fix"),
    [("z", "name only `y`"), ("x", "name only `y`"), ("n", "name only `y`"), ("Y", "name only `y`")],
)
def test_output_counts_of_anything_else_are_refused(name: str, fix: str) -> None:
    program = _program(_input("x", 0), _output("y", 1), _output("n", 2, count=4))
    with pytest.raises(InvalidConfig, match=rf"output_counts names `{name}`, no output.*{fix}"):
        _launch(program, 8, config=DispatchConfig(output_counts={"y": 1, name: 2}))


def test_output_counts_of_a_program_that_needs_none_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"output_counts names `n`.*leave it out"):
        _launch(_program(_output("n", 0, count=4)), config=DispatchConfig(output_counts={"n": 4}))


# ---------------------------------------------------------------- what drives the grid
COUNTER = Let("old", Atomic(AtomicOp.ADD, "y", lit(0), None, lit(1)))
SCRATCH = Buffer.make("s", 0, Access.WORKGROUP, u32, 64)


@pytest.mark.parametrize(
    ("program", "covered"),
    [
        (_program(_input("x", 0), _output("y", 1, count=3)), 3),
        (_program(_input("x", 0), _output("y", 1, count=3), SCRATCH), 1000),
        (
            _program(_input("x", 0), Buffer.make("y", 1, Access.READ_WRITE, u32, 3, is_output=True), body=(COUNTER,)),
            1000,
        ),
        (_program(_input("x", 0)), 1000),
    ],
    ids=["the largest output", "workgroup memory: the largest buffer", "atomics: the largest buffer", "no output"],
)
def test_what_drives_the_grid(program: Program, covered: int) -> None:
    launch = _launch(program, 4000)
    assert launch.element_count == covered
    assert launch.grid == (-(-covered // 64), 1, 1)


def test_atomics_are_found_in_nested_expressions_only_where_they_are() -> None:
    assert uses_atomics(_program(body=(COUNTER,)))
    assert not uses_atomics(MAP)
    assert not uses_atomics(MAP)


@pytest.mark.parametrize(("override", "grid"), [(0, 0), (1, 1), (64, 1), (65, 2), (U32_MAX, 2**26)])
def test_an_element_count_given_by_hand(override: int, grid: int) -> None:
    launch = _launch(MAP, 400, config=DispatchConfig(element_count_override=override))
    assert launch.grid == (grid, 1, 1)
    assert launch.counts == (100, 100)


@pytest.mark.parametrize(
    ("config", "grid", "workgroup"),
    [
        (DispatchConfig(grid=(7, 2, 3)), (7, 2, 3), (64, 1, 1)),
        (DispatchConfig(extent=(65, 2)), (2, 2, 1), (64, 1, 1)),
        (DispatchConfig(workgroup=(32, 1, 1)), (4, 1, 1), (32, 1, 1)),
        (DispatchConfig(workgroup=(8, 4, 1), extent=(9, 9)), (2, 3, 1), (8, 4, 1)),
        (DispatchConfig(workgroup=(8, 4, 1), grid=(2, 3, 1)), (2, 3, 1), (8, 4, 1)),
    ],
)
def test_geometry_given_by_hand(config: DispatchConfig, grid: Dim3, workgroup: Dim3) -> None:
    launch = _launch(MAP, 400, config=config)
    assert (launch.grid, launch.workgroup) == (grid, workgroup)


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (DispatchConfig(workgroup=(8, 8, 1)), InvalidConfig, "cannot be inferred"),
        (DispatchConfig(grid=(2**26 + 1, 1, 1)), InvalidConfig, "ids are 32 bits wide"),
        (DispatchConfig(workgroup=(65, 1, 1)), DeviceLimitExceeded, "backend `small` allows 64"),
    ],
)
def test_geometry_that_is_refused(config: DispatchConfig, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        resolve_launch(MAP, (400,), config, LaunchLimits("small", 64))


@pytest.mark.parametrize("program", [MAP, _program(_input("x", 0), body=(COUNTER,)), _program(_input("x", 0))])
@pytest.mark.parametrize("nbytes", [0, 4, 400])
@pytest.mark.parametrize(
    ("config", "rule"),
    [
        (DispatchConfig(), None),
        (DispatchConfig(workgroup=(5, 1, 1)), None),
        (DispatchConfig(element_count_override=0), GridRule.GIVEN_COUNT),
        (DispatchConfig(element_count_override=77), GridRule.GIVEN_COUNT),
        (DispatchConfig(extent=(65, 2)), GridRule.GIVEN_EXTENT),
        (DispatchConfig(extent=(65, 2), element_count_override=7), GridRule.GIVEN_EXTENT),
        (DispatchConfig(grid=(7, 2, 3)), GridRule.GIVEN_GRID),
    ],
)
def test_the_geometry_alone_is_that_of_the_launch(
    program: Program, nbytes: int, config: DispatchConfig, rule: GridRule | None
) -> None:
    launch = _launch(program, nbytes, config=config)
    geometry = geometry_of(interface_of(program), (nbytes,), config)
    assert (geometry.grid, geometry.workgroup) == (launch.grid, launch.workgroup)
    if rule is None:
        assert geometry.extent == (launch.element_count,)
    else:
        assert geometry.rule is rule
        assert geometry == geometry_of(interface_of(program), (), config)


# ---------------------------------------------------------------- what comes back
def test_a_range_shortens_what_comes_back_but_not_the_buffer() -> None:
    program = _program(_output("a", 0, count=4, output_range=(5, 7)), _output("b", 1, count=2, output_range=(8, 8)))
    launch = _launch(program)
    assert launch.nbytes == (16, 8)
    assert launch.output_ranges == ((5, 7), (8, 8))
    assert launch.output_nbytes == (2, 0)


def test_a_range_beyond_a_buffer_sized_at_run_time_is_refused() -> None:
    program = _program(_input("x", 0), _output("y", 1, like="x", output_range=(4, 12)))
    assert _launch(program, 12).output_nbytes == (8,)
    with pytest.raises(InvalidProgram, match=r"output range 4\.\.12 of `y`, which has 8 bytes"):
        _launch(program, 8)


def test_a_bound_on_returned_bytes_counts_ranges_of_all_outputs() -> None:
    program = _program(_output("a", 0, count=4, output_range=(5, 7)), _output("b", 1, count=2))
    assert _launch(program, config=DispatchConfig(max_output_bytes=10)).output_nbytes == (2, 8)
    with pytest.raises(InvalidConfig, match="the outputs take 10 bytes, max_output_bytes is 9"):
        _launch(program, config=DispatchConfig(max_output_bytes=9))


def test_parameters_are_inputs_of_one_element() -> None:
    program = _program(Buffer.make("a", 0, Access.UNIFORM, u64, 1, kind=MemoryKind.PUSH), _output("y", 1, count=2))
    assert _launch(program, 8).counts == (1, 2)
    with pytest.raises(InvalidInput, match="exactly 8 bytes"):
        _launch(program, 4)
