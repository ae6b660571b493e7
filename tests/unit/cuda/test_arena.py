"""The arena of a dispatch: every part has its place, every phase is one range."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre import ProgramBuilder, u32
from vyre.adapters.cuda.runtime.arena import ALIGNMENT, GAP, Arena, Range, fuse, plan_arena
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program


def program() -> Program:
    with ProgramBuilder("all roles", workgroup=64) as p:
        p.output("made", u32, 100)
        p.inout("changed", u32)
        p.input("read", u32)
        p.param("scalar", u32)
        p.output("also_made", u32, 3)
    return p.build()


def arena(sizes: tuple[int, ...] = (40, 4000, 4), *, table: int = 0, traps: int = 0, scratch: int = 0) -> Arena:
    built = program()
    plan = plan_bindings(built)
    launch = resolve_launch(built, sizes, DispatchConfig(), LaunchLimits("test"))
    pushes = {i for i, b in enumerate(plan.bindings) if b.buffer.is_push}
    return plan_arena(plan, launch, pushes, table=table, traps=traps, scratch=scratch)


def test_scalars_take_no_memory() -> None:
    assert [offset is None for offset in arena().offsets] == [False, False, False, True, False]


def test_each_phase_is_one_range() -> None:
    found = arena(table=80, traps=64, scratch=256)
    made, changed, read, _, also = found.offsets
    assert made is not None
    assert changed is not None
    assert read is not None
    assert also is not None
    assert read < found.table.start < changed < made < also < found.traps.start < found.zeroed_scratch
    assert found.upload == Range(0, changed + 40)
    assert found.zero == Range(made, found.nbytes)
    assert found.nbytes == found.zeroed_scratch + 256


def test_every_part_is_aligned() -> None:
    found = arena(table=80, traps=32, scratch=256)
    starts = [*found.offsets, found.table.start, found.traps.start, found.zeroed_scratch]
    assert all(start is None or start % ALIGNMENT == 0 for start in starts)


def test_the_mirror_covers_what_is_copied() -> None:
    found = arena(traps=32)
    assert found.mirror_nbytes == max(found.upload.end, found.reads[-1].end)
    assert found.mirror_nbytes <= found.nbytes


def test_buffers_without_elements_take_no_memory() -> None:
    assert arena((0, 0, 4)).offsets[1:3] == (None, None)


@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 9_000)), max_size=8), st.integers(0, 8_192))
def test_fused_ranges_cover_the_same_bytes_with_gaps_between(pairs: list[tuple[int, int]], gap: int) -> None:
    ranges = [Range(start, start + size) for start, size in pairs]
    fused = fuse(ranges, gap)
    assert all(any(f.start <= r.start and r.end <= f.end for f in fused) for r in ranges if r.nbytes)
    assert all(right.start - left.end > gap for left, right in pairwise(fused))
    edges = {r.start for r in ranges if r.nbytes}, {r.end for r in ranges if r.nbytes}
    assert all(f.start in edges[0] and f.end in edges[1] for f in fused)


@pytest.mark.parametrize(("distance", "copies"), [(GAP, 1), (GAP + 1, 2)])
def test_near_ranges_are_read_in_one_copy(distance: int, copies: int) -> None:
    assert len(fuse([Range(0, 4), Range(4 + distance, 8 + distance)])) == copies
