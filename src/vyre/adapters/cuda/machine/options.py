"""Options of an emulated device and of running a kernel on it, and the report of a run."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias

from vyre.adapters.cuda.machine.fault_plan import NO_FAULTS, FaultPlan
from vyre.adapters.cuda.machine.presets import H200, DevicePreset
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.domain.frozen import frozen
from vyre.domain.record import IntRange, record

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.ordering import Access

Schedule: TypeAlias = Literal["lockstep", "reverse", "shuffled"]
Seed: TypeAlias = Annotated[int, IntRange(0, 2**64 - 1)]
Positive: TypeAlias = Annotated[int, IntRange(1, 2**63 - 1)]


@record
class RunOptions:
    """Options of one launch.

    ``schedule``: ``lockstep`` runs blocks, divergent paths and lanes in ascending order; ``reverse`` in descending
    order; ``shuffled`` in an order drawn from ``seed``, with the warps of a block out of step. ``check_races`` also
    finds non-coherent loads of memory that the launch writes. ``seed`` also draws the bits of NaN results, of
    unspecified values and of approximations. ``workgroups_at_once``: blocks that advance together; None lets the
    machine choose, more than one only if no result can depend on it.  ``resident_blocks``: blocks that have started and
    not ended at one time; None: all of the grid. ``step_limit``: instructions issued before the run is given up (an
    instruction counts once for all lanes that execute it together); those of a kernel that polls for the host are
    counted from its last poll.
    """

    schedule: Schedule = "lockstep"
    seed: Seed = 0
    check_races: bool = True
    check_uninitialised: bool = True
    workgroups_at_once: Positive | None = None
    resident_blocks: Positive | None = None
    step_limit: Positive = 20_000_000


class Progress(Enum):
    """The end of a slice of a kernel: it got on, all its lanes wait for the host, or it has ended."""

    MADE = "made"
    IDLE = "idle"
    ENDED = "ended"


class KernelReport(NamedTuple):
    """The work of a run.

    ``instructions`` were issued, and ``lane_instructions`` sums the lanes that executed each.  ``barriers`` counts a
    passed barrier once per block; ``atomics`` counts the atomic operations of all lanes.  ``accesses`` is the device
    memory accessed, empty unless races are checked.
    """

    instructions: int
    lane_instructions: int
    barriers: int
    atomics: int
    accesses: tuple[Access, ...] = ()


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
