"""Options of running a kernel on the emulated device, and the report of a run."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

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
