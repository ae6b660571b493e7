"""Indices of every integer type: what is negative or too large misses the buffer, whatever its low 32 bits say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.reference.agreement import Array, agreed, ramp

LANES = 40
COUNT = 23

_NUMBERS = {
    "u32": (0, 22, 23, 2**31 - 1, 2**31, 2**32 - 1, 5),
    "i32": (0, 22, 23, 2**31 - 1, -1, -2, -(2**31), 5),
    "u64": (0, 22, 23, 2**32, 2**32 + 5, 2**63, 2**63 + 5, 2**64 - 1, 5),
    "i64": (0, 22, 23, 2**32 + 5, 2**63 - 1, -1, -(2**32) + 5, -(2**63), 5),
}
_DTYPES = {"u32": np.uint32, "i32": np.int32, "u64": np.uint64, "i64": np.int64}
_SUFFIX = {"u32": "u", "i32": "i", "u64": "u64", "i64": "i64"}
TYPES = list(_NUMBERS)


def element(data: Array, index: int) -> int:
    """The rule itself, on an index as a number."""
    return int(data[index]) if 0 <= index < len(data) else 0


@pytest.mark.parametrize("dtype", TYPES)
def test_loads_at_indices_that_differ_between_lanes(dtype: str) -> None:
    chosen = np.resize(np.array(_NUMBERS[dtype], _DTYPES[dtype]), LANES)
    text = f"""
        program loads
        workgroup_size 8, 1, 1
        buffer x @0 read u32[{COUNT}]
        buffer i @1 read {dtype}[{LANES}]
        buffer y @2 read_write u32[{LANES}] output
        body {{
          y[gid.x] = x[i[gid.x]]
        }}
    """
    x = ramp(COUNT)
    found = agreed(text, {"x": x, "i": chosen}, grid=(LANES // 8, 1, 1))["y"]
    assert found.tolist() == [element(x, int(index)) for index in chosen]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("memory", ["workgroup", "private"])
def test_memory_that_the_program_has_for_itself(dtype: str, memory: str) -> None:
    """Loads and stores at loaded indices, compared with the numbers that they are."""
    chosen = np.resize(np.array(_NUMBERS[dtype], _DTYPES[dtype]), LANES)
    text = f"""
        program own
        workgroup_size 1, 1, 1
        buffer x @0 read u32[{COUNT}]
        buffer i @1 read {dtype}[{LANES}]
        buffer y @2 read_write u32[{LANES}] output
        buffer z @3 read_write u32[{LANES * COUNT}] output
        buffer m @- {memory} u32[{COUNT}]
        body {{
          for k in 0u .. {COUNT}u {{ m[k] = x[k] }}
          let at = i[gid.x]
          y[gid.x] = m[at]
          m[at] = 77u
          for k in 0u .. {COUNT}u {{ z[gid.x * {COUNT}u + k] = m[k] }}
        }}
    """
    x = ramp(COUNT)
    found = agreed(text, {"x": x, "i": chosen}, grid=(LANES, 1, 1))
    assert found["y"].tolist() == [element(x, int(index)) for index in chosen]
    for lane, index in enumerate(chosen.tolist()):
        wanted = x.tolist()
        if 0 <= index < COUNT:
            wanted[index] = 77
        assert found["z"][lane * COUNT : (lane + 1) * COUNT].tolist() == wanted


@pytest.mark.parametrize("dtype", TYPES)
def test_indices_that_are_literals(dtype: str) -> None:
    x = ramp(COUNT)
    numbers = _NUMBERS[dtype]
    loads = "\n".join(f"y[{k}u] = x[{number}{_SUFFIX[dtype]}]" for k, number in enumerate(numbers))
    text = f"""
        program literals
        workgroup_size 1, 1, 1
        buffer x @0 read u32[{COUNT}]
        buffer y @1 read_write u32[{len(numbers)}] output
        body {{
          {loads}
        }}
    """
    found = agreed(text, {"x": x}, grid=(1, 1, 1))["y"]
    assert found.tolist() == [element(x, number) for number in numbers]


@pytest.mark.parametrize("dtype", TYPES)
def test_stores_at_an_index_that_all_lanes_share(dtype: str) -> None:
    numbers = np.array(_NUMBERS[dtype], _DTYPES[dtype])
    text = f"""
        program uniform
        workgroup_size 1, 1, 1
        buffer i @0 uniform {dtype}[{len(numbers)}]
        buffer y @1 read_write u32[{COUNT}] output
        body {{
          for k in 0u .. {len(numbers)}u {{ y[i[k]] = y[i[k]] + k + 1u }}
        }}
    """
    wanted = [0] * COUNT
    for k, number in enumerate(numbers.tolist()):
        if 0 <= number < COUNT:
            wanted[number] += k + 1
    assert agreed(text, {"i": numbers}, grid=(1, 1, 1))["y"].tolist() == wanted


@pytest.mark.parametrize("dtype", TYPES)
def test_atomics_at_any_index(dtype: str) -> None:
    chosen = np.resize(np.array(_NUMBERS[dtype], _DTYPES[dtype]), LANES)
    text = f"""
        program atomics
        workgroup_size 4, 1, 1
        buffer i @0 read {dtype}[{LANES}]
        buffer y @1 read_write u32[{COUNT}] output
        buffer m @2 read_write u32[{COUNT}] output
        body {{
          let unused = atomic_add(y, i[gid.x], gid.x + 1u)
          m[gid.x] = 0u
        }}
    """
    wanted = [0] * COUNT
    for lane, number in enumerate(chosen.tolist()):
        if 0 <= number < COUNT:
            wanted[number] += lane + 1
    assert agreed(text, {"i": chosen}, grid=(LANES // 4, 1, 1))["y"].tolist() == wanted


_AFFINE: list[tuple[str, str, Callable[[int], int]]] = [
    ("i32", "cast<i32>(gid.x) - 3i", lambda g: g - 3),
    ("i32", "3i - cast<i32>(gid.x)", lambda g: 3 - g),
    ("i64", "cast<i64>(gid.x) * -1i64 + 20i64", lambda g: 20 - g),
    ("u64", "cast<u64>(gid.x) * 2u64 + 1u64", lambda g: 2 * g + 1),
    ("u64", "cast<u64>(gid.x) - 3u64", lambda g: (g - 3) % 2**64),
    ("u64", "cast<u64>(gid.x) + 4294967296u64", lambda g: g + 2**32),
    ("u64", "cast<u64>(gid.x - 3u)", lambda g: (g - 3) % 2**32),
    ("i64", "cast<i64>(gid.x - 3u)", lambda g: (g - 3) % 2**32),
    ("i64", "cast<i64>(cast<i32>(gid.x) - 3i)", lambda g: g - 3),
    ("u32", "cast<u32>(cast<i32>(gid.x) - 3i)", lambda g: (g - 3) % 2**32),
    ("u64", "cast<u64>(cast<i32>(gid.x) - 3i)", lambda g: (g - 3) % 2**64),
    ("i32", "cast<i32>(cast<u64>(gid.x) * 1073741824u64)", lambda g: (g * 2**30 + 2**31) % 2**32 - 2**31),
    ("i32", "cast<i32>(gid.x) * 1073741824i", lambda g: (g * 2**30 + 2**31) % 2**32 - 2**31),
    ("u64", "cast<u64>(gid.x) * 9223372036854775808u64", lambda g: g * 2**63 % 2**64),
    ("u64", "(cast<u64>(gid.x) << 62u) >> 60u", lambda g: (g << 62) % 2**64 >> 60),
    ("i64", "(cast<i64>(gid.x) << 3u) - cast<i64>(lid.x) * 8i64", lambda g: 8 * g - g % 8 * 8),
    ("i64", "cast<i64>(gid.x) - cast<i64>(gid.x)", lambda g: 0),
    ("i32", "cast<i32>(wid.x) * 8i + cast<i32>(lid.x) - 1i", lambda g: g - 1),
    ("u64", "cast<u64>(wid.x) * cast<u64>(num_groups.x) + cast<u64>(lid.x)", lambda g: g // 8 * 5 + g % 8),
    ("i64", "cast<i64>(2147483647u * gid.x)", lambda g: 2147483647 * g % 2**32),
]


@pytest.mark.parametrize(("kind", "expression", "model"), _AFFINE, ids=[text for _, text, _ in _AFFINE])
def test_values_made_of_positions(kind: str, expression: str, model: Callable[[int], int]) -> None:
    """What is affine on the way is exact, and wraps where its type says so: as a value, an index, and a bound."""
    text = f"""
        program positions
        workgroup_size 8, 1, 1
        buffer x @0 read u32[runtime]
        buffer y @1 read_write u32[{LANES}] output
        buffer v @2 read_write {kind}[{LANES}] output
        buffer c @3 read_write u32[{LANES}] output
        body {{
          let e = {expression}
          v[gid.x] = e
          y[gid.x] = x[e]
          if gid.x % 3u == 1u {{ y[gid.x] = x[e] + 1u }}
          if e < cast<{kind}>(17u) {{ c[gid.x] = 1u }}
          if e == cast<{kind}>(5u) {{ c[gid.x] = c[gid.x] + 2u }}
          if cast<{kind}>(lid.x) >= e {{ c[gid.x] = c[gid.x] + 4u }}
        }}
    """
    x = ramp(COUNT)
    found = agreed(text, {"x": x}, grid=(5, 1, 1))
    values = [model(g) for g in range(LANES)]
    assert found["v"].tolist() == values
    assert found["y"].tolist() == [(element(x, v) + (g % 3 == 1)) % 2**32 for g, v in enumerate(values)]
    assert found["c"].tolist() == [(v < 17) + 2 * (v == 5) + 4 * (g % 8 >= v) for g, v in enumerate(values)]


def test_a_view_of_two_dimensions() -> None:
    """The index that 2-D views compute, with columns and rows beyond the edges."""
    text = """
        program blur
        workgroup_size 4, 4, 1
        buffer x @0 read u32[runtime]
        buffer y @1 read_write u32[runtime] output like x
        body {
          let w = 13u
          for dy in 0u .. 3u {
            for dx in 0u .. 3u {
              let cx = gid.x + dx - 1u
              let cy = gid.y + dy - 1u
              let at = select(cx < w, cast<u64>(cy) * cast<u64>(w) + cast<u64>(cx), 18446744073709551615u64)
              let here = select(gid.x < w, cast<u64>(gid.y) * cast<u64>(w) + cast<u64>(gid.x), 18446744073709551615u64)
              y[here] = y[here] + x[at]
            }
          }
        }
    """
    rows, width = 9, 13
    x = ramp(rows * width)
    found = agreed(text, {"x": x}, grid=(4, 3, 1))["y"].reshape(rows, width)
    padded = np.pad(x.reshape(rows, width), 1)
    wanted = sum(padded[dy : dy + rows, dx : dx + width] for dy in range(3) for dx in range(3))
    assert np.array_equal(found, wanted)
