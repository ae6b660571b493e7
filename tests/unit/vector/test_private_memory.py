"""Private memory: zeros for every lane, then what this lane has stored, whatever the others do."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.reference.agreement import ENGINE, Array, agreed, ramp
from vyre.adapters.reference.engine import RunOptions
from vyre.adapters.reference.vector.engine import CHUNK_BYTES, PRIVATE_CHUNK_BYTES
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program
from vyre.testing.races import race_report

LANES = 40

_ELEMENTS: dict[str, tuple[type[np.generic], Callable[[Any], Any]]] = {
    "u8": (np.uint32, lambda v: v % 256),
    "u16": (np.uint32, lambda v: v % 65536),
    "i8": (np.int32, lambda v: (v + 128) % 256 - 128),
    "i16": (np.int32, lambda v: (v + 32768) % 65536 - 32768),
    "u32": (np.uint32, lambda v: v),
    "i32": (np.int32, lambda v: v),
    "u64": (np.uint64, lambda v: v),
    "i64": (np.int64, lambda v: v),
    "f16": (np.float32, lambda v: np.float32(np.float16(v))),
    "f32": (np.float32, lambda v: v),
    "f64": (np.float64, lambda v: v),
}


def _stored(dtype: type[np.generic]) -> Array:
    if np.issubdtype(dtype, np.floating):
        return (np.arange(LANES) * 0.3725 - 5).astype(dtype)
    words = np.array([(1 << 63) - 3 * k if k % 2 else (1 << 63) + 5 * k for k in range(LANES)], np.uint64)
    return (words ^ (words >> np.uint64(31))).astype(dtype)


@pytest.mark.parametrize("element", list(_ELEMENTS))
def test_every_element_type(element: str) -> None:
    """Zero at first, then the narrowed value; at an index that lanes share, one of positions, and a loaded one."""
    dtype, narrowed = _ELEMENTS[element]
    wide = np.dtype(dtype).name.replace("uint", "u").replace("int", "i").replace("float", "f")
    text = f"""
        program elements
        workgroup_size 8, 1, 1
        buffer x @0 read {wide}[{LANES}]
        buffer i @1 read u32[{LANES}]
        buffer y @2 read_write {wide}[{LANES * 6}] output
        buffer m @- private {element}[9]
        body {{
          let v = x[gid.x]
          let at = gid.x * 6u
          y[at] = m[i[gid.x]]
          m[2u] = v
          y[at + 1u] = m[2u]
          m[lid.x] = v
          y[at + 2u] = m[lid.x]
          m[i[gid.x]] = v
          y[at + 3u] = m[i[gid.x]]
          y[at + 4u] = m[9u]
          if gid.x % 3u == 0u {{ m[2u] = x[0u]  m[lid.x + 1u] = x[1u] }}
          y[at + 5u] = m[2u]
        }}
    """
    x, i = _stored(dtype), ramp(LANES) % np.uint32(12)
    with np.errstate(over="ignore"):
        found = agreed(text, {"x": x, "i": i}, grid=(LANES // 8, 1, 1))["y"].reshape(LANES, 6)
        for lane in range(LANES):
            v = np.asarray(narrowed(x[lane].item()), dtype)
            last = v if 2 in (2, lane % 8, int(i[lane])) else 0
            if lane % 3 == 0:
                last = narrowed(x[1 if lane % 8 + 1 == 2 else 0].item())
            inside = v if i[lane] < 9 else dtype(0)
            assert found[lane].tolist() == [0, v, v, inside, 0, np.asarray(last, dtype)]


def test_truth_values() -> None:
    text = f"""
        program truths
        workgroup_size 8, 1, 1
        buffer x @0 read u32[{LANES}]
        buffer y @1 read_write u32[{LANES}] output
        buffer m @- private bool8[4]
        buffer w @- private bool[4]
        body {{
          m[gid.x % 4u] = x[gid.x] > 5u
          w[1u] = m[1u] or gid.x < 3u
          y[gid.x] = select(m[gid.x % 4u], 1u, 0u) + select(m[3u], 2u, 0u) + select(w[1u], 4u, 0u) + len(m) * 8u
        }}
    """
    x = ramp(LANES) % np.uint32(11)
    found = agreed(text, {"x": x}, grid=(LANES // 8, 1, 1))["y"]
    own = x > 5
    lane = np.arange(LANES)
    wanted = own * 1 + ((lane % 4 == 3) & own) * 2 + (((lane % 4 == 1) & own) | (lane < 3)) * 4 + 32
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("workgroup", ["4, 2, 2", "1, 1, 1", "16, 1, 1"])
def test_lanes_start_with_zeros_in_every_chunk(workgroup: str) -> None:
    text = f"""
        program zeros
        workgroup_size {workgroup}
        buffer y @0 read_write u32[64] output
        buffer m @- private u32[5]
        body {{
          let sum = 0u
          for k in 0u .. 5u {{ sum := sum + m[k]  m[k] = 0xFFFFFFFFu }}
          let old = atomic_add(y, (gid.x + gid.y * 4u + gid.z * 8u) % 64u, sum + 1u)
        }}
    """
    grid = (64, 1, 1) if workgroup[0:2] == "1," else (4, 1, 1)
    found = agreed(text, {}, grid=grid)["y"]
    assert found.sum() == 64


def test_a_stack_machine_with_lanes_that_part_ways() -> None:
    """Each lane sorts its own numbers on a stack of ranges, by the partition of Hoare's quicksort."""
    count = 12
    text = f"""
        program quicksort
        workgroup_size 8, 1, 1
        buffer x @0 read i32[{LANES * count}]
        buffer y @1 read_write i32[{LANES * count}] output
        buffer a @- private i32[{count}]
        buffer stack @- private u8[32]
        body {{
          for k in 0u .. {count}u {{ a[k] = x[gid.x * {count}u + k] }}
          let top = 2i
          stack[1u] = {count - 1}u
          for round in 0u .. 0xFFFFFFFFu {{
            if top == 0i {{ break }}
            let low = cast<i32>(stack[top - 2i])
            let high = cast<i32>(stack[top - 1i])
            top := top - 2i
            if low < high {{
              let pivot = a[low + (high - low) / 2i]
              let i = low - 1i
              let j = high + 1i
              for scan in 0u .. 0xFFFFFFFFu {{
                i := i + 1i
                for up in 0u .. 0xFFFFFFFFu {{ if a[i] >= pivot {{ break }}  i := i + 1i }}
                j := j - 1i
                for down in 0u .. 0xFFFFFFFFu {{ if a[j] <= pivot {{ break }}  j := j - 1i }}
                if i >= j {{ break }}
                let t = a[i]
                a[i] = a[j]
                a[j] = t
              }}
              stack[top] = cast<u32>(low)
              stack[top + 1i] = cast<u32>(j)
              stack[top + 2i] = cast<u32>(j + 1i)
              stack[top + 3i] = cast<u32>(high)
              top := top + 4i
            }}
          }}
          for k in 0u .. {count}u {{ y[gid.x * {count}u + k] = a[k] }}
        }}
    """
    x = (ramp(LANES * count) % np.uint32(1000)).astype(np.int32) - 500
    found = agreed(text, {"x": x}, grid=(LANES // 8, 1, 1))["y"].reshape(LANES, count)
    assert np.array_equal(found, np.sort(x.reshape(LANES, count), axis=1))


_BIG = """
program big
workgroup_size 64, 1, 1
buffer x @0 read u32[runtime]
buffer total @1 read_write u32[1]
buffer m @- private u8[65536]
body {
  let at = x[gid.x % len(x)]
  m[at] = 3u
  m[at + 40000u] = 4u
  let old = atomic_add(total, 0u, m[at] + m[7u])
}
"""


def test_the_memory_of_many_lanes_is_bounded() -> None:
    """A gigabyte of private memory altogether: chunks have a part of it at a time."""
    program = Program.from_text(_BIG)
    groups = 1 << 8
    x = np.arange(1000, dtype=np.uint32) * 60 + 8
    launch = resolve_launch(program, (x.nbytes, 4), DispatchConfig(grid=(groups, 1, 1)), LaunchLimits("reference"))
    kernel = ENGINE(program, {})
    memory = {"x": x.view(np.uint8), "total": np.zeros(4, np.uint8)}
    tracemalloc.start()
    try:
        kernel.run(memory, launch, RunOptions())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert memory["total"].view(np.uint32)[0] == 3 * 64 * groups
    assert PRIVATE_CHUNK_BYTES <= peak < PRIVATE_CHUNK_BYTES + CHUNK_BYTES


def test_private_memory_never_races() -> None:
    """All lanes store to element 0, which workgroup memory would have as a race."""
    text = """
        program own
        workgroup_size 4, 1, 1
        buffer y @0 read_write u32[8] output
        buffer m @- {} u32[1]
        body {{
          m[0u] = gid.x
          y[gid.x] = m[0u]
        }}
    """
    config = DispatchConfig(grid=(2, 1, 1))
    assert race_report(Program.from_text(text.format("private")), [], config) == ((), ())
    assert race_report(Program.from_text(text.format("workgroup")), [], config).races
