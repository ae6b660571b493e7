"""Running a kernel: blocks, strands of lanes, and who goes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.adapters.cuda.machine.options import KernelReport, RunOptions

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.memory import DeviceMemory
    from vyre.adapters.cuda.machine.module import MachineEntry
    from vyre.adapters.cuda.seam import LaunchShape

__all__ = ["KernelReport", "RunOptions", "run_kernel"]


def run_kernel(
    entry: MachineEntry, shape: LaunchShape, parameters: bytes, memory: DeviceMemory, options: RunOptions
) -> KernelReport:
    """Run ``entry`` over the whole grid; the writes of a run that faults stay.  Raises ``KernelFault``."""
    raise NotImplementedError
