"""Programs of many queries: what is batched, how, and what is not."""

from __future__ import annotations

from typing import Final

import pytest

from vyre.domain.ir.program import Program
from vyre.domain.names import Dim3
from vyre.domain.queries import BatchedQueries, CannotBatch, QueryLaunch, batch_queries

HEADER: Final = """
workgroup_size 4, 1, 1
param k @0 u32
buffer edges @1 read u32[runtime]
buffer x @2 read u32[runtime]
buffer y @3 read_write u32[runtime] output like x
buffer n @4 read_write u32[1]
buffer tile @- workgroup u32[4]
"""


def launch(body: str, shared: str = "edges", grid: Dim3 = (3, 1, 1), header: str = HEADER) -> QueryLaunch:
    program = Program.from_text(header + "body {" + body + "}")
    return QueryLaunch(program, grid, program.workgroup_size, (1, 8, 10, 10, 1), frozenset(shared.split()))


def batched(asked: QueryLaunch, max_grid: Dim3 | None = None) -> BatchedQueries:
    found = batch_queries(asked, max_grid)
    assert isinstance(found, BatchedQueries), found
    return found


def text_of(found: BatchedQueries) -> str:
    return found.program.to_text().partition("body")[2]


def test_accesses_that_are_in_range_are_moved_and_others_are_kept_inside_the_own_elements() -> None:
    found = text_of(batched(launch("if gid.x < len(x) { y[gid.x] = x[edges[gid.x]] + k }")))
    assert "if gid.x < 10u" in found
    assert "y[query * 10u + gid.x]" in found
    assert "x[select(edges[gid.x] < 10u, query * 10u + edges[gid.x], 0xffffffffu)]" in found
    assert "+ k[query]" in found


def test_what_is_shared_stays_as_it_is() -> None:
    found = batched(launch("if gid.x < len(edges) { y[gid.x] = edges[gid.x] * k }", "edges k"))
    assert "edges[gid.x] * k" in text_of(found) and "gid.x < len(edges)" in text_of(found)
    declared = {buffer.name: buffer for buffer in found.program.buffers}
    assert declared["k"].is_push and declared["edges"] == launch("").program.buffers_by_name["edges"]
    assert (declared["y"].is_output, declared["y"].like, declared["y"].count) == (True, None, 0)


@pytest.mark.parametrize(
    ("grid", "axis", "whole"), [((3, 1, 1), 1, (3, 7, 1)), ((3, 2, 1), 2, (3, 2, 7)), ((3, 2, 5), 2, (3, 2, 35))]
)
def test_queries_are_the_slowest_axis_of_the_grid(grid: Dim3, axis: int, whole: Dim3) -> None:
    found = batched(launch("y[gid.x] = gid.z * num_groups.z + gid.y * wid.y + wid.z", grid=grid))
    assert (found.axis, found.grid(7)) == (axis, whole)
    own = "wid.z % 5u" if grid[2] == 5 else ("0u" if axis == 2 else "gid.z")
    assert f"= {own} * " in text_of(found)


def test_the_most_queries_follow_from_ids_elements_and_limits() -> None:
    assert batched(launch("y[gid.x] = 1u")).most == 0xFFFF_FFFF // 10
    assert batched(launch("y[gid.x] = 1u"), (9, 64, 64)).most == 64
    assert batched(launch("y[gid.x] = 1u", grid=(3, 2, 30)), (9, 9, 64)).most == 2
    assert batch_queries(launch("y[gid.x] = 1u", grid=(3, 2, 65)), (9, 9, 64)) == CannotBatch(
        "the grid of two queries would be larger than the backend allows"
    )


@pytest.mark.parametrize(
    ("body", "shared", "reason"),
    [
        ("y[gid.x] = 1u", "edges y", "they all write to `y`"),
        ("trap(gid.x, \"bad\")", "edges", "may trap"),
        ("let n = grid_loop(k, y) { y[1u] = 1u }", "edges", "grid loop"),
        ("async_load(x, tile, 0u, 16u, \"t\")\n async_wait(\"t\")", "edges", "copy accesses `x`"),
        ("y[atomic_add(n, 0u, 1u)] = 1u", "edges", "access to `y` has an atomic"),
    ],
)  # fmt: skip
def test_what_cannot_be_batched_is_told(body: str, shared: str, reason: str) -> None:
    found = batch_queries(launch(body, shared))
    assert isinstance(found, CannotBatch) and reason in found.reason


def test_a_copy_of_shared_memory_is_batched() -> None:
    body = 'async_load(edges, tile, 0u, 16u, "t")\n async_wait("t")\n y[gid.x] = tile[lid.x]'
    assert "async_load(edges" in text_of(batched(launch(body)))


def test_grid_barriers_stay() -> None:
    found = batched(launch("y[gid.x] = 1u\nbarrier(grid_sync)\nif gid.x < len(y) { y[gid.x] = y[9u - gid.x] }"))
    assert "barrier(grid_sync)" in text_of(found)
