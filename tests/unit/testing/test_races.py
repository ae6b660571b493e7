"""The public way to ask for the races of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from vyre.app.pipeline import Inputs
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput, TrapError
from vyre.domain.ir.program import Program
from vyre.domain.program_report import InvalidProgram
from vyre.testing.races import RaceReport, races

NEIGHBOURS = Program.from_text("""
workgroup_size 4, 1, 1
param scale @0 u32
buffer y @1 read_write u32[runtime]
buffer seen @2 write bool[1]
body {
  y[gid.x] = y[gid.x + 1u] * scale
  seen[0u] = true
}
""")


@pytest.mark.parametrize(
    "inputs", [{"scale": 2, "y": np.arange(3, dtype=np.uint32)}, [2, np.arange(3, dtype=np.uint32)]]
)
def test_races_and_notes_are_told_by_element_and_lane(inputs: Inputs) -> None:
    report = races(NEIGHBOURS, inputs)
    assert [str(race) for race in report.races] == [
        "y[1]: load by lane 0 (workgroup 0,0,0, local 0,0,0) at <text>:7:14, "
        "store by lane 1 (workgroup 0,0,0, local 1,0,0) at <text>:7:3",
        "y[2]: load by lane 1 (workgroup 0,0,0, local 1,0,0) at <text>:7:14, "
        "store by lane 2 (workgroup 0,0,0, local 2,0,0) at <text>:7:3",
    ]
    assert [str(note) for note in report.notes] == [
        "seen[0]: store by lane 0 (workgroup 0,0,0, local 0,0,0) at <text>:8:3, "
        "store by lane 1 (workgroup 0,0,0, local 1,0,0) at <text>:8:3"
    ]


def test_the_config_says_what_runs() -> None:
    inputs: Inputs = {"scale": 1, "y": np.zeros(3, np.uint32)}
    one_lane = DispatchConfig(workgroup=(1, 1, 1), grid=(1, 1, 1), race_check=True)
    assert races(NEIGHBOURS, inputs, one_lane) == RaceReport((), ())


def test_each_element_is_listed_once_though_its_bytes_race_one_by_one() -> None:
    copies = Program.from_text("""
    workgroup_size 2, 1, 1
    buffer x @0 read u32[2]
    buffer y @1 write u32[1]
    body {
      async_load(x, y, gid.x * 4u, 4u, "copy")
      async_wait("copy")
    }
    """)
    different = races(copies, {"x": np.array([0x01020304, 0x05060708], np.uint32)})
    assert [race[:2] for race in different.races] == [("y", 0)]
    equal = races(copies, {"x": np.array([0x01020304, 0x01020304], np.uint32)})
    assert [[entry[:2] for entry in entries] for entries in equal] == [[], [("y", 0)]]


def test_what_cannot_run_is_refused_as_by_a_dispatch() -> None:
    with pytest.raises(InvalidInput, match="`y` is missing"):
        races(NEIGHBOURS, {"scale": 1})
    with pytest.raises(InvalidProgram, match="V"):
        races(Program.from_text("workgroup_size 1, 1, 1 body { x[0u] = 1u }"), {})
    trap = Program.from_text('workgroup_size 1, 1, 1 body { trap(1u, "stop") }')
    with pytest.raises(TrapError):
        races(trap, {})
