"""Grids that a device cannot have along an axis, and grids without workgroups: the kernel sees them all the same.

The tiny device takes 4096 workgroups along x, and 64 along y and z.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Literal

import numpy as np
import pytest

import vyre
from vyre import DeviceLimitExceeded, DispatchConfig, In, InOut, Out, Program, Step, f32, like, u32
from vyre.adapters.cuda.machine.presets import TINY
from vyre.testing import cuda_machine

IDS = """
program ids
workgroup_size 2, 3, 1
buffer gid_of @0 write u32[runtime]
buffer lid_of @1 write u32[runtime]
buffer wid_of @2 write u32[runtime]
buffer groups @3 write u32[3]
body {
  let lane = (gid.z * (num_groups.y * 3u) + gid.y) * (num_groups.x * 2u) + gid.x
  gid_of[lane] = (gid.z * 1000u + gid.y) * 1000u + gid.x
  lid_of[lane] = lid.y * 1000u + lid.x
  wid_of[lane] = (wid.z * 1000u + wid.y) * 1000u + wid.x
  if lane == 0u { groups[0u] = num_groups.x groups[1u] = num_groups.y groups[2u] = num_groups.z }
}
"""
GRIDS = [(3, 70, 2), (2, 2, 65), (1, 1, 130), (4, 64, 1)]


@vyre.kernel(workgroup=1)
def doubled(x: In[f32, Literal[2]], y: Out[f32, Literal[2], like("x")]) -> None:  # type: ignore[valid-type]
    row, column = vyre.global_id(1), vyre.global_id(0)
    y[row, column] = x[row, column] * 2.0


@vyre.kernel(workgroup=1)
def met(x: InOut[u32], sums: InOut[u32]) -> None:
    row = vyre.group_id(1)
    x[row] = row
    vyre.grid_sync()
    sums[row] = x[row] + x[vyre.num_groups(1) - 1 - row]


@vyre.kernel(workgroup=1)
def counted(x: InOut[u32], changed: InOut[u32]) -> None:
    row = vyre.group_id(1)
    with vyre.grid_loop(10, changed):
        if x[row] < 3:
            x[row] += 1
            changed[0] = 1


@vyre.kernel(workgroup=4)
def marked(x: InOut[u32]) -> None:
    x[vyre.global_id()] = 7


@pytest.fixture(scope="module")
def tiny() -> Iterator[vyre.Session]:
    with cuda_machine(preset=TINY).open() as session:
        yield session


@pytest.fixture(scope="module")
def reference() -> Iterator[vyre.Session]:
    with vyre.open("reference") as session:
        yield session


@pytest.mark.parametrize("grid", GRIDS)
def test_ids_of_a_folded_grid_are_those_of_the_grid(
    tiny: vyre.Session, reference: vyre.Session, grid: tuple[int, int, int]
) -> None:
    program, lanes = Program.from_text(IDS), 6 * prod(grid)
    counts = {"gid_of": lanes, "lid_of": lanes, "wid_of": lanes}
    found, wanted = (s.dispatch(program, {}, grid=grid, output_counts=counts) for s in (tiny, reference))
    assert found["groups"].tolist() == list(grid)
    assert all(np.array_equal(found[name], wanted[name]) for name in counts)


def test_rows_beyond_what_a_device_has_along_y() -> None:
    table = np.arange(65_536, dtype=np.float32).reshape(-1, 1)
    with vyre.open("cuda-machine", cache=False):
        assert np.array_equal(doubled(table), table * 2)


def test_bound_launches_and_sequences_run_folded_grids_too(tiny: vyre.Session) -> None:
    table = np.arange(200, dtype=np.float32).reshape(100, 2)
    assert np.array_equal(tiny.bind(doubled, {"x": table})()["y"], table * 2)
    with tiny.resident(table) as x, tiny.resident(np.zeros_like(table)) as y:
        tiny.bind_resident(doubled, {"x": x, "y": y})()
        tiny.sequence([Step(doubled, {"x": y, "y": x}), Step(doubled, {"x": x, "y": y})])(3)
        assert np.array_equal(y.download(), table * 2**7)


def test_jobs_of_a_kernel_that_stays_have_any_grid(tiny: vyre.Session) -> None:
    zeros = np.zeros(8, np.uint32)
    for extent, wanted in (((4, 70), [7] * 4 + [0] * 4), ((0, 1), [0] * 8)):
        with tiny.persistent(marked.program, {"x": zeros}, extent=extent) as engine:
            assert engine.submit({"x": zeros}).result()["x"].tolist() == wanted


def test_lanes_of_a_folded_grid_wait_for_each_other(tiny: vyre.Session) -> None:
    x, sums = np.zeros(100, np.uint32), np.zeros(100, np.uint32)
    with cuda_machine(preset=TINY).open():
        met[1, 100](x, sums)
        assert sums.tolist() == [99] * 100
        changed = np.zeros(1, np.uint32)
        counted[1, 100](x, changed)
    assert x.tolist() == [max(number, 3) for number in range(100)]


def test_more_workgroups_than_a_device_takes_in_all_are_refused(tiny: vyre.Session) -> None:
    table = np.zeros((4097, 1), np.float32)
    with pytest.raises(DeviceLimitExceeded, match="4097"):
        tiny.dispatch(doubled, {"x": table})
    with pytest.raises(
        DeviceLimitExceeded, match=r"number of workgroups in a grid that has 64x65x1, .* is 4160; .* allows 4096"
    ):
        tiny.dispatch(doubled, {"x": table}, grid=(64, 65))


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_a_grid_without_workgroups_runs_nothing(backend: str) -> None:
    x, changed = np.zeros(8, np.uint32), np.zeros(1, np.uint32)
    with vyre.open(backend, cache=False) as session:
        zero: Any = np.int64(0)
        launches: list[Any] = [marked.over(0), marked.over(zero), marked.over((4, 0))]
        for launch in launches:
            launch(x)
            assert not session.dispatch(launch, {"x": x})["x"].any()
            assert not session.submit(launch, {"x": x}).result()["x"].any()
            assert not session.bind(launch, {"x": x})()["x"].any()
            with session.resident(x) as held:
                session.bind_resident(launch, {"x": held})()
                with session.sequence([Step(launch, {"x": held})] * 3 + [Step(marked, {"x": held[4:]})]) as work:
                    work(2)
                assert held.download().tolist() == [0, 0, 0, 0, 7, 7, 7, 7]
                held.upload(x)
                assert not held.download().any()
        met.over(0)(x, x.copy())
        counted.over((1, 0))(x, changed)
        assert not x.any()
        assert not session.dispatch(marked.program, {"x": x}, DispatchConfig(element_count_override=0))["x"].any()
        assert session.dispatch(marked, {"x": x[:0]}).launch.grid == (0, 1, 1)
