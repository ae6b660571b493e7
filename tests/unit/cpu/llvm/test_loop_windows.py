"""Loops of which each lane goes along a row of elements: the elements are computed before the rounds."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from support.cpu_agreement import case, disagreements
from support.cpu_kernels import Variant
from support.programs import Case
from vyre.adapters.cpu.llvm import windows
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Pipeline

LANES: Final = 40
WORDS: Final = 3000
VARIANTS: Final = [
    Variant(lanes, pipeline, wide=wide, narrow=narrow, joined=lanes == 16)
    for lanes, pipeline, wide, narrow in (
        (1, Pipeline.FULL, False, False),
        (4, Pipeline.FULL, True, True),
        (8, Pipeline.LIGHT, False, True),
        (8, Pipeline.QUICK, True, False),
        (16, Pipeline.LIGHT, False, False),
        (16, Pipeline.FULL, True, True),
        (32, Pipeline.LIGHT, False, False),
    )
]
SUM: Final = "total := total + v[k] * x[col[k]]"


def _rows(body: str, spans: list[tuple[int, int]], *, before: str = "let total = 0f", condition: str = "") -> Case:
    """A program whose lane ``i`` runs ``body`` for each k from the start to the stop of its span."""
    loop = f"{before} for k in first[gid.x] .. stop[gid.x] {{ {body} }} y[gid.x] = total"
    text = f"""
workgroup_size {LANES}, 1, 1
buffer first @0 read u32[{LANES}]
buffer stop @1 read u32[{LANES}]
buffer col @2 read u32[runtime]
buffer v @3 read f32[runtime]
buffer x @4 read f32[runtime]
buffer small @5 read u8[runtime]
buffer flag @6 read bool[runtime]
buffer scale @7 read f32[4]
buffer y @8 write f32[{LANES}]
body {{
  {f"if {condition} {{ {loop} }}" if condition else loop}
}}
"""
    numbers = [number * 2654435761 % (1 << 32) for number in range(1, WORDS + 1)]
    inputs = {
        "first": [start for start, _ in spans],
        "stop": [stop for _, stop in spans],
        "col": [n if n % 97 == 0 else n % (WORDS + 50) for n in numbers],
        "v": _bits([0x7F800000 if n % 89 == 0 else 0x3F000000 + n % (1 << 25) for n in numbers[:-7]]),
        "x": _bits([0xFF800001 if n % 83 == 0 else 0xBF000000 - n % (1 << 24) for n in numbers[::-1]]),
        "small": [n % 251 for n in numbers],
        "flag": [n % 2 for n in numbers],
        "scale": _bits([0x3F800000, 0x40400000, 0, 0x80000000]),
    }
    return case(text, inputs, grid=1)


def _bits(words: list[int]) -> bytes:
    return np.array(words, np.uint32).tobytes()


def _in_order(lengths: list[int], gap: int = 0, start: int = 0) -> list[tuple[int, int]]:
    found = []
    for lane in range(LANES):
        length = lengths[lane % len(lengths)]
        found.append((start, start + length))
        start += length + gap
    return found


SPANS: Final = {
    "rows one behind the other": _in_order([10, 3, 0, 17, 1, 9, 24]),
    "rows of four": _in_order([4]),
    "no rounds": _in_order([0]),
    "rounds in one lane": _in_order([0] * 21 + [5] + [0] * 18),
    "gaps": _in_order([5, 7, 2, 11], gap=3),
    "wide gaps": _in_order([1, 2], gap=60),
    "the same row for all lanes": [(100, 135)] * LANES,
    "rows backwards": _in_order([6, 13, 8])[::-1],
    "rows that overlap": [(lane, 2 * lane + 7) for lane in range(LANES)],
    "a window of the largest size": _in_order([windows.WINDOW // 8]),
    "a window that is too large": _in_order([windows.WINDOW // 4 + 1]),
    "as long as a panel": _in_order([windows.PANEL], gap=70),
    "longer than a panel": [
        (lane * 37 % 900, lane * 37 % 900 + windows.PANEL * (lane % 4) + lane % 3) for lane in range(40)
    ],
    "starts behind stops": [(lane * 7, 400 - lane * 10) if lane % 2 else (9, 3) for lane in range(LANES)],
    "behind the end of a buffer": [(WORDS - 30 + lane, WORDS + lane) for lane in range(LANES)],
    "at the end of all numbers": [((1 << 32) - 1 - lane, (1 << 32) - 1) for lane in range(LANES)],
}


@pytest.mark.parametrize("name", SPANS)
def test_sums_of_rows(name: str) -> None:
    spans = SPANS[name]
    cases = {
        "all lanes": _rows(SUM, spans),
        "some lanes": _rows(SUM, spans, before="let total = v[gid.x]", condition="gid.x % 3u != 1u"),
    }
    assert disagreements(cases, VARIANTS) == []


BODIES: Final = {
    "a local of the round": "let c = col[k] let p = v[k] * x[c] total := total + p",
    "a local that is changed": "let p = v[k] p := p + 1f total := total + p * x[k]",
    "the counter": "total := total + v[k] * cast<f32>(k)",
    "a number of the lane": "total := total * v[k] + x[col[k]] * w",
    "no sum": "total := v[k]",
    "two locals": "total := total + v[k] w := w - total * x[k]",
    "a narrow type": "total := total + cast<f32>(small[k] + small[col[k]])",
    "a condition": "total := select(flag[k], total + v[k], w)",
    "one element for all": "total := total + v[k] * scale[1u]",
    "four elements": "total := ((total + v[k]) * x[k] - cast<f32>(small[k])) / x[col[k]]",
    "the quotient of integers": "total := total + cast<f32>(col[k] / (col[k + 1u] % 5u))",
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    before = "let total = 0f let w = v[gid.x + 5u]"
    cases = {
        spans: _rows(BODIES[name], SPANS[spans], before=before)
        for spans in ("rows one behind the other", "gaps", "wide gaps", "longer than a panel")
    }
    assert disagreements(cases, VARIANTS[1:]) == []


def test_a_loop_in_a_loop() -> None:
    inner = f"for k in first[gid.x] + j .. stop[gid.x] {{ {SUM} }}"
    before = f"let total = 0f for j in 0u .. first[gid.x] % 5u {{ {inner} }}"
    cases = {
        name: _rows("total := total", SPANS[name], before=before)
        for name in ("rows one behind the other", "longer than a panel")
    }
    assert disagreements(cases, VARIANTS) == []


@pytest.mark.parametrize(("lanes", "body", "is_window"), [(16, SUM, True), (4, SUM, True), (32, SUM, False)])
def test_loops_that_are_windows(lanes: int, body: str, is_window: bool) -> None:
    program = _rows(body, SPANS["gaps"]).program
    assert ("vector.reduce.umin" in emit(program, EmitOptions(lanes=lanes)).text) is is_window
    assert "vector.reduce.umin" not in emit(program, EmitOptions(lanes=lanes, counting=True)).text
