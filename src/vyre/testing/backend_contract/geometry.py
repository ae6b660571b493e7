"""Cases of ids, grids, extents and workgroup sizes, and of refused geometry."""

from __future__ import annotations

from typing import Any, Final

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.program import Dim3
from vyre.domain.padding import masked
from vyre.domain.program_report import InvalidProgram
from vyre.testing.backend_contract.bench import Bench, equal, mapped, program_of, refusal, u32s, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.programs import add_programs

GEOMETRY: Final = Group("geometry")
add_programs(GEOMETRY)
_IDS: Final = """
    workgroup_size {0}, {1}, {2}
    buffer gid_of @0 write u32[{3}]
    buffer lid_of @1 write u32[{3}]
    buffer wid_of @2 write u32[{3}]
    buffer groups @3 write u32[3]
    body {{
      let width = num_groups.x * {0}u
      let height = num_groups.y * {1}u
      let lane = (gid.z * height + gid.y) * width + gid.x
      gid_of[lane] = (gid.z * 100u + gid.y) * 100u + gid.x
      lid_of[lane] = (lid.z * 100u + lid.y) * 100u + lid.x
      wid_of[lane] = (wid.z * 100u + wid.y) * 100u + wid.x
      if lane == 0u {{ groups[0u] = num_groups.x groups[1u] = num_groups.y groups[2u] = num_groups.z }}
    }}
    """


def _expected_ids(grid: Dim3, size: Dim3) -> tuple[list[int], list[int], list[int]]:
    gids, lids, wids = [], [], []
    for z in range(grid[2] * size[2]):
        for y in range(grid[1] * size[1]):
            for x in range(grid[0] * size[0]):
                gids.append((z * 100 + y) * 100 + x)
                lids.append((z % size[2] * 100 + y % size[1]) * 100 + x % size[0])
                wids.append((z // size[2] * 100 + y // size[1]) * 100 + x // size[0])
    return gids, lids, wids


def _check_ids(bench: Bench, size: Dim3, grid: Dim3, config: dict[str, Any]) -> None:
    lanes = size[0] * size[1] * size[2] * grid[0] * grid[1] * grid[2]
    gids, lids, wids, groups = map(u32s, bench.run(_IDS.format(*size, lanes), **config))
    equal((gids, lids, wids), _expected_ids(grid, size), "the ids")
    equal(groups, list(grid), "num_groups")


@GEOMETRY.table(
    {
        "1d": ((8, 1, 1), (5, 1, 1)),
        "2d": ((4, 2, 1), (3, 2, 1)),
        "3d": ((2, 3, 2), (2, 2, 3)),
        "y_only": ((1, 4, 1), (1, 3, 1)),
        "z_only": ((1, 1, 4), (1, 1, 3)),
        "single_lanes": ((1, 1, 1), (3, 2, 2)),
        "one_workgroup": ((5, 3, 2), (1, 1, 1)),
        "more_than_a_subgroup": ((10, 5, 1), (2, 1, 2)),
    }
)
def ids_of_a_grid(bench: Bench, shape: tuple[Dim3, Dim3]) -> None:
    """Global, local and group ids are right along all axes, with the grid given in workgroups."""
    size, grid = shape
    _check_ids(bench, size, grid, {"grid": grid})


@GEOMETRY.table(
    {
        "exact": ((4, 2, 1), (8, 4), (2, 2, 1)),
        "rounded_up": ((4, 2, 2), (5, 3, 3), (2, 2, 2)),
        "one_axis": ((4, 1, 1), (9,), (3, 1, 1)),
        "missing_axes_are_one": ((2, 2, 2), (3,), (2, 1, 1)),
    }
)
def an_extent_is_rounded_up_to_workgroups(bench: Bench, shape: tuple[Dim3, tuple[int, ...], Dim3]) -> None:
    """``extent`` counts lanes; the grid is the quotient by the workgroup, rounded up on each axis."""
    size, extent, grid = shape
    _check_ids(bench, size, grid, {"extent": extent})


@GEOMETRY.table({"smaller": (8, 1, 1), "larger": (64, 1, 1), "odd": (7, 1, 1), "single": (1, 1, 1)})
def a_workgroup_override_changes_no_answer(bench: Bench, size: Dim3) -> None:
    """A kernel that maps elements returns the same bytes under any workgroup size."""
    kernel = mapped("y[i] = x[i] * 3u + gid.x", lanes=16)
    equal(bench.words(kernel, words(*range(50)), workgroup=size), [4 * k for k in range(50)])


# ---------------------------------------------------------------- inferred grids
@GEOMETRY.table({str(n): n for n in (0, 1, 7, 8, 9, 64, 65)})
def a_map_covers_its_output(bench: Bench, count: int) -> None:
    """The inferred grid is the largest output divided by the workgroup, rounded up, and at least one workgroup."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer x @0 read u32[100]
    buffer y @1 read_write u32[runtime]
    buffer n @2 write u32[1]
    body { y[gid.x] = y[gid.x] + x[gid.x] + 1u n[0u] = num_groups.x }
    """
    sums, groups = bench.run(kernel, words(*range(100)), words(*[10] * count))
    equal((u32s(sums), u32s(groups)), ([k + 11 for k in range(count)], [max(1, -(-count // 8))]))


@GEOMETRY.case()
def an_element_count_replaces_the_inferred_one(bench: Bench) -> None:
    """``element_count_override`` replaces the inferred number of elements that the grid covers."""
    kernel = mapped("y[i] = num_groups.x")
    equal(bench.words(kernel, bytes(36), element_count_override=7), [2] * 8 + [0])


@GEOMETRY.table({"x": ("x", 65_540), "y": ("y", 700), "z": ("z", 700)})
def large_grids(bench: Bench, row: tuple[str, int]) -> None:
    """The first and the last workgroups of a large grid run with the right ids."""
    axis, groups = row
    x, y, z = (groups if axis == name else 1 for name in "xyz")
    bench.need_room((1, 1, 1), (x, y, z))
    kernel = f"""
    workgroup_size 1, 1, 1
    buffer y @0 write u32[4]
    body {{
      let id = wid.{axis}
      if id < 2u {{ y[id] = id + 1u }}
      if id >= {groups - 2}u {{ y[id - {groups - 4}u] = id }}
    }}
    """
    equal(bench.words(kernel, grid=(x, y, z)), [1, 2, groups - 2, groups - 1])


@GEOMETRY.case()
def a_padded_grid_gives_what_the_given_one_gives(bench: Bench) -> None:
    """Under ``pad_grid`` the grid is rounded up, and workgroups that ``masked`` ends change nothing."""
    program = program_of("workgroup_size 2, 1, 1 buffer y @0 write u32[8] body { y[gid.x] = num_groups.x }")
    padded = masked(program, DispatchConfig(grid=(3, 1, 1), pad_grid=True))
    equal(bench.words(padded, grid=(3, 1, 1), pad_grid=True), [3] * 6 + [0] * 2)


# ---------------------------------------------------------------- refusals
_COPY: Final = "workgroup_size {}, {}, {} buffer y @0 write u32[4] body {{ y[gid.x] = 1u }}"


@GEOMETRY.table({"x": (1 << 31, 1, 1), "y": (1, 1 << 31, 1), "z": (1, 1, 1 << 31)})
def ids_beyond_32_bits_are_refused(bench: Bench, grid: Dim3) -> None:
    """A grid whose largest id does not fit is refused, as an invalid config or as above a limit."""
    bench.refuses((InvalidConfig, InvalidProgram), _COPY.format(4, 4, 4), grid=grid)


_ZERO_AXES: Final[dict[str, dict[str, Any]]] = {"grid": {"grid": (0, 1, 1)}, "workgroup": {"workgroup": (1, 1, 0)}}


@GEOMETRY.table(_ZERO_AXES)
def an_axis_of_zero_is_refused(bench: Bench, config: dict[str, Any]) -> None:
    """Grids and workgroups are at least 1 along every axis."""
    refusal(InvalidConfig, lambda: bench.run(_COPY.format(1, 1, 1), **config))


_NO_LANES: Final[dict[str, dict[str, Any]]] = {"extent": {"extent": (4, 0)}, "count": {"element_count_override": 0}}


@GEOMETRY.table(_NO_LANES)
def no_lanes_run_nothing(bench: Bench, config: dict[str, Any]) -> None:
    """An extent or a count without lanes leaves buffers as they were, and outputs zero."""
    buffers = "buffer x @0 read_write u32[1] buffer y @1 write u32[1]"
    kernel = f"workgroup_size 1, 1, 1 {buffers} body {{ x[0u] = 1u y[0u] = 1u }}"
    equal([u32s(output) for output in bench.run(kernel, words(7), **config)], [[7], [0]])


@GEOMETRY.case()
def grid_and_extent_exclude_each_other(bench: Bench) -> None:
    """Giving both grid and extent is an error."""
    refusal(InvalidConfig, lambda: bench.run(_COPY.format(1, 1, 1), grid=(4, 1, 1), extent=(4,)))
