"""Launches in memory: the frame of a step, its commands, and the errors that a run of commands ended with."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array, addressof, c_uint64
from math import prod
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cpu.pool.commands import Command, Fill, Kernel, PrivateTable, Repeat
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.runtime.kernels import KernelModule, LoadedKernels
from vyre.adapters.host.memory import allocate_aligned
from vyre.adapters.kernel_plan import KernelLoop, KernelPlan
from vyre.domain.errors import BackendError, DispatchFailed, DispatchTimeout, StepBudgetExceeded, TrapError
from vyre.domain.names import BackendId, Dim3
from vyre.domain.record import U64_MAX

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.adapters.cpu.pool.job import Job
    from vyre.adapters.cpu.runtime.device import CpuDevice
    from vyre.domain.ir.program import Program
    from vyre.domain.launch import Launch

FRAME_HEAD: Final = 6
"""The words of a frame before its buffers: the grid, the control block, the step budget and the steps used."""
_FRAME_WORDS: Final = 32
_Frame: Final = c_uint64 * _FRAME_WORDS
"""The memory of most frames: making an array type for each number of buffers takes longer than filling the frame."""


class Placement(NamedTuple):
    """The spread of a launch over threads: at most ``threads`` take ``grain`` workgroups at a time.

    ``table`` describes the buffers of which each thread has its own copy; None if there is none.
    """

    threads: int
    grain: int
    table: PrivateTable | None = None


class StepFrame:
    """The frame of one step: its geometry and the memory of its buffers.  It serves one run at a time.

    ``used`` counts the loop steps of each lane; None where they are not counted.  ``words`` is its number of words.
    ``plan`` is the order of the kernels of a program with grid loops, whose hidden buffer the frame holds.
    ``grid_counts`` is the position of the buffer that says how many workgroups run; None without one.
    """

    def __init__(
        self, launch: Launch, step_budget: int | None, plan: KernelPlan | None = None, grid_counts: int | None = None
    ) -> None:
        counts = launch.counts
        self._counts: Final = counts
        self._plan: Final = plan
        self._counted: Final = 0 if grid_counts is None else 8 * (FRAME_HEAD + 2 * grid_counts)
        hidden = FRAME_HEAD + 2 * len(counts)
        self.words: Final = hidden if plan is None else hidden + 2
        frame = _Frame if self.words <= _FRAME_WORDS else c_uint64 * self.words
        self._words: Final[Array[c_uint64]] = frame()
        self._control: tuple[npt.NDArray[np.uint8], int] | None = None
        if plan is not None:
            self._control = allocate_aligned(4 * plan.words)
            self._words[hidden : hidden + 2] = [self._control[1], plan.words]
        self.address: Final = addressof(self._words)
        self._layout: Final = Struct(f"<{2 * len(counts)}Q").pack_into
        self._words[:3] = list(launch.grid)
        self.used: npt.NDArray[np.uint8] | None = None
        self._used_address = 0
        if step_budget is not None:
            self.used, self._used_address = allocate_aligned(8 * prod(launch.grid) * prod(launch.workgroup))
            self._words[4] = min(step_budget, U64_MAX)
            self._words[5] = self._used_address

    def bind(self, addresses: Sequence[int]) -> None:
        """Sets the address of each buffer, by position in the binding plan."""
        self._layout(
            self._words, 8 * FRAME_HEAD, *[word for pair in zip(addresses, self._counts, strict=True) for word in pair]
        )

    def bind_flat(self, pairs: Sequence[int]) -> None:
        """Sets address and element count of each buffer, one after the other."""
        self._layout(self._words, 8 * FRAME_HEAD, *pairs)

    def clearing(self) -> tuple[Command, ...]:
        """Returns the command that sets the counts of steps to zero, if steps are counted."""
        return () if self.used is None else (Fill(self._used_address, 0, self.used.nbytes),)

    def kernels(self, loaded: LoadedKernels, launch: Launch, placement: Placement) -> tuple[Command, ...]:
        """Returns the commands that run the program once; none for a grid without workgroups."""
        groups = prod(launch.grid)
        if not groups:
            return ()
        each = tuple(
            [
                Kernel(
                    function,
                    self.address,
                    groups,
                    placement.grain,
                    placement.threads,
                    kernel.scratch_for(launch.nbytes),
                    placement.table,
                    self._counted,
                )
                for function, kernel in zip(loaded.functions, loaded.kernels, strict=True)
            ]
        )
        return each if self._plan is None else self._loops(self._plan.steps, each)

    def _loops(self, steps: Sequence[int | KernelLoop], each: Sequence[Kernel]) -> tuple[Command, ...]:
        assert self._control is not None
        control = self._control[1]
        commands: list[Command] = []
        for step in steps:
            if isinstance(step, KernelLoop):
                enter, advance = (each[number]._replace(groups=1, threads=1) for number in (step.enter, step.advance))
                body = (*self._loops(step.body, each), advance)
                commands += (enter, Repeat(body, control + 4 * step.word))
            else:
                commands.append(each[step])
        return tuple(commands)


class Owner(NamedTuple):
    """The step to which a command belongs; ``kernel`` is the number of the kernel, None for a copy or a fill.

    ``used`` counts the loop steps of each lane; None where nobody reads them.  ``program`` is the one that is run.
    """

    id: str
    title: str
    module: KernelModule
    launch: Launch
    kernel: int | None
    step_budget: int | None
    timeout_s: float | None
    used: npt.NDArray[np.uint8] | None = None
    program: Program | None = None


def run_failed(device: CpuDevice, job: Job, outcome: Outcome, owners: Sequence[Owner]) -> BackendError:
    """Returns the error of a run that did not complete, after counting it.

    ``owners`` has an entry for each command of the job, as ``pool.commands.flat`` lists them, or none at all.
    """
    lane, address, tag = job.trap or (0, 0, 0)
    if outcome is Outcome.OVER_BUDGET:
        lane = job.budget_lane or 0
    owner = owners[job.last] if owners else None
    return ended_error(device, owner, outcome, job.stop_reason, lane, address, tag)


def ended_error(
    device: CpuDevice,
    owner: Owner | None,
    outcome: Outcome,
    reason: StopReason | None,
    lane: int,
    address: int,
    tag: int,
) -> BackendError:
    """Returns the error of work that did not complete, after counting it.

    ``lane`` is that of the trap or of the exceeded budget.
    """
    if outcome is Outcome.TRAPPED:
        device.counters.traps += 1
    elif reason is StopReason.TIMEOUT:
        device.counters.timeouts += 1
    if owner is None:
        return _stopped(device.backend, reason, None)
    match outcome:
        case Outcome.TRAPPED:
            assert owner.kernel is not None
            tags = owner.module.loaded.kernels[owner.kernel].trap_tags
            error: BackendError = TrapError(tag=tags[tag], address=address, global_id=global_id(lane, owner.launch))
        case Outcome.OVER_BUDGET:
            where = global_id(lane, owner.launch)
            error = StepBudgetExceeded(budget=owner.step_budget or 0, global_id=where, site=_loop_of(owner, lane))
        case _:
            return _stopped(device.backend, reason, owner)
    if owner.program is not None:
        from vyre.domain.sites import locate  # only for errors

        locate(error, (owner.program,))
    segments = len(owner.module.loaded.kernels)
    if segments > 1 and owner.kernel is not None:
        error.add_note(f"segment {owner.kernel + 1} of {segments}, cut at grid barriers")
    return error


def _loop_of(owner: Owner, lane: int) -> str | None:
    """Returns the site of the loop in which a lane exceeded its budget; None where it is unknown."""
    from vyre.domain.sites import ENDED, NOWHERE, stored_site  # only for errors

    if owner.used is None:
        return None
    number = int.from_bytes(owner.used[8 * lane : 8 * lane + 8].tobytes(), "little") - ENDED
    return stored_site(owner.module.program, number) if 0 <= number < NOWHERE else None


def global_id(linear: int, launch: Launch) -> Dim3:
    """Returns the global id of the lane with a linear global id."""
    x = launch.grid[0] * launch.workgroup[0]
    y = launch.grid[1] * launch.workgroup[1]
    return linear % x, linear // x % y, linear // (x * y)


def _stopped(backend: BackendId, reason: StopReason | None, owner: Owner | None) -> BackendError:
    name = "the work" if owner is None else f"dispatch `{owner.title}` ({owner.id})"
    if reason is StopReason.TIMEOUT:
        limit = "its timeout" if owner is None else f"{owner.timeout_s} s"
        return DispatchTimeout(f"{name} did not finish on backend `{backend}` within {limit}, and was stopped")
    if reason is StopReason.EXIT:
        return DispatchFailed(
            f"{name} was stopped because the interpreter exits", fix="close sessions before the program ends."
        )
    if reason is StopReason.CLOSED:
        return DispatchFailed(f"{name} was stopped because backend `{backend}` is closed", fix="open a new session.")
    return DispatchFailed(f"{name} was stopped", fix="dispatch again.")
