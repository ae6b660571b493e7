"""Indices: affine ones become views, all others gathers, and nobody can tell the difference."""

from __future__ import annotations

import numpy as np
import pytest

from support.reference.agreement import CANONICAL, agreed, ramp, words

_COPY = """
program copy
workgroup_size {workgroup}
buffer x @0 read u32[runtime]
buffer y @1 read_write u32[{count}] output
body {{\n{body}\n}}
"""


def _copied(
    body: str, x: int, y: int, *, workgroup: str = "8, 1, 1", grid: tuple[int, int, int] = (5, 1, 1)
) -> np.ndarray:
    """``y`` after the body ran over ``x`` words of input."""
    text = _COPY.format(workgroup=workgroup, count=y, body=body)
    return agreed(text, {"x": ramp(x)}, grid=grid)["y"]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 39, 40, 41, 100])
def test_a_length_guard_cuts_the_grid_anywhere(count: int) -> None:
    y = _copied("if gid.x < len(x) { y[gid.x] = x[gid.x] }", count, 64)
    assert np.array_equal(y[: min(count, 40)], ramp(count)[:40])
    assert not y[min(count, 40) :].any()


@pytest.mark.parametrize("limit", [0, 1, 5, 8, 20, 39, 40, 0xFFFFFFFF])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("index", ["gid.x", "lid.x", "wid.x", "gid.x * 3u + 2u", "40u - gid.x", "lid.x * 5u + wid.x"])
def test_comparisons_of_positions_with_numbers(operator: str, limit: int, index: str) -> None:
    _copied(f"if {index} {operator} {limit}u {{ y[gid.x] = 1u }} else {{ y[gid.x] = 2u + x[gid.x] }}", 40, 40)


@pytest.mark.parametrize(
    "condition",
    [
        "gid.x < 30u and lid.x > 2u",
        "gid.x < 30u or lid.x == 2u",
        "not(gid.x < 30u) and wid.x < 4u",
        "gid.x >= 3u and gid.x < 17u",
        "not(gid.x >= 3u and gid.x < 17u)",
        "(gid.x < 30u) == (lid.x < 4u)",
        "gid.x < 30u and x[gid.x] > 0x80000000u",
        "lid.x < wid.x",
        "gid.x + 4294967290u < 10u",
        "gid.x * 0x10000000u < 0x30000000u",
        "lid.x < 4u and len(x) == 40u",
    ],
)
def test_conditions_made_of_comparisons(condition: str) -> None:
    _copied(f"if {condition} {{ y[gid.x] = x[gid.x] }} else {{ y[gid.x] = 7u }}", 40, 40)


_INDICES = (
    "gid.x + 1u",
    "gid.x - 1u",
    "gid.x + 35u",
    "gid.x - 4u",
    "39u - gid.x",
    "20u - gid.x",
    "gid.x * 2u",
    "gid.x * 0u",
    "gid.x * 0xFFFFFFFFu",
    "gid.x * 0x80000001u",
    "gid.x + 4294967295u",
    "gid.x + 4294967280u",
    "(gid.x + 4294967280u) + 16u",
    "gid.x * 0x40000000u",
    "(gid.x << 1u) + 1u",
    "gid.x << 31u",
    "gid.x << 33u",
    "gid.x >> 1u",
    "gid.x ^ 1u",
    "gid.x % 7u",
    "gid.x / 3u",
    "lid.x * 5u + wid.x",
    "wid.x * 8u + (7u - lid.x)",
    "lid.x",
    "wid.x",
    "3u",
    "39u",
    "40u",
    "4294967295u",
    "x[gid.x]",
    "x[gid.x] % 40u",
    "cast<u32>(cast<i32>(gid.x) - 3i)",
)
_REFUSED_IN_STORES = ("40u", "4294967295u")
"""The validator refuses stores that are surely out of range."""


@pytest.mark.parametrize("index", _INDICES)
def test_loads(index: str) -> None:
    _copied(f"y[gid.x] = x[{index}]", 40, 40)


@pytest.mark.parametrize("index", [i for i in _INDICES if i not in _REFUSED_IN_STORES])
def test_stores(index: str) -> None:
    """Several lanes may write one element: the highest wins."""
    text = _COPY.format(workgroup="8, 1, 1", count=40, body=f"y[{index}] = x[gid.x]")
    agreed(text, {"x": ramp(40)}, grid=(5, 1, 1), chunks=CANONICAL)


@pytest.mark.parametrize("index", [*_INDICES, "lid.x + 34u"])
def test_workgroup_memory(index: str) -> None:
    text = """
            program shared
            workgroup_size 8, 1, 1
            buffer x @0 read u32[runtime]
            buffer y @1 read_write u32[40] output
            buffer s @- workgroup u32[40]
            body {
              s[lid.x] = x[gid.x]
              barrier(seq_cst)
              let v = s[INDEX]
              barrier(seq_cst)
              s[INDEX + 0u * lid.x] = v + lid.x
              barrier(seq_cst)
              y[gid.x] = s[lid.x] ^ v
            }
        """
    agreed(text.replace("INDEX", index), {"x": ramp(40)}, grid=(5, 1, 1), chunks=CANONICAL)


@pytest.mark.parametrize(
    "element", ["u8", "i8", "u16", "i16", "f16", "bf16", "bool", "u32", "i32", "u64", "i64", "f32", "f64"]
)
@pytest.mark.parametrize("index", ["gid.x", "gid.x * 2u", "gid.x + 5u", "(gid.x * 7u) % 20u", "4u", "99u"])
def test_every_element_type_is_converted_on_every_path(element: str, index: str) -> None:
    text = f"""
        program convert
        workgroup_size 4, 1, 1
        buffer x @0 read {element}[runtime]
        buffer y @1 read_write {element}[20] output
        buffer z @2 read_write {element}[20]
        body {{
          y[gid.x] = x[{index}]
          z[19u - gid.x] = z[19u - gid.x]
        }}
    """
    size = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "f16": 2, "bf16": 2, "u64": 8, "i64": 8, "f64": 8}.get(element, 4)
    noise = np.frombuffer(np.random.default_rng(7).bytes(20 * size), np.uint8).copy()
    noise[: 2 * size] = 255  # NaN with a payload, or all ones
    agreed(text, {"x": noise, "z": noise}, grid=(5, 1, 1))


@pytest.mark.parametrize(
    ("workgroup", "grid"), [("4, 2, 3", (2, 3, 2)), ("1, 8, 1", (1, 4, 1)), ("5, 1, 2", (3, 1, 2))]
)
def test_ids_of_all_axes(workgroup: str, grid: tuple[int, int, int]) -> None:
    ids = [f"{kind}.{axis}" for kind in ("gid", "lid", "wid", "num_groups") for axis in "xyz"]
    sx, sy, sz = map(int, workgroup.split(","))
    lanes = sx * sy * sz * grid[0] * grid[1] * grid[2]
    lane = f"(gid.z * {sy * grid[1]}u + gid.y) * {sx * grid[0]}u + gid.x"
    stores = "\n".join(f"y[({lane}) * 12u + {k}u] = {name}" for k, name in enumerate(ids))
    y = _copied(stores, 1, lanes * 12, workgroup=workgroup, grid=grid).reshape(grid[2] * sz, grid[1] * sy, -1, 12)
    z, row, x = (size - 1 for size in y.shape[:3])
    assert y[z, row, x, :3].tolist() == [x, row, z]


def test_a_two_dimensional_guard() -> None:
    text = """
        program transpose
        workgroup_size 4, 4, 1
        buffer x @0 read u32[77]
        buffer y @1 read_write u32[77] output
        body {
          if gid.x < 11u and gid.y < 7u {
            y[gid.x * 7u + gid.y] = x[gid.y * 11u + gid.x]
          }
        }
    """
    y = agreed(text, {"x": ramp(77)}, grid=(3, 2, 1))["y"]
    assert np.array_equal(y.reshape(11, 7), ramp(77).reshape(7, 11).T)


def test_products_of_positions_wrap_like_u32() -> None:
    """Near 2^32 the true product leaves the range: what counts is the wrapped one."""
    body = "y[gid.x] = (gid.x + 0xFFFFFFF0u) * (lid.x + 3u) + x[(gid.x * 0xFFFFFFFFu) + 20u]"
    y = _copied(body, 40, 40)
    gid = np.arange(40, dtype=np.uint32)
    index = (np.uint32(20) - gid).astype(np.int64)
    loaded = np.where(index < 40, ramp(40)[np.minimum(index, 39)], np.uint32(0))
    expected = (gid + np.uint32(0xFFFF_FFF0)) * (gid % np.uint32(8) + np.uint32(3)) + loaded
    assert np.array_equal(y, expected)


def test_repeated_products_of_positions() -> None:
    """Thousands of multiplications: the numbers behind a position must not grow with them."""
    y = _copied("let v = gid.x + 1u\nfor k in 0u .. 3000u { v := v * 0xFFFFFFFBu + v + gid.x }\ny[gid.x] = v", 40, 40)
    expected = []
    for gid in range(40):
        v = gid + 1
        for _ in range(3000):
            v = (v * 0xFFFF_FFFB + v + gid) % 2**32
        expected.append(v)
    assert y.tolist() == expected


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 63, 0xFFFFFFFF])
def test_shifts_by_a_literal(count: int) -> None:
    y = _copied(f"y[gid.x] = (x[gid.x] << {count}u) ^ (x[gid.x] >> {count}u)", 40, 40)
    shift = np.uint32(count & 31)
    assert np.array_equal(y, (ramp(40) << shift) ^ (ramp(40) >> shift))


def test_the_last_of_many_writers_wins() -> None:
    y = _copied("y[gid.x / 4u] = x[gid.x]", 40, 10)
    assert np.array_equal(y, ramp(40)[3::4])


def test_indices_at_the_end_of_the_u32_range() -> None:
    text = """
        program far
        workgroup_size 4, 1, 1
        buffer x @0 read u32[8]
        buffer y @1 read_write u32[8] output
        body {
          let far = gid.x + 0xFFFFFFFCu
          y[far + 8u] = x[far]
          y[far] = 5u
          y[gid.x] = x[far + 4u] + far
        }
    """
    y = agreed(text, {"x": words(*range(10, 18))}, grid=(2, 1, 1), chunks=CANONICAL)["y"]
    # far is gid - 4: out of range in the first workgroup, 0..3 in the second; far + 4 is gid.
    assert y.tolist() == [5, 5, 5, 5, 14, 16, 18, 20]
