"""Loops over every integer type, up and down, as far as the ends of the type."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from support.reference.agreement import agreed, agreed_failure
from vyre.domain.errors import StepBudgetExceeded

_DTYPES = {"u32": np.uint32, "i32": np.int32, "u64": np.uint64, "i64": np.int64}
_BITS = {"u32": 32, "i32": 32, "u64": 64, "i64": 64}
MOST = 7
"""Rounds after which the kernels below leave their loops: no bound of a loop may matter for how far it would run."""


def _edges(dtype: str) -> tuple[int, int]:
    bits = _BITS[dtype]
    return (0, (1 << bits) - 1) if dtype[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _bounds(dtype: str) -> list[tuple[int, int, int]]:
    """Starts, stops and steps, among them all that a type has at its ends."""
    low, high = _edges(dtype)
    near = [low, low + 1, low + 5, high - 5, high - 1, high, 0, 3, 10]
    steps = [0, 1, 2, 5, high // 3, high - 1, high]
    if low:
        near += [-3, -10]
        steps += [-1, -2, -5, low // 3, low + 1, low]
    chosen = list(product(near, near, steps))
    return [*chosen[:: max(1, len(chosen) // 600)], (low, high, high), (high, low, low or 1), (low, high, 1)]


def rounds(start: int, stop: int, step: int) -> list[int]:
    """The rule in numbers without a limit."""
    return [*range(start, stop, step)[:MOST]] if step else []


_BODY = """
          let n = 0u
          let h = cast<{dtype}>(0u)
          for k in {start} .. {stop} step {step} {{
            if n == {most}u {{ break }}
            n := n + 1u
            h := h * cast<{dtype}>(31u) + k
          }}
          y[gid.x] = h
          c[gid.x] = n
"""


def _hash(values: list[int], dtype: str) -> int:
    total = 0
    for value in values:
        total = total * 31 + value
    low = _edges(dtype)[0]
    return (total - low) % (1 << _BITS[dtype]) + low


@pytest.mark.parametrize("dtype", list(_DTYPES))
def test_lanes_with_bounds_of_their_own(dtype: str) -> None:
    bounds = _bounds(dtype)
    lanes = len(bounds) // 8 * 8
    text = f"""
        program loops
        workgroup_size 8, 1, 1
        buffer a @0 read {dtype}[{lanes}]
        buffer b @1 read {dtype}[{lanes}]
        buffer s @2 read {dtype}[{lanes}]
        buffer y @3 read_write {dtype}[{lanes}] output
        buffer c @4 read_write u32[{lanes}] output
        body {{
          {_BODY.format(dtype=dtype, start="a[gid.x]", stop="b[gid.x]", step="s[gid.x]", most=MOST)}
        }}
    """
    columns = [np.array(column[:lanes], _DTYPES[dtype]) for column in zip(*bounds, strict=True)]
    found = agreed(text, dict(zip("abs", columns, strict=True)), grid=(lanes // 8, 1, 1), chunks=(1, 7, None))
    wanted = [rounds(*lane) for lane in bounds[:lanes]]
    assert {len(values) for values in wanted} >= {0, 1, 2, MOST}
    assert found["c"].tolist() == [len(values) for values in wanted]
    assert found["y"].tolist() == [_hash(values, dtype) for values in wanted]


@pytest.mark.parametrize("dtype", list(_DTYPES))
@pytest.mark.parametrize("watched", [False, True])
def test_bounds_that_all_lanes_share(dtype: str, watched: bool) -> None:
    """As literals and as values of a uniform buffer; with a step budget, too."""
    bounds = _bounds(dtype)[::9]
    text = f"""
        program loops
        workgroup_size 2, 1, 1
        buffer a @0 uniform {dtype}[3]
        buffer y @1 read_write {dtype}[2] output
        buffer c @2 read_write u32[2] output
        body {{
          {_BODY.format(dtype=dtype, start="a[0u]", stop="a[1u]", step="a[2u]", most=MOST)}
        }}
    """
    for lane in bounds:
        limit = {"step_budget": MOST} if watched else {}
        found = agreed(text, {"a": np.array(lane, _DTYPES[dtype])}, grid=(1, 1, 1), chunks=(1,), **limit)
        assert found["c"].tolist() == [len(rounds(*lane))] * 2
        assert found["y"].tolist() == [_hash(rounds(*lane), dtype)] * 2


_SUFFIX = {"u32": "u", "i32": "i", "u64": "u64", "i64": "i64"}


@pytest.mark.parametrize("dtype", list(_DTYPES))
def test_bounds_that_are_written(dtype: str) -> None:
    low, high = _edges(dtype)
    suffix = _SUFFIX[dtype]
    for lane in [(low, high, high), (high, low, low or 1), (5, 0, -2 if low else 2), (0, 9, 4), (high - 2, high, 1)]:
        start, stop, step = (f"{number}{suffix}" for number in lane)
        text = f"""
            program loops
            workgroup_size 4, 1, 1
            buffer y @0 read_write {dtype}[8] output
            buffer c @1 read_write u32[8] output
            body {{
              {_BODY.format(dtype=dtype, start=start, stop=stop, step=step, most=MOST)}
            }}
        """
        found = agreed(text, {}, grid=(2, 1, 1))
        assert found["c"].tolist() == [len(rounds(*lane))] * 8
        assert found["y"].tolist() == [_hash(rounds(*lane), dtype)] * 8


@pytest.mark.parametrize("dtype", ["i32", "u64", "i64"])
def test_bounds_made_of_positions(dtype: str) -> None:
    """Continue, a nested loop, and a counter that indexes."""
    down = "0u" if dtype[0] == "u" else "9u"
    text = f"""
        program loops
        workgroup_size 8, 1, 1
        buffer x @0 read u32[64]
        buffer y @1 read_write u32[40] output
        body {{
          let v = 0u
          for k in cast<{dtype}>(lid.x) .. cast<{dtype}>(gid.x) step cast<{dtype}>(wid.x) {{
            if k % cast<{dtype}>(3u) == cast<{dtype}>(1u) {{ continue }}
            v := v * 7u + x[k] + cast<u32>(k)
            for j in k .. k + cast<{dtype}>(2u) step cast<{dtype}>(1u) {{ v := v + cast<u32>(j) * x[j] }}
          }}
          for k in cast<{dtype}>(gid.x) .. cast<{dtype}>({down}) step cast<{dtype}>(0u) - cast<{dtype}>(1u) {{
            v := v * 3u + x[k]
            if v % 11u == 4u {{ break }}
          }}
          y[gid.x] = v
        }}
    """
    x = np.arange(64, dtype=np.uint32) * 17 % 23
    found = agreed(text, {"x": x}, grid=(5, 1, 1))["y"]
    for lane, value in enumerate(found.tolist()):
        v = 0
        for k in range(lane % 8, lane, lane // 8) if lane >= 8 else ():
            if k % 3 != 1:
                v = v * 7 + int(x[k]) + k
                v += sum(j * int(x[j]) for j in range(k, k + 2))
        # Without a sign nothing is below the stop, which is 0.
        for k in range(lane, 9, -1) if dtype[0] == "i" else ():
            v = v * 3 + int(x[k])
            if v % 2**32 % 11 == 4:
                break
        assert value == v % 2**32


@pytest.mark.parametrize("dtype", ["i32", "u64", "i64"])
@pytest.mark.parametrize("bound", ["cast<{dtype}>(9u)", "cast<{dtype}>(gid.x)"])
def test_the_step_budget_counts_the_same_back_edges(dtype: str, bound: str) -> None:
    text = f"""
        program budget
        workgroup_size 4, 1, 1
        buffer y @0 read_write u32[16] output
        body {{
          for k in cast<{dtype}>(0u) .. {bound.format(dtype=dtype)} step cast<{dtype}>(1u) {{ y[gid.x] = cast<u32>(k) }}
        }}
    """
    failure = agreed_failure(text, {}, grid=(4, 1, 1), step_budget=7)
    assert failure.kind is StepBudgetExceeded
    assert failure.facts == (7, (0 if "gid" not in bound else 9, 0, 0))
    agreed(text, {}, grid=(4, 1, 1), step_budget=14)
