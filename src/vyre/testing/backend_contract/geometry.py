"""Cases of ``DispatchConfig``: every field is honoured or refused, never ignored.

Cases of ids, grids, extents and workgroup sizes, and of refused geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from vyre.domain.dispatch import DispatchConfig, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import (
    DataRaceError,
    DeviceLimitExceeded,
    DispatchTimeout,
    InvalidConfig,
    StepBudgetExceeded,
    UnsupportedFeature,
    VyreError,
)
from vyre.domain.ir.program import Dim3
from vyre.domain.ir.types import ScalarType
from vyre.domain.padding import masked
from vyre.domain.specialization import SpecMap, SpecValue
from vyre.ports.backend import BackendRole
from vyre.testing.backend_contract.bench import (
    INCREMENT,
    Bench,
    Skipped,
    check_error,
    equal,
    holds,
    mapped,
    program_of,
    refusal,
    u32s,
    words,
)
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.programs import add_programs

CONFIG: Final = Group("config")
add_programs(CONFIG)
_LOOP: Final = """
    workgroup_size 4, 1, 1
    buffer n @0 read u32[runtime]
    buffer y @1 write u32[runtime] like n
    body { for k in 0u..n[gid.x] { y[gid.x] = y[gid.x] + 1u } }
    """


def _refused(bench: Bench, call: Callable[[], object]) -> bool:
    """Returns whether ``call`` is refused as unsupported, by a well-formed error that names the backend."""
    try:
        call()
    except UnsupportedFeature as error:
        check_error(error)
        equal(error.backend, str(bench.backend.id), "the backend that the error names")
        holds(bool(error.feature), "the error names no feature")
        return True
    return False


# ---------------------------------------------------------------- fields that must be honoured or refused
@CONFIG.table({"exceeded_by_two": 1, "exceeded_by_one": 2, "exhausted": 3})
def step_budget(bench: Bench, budget: int) -> None:
    """A lane that takes more back-edges than allowed fails the dispatch; the error names the lowest such lane."""
    rounds = (1, 3, 4, 3)
    if _refused(bench, lambda: bench.run(_LOOP, words(1), step_budget=0)):
        return
    over = [lane for lane, n in enumerate(rounds) if n - 1 > budget]  # the last round takes no back-edge
    if over:
        error = bench.refuses(StepBudgetExceeded, _LOOP, words(*rounds), step_budget=budget)
        equal((error.budget, error.global_id), (budget, (over[0], 0, 0)))
    else:
        equal(bench.words(_LOOP, words(*rounds), step_budget=budget), list(rounds))


@CONFIG.case()
def race_check(bench: Bench) -> None:
    """A data race is reported, or the check is refused."""
    racy = "workgroup_size 4, 1, 1 buffer y @0 write u32[1] body { y[0u] = gid.x }"
    if _refused(bench, lambda: bench.run(INCREMENT, words(1, 2), race_check=True)):
        return
    equal(bench.words(INCREMENT, words(1, 2), race_check=True), [2, 3])
    error = bench.refuses(DataRaceError, racy, grid=(2, 1, 1), race_check=True)
    equal({race.buffer for race in error.races}, {"y"}, "the buffers with races")


@CONFIG.table({"1": 1, "3": 3, "1000": 1000})
def chunk_workgroups(bench: Bench, chunk: int) -> None:
    """The number of workgroups run at once changes no answer."""
    values = list(range(50))
    if _refused(bench, lambda: bench.run(INCREMENT, words(*values), chunk_workgroups=chunk)):
        return
    equal(bench.words(INCREMENT, words(*values), chunk_workgroups=chunk), [v + 1 for v in values])


_MODES: Final[Mapping[str, type[SpeculationMode | PersistentThreadMode]]] = {
    "speculation": SpeculationMode,
    "persistent_thread": PersistentThreadMode,
}


@CONFIG.table({field: field for field in _MODES})
def modes(bench: Bench, field: str) -> None:
    """AUTO and DISABLE are accepted everywhere; FORCE is for sessions, and a dispatch by itself refuses it."""
    mode = _MODES[field]
    for value in (mode.AUTO, mode.DISABLE):
        equal(bench.words(INCREMENT, words(1, 2), **{field: value}), [2, 3], value.value)
    bench.refuses(UnsupportedFeature, INCREMENT, words(1, 2), **{field: mode.FORCE})


@CONFIG.case()
def cooperative(bench: Bench) -> None:
    """A cooperative launch changes no answer, or is refused."""
    if not _refused(bench, lambda: bench.run(INCREMENT, words(1, 2), cooperative=True)):
        equal(bench.words(INCREMENT, words(1, 2, 3), cooperative=True), [2, 3, 4])


@CONFIG.case()
def an_unknown_profile_is_refused(bench: Bench) -> None:
    """A code generation profile that does not exist is unsupported."""
    bench.refuses(UnsupportedFeature, INCREMENT, words(1), profile="no such profile")


@CONFIG.table({"0": 0, "1": 1, "255": 255})
def ulp_budget(bench: Bench, budget: int) -> None:
    """A budget of ulps bounds the error of every result."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read f32[4]
    buffer y @1 write f32[4]
    body { y[gid.x] = exp(x[gid.x]) }
    """
    exact = (0x3F80_0000, 0x402D_F854, 0x3EBC_5AB2, 0x7F80_0000)
    inputs = words(0, 0x3F80_0000, 0xBF80_0000, 0x7F80_0000)
    results = bench.words(kernel, inputs, ulp_budget=budget)
    holds(all(abs(a - b) <= budget for a, b in zip(results, exact, strict=True)), f"{results} is too far from {exact}")


@CONFIG.case()
def label(bench: Bench) -> None:
    """A label changes nothing."""
    for text in ("first", "", "ünïcode \0 and \n"):
        equal(bench.words(INCREMENT, words(5), label=text), [6])


_LONG_WINDED: Final = """
    workgroup_size 32, 1, 1
    buffer x @0 read u32[64]
    buffer y @1 write u32[64]
    body {
      let i = cast<i32>(gid.x)
      let j = cast<u32>(i + 1i)
      let unused = x[j] * 3u
      let twice = x[cast<u32>(i)] + x[cast<u32>(i)]
      y[cast<u32>(i)] = twice + x[j] * 1u + (7u - 7u)
    }
    """


@CONFIG.case()
def optimize(bench: Bench) -> None:
    """The optimizer changes no byte, whether it is wanted or not, and however often a program runs."""
    x = words(*range(64))
    expected = [2 * k + (k + 1 if k < 63 else 0) for k in range(64)]
    for wanted in (True, False):
        for _ in range(20):
            equal(bench.words(_LONG_WINDED, x, optimize=wanted, grid=2), expected, f"optimize={wanted}")


# ---------------------------------------------------------------- timeouts
_SLOW: Final = """
    workgroup_size 1, 1, 1
    buffer n @0 read u32[1]
    buffer y @1 write u32[1]
    body { let a = 1u for k in 0u..n[0u] { a := (a * 1664525u + 1013904223u) ^ (a >> 7u) } y[0u] = a }
    """


@CONFIG.case()
def a_timeout_that_does_not_pass(bench: Bench) -> None:
    """A sufficient timeout changes nothing."""
    equal(bench.words(INCREMENT, words(1, 2), timeout_s=3600.0), [2, 3])


@CONFIG.case()
def a_timeout_that_passes(bench: Bench) -> None:
    """A dispatch that exceeds its timeout raises ``DispatchTimeout``; the backend keeps working."""
    if bench.subject.registration.role is BackendRole.EMULATION:
        raise Skipped(f"`{bench.backend.id}` emulates a kernel within one call, during which no deadline can pass")
    with bench.elsewhere() as other:
        other.run(_SLOW, words(1))
        other.refuses(DispatchTimeout, _SLOW, words(1 << 27), timeout_s=0.05)
        equal(other.words(INCREMENT, words(1)), [2])


# ---------------------------------------------------------------- specialization
_SPEC: Final = """
    workgroup_size 1, 1, 1
    buffer y @0 write u32[4]
    body {
      y[0u] = spec(count, 5u)
      y[1u] = bitcast<u32>(spec(bias, -3i))
      y[2u] = bitcast<u32>(spec(scale, 1.5f))
      y[3u] = select(spec(flag, false), 1u, 0u)
    }
    """


@CONFIG.case("supports_specialization_constants")
def specializations_do_not_mix(bench: Bench) -> None:
    """Alternating values of one constant give alternating answers."""
    for value in (1, 2, 1, 3, 2):
        equal(bench.words(_SPEC, grid=(1, 1, 1), spec=SpecMap({"count": value}))[0], value)
    equal(bench.words(_SPEC, grid=(1, 1, 1))[0], 5, "the default")
    equal(bench.words(_SPEC, grid=(1, 1, 1), spec=SpecMap())[0], 5, "the default of an empty map")


@CONFIG.table(
    {
        "unknown_name": {"cuont": SpecValue.u32(1)},
        "wrong_type": {"count": SpecValue.i32(1)},
        "a_data_type": {"count": SpecValue.dtype(ScalarType.U32)},
    },
    "supports_specialization_constants",
)
def a_wrong_specialization_is_refused(bench: Bench, values: dict[str, SpecValue]) -> None:
    """Unknown names and wrong types are errors that name the constant."""
    error = bench.refuses(InvalidConfig, _SPEC, spec=SpecMap(values))
    holds(next(iter(values)) in error.message, f"the constant is not named: {error}")


# ---------------------------------------------------------------- completeness
_ELSEWHERE: Final = frozenset(
    {"grid", "extent", "workgroup", "pad_grid", "element_count_override", "output_counts", "max_output_bytes"}
)
"""Fields that the cases of geometry and outputs cover."""
_HERE: Final = frozenset(
    {
        "spec",
        "step_budget",
        "race_check",
        "chunk_workgroups",
        "profile",
        "ulp_budget",
        "timeout_s",
        "label",
        "fixpoint_iterations",
        "speculation",
        "persistent_thread",
        "cooperative",
        "optimize",
    }
)


@CONFIG.case()
def every_field_has_a_case(bench: Bench) -> None:
    """Every field of the config has a case in this suite."""
    equal(frozenset(f.name for f in fields(DispatchConfig)), _ELSEWHERE | _HERE, "the fields of DispatchConfig")


@CONFIG.case()
def a_refused_config_does_not_stick(bench: Bench) -> None:
    """A program runs normally after one of its configs was refused."""
    for bad in ({"profile": "no such profile"}, {"max_output_bytes": 0}, {"output_counts": {"q": 1}}):
        try:
            bench.run(INCREMENT, words(1), **bad)
        except VyreError:
            pass
        else:
            holds(False, f"{bad} is ignored")
        equal(bench.words(INCREMENT, words(1)), [2])


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
    bench.refuses((InvalidConfig, DeviceLimitExceeded), _COPY.format(4, 4, 4), grid=grid)


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
