"""Loops of which each lane goes along a row of elements: the elements are computed before the rounds."""

from __future__ import annotations

from typing import Final

import pytest

pytest.importorskip("llvmlite")

from support.cpu.agreement import disagreements
from support.cpu.kernels import Variant
from support.cpu.row_programs import LANES, WORDS, Span, in_order, random_case, row_case
from vyre.adapters.cpu.llvm import windows
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort

VARIANTS: Final = [
    Variant(lanes, effort, wide=wide, narrow=narrow, joined=lanes == 16)
    for lanes, effort, wide, narrow in (
        (1, Effort.FULL, False, False),
        (4, Effort.FULL, True, True),
        (8, Effort.LIGHT, False, True),
        (8, Effort.QUICK, True, False),
        (16, Effort.LIGHT, False, False),
        (16, Effort.FULL, True, True),
        (32, Effort.LIGHT, False, False),
    )
]
SUM: Final = "total := total + v[k] * x[col[k]]"

SPANS: Final[dict[str, list[Span]]] = {
    "rows one behind the other": in_order([10, 3, 0, 17, 1, 9, 24]),
    "rows of four": in_order([4]),
    "no rounds": in_order([0]),
    "rounds in one lane": in_order([0] * 21 + [5] + [0] * 18),
    "gaps": in_order([5, 7, 2, 11], gap=3),
    "wide gaps": in_order([1, 2], gap=60),
    "the same row for all lanes": [(100, 135)] * LANES,
    "rows backwards": in_order([6, 13, 8])[::-1],
    "rows that overlap": [(lane, 2 * lane + 7) for lane in range(LANES)],
    "a window of the largest size": in_order([windows.WINDOW // 8]),
    "a window that is too large": in_order([windows.WINDOW // 4 + 1]),
    "as long as a panel": in_order([windows.PANEL], gap=70),
    "longer than a panel": [
        (lane * 37 % 900, lane * 37 % 900 + windows.PANEL * (lane % 4) + lane % 3) for lane in range(40)
    ],
    "starts behind stops": [(lane * 7, 400 - lane * 10) if lane % 2 else (9, 3) for lane in range(LANES)],
    "behind the end of a buffer": [(WORDS - 30 + lane, WORDS + lane) for lane in range(LANES)],
    "at the end of all numbers": [((1 << 32) - 1 - lane, (1 << 32) - 1) for lane in range(LANES)],
}


def test_sums_of_rows() -> None:
    cases = {name: row_case(SUM, spans) for name, spans in SPANS.items()}
    assert disagreements(cases, VARIANTS) == []


def test_sums_of_the_rows_of_some_lanes() -> None:
    before, condition = "let total = v[gid.x]", "gid.x % 3u != 1u"
    cases = {name: row_case(SUM, spans, before=before, condition=condition) for name, spans in SPANS.items()}
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
        spans: row_case(BODIES[name], SPANS[spans], before=before)
        for spans in ("rows one behind the other", "gaps", "wide gaps", "longer than a panel")
    }
    assert disagreements(cases, VARIANTS[1:]) == []


def test_a_loop_in_a_loop() -> None:
    inner = f"for k in first[gid.x] + j .. stop[gid.x] {{ {SUM} }}"
    before = f"let total = 0f for j in 0u .. first[gid.x] % 5u {{ {inner} }}"
    cases = {
        name: row_case("total := total", SPANS[name], before=before)
        for name in ("rows one behind the other", "longer than a panel")
    }
    assert disagreements(cases, VARIANTS) == []


def test_random_loops() -> None:
    assert disagreements({f"seed {seed}": random_case(seed) for seed in range(12)}, VARIANTS[1:]) == []


@pytest.mark.parametrize(("lanes", "is_window"), [(16, True), (4, True), (32, False), (1, False)])
def test_loops_that_are_windows(lanes: int, is_window: bool) -> None:
    program = row_case(SUM, SPANS["gaps"]).program
    assert ("vector.reduce.umin" in emit(program, EmitOptions(lanes=lanes)).text) is is_window
    assert "vector.reduce.umin" not in emit(program, EmitOptions(lanes=lanes, counting=True)).text
