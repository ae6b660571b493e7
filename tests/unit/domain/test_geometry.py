"""How many workgroups a launch has, and which launches are refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vyre.domain.errors import DeviceLimitExceeded, InvalidConfig
from vyre.domain.geometry import LaunchLimits, check_geometry, element_count, grid_of_extent, infer_grid
from vyre.domain.ir.program import Dim3

U32_MAX = 2**32 - 1
UNLIMITED = LaunchLimits("free")
counts = st.integers(0, U32_MAX)
sizes = st.integers(1, U32_MAX)


@pytest.mark.parametrize(
    ("returned", "others", "driven_by_input", "covered"),
    [
        ([], [], False, 1),
        ([0], [0], False, 0),
        ([3, 7], [100], False, 7),
        ([0], [9], False, 9),
        ([], [9, 4], False, 9),
        ([3], [100], True, 100),
        ([100], [3], True, 100),
        ([1], [], True, 1),
        ([0], [], True, 0),
    ],
)
def test_the_elements_a_launch_covers(
    returned: list[int], others: list[int], driven_by_input: bool, covered: int
) -> None:
    assert element_count(returned, others, driven_by_input=driven_by_input) == covered


@given(count=counts, lanes=sizes)
@example(count=U32_MAX, lanes=1)
@example(count=U32_MAX, lanes=U32_MAX)
@example(count=1_000_000, lanes=256)
def test_a_one_dimensional_grid_covers_its_count_and_one_group_fewer_does_not(count: int, lanes: int) -> None:
    x, y, z = infer_grid(count, (lanes, 1, 1))
    assert (y, z) == (1, 1)
    assert x * lanes >= count
    assert x == 1 or (x - 1) * lanes < count


@pytest.mark.parametrize("workgroup", [(8, 8, 1), (8, 1, 2), (1, 2, 1), (0, 1, 1)])
def test_other_grids_are_not_guessed(workgroup: Dim3) -> None:
    with pytest.raises(InvalidConfig, match=r"cannot be inferred.*give grid=.*extent="):
        infer_grid(100, workgroup)


@pytest.mark.parametrize(
    ("extent", "workgroup", "grid"),
    [
        ((100,), (32, 1, 1), (4, 1, 1)),
        ((96,), (32, 1, 1), (3, 1, 1)),
        ((17, 9), (8, 8, 1), (3, 2, 1)),
        ((5, 5, 5), (2, 3, 4), (3, 2, 2)),
        ((1, 1, 1), (64, 1, 1), (1, 1, 1)),
        ((100,), (8, 8, 8), (13, 1, 1)),
    ],
)
def test_the_grid_of_an_extent(extent: tuple[int, ...], workgroup: Dim3, grid: Dim3) -> None:
    assert grid_of_extent(extent, workgroup) == grid


@given(
    extent=st.lists(sizes, min_size=1, max_size=3).map(tuple),
    workgroup=st.tuples(sizes, sizes, sizes),
)
def test_an_extent_is_covered_on_every_axis_without_a_spare_group(extent: tuple[int, ...], workgroup: Dim3) -> None:
    lanes = (*extent, 1, 1)[:3]
    for groups, size, wanted in zip(grid_of_extent(extent, workgroup), workgroup, lanes, strict=True):
        assert (groups - 1) * size < wanted <= groups * size


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ids_fit_32_bits_on_every_axis(axis: int) -> None:
    def on_axis(size: int) -> Dim3:
        sizes = [1, 1, 1]
        sizes[axis] = size
        x, y, z = sizes
        return x, y, z

    check_geometry(on_axis(2**24), on_axis(256), UNLIMITED)  # the largest id is 2^32 - 1
    with pytest.raises(InvalidConfig, match=rf"along {'xyz'[axis]}; ids are 32 bits"):
        check_geometry(on_axis(2**24 + 1), on_axis(256), UNLIMITED)


LIMITED = LaunchLimits("small", 64, (32, 16, 8), (100, 50, 25))


@pytest.mark.parametrize(("grid", "workgroup"), [((100, 50, 25), (32, 2, 1)), ((1, 1, 1), (1, 8, 8))])
def test_limits_may_be_reached(grid: Dim3, workgroup: Dim3) -> None:
    check_geometry(grid, workgroup, LIMITED)


@pytest.mark.parametrize(
    ("grid", "workgroup", "message"),
    [
        ((1, 1, 1), (13, 5, 1), "the number of lanes in a workgroup is 65; backend `small` allows 64"),
        ((1, 1, 1), (33, 1, 1), "the workgroup size along x is 33; backend `small` allows 32"),
        ((1, 1, 1), (1, 17, 1), "the workgroup size along y is 17; backend `small` allows 16"),
        ((1, 1, 1), (1, 1, 9), "the workgroup size along z is 9; backend `small` allows 8"),
        ((101, 1, 1), (1, 1, 1), "the grid size along x is 101; backend `small` allows 100"),
        ((1, 51, 1), (1, 1, 1), "the grid size along y is 51; backend `small` allows 50"),
        ((1, 1, 26), (1, 1, 1), "the grid size along z is 26; backend `small` allows 25"),
    ],
)
def test_limits_may_not_be_exceeded(grid: Dim3, workgroup: Dim3, message: str) -> None:
    with pytest.raises(DeviceLimitExceeded) as caught:
        check_geometry(grid, workgroup, LIMITED)
    assert caught.value.message == message
    check_geometry(grid, workgroup, UNLIMITED)


FOLDING = LaunchLimits("folding", max_grid_size=(1000, 1000, 1000), max_unfolded_grid=(1000, 10, 10))


@pytest.mark.parametrize("grid", [(91, 11, 1), (1, 11, 91)])
def test_folded_grids_of_more_workgroups_than_can_run(grid: Dim3) -> None:
    x, y, z = grid
    what = f"number of workgroups in a grid that has {x}x{y}x{z}, more along an axis than 1000x10x10,"
    with pytest.raises(DeviceLimitExceeded, match=f"the {what} is 1001; backend `folding` allows 1000") as caught:
        check_geometry(grid, (1, 1, 1), FOLDING)
    assert (caught.value.limit, caught.value.needed, caught.value.offered) == ("max_unfolded_grid", 1001, 1000)


def test_grids_of_more_workgroups_than_any_backend_counts() -> None:
    with pytest.raises(InvalidConfig, match="4294967295x4294967295x3 workgroups"):
        check_geometry((U32_MAX, U32_MAX, 3), (1, 1, 1), UNLIMITED)


@pytest.mark.parametrize("grid", [(1000, 10, 10), (90, 11, 1), (1, 11, 90), (1, 1000, 1)])
def test_grids_that_run_folded_or_as_they_are(grid: Dim3) -> None:
    check_geometry(grid, (1, 1, 1), FOLDING)
