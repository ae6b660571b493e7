"""Integers of few bits: comparisons before they are extended, and conditions that are counted instead of added."""

from __future__ import annotations

import re
from typing import Final

import pytest

from support.cpu.agreement import case, disagreements
from support.programs import Case
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions

LANES: Final = 32
OPERATORS: Final = ("<", "<=", "==", "!=", ">", ">=")
ELEMENTS: Final = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767)}
"""The least and the greatest number of each narrow type."""


def _numbers(element: str) -> list[int]:
    """Returns 32 numbers of a narrow type, its limits and their neighbours among them."""
    least, greatest = ELEMENTS[element]
    near = [least, least + 1, -1, 0, 1, 2, 5, greatest // 2, greatest // 2 + 1, greatest - 1, greatest]
    inside = [number for number in near if least <= number <= greatest]
    return (inside * LANES)[:LANES]


def _spelled(number: int, dtype: str) -> str:
    return f"{number % 2**32}u" if dtype == "u32" else f"{number}i"


def _compared(element: str, dtype: str, *, number_first: bool) -> Case:
    """Returns a program that compares elements, as ``dtype``, with numbers in and out of their range."""
    least, greatest = ELEMENTS[element]
    numbers = (least, greatest, greatest // 2, least - 1, greatest + 1)
    terms = []
    for place, (number, op) in enumerate((number, op) for number in numbers for op in OPERATORS):
        sides = (_spelled(number, dtype), "a") if number_first else ("a", _spelled(number, dtype))
        terms.append(f"(cast<u32>({sides[0]} {op} {sides[1]}) << {place}u)")
    body = f"let a = cast<{dtype}>(x[gid.x])\ny[gid.x] = {' | '.join(terms)}"
    return _case(element, body)


def _case(element: str, body: str, lanes: int = LANES) -> Case:
    buffers = f"buffer x @0 read {element}[32]\nbuffer z @1 read {element}[32]\nbuffer y @2 read_write u32[32]"
    text = f"workgroup_size {lanes}, 1, 1\n{buffers}\nbody {{\n{body}\n}}"
    numbers = _numbers(element)
    return case(text, {"x": numbers, "z": [*numbers[3:], *numbers[:3]]})


def test_elements_are_compared_with_numbers_as_if_they_were_wide() -> None:
    cases = {
        f"{element} as {dtype}, {number_first}": _compared(element, dtype, number_first=number_first)
        for element in ELEMENTS
        for dtype in ("u32", "i32")
        for number_first in (False, True)
    }
    assert disagreements(cases) == []


def test_elements_are_compared_with_each_other_as_if_they_were_wide() -> None:
    cases = {}
    for element in ELEMENTS:
        for dtype in ("u32", "i32"):
            terms = [f"(cast<u32>(a {op} b) << {place}u)" for place, op in enumerate(OPERATORS)]
            lets = f"let a = cast<{dtype}>(x[gid.x])\nlet b = cast<{dtype}>(z[gid.x])\n"
            cases[f"{element} as {dtype}"] = _case(element, f"{lets}y[gid.x] = {' | '.join(terms)}")
    assert disagreements(cases) == []


@pytest.mark.parametrize(
    ("element", "condition", "predicate"),
    [
        ("u8", "x[gid.x] < 9u", "ult <32 x i8>"),
        ("u8", "cast<i32>(x[gid.x]) < 9i", "ult <32 x i8>"),
        ("u8", "x[gid.x] < 256u", "ult <32 x i32>"),
        ("u8", "cast<i32>(x[gid.x]) < -1i", "slt <32 x i32>"),
        ("i16", "x[gid.x] >= -2i", "sge <32 x i16>"),
        ("i16", "cast<u32>(x[gid.x]) > 4294967294u", "ugt <32 x i16>"),
        ("i16", "x[gid.x] == 32768i", "eq <32 x i32>"),
        ("u16", "x[gid.x] != z[gid.x]", "ne <32 x i16>"),
        ("u16", "x[gid.x] + 1u < z[gid.x]", "ult <32 x i32>"),
    ],
)
def test_comparisons_are_as_narrow_as_the_elements_where_that_is_the_same(
    element: str, condition: str, predicate: str
) -> None:
    one = _case(element, f"y[gid.x] = cast<u32>({condition})")
    assert f"icmp {predicate}" in emit(one.program, EmitOptions(lanes=LANES)).text


SUMS: Final = {
    "subgroup": "y[gid.x] = subgroup_add(cast<u32>(x[gid.x] > 3u))",
    "atomic": "let old = atomic_add(y, 3u, cast<u32>(x[gid.x] > 3u))",
    "some atomics": "if z[gid.x] < 2u {\nlet old = atomic_add(y, 3u, cast<u32>(x[gid.x] > 3u))\n}",
}
"""Sums of conditions over the lanes of a vector."""


def test_conditions_are_counted_rightly() -> None:
    cases = {f"{name}, {lanes}": _case("u8", body, lanes) for name, body in SUMS.items() for lanes in (20, 32, 64)}
    assert disagreements(cases) == []


@pytest.mark.parametrize("name", SUMS)
def test_conditions_are_counted_by_their_mask(name: str) -> None:
    text = emit(_case("u8", SUMS[name]).program, EmitOptions(lanes=LANES)).text
    assert re.search(r"call i32 @llvm\.ctpop\.i32\(", text)
    assert "vector.reduce.add" not in text
