"""What the text leaves out because the program shows that it is not needed."""

from __future__ import annotations

import re
from typing import Final

import pytest

from support.cpu.agreement import case, disagreements
from support.programs import Case
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions

LANES: Final = 16
READ: Final = {
    "": set(),
    "x": {"x"},
    "y": {"x", "y"},
    "z": {"x", "y", "z"},
    "xz": {"x", "y", "z"},
    "xyz": {"x", "y", "z"},
}
"""The axes of the workgroup's id that a program reads, and those that have to be counted for it, since x is fastest."""


def _counting(axes: str, kind: str) -> Case:
    """Returns a program that counts the lanes at each position along some axes."""
    position = " + ".join([f"{kind}.{axis} * {5 ** 'xyz'.index(axis)}u" for axis in axes] or ["0u"])
    body = f"let old = atomic_add(n, {position}, 1u)"
    return case(f"workgroup_size 2, 1, 1\nbuffer n @0 read_write u32[400]\nbody {{\n{body}\n}}", grid=(2, 3, 4))


def test_lanes_are_counted_at_the_positions_of_their_workgroups() -> None:
    cases = {f"{kind} {axes}": _counting(axes, kind) for axes in READ for kind in ("wid", "gid")}
    assert disagreements(cases) == []


@pytest.mark.parametrize("axes", READ)
def test_only_axes_that_are_read_are_counted(axes: str) -> None:
    text = emit(_counting(axes, "wid").program, EmitOptions(lanes=LANES)).text
    assert set(re.findall(r"%group\.next\.(\w) = ", text)) == READ[axes]
    assert len(re.findall(r"= u(?:div|rem) i64 ", text)) == {0: 0, 1: 1, 2: 3, 3: 4}[len(READ[axes])]


def _branching(condition: str) -> Case:
    body = f"let l = lid.x\nif {condition} {{\ny[gid.x] = (x[gid.x] + 3u) * l\nz[gid.x] = l\n}}"
    buffers = "buffer x @0 read u32[32]\nbuffer y @1 read_write u32[32]\nbuffer z @2 read_write u32[32]"
    text = f"workgroup_size {LANES}, 1, 1\n{buffers}\nbody {{\n{body}\n}}"
    return case(text, {"x": [n * n % 19 for n in range(32)]}, grid=2)


BRANCHES: Final = {
    "l == 5u": False,
    "not(l != 5u)": False,
    "(l != x[3u]) != true": False,
    "(l != x[3u]) == false": False,
    "not(cast<bool>(l))": False,
    "l * 3u == x[1u] and x[l] > 4u": False,
    "l != 5u": True,
    "(l == 5u) == false": True,
    "l == 5u or x[l] > 4u": True,
    "l == x[l]": True,
    "l < 16u": True,
    "cast<bool>(l)": True,
}
"""Conditions, and whether all lanes of a vector may take the branch, as far as is known."""


def test_branches_are_taken_by_the_right_lanes() -> None:
    assert disagreements({condition: _branching(condition) for condition in BRANCHES}) == []


@pytest.mark.parametrize("condition", BRANCHES)
def test_a_branch_that_some_lane_never_takes_is_written_once(condition: str) -> None:
    text = emit(_branching(condition).program, EmitOptions(lanes=LANES)).text
    assert bool(re.search(r"^full\d+:", text, re.MULTILINE)) == BRANCHES[condition]


@pytest.mark.parametrize(
    ("bounds", "guarded"),
    [("0u .. 3u", False), ("2u .. 3u step 7u", False), ("0u .. x[0u]", True), ("1u .. 9u step x[1u]", True)],
)
def test_loops_that_certainly_run_are_entered_without_a_comparison(bounds: str, guarded: bool) -> None:
    body = f"let a = 0u\nfor k in {bounds} {{\na := a * 3u + x[k & 7u]\n}}\ny[gid.x] = a"
    buffers = "buffer x @0 read u32[8]\nbuffer y @1 read_write u32[32]"
    one = case(f"workgroup_size 16, 1, 1\n{buffers}\nbody {{\n{body}\n}}", {"x": [4, 1, 2, 3, 5, 6, 7, 8]}, grid=2)
    assert disagreements({bounds: one}) == []
    text = emit(one.program, EmitOptions(lanes=LANES)).text
    assert bool(re.search(r"br i1 %\w+, label %enter\d+, label %exit\d+", text)) == guarded
