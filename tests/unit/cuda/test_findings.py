"""What the emulated device finds out about kernels, races apart: told by buffer, element, lane and source line."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from vyre import DeviceLost, DispatchConfig, Program, ProgramBuilder, u16, u32
from vyre.adapters.cuda.machine.faults import FaultKind, access_kind, space_of
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.sites import Area, KernelSites, Site
from vyre.adapters.cuda.runtime.faults import sentence_of
from vyre.adapters.cuda.runtime.loaded import LoadedKernel, LoadedModule
from vyre.adapters.cuda.seam import FoundAccess, KernelFacts, KernelFinding
from vyre.domain.races import LanePlace
from vyre.domain.source_location import SourceLocation
from vyre.testing import cuda_machine

ONE = DispatchConfig(grid=(1, 1, 1))


def waiting() -> Program:
    """A lane waits for a flag that nobody sets."""
    with ProgramBuilder("waiting", workgroup=2) as p:
        flag = p.inout("flag", u32, 1)
        with p.while_(lambda: flag.atomic_add(0, 0) == 0):
            p.let(flag.atomic_or(0, 0))
    return p.build()


def endless() -> Program:
    with ProgramBuilder("endless", workgroup=2) as p:
        n = p.param("n", u32)
        flag = p.inout("flag", u32, 2)
        rounds = p.var(0)
        with p.while_(rounds < n):
            flag[p.global_id()] = flag[p.global_id()] + 1
    return p.build()


@pytest.mark.parametrize(
    ("program", "inputs", "kinds"),
    [
        (waiting(), {"flag": np.zeros(1, np.uint32)}, {FaultKind.DEADLOCK, FaultKind.STEP_LIMIT}),
        (endless(), {"n": 1, "flag": np.zeros(2, np.uint32)}, {FaultKind.STEP_LIMIT}),
    ],
    ids=["waiting", "endless"],
)
def test_a_kernel_that_does_not_end_names_the_loop(program: Program, inputs: Any, kinds: set[FaultKind]) -> None:
    machine = cuda_machine(kernels=RunOptions(step_limit=5000, check_races=False))
    session = machine.open()
    with pytest.raises(DeviceLost) as info:
        session.dispatch(program, inputs, ONE)
    session.close()
    assert machine.driver.kernel_faults[0].kind in kinds
    found = re.search(r"; lane 0 \(workgroup 0,0,0, local 0,0,0\) at (.*):(\d+)\.", str(info.value))
    assert found is not None, str(info.value)
    loop = [stmt for stmt in program.body if stmt.loc is not None][-1].loc
    assert loop is not None and found[1] == __file__
    assert loop.line <= int(found[2]) <= loop.line + 1
    assert "make the loop named end" in info.value.fix and "recover()" in info.value.fix


def test_bytes_that_nobody_wrote_are_told_by_element() -> None:
    with ProgramBuilder("reading", workgroup=4) as p:
        x = p.input("x", u16, 8)
        p.output("y", u32, 4)[p.global_id()] = x[p.global_id() + 2].cast(u32)
    program = p.build()
    machine = cuda_machine()
    session = machine.open()
    x_data = session.resident(np.arange(8, dtype=np.uint16))
    y_data = session.resident(np.zeros(4, np.uint32))
    launch = session.bind_resident(program, {"x": x_data, "y": y_data}, ONE)
    launch()
    for region in machine.driver._device.memory.regions():
        region.known[:8], region.complete = 0, False
    with pytest.raises(DeviceLost, match=r"load of x\[2\] by lane 0 \(.*\) at .*test_findings.py:\d+") as info:
        launch()
    assert "repair what the lane named does there" in info.value.fix
    session.close()


# ---------------------------------------------------------------- from addresses to buffers
LANE = LanePlace(5, (5, 0, 0), (1, 0, 0), (1, 0, 0))
SITES = KernelSites(
    (10, 20), (Site((SourceLocation("k.py", 3),)), Site((SourceLocation("k.py", 4),), "b")), (), (Area("s", 16, 8),)
)
FACTS = KernelFacts(0, 0, 0, 0, 0, 0, 0, None)


def module(sites: KernelSites | None) -> LoadedModule:
    pointers = tuple(
        Parameter(ParameterKind.POINTER, 8 * n, 8, 8, name, n, dtype)
        for n, (name, dtype) in enumerate((("a", "u8"), ("b", "u32")))
    )
    kernel = EmittedKernel("k", (4, 1, 1), pointers, 16, 0, 0, False, (), ())
    finder = None if sites is None else lambda: {"k": sites}
    return LoadedModule(1, (LoadedKernel(1, kernel, FACTS),), "", finder)


def finding(line: int | None, space: str, address: int | None, kind: str = "store") -> KernelFinding:
    parameters = (1000).to_bytes(8, "little") + (2000).to_bytes(8, "little")
    return KernelFinding("k", (FoundAccess(kind, line, LANE),), space, address, parameters, lambda at, nbytes: b"")


@pytest.mark.parametrize(
    ("line", "space", "address", "expected"),
    [
        (10, "global", 1007, "store of a[7] by {lane} at k.py:3"),
        (19, "global", 2012, "store of b[3] by {lane} at k.py:3"),
        (20, "global", 2012, "store of b[3] by {lane} at k.py:4"),
        (20, "global", 1996, "store of b[-1] by {lane} at k.py:4"),
        (10, "global", 990, "store of device memory[990] by {lane} at k.py:3"),
        (10, "shared", 32, "store of s[2] by {lane} at k.py:3"),
        (10, "shared", 8, "store of workgroup memory[8] by {lane} at k.py:3"),
        (9, "global", 1000, "store of a[0] by {lane} at an unknown source line"),
        (None, "global", 1000, "store of a[0] by {lane} at an unknown source line"),
        (10, "", None, "{lane} at k.py:3"),
    ],
)
def test_an_address_is_told_as_an_element(line: int | None, space: str, address: int | None, expected: str) -> None:
    assert sentence_of(finding(line, space, address), module(SITES)) == expected.format(lane=LANE)


def test_what_is_not_at_hand_is_not_guessed() -> None:
    assert (
        sentence_of(finding(10, "global", 2000), module(None)) == f"store of b[0] by {LANE} at an unknown source line"
    )
    lost = sentence_of(finding(10, "global", 2000), None)
    assert lost == f"store of device memory[2000] by {LANE} at an unknown source line"
    assert sentence_of(finding(10, "global", 2000)._replace(accesses=()), module(SITES)) == ""


@pytest.mark.parametrize(
    ("instruction", "kind", "space"),
    [
        ("ld.global.nc.b32 %r0, [%rd0];", "load", "global"),
        ("@!%p0 st.shared.v4.b32 [%r0], {%r1};", "store", "shared"),
        ("atom.relaxed.gpu.global.add.u32 %r0, [%rd0], 1;", "atomic", "global"),
        ("red.relaxed.gpu.shared.add.u32 [%r0], 1;", "atomic", "shared"),
        ("bar.sync 0;", "", ""),
        ("ret;", "", ""),
    ],
)
def test_instructions_say_what_they_access(instruction: str, kind: str, space: str) -> None:
    opcode = instruction.split()[instruction.startswith("@")]
    assert (access_kind(opcode.rstrip(";")), space_of(instruction)) == (kind, space)
