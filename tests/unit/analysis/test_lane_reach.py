"""What the ids of a program reach, from its text: programs without shapes count elements of flat arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from vyre import DispatchConfig, GridRule, Program
from vyre.domain.geometry import Reach
from vyre.domain.interface import reach_of

TEXT = """
program reach
workgroup_size 64, 1, 1
buffer x @0 read u32[runtime]
buffer y @1 read_write u32[runtime]
param n @2 u32
body {{ {} }}
"""
Y = Reach("y", 0)


def _program(body: str) -> Program:
    return Program.from_text(TEXT.format(body))


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("y[gid.x] = x[gid.x]", {Y}),
        ("let i = gid.x + 2u y[i] = 1u", {Y}),
        ("y[gid.x - 1u] = x[gid.x]", {Y._replace(more=1)}),
        ("y[3u * gid.x + 2u] = 1u", {Y._replace(ids=(1, 3))}),
        ("y[gid.x / 3u] = 1u", {Y._replace(ids=(3, 1))}),
        ("y[gid.x >> 5u] = 1u", {Y._replace(ids=(32, 1))}),
        ("y[(gid.x + 7u) / 8u] = 1u", {Y._replace(ids=(8, 1))}),
        ("y[wid.x] = 1u", {Y._replace(of_groups=True)}),
        ("y[wid.x * 64u + lid.x] = 1u", {Y}),
        ("y[wid.x * 128u + lid.x] = 1u", {Y._replace(ids=(1, 128), of_groups=True)}),
        ("y[gid.x + n] = 1u", {Y}),
        ("for k in 0u .. n { y[gid.x * 4u + k] = 1u }", {Y._replace(ids=(1, 4))}),
        ("y[gid.x] = x[n] y[0u] = 2u", {Y}),
        # stores that are not plain: what is read counts too, and arrays with all elements
        ("y[n - gid.x] = x[gid.x]", {Y, Reach("x", 0)}),
        ("y[x[gid.x]] = 1u", {Reach("y"), Reach("x", 0)}),
        ("y[gid.x % n] = x[gid.x / n]", {Reach("y"), Reach("x")}),
        ("for k in gid.x .. n { y[k] = 1u }", {Reach("y")}),
        ("let k = gid.x k := k + 1u y[k] = 1u", {Y}),
        ("y[0u] = 1u", set()),
        ("y[0u] = x[gid.x]", {Reach("x", 0)}),
    ],
)
def test_the_parts_that_ids_along_x_reach(body: str, parts: set[Reach]) -> None:
    found = reach_of(_program(body))
    assert set(found.axes[0]) == parts
    assert found.reads <= {0}


@pytest.mark.parametrize("body", ["y[gid.y * n + gid.x] = 1u", "y[wid.z] = 1u", "y[gid.x] = gid.y"])
def test_programs_that_read_ids_along_other_axes_have_one_lane_there(body: str) -> None:
    inputs: dict[str, Any] = {"x": np.zeros(4, np.uint32), "y": np.zeros(4, np.uint32), "n": 2}
    with vyre.open("reference") as session:
        assert session.dispatch(_program(body), inputs).launch.grid[1:] == (1, 1)
        assert session.dispatch(_program(body), inputs, extent=(2, 2, 4)).launch.rule is GridRule.GIVEN_EXTENT


@pytest.mark.parametrize(("body", "lanes", "groups"), [("y[wid.x] = 1u", 64 * 5, 5), ("y[gid.x / 3u] = 1u", 15, 1)])
def test_a_program_and_its_bundle_cover_what_their_ids_reach(
    tmp_path: Path, body: str, lanes: int, groups: int
) -> None:
    inputs: dict[str, Any] = {"x": np.zeros(1, np.uint32), "y": np.zeros(5, np.uint32), "n": 1}
    program = _program(body)
    for backend in ("reference", "cpu", "cuda-machine"):
        with vyre.open(backend, cache=False) as session:
            found = session.dispatch(program, inputs)
            assert found["y"].tolist() == [1] * 5
            assert (found.launch.extent, found.launch.grid[0]) == ((lanes,), groups)
            larger = session.dispatch(program, inputs, DispatchConfig(workgroup=128))
            assert larger["y"].tolist() == [1] * 5
            assert larger.launch.grid[0] == groups
    path = tmp_path / "reach.vyrebundle"
    vyre.build_bundle(program, path, targets=["sm_90"])
    (loaded,) = vyre.load_bundle(path).values()
    with vyre.open("cuda-machine", cache=False) as session:
        found = session.dispatch(loaded, inputs)
        assert found["y"].tolist() == [1] * 5
        assert (found.launch.extent, found.launch.rule) == ((lanes,), GridRule.REACHED)
        assert session.dispatch(loaded, inputs, extent=0)["y"].tolist() == [0] * 5
