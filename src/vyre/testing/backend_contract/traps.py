"""Cases of traps: which lane is named, and what state remains."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from vyre.domain.errors import TrapError
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal

TRAPS: Final = Group("traps", "supports_trap_propagation")


class _Trap(NamedTuple):
    """A body over ``x`` (u32[16]) and ``y``, and the expected fields of the error."""

    body: str
    tag: str
    address: int
    lane: tuple[int, int, int]
    workgroup: tuple[int, int, int] = (4, 1, 1)
    config: dict[str, Any] = {}  # noqa: RUF012  # only read


@TRAPS.table(
    {
        "one_lane": _Trap('if gid.x == 7u { trap(gid.x * 3u, "seven") }', "seven", 21, (7, 0, 0)),
        "the_lowest_of_many": _Trap('if gid.x >= 5u { trap(gid.x, "late") }', "late", 5, (5, 0, 0)),
        "all_lanes": _Trap('trap(100u + gid.x, "all")', "all", 100, (0, 0, 0)),
        "the_lowest_though_it_comes_later": _Trap(
            'if gid.x >= 8u { trap(1u, "high") } for k in 0u..50u { y[gid.x] = k } if gid.x == 2u { trap(2u, "low") }',
            "low",
            2,
            (2, 0, 0),
        ),
        "the_lowest_of_two_tags": _Trap(
            'if gid.x % 2u == 1u { trap(1u, "odd") } if gid.x % 4u == 2u { trap(2u, "even") }', "odd", 1, (1, 0, 0)
        ),
        "the_first_of_a_lane": _Trap('if gid.x == 3u { trap(1u, "first") trap(2u, "second") }', "first", 1, (3, 0, 0)),
        "in_a_loop": _Trap(
            'for k in 0u..10u { if k == x[gid.x] { if gid.x > 3u { trap(k * 10u + gid.x, "round") } } }',
            "round",
            44,
            (4, 0, 0),
        ),
        "after_a_return_of_others": _Trap('if gid.x < 6u { return } trap(gid.x, "rest")', "rest", 6, (6, 0, 0)),
        "the_whole_address": _Trap('if gid.x == 1u { trap(0xfffffffeu, "far") }', "far", 0xFFFF_FFFE, (1, 0, 0)),
        "an_empty_tag": _Trap('if gid.x == 1u { trap(0u, "") }', "", 0, (1, 0, 0)),
        "a_tag_of_many_letters": _Trap(
            'if gid.x == 1u { trap(0u, "größer als \\"vier\\", siehe Zeile 7") }',
            'größer als "vier", siehe Zeile 7',
            0,
            (1, 0, 0),
        ),
        "two_axes": _Trap(
            'if gid.y == 2u { if gid.x >= 3u { trap(gid.y * 10u + gid.x, "corner") } }',
            "corner",
            23,
            (3, 2, 0),
            (2, 2, 1),
            {"grid": (3, 2, 1)},
        ),
        "lowest_by_linear_id": _Trap(
            'if gid.x + gid.y * 4u + gid.z * 16u >= 21u { trap(gid.z, "z") }',
            "z",
            1,
            (1, 1, 1),
            (2, 2, 2),
            {"grid": (2, 2, 2)},
        ),
        "before_a_grid_barrier": _Trap(
            'barrier(grid_sync) y[gid.x] = x[15u - gid.x] if y[gid.x] == 4u { trap(y[gid.x], "segment") }',
            "segment",
            4,
            (11, 0, 0),
        ),
    }
)
def the_lowest_lane_is_named(bench: Bench, trap: _Trap) -> None:
    """The error has tag, address and global id of the trapping lane with the lowest linear id."""
    x, y, z = trap.workgroup
    kernel = f"""
    workgroup_size {x}, {y}, {z}
    buffer x @0 read u32[16]
    buffer y @1 write u32[16]
    body {{ {trap.body} }}
    """
    error = bench.refuses(TrapError, kernel, words(*range(16)), **trap.config)
    equal((error.tag, error.address, error.global_id), (trap.tag, trap.address, trap.lane), "what trapped")


_CHECKED: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body {
      if gid.x < len(x) {
        if x[gid.x] == 0u { trap(gid.x, "zero") }
        x[gid.x] = 100u / x[gid.x]
      }
    }
    """


@TRAPS.case()
def no_trap_no_error(bench: Bench) -> None:
    """A program that may trap but does not returns its outputs."""
    equal(bench.words(_CHECKED, words(1, 2, 4, 5, 10)), [100, 50, 25, 20, 10])


@TRAPS.case()
def a_dispatch_after_a_trap_is_clean(bench: Bench) -> None:
    """A trap leaves no state: the same program runs on other data, and traps again."""
    for _ in range(3):
        error = bench.refuses(TrapError, _CHECKED, words(1, 0, 4, 0))
        equal((error.address, error.global_id), (1, (1, 0, 0)), "what trapped")
        equal(bench.words(_CHECKED, words(2, 4)), [50, 25])


@TRAPS.case()
def an_ended_lane_does_nothing_more(bench: Bench) -> None:
    """After a trap its lane does nothing more: no store, no second trap."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[4]
    body {
      for k in 0u..100u {
        if gid.x == 1u { trap(k, "once") }
        x[gid.x] = k
      }
      if gid.x == 1u { trap(1000u, "twice") }
    }
    """
    error = bench.refuses(TrapError, kernel, bytes(16))
    equal((error.tag, error.address), ("once", 0), "what trapped")


@TRAPS.case()
def a_trap_in_a_branch_nobody_takes(bench: Bench) -> None:
    """A trap that no lane reaches has no effect."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[4]
    buffer y @1 write u32[4]
    body { if x[gid.x] > 100u { trap(0u, "no") } y[gid.x] = x[gid.x] }
    """
    equal(bench.words(kernel, words(1, 2, 3, 4)), [1, 2, 3, 4])


@TRAPS.case()
def the_last_workgroup_may_trap(bench: Bench) -> None:
    """A trap in the last workgroup of a large grid is reported."""
    kernel = """
    workgroup_size 32, 1, 1
    buffer y @0 write u32[2000]
    body { if gid.x == 1999u { trap(gid.x, "end") } y[gid.x] = 1u }
    """
    error = bench.refuses(TrapError, kernel)
    equal((error.address, error.global_id), (1999, (1999, 0, 0)), "what trapped")
