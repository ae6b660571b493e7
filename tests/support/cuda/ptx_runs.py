"""Runs hand-written PTX on the interpreter: arrays in, arrays out."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from vyre.adapters.cuda.machine.execution import KernelRun
from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.machine.options import KernelReport, RunOptions
from vyre.adapters.cuda.seam import LaunchShape

HEADER: Final = ".version 7.8\n.target sm_90\n.address_size 64\n"
DECLARATIONS: Final = """
.reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<30>; .reg .b64 %rd<20>; .reg .f32 %f<10>; .reg .f64 %fd<10>;
"""
PROLOGUE: Final = """
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
"""
"""%r0 thread, %r1 block, %r3 lane in the grid."""


def kernel(body: str, parameters: str = ".param .u64 a", module_scope: str = "") -> str:
    """A module with one entry ``k``; its registers are declared, ``$E`` is its end, and ``PROLOGUE`` has run."""
    return (
        f"{HEADER}{module_scope}\n.visible .entry k({parameters})\n{{{DECLARATIONS}{PROLOGUE}\n{body}\n$E:\nret;\n}}\n"
    )


class Machine:
    """A device memory with arrays in it."""

    def __init__(self) -> None:
        self.memory = DeviceMemory()
        self.report: KernelReport | None = None

    def array(self, data: NDArray[Any]) -> int:
        address = self.memory.allocate(data.nbytes)
        self.memory.write(address, data.tobytes())
        return address

    def read(self, address: int, dtype: type[np.generic] = np.uint32) -> NDArray[Any]:
        extent = self.memory.extent_of(address)
        assert extent is not None
        return np.frombuffer(self.memory.read(*extent), dtype)

    def launch(
        self,
        text: str,
        *arguments: int,
        grid: int = 1,
        block: int = 32,
        shared: int = 0,
        layout: str | None = None,
        options: RunOptions | None = None,
    ) -> KernelReport:
        """``layout`` as in ``struct``; by default every argument has 8 bytes."""
        entry = next(iter(load_module(text).instantiate(self.memory).entries.values()))
        data = struct.pack("<" + (layout or "Q" * len(arguments)), *arguments)
        shape = LaunchShape((grid, 1, 1), (block, 1, 1), shared)
        return KernelRun(entry, shape, data, self.memory, options or RunOptions()).finish()


def run(text: str, data: NDArray[Any], dtype: type[np.generic] = np.uint32, **how: Any) -> NDArray[Any]:
    """What one array holds after a launch that is given its address."""
    machine = Machine()
    address = machine.array(data)
    machine.launch(text, address, **how)
    return machine.read(address, dtype)


def fault(kind: FaultKind, text: str, *arguments: int, machine: Machine | None = None, **how: Any) -> KernelFault:
    """The fault of a launch, which must be of that kind."""
    with pytest.raises(KernelFault) as caught:
        (machine or Machine()).launch(text, *arguments, **how)
    assert caught.value.kind is kind, str(caught.value)
    return caught.value


def zeros(count: int) -> NDArray[np.uint32]:
    return np.zeros(count, np.uint32)


SCHEDULES: Final = (
    RunOptions(),
    RunOptions(schedule="reverse"),
    RunOptions(schedule="shuffled", seed=1),
    RunOptions(schedule="shuffled", seed=2),
)
