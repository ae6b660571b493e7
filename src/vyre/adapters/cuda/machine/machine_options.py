"""The options of an emulated device and driver."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from vyre.adapters.cuda.machine.fault_plan import NO_FAULTS, FaultPlan
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.machine.presets import H200, DevicePreset
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.domain.frozen import frozen

_EMULATED_MEMORY: Final = 4 * 2**30


@frozen(kw_only=True)
class MachineOptions:
    """Options of the machine.

    ``preset`` is the device; ``present`` False means that there is none.  ``memory_bytes`` is its memory if that is
    less than the preset's; allocations take as much of the host's.  ``schedule`` and ``seed`` decide when enqueued
    operations run, ``kernels`` how a kernel runs.  ``recoverable``: whether a lost context can be replaced; in a real
    process it may be impossible.  ``trace``: keep every call with its arguments.  ``export_fake``: let buffers of the
    machine export their addresses, on which another library would crash.
    """

    preset: DevicePreset = H200
    present: bool = True
    memory_bytes: int = _EMULATED_MEMORY
    driver_version: int = 13_000
    schedule: StreamSchedule = StreamSchedule.DEFERRED
    seed: int = 0
    kernels: RunOptions = field(default_factory=RunOptions)
    faults: FaultPlan = NO_FAULTS
    recoverable: bool = True
    trace: bool = False
    export_fake: bool = False


DEFAULT_MACHINE: Final = MachineOptions()
