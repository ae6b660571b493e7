"""What lanes do together: subgroups, workgroup memory, asynchronous copies."""

from __future__ import annotations

import numpy as np
import pytest

from support.reference.agreement import CANONICAL, agreed, ramp, words

_SUBGROUPS = """
program subgroups
workgroup_size {workgroup}
buffer x @0 read {dtype}[runtime]
buffer y @1 read_write {result}[{lanes}] output
body {{
  let lane = gid.x + gid.y * num_groups.x * {width}u
  {body}
}}
"""
_SHAPES = [("1, 1, 1", 1), ("31, 1, 1", 31), ("32, 1, 1", 32), ("33, 1, 1", 33), ("70, 1, 1", 70), ("5, 8, 1", 40)]


def _run(shape: tuple[str, int], dtype: str, result: str, body: str) -> None:
    workgroup, lanes = shape
    width = int(workgroup.split(",")[0])
    text = _SUBGROUPS.format(workgroup=workgroup, dtype=dtype, result=result, lanes=lanes * 3, width=width, body=body)
    size = 8 if dtype.endswith("64") else 4
    noise = np.frombuffer(np.random.default_rng(11).bytes(lanes * 3 * size), np.uint8)
    agreed(text, {"x": noise}, grid=(3, 1, 1))


@pytest.mark.parametrize("shape", _SHAPES, ids=lambda shape: shape[0])
class TestSubgroups:
    @pytest.mark.parametrize("dtype", ["u32", "i32", "u64", "i64", "f32", "f64"])
    def test_add(self, shape: tuple[str, int], dtype: str) -> None:
        """Noise holds NaN and infinities; float sums go in ascending lanes."""
        _run(shape, dtype, dtype, "y[lane] = subgroup_add(x[lane])")

    def test_add_rounds_lane_by_lane(self, shape: tuple[str, int]) -> None:
        _run(shape, "u32", "f32", "y[lane] = subgroup_add(cast<f32>(x[lane]) / 7.0f)")

    @pytest.mark.parametrize("dtype", ["u32", "f32", "i64", "bool"])
    @pytest.mark.parametrize(
        "source", ["subgroup_lane() + 1u", "31u - subgroup_lane()", "0u", "40u", "lid.x * 5u % 40u"]
    )
    def test_shuffle(self, shape: tuple[str, int], dtype: str, source: str) -> None:
        _run(shape, dtype, dtype, f"y[lane] = subgroup_shuffle(x[lane], {source})")

    def test_ballot(self, shape: tuple[str, int]) -> None:
        _run(shape, "u32", "u32", "y[lane] = subgroup_ballot(x[lane] % 3u == 0u) ^ subgroup_ballot(true)")

    def test_in_uniform_flow(self, shape: tuple[str, int]) -> None:
        body = "for k in 0u .. 3u { if wid.x != k { y[lane] = subgroup_add(x[lane] + k) + y[lane] } }"
        _run(shape, "u32", "u32", body)

    def test_in_flow_of_a_subgroup(self, shape: tuple[str, int]) -> None:
        body = "if subgroup_add(x[lane]) % 2u == 0u { y[lane] = subgroup_ballot(x[lane] > 9u) } else { y[lane] = 1u }"
        _run(shape, "u32", "u32", body)


def test_workgroup_memory_starts_as_zero_every_time() -> None:
    text = """
        program zero
        workgroup_size 4, 1, 1
        buffer y @0 read_write u32[24] output
        buffer s @- workgroup u32[4]
        buffer f @- workgroup f32[2]
        body {
          y[gid.x] = s[lid.x] + cast<u32>(f[lid.x % 2u])
          barrier(seq_cst)
          s[lid.x] = gid.x + 7u
          f[lid.x % 2u] = 3.5f
        }
    """
    assert not agreed(text, {}, grid=(6, 1, 1))["y"].any()


def test_a_tree_reduction() -> None:
    text = """
        program tree
        workgroup_size 16, 1, 1
        buffer x @0 read u32[runtime]
        buffer sums @1 read_write u32[6] output
        buffer s @- workgroup u32[16]
        body {
          s[lid.x] = x[gid.x]
          barrier(seq_cst)
          let width = 8u
          for round in 0u .. 4u {
            if lid.x < width { s[lid.x] = s[lid.x] + s[lid.x + width] }
            barrier(seq_cst)
            width := width / 2u
          }
          if lid.x == 0u { sums[wid.x] = s[0u] }
        }
    """
    sums = agreed(text, {"x": ramp(90)}, grid=(6, 1, 1))["sums"]
    padded = np.concatenate([ramp(90), np.zeros(6, np.uint32)]).reshape(6, 16)
    assert np.array_equal(sums, padded.sum(axis=1, dtype=np.uint32))


_COPIES = {
    "load": 'async_load(x, y, gid.x * 3u, 5u, "t")',
    "load past the end": 'async_load(x, y, 20u + gid.x, 60u, "t")',
    "load of nothing": 'async_load(x, y, 0xFFFFFFFFu, 0u, "t")',
    "load of everything": 'async_load(x, y, 0u, 0xFFFFFFFFu, "t")',
    "load of as many bytes as lanes": 'async_load(x, y, gid.x, gid.x, "t")',
    "store": 'async_store(x, y, gid.x * 4u, 4u, "t")',
    "overlapping stores": 'async_store(x, y, gid.x * 2u, 7u, "t")',
    "store past the end": 'async_store(x, y, 30u - gid.x, 0xFFFFFFFFu, "t")',
    "store beyond the end": 'async_store(x, y, 0xFFFFFFF0u + gid.x, 40u, "t")',
    "into workgroup memory": 'async_load(x, s, lid.x * 2u, 3u + lid.x, "t")',
    "out of workgroup memory": 'async_store(s, y, gid.x * 3u, 3u, "t")',
}


@pytest.mark.parametrize("copy", _COPIES.values(), ids=_COPIES.keys())
@pytest.mark.parametrize("condition", ["true", "lid.x % 2u == 1u", "gid.x < 5u"])
def test_asynchronous_copies(copy: str, condition: str) -> None:
    text = f"""
        program copies
        workgroup_size 4, 1, 1
        buffer x @0 read_write u16[16]
        buffer y @1 read_write u32[8]
        buffer z @2 read_write u16[8] output
        buffer s @- workgroup u16[6]
        body {{
          s[lid.x] = 100u + gid.x
          barrier(seq_cst)
          if {condition} {{
            {copy}
            x[gid.x] = 1u
            let between = y[gid.x]
            async_wait("t")
            x[gid.x + 8u] = between
          }}
          z[gid.x] = cast<u32>(s[lid.x + 1u])
        }}
    """
    noise = ramp(40).view(np.uint8)
    agreed(text, {"x": noise[:32], "y": noise[32:64]}, grid=(2, 1, 1), chunks=CANONICAL)


def test_a_copy_in_each_branch() -> None:
    text = """
        program branches
        workgroup_size 4, 1, 1
        buffer x @0 read u32[16]
        buffer y @1 read_write u32[64] output
        body {
          if x[gid.x] % 2u == 0u {
            async_store(x, y, gid.x * 16u, 8u, "t")
          } else {
            async_store(x, y, gid.x * 16u + 4u, 12u, "t")
          }
          async_wait("t")
        }
    """
    agreed(text, {"x": words(*range(3, 19))}, grid=(4, 1, 1))
