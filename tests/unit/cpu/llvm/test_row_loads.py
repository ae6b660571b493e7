"""Consecutive elements that each lane loads from a place of its own: read by rows where gathers are slow."""

from __future__ import annotations

from typing import Final

import pytest

pytest.importorskip("llvmlite")

from support.cpu.agreement import case, disagreements
from support.cpu.kernels import Variant
from support.programs import Case
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort

LANES: Final = 40
SUFFIX: Final = {"u32": "u", "i32": "i"}
VARIANTS: Final = [
    Variant(lanes, effort, wide=wide, narrow=narrow, slow_gathers=True)
    for lanes, effort, wide, narrow in (
        (1, Effort.LIGHT, False, False),
        (4, Effort.FULL, True, True),
        (8, Effort.LIGHT, False, True),
        (16, Effort.LIGHT, False, False),
        (16, Effort.FULL, True, True),
        (32, Effort.QUICK, False, False),
        (32, Effort.FULL, True, False),
    )
]


def _program(
    first: str,
    offsets: list[int],
    elements: int,
    *,
    element: str = "u32",
    index: str = "u32",
    condition: str = "",
    starts: list[int] | None = None,
    access: str = "read",
) -> Case:
    """Every lane copies elements of ``x``; in ``first`` @ stands for the lane, and ``s[@]`` for a number of its own."""
    lane = "gid.x" if index == "u32" else f"cast<{index}>(gid.x)"
    lines = [f"let first = {first.replace('s[@]', 's[gid.x]').replace('@', lane)}"]
    lines += [f"let w{q} = x[first + {offset}{SUFFIX[index]}]" for q, offset in enumerate(offsets)]
    lines += [f"y[gid.x * {len(offsets)}u + {q}u] = w{q}" for q in range(len(offsets))]
    body = "\n  ".join(lines)
    text = f"""
workgroup_size {LANES}, 1, 1
buffer x @0 {access} {element}[runtime]
buffer s @1 read {index}[{LANES}]
buffer y @2 write {element}[{LANES * len(offsets)}]
body {{
  {f"if {condition} {{ {body} }}" if condition else body}
}}
"""
    most = {"bool": 2, "u8": 251}.get(element, 1 << 31)
    data = [number * 2654435761 % most for number in range(1, elements + 1)]
    return case(text, {"x": data, "s": starts or list(range(LANES))}, grid=1)


def _far(elements: int, width: int) -> list[int]:
    """First elements of rows in the middle of a buffer, at its ends, beyond it, and where numbers wrap."""
    edges = [0, elements - width, elements - width + 1, elements - 1, elements, (1 << 32) - 1, (1 << 32) - width]
    edges += [1 << 31, (1 << 31) - 1]
    return [edges[lane % len(edges)] % (1 << 32) if lane % 5 == 4 else 7 * lane % elements for lane in range(LANES)]


def test_rows_at_strides() -> None:
    cases = {}
    for stride, width in ((2, 4), (4, 7), (5, 21), (16, 16), (100, 8), (1 << 30, 4), ((1 << 31) + 4, 4)):
        needed = (LANES - 1) * stride % 4000 + width
        for elements in (width - 1, needed - 1, needed):
            cases[f"{stride} {elements}"] = _program(f"@ * {stride}u", list(range(width)), elements)
    assert disagreements(cases, VARIANTS) == []


@pytest.mark.parametrize("condition", ["", "(gid.x & 3u) == 1u", "gid.x % 5u != 4u"])
def test_rows_anywhere(condition: str) -> None:
    """The last condition leaves out the lanes of ``_far`` whose rows may lie outside."""
    cases = {}
    for width, elements in ((4, 3), (4, 4), (4, 400), (16, 16), (12, 400)):
        starts = _far(elements, width)
        offsets = list(range(width))
        cases[f"{width} {elements}"] = _program("s[@]", offsets, elements, starts=starts, condition=condition)
        if elements > width:
            starts = [start if lane % 5 == 4 else 7 * lane % (elements - width) for lane, start in enumerate(starts)]
            cases[f"{width} inside"] = _program("s[@]", offsets, elements, starts=starts, condition=condition)
    assert disagreements(cases, VARIANTS) == []


def test_rows_of_every_type_and_order() -> None:
    rows = {"descending": [3, 2, 1, 0], "from the middle": [2, 3, 0, 1, 1], "gaps": [0, 1, 3, 4]}
    cases = {
        f"{name} {element}": _program("s[@]", offsets, 60, element=element)
        for name, offsets in rows.items()
        for element in ("u32", "i32", "f32", "bool", "u8", "u64")
    }
    for name, offsets in rows.items():
        starts = [lane - 5 if lane % 3 else -(1 << 31) + lane for lane in range(LANES)]
        cases[f"{name} signed"] = _program("s[@]", offsets, 30, index="i32", starts=starts)
        cases[f"{name} signed stride"] = _program("@ * 3i - 9i", offsets, 30, index="i32")
        cases[f"{name} written"] = _program("s[@]", offsets, 60, access="read_write")
    assert disagreements(cases, VARIANTS[1::2]) == []


@pytest.mark.parametrize(("lanes", "slow", "gathers"), [(16, True, False), (16, False, True), (8, True, False)])
def test_rows_are_read_where_gathers_are_slow(lanes: int, slow: bool, gathers: bool) -> None:
    program = _program("s[@] * 8u", list(range(8)), 400).program
    text = emit(program, EmitOptions(lanes=lanes, slow_gathers=slow)).text
    assert ("load <4 x i32>" in text) is not gathers
    usual = text.partition("rare")[0] if not gathers else text
    assert ("call <" in usual and "masked.gather" in usual.partition("define")[2]) is gathers
