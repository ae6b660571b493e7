"""Plans of sequences, with their groups, modes and reasons, and the results of runs, with their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre.app.sequences.residency import KeptMemory
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.frozen import frozen
from vyre.policies.launching.execution_prices import ExecutionMode, Price, Quote

if TYPE_CHECKING:
    from vyre.app.shadow.state import ShadowState


@frozen
class WorkGroup:
    """Steps that are one launch, or a step that is launched by itself.

    ``steps``: their places in the lists of the caller, such as ``steps[0]``.  ``program``: the name of what is
    launched.  ``why``: the reason for the mode, and for a step that is launched by itself, what keeps it apart from the
    one before.  ``unallocated_bytes``: bytes of temporary arrays that need no memory because the steps are joined.
    ``is_host``: it is a function of the host, and no launch.
    """

    steps: tuple[str, ...]
    mode: ExecutionMode
    program: str
    why: str
    unallocated_bytes: int = 0
    is_host: bool = False


@frozen
class WorkPlan:
    """How a sequence is run; ``print`` it.

    ``mode``: how launches are submitted: ``PLAIN``, each by itself; ``GRAPH``, a round or more at once; or
    ``PERSISTENT``, found in a queue by resident workers.  ``groups``: the launches of ``first`` and of one round, in
    order.  ``quotes``: the prices on which the planner decided; empty where nothing was to be decided.
    ``temporary_bytes``: the memory that temporary arrays have in this plan.
    ``notes``: limits of the prices' validity.  ``residency``: what the rounds keep on the device, in bytes, and the
    uploads that this avoids; None where the plan is not that of a number of rounds, or no array stays.
    """

    mode: ExecutionMode
    why: str
    groups: tuple[WorkGroup, ...]
    quotes: tuple[Quote, ...] = ()
    temporary_bytes: int = 0
    notes: tuple[str, ...] = ()
    residency: KeptMemory | None = None

    @property
    def unallocated_bytes(self) -> int:
        """Returns the bytes of temporary arrays that no memory was allocated for."""
        return sum(group.unallocated_bytes for group in self.groups)

    def __str__(self) -> str:
        hosts = sum(group.is_host for group in self.groups)
        calls = f" and {hosts} calls of the host" if hosts else ""
        lines = [f"{len(self.groups) - hosts} launches{calls} a round, {self.mode.value}: {self.why}"]
        lines += [
            f"  {group.mode.value} {group.program}: {', '.join(group.steps)}: {group.why}" for group in self.groups
        ]
        for quoted in self.quotes:
            text = f"{quoted.total_ns} ns" if isinstance(quoted, Price) else f"unavailable: {quoted.why}"
            lines.append(f"  {quoted.mode.value}: {text}")
        if (memory := self.residency) is not None:
            lines.append(
                f"  memory: {memory.peak_resident_bytes} bytes at once for all rounds;"
                f" {memory.avoided_upload_bytes} bytes of uploads avoided"
            )
        return "\n".join((*lines, *(f"note: {note}" for note in self.notes)))


class SequenceRun(NamedTuple):
    """The result of a run: its times, its plan and its counts.

    ``timing``: the times as of a dispatch; its fields are properties here too.  ``plan``: the groups and their modes,
    with the reasons.  ``kernels``: launches of programs on the device, in a graph or not.  ``submissions``: calls with
    which the host started them.  ``bound_bytes``: the memory that the launches bound, summed over all launches, which
    bounds what they read and wrote.  ``allocations`` and ``allocated_bytes``: memory that this run allocated for
    temporary arrays.  ``host_ns``: the time of host steps, which is a part of ``wall_ns``.
    """

    timing: DispatchTiming
    plan: WorkPlan
    kernels: int
    submissions: int
    bound_bytes: int
    allocations: int = 0
    allocated_bytes: int = 0
    host_ns: int = 0

    @property
    def shadow(self) -> ShadowState:
        """Whether the run was sampled by the shadow of its session, and what that has found so far."""
        from vyre.app.shadow.state import state_of  # imported on use

        return state_of(self.timing)

    def followed_by(self, other: SequenceRun) -> SequenceRun:
        """Returns both runs as one, with the plan of the second."""
        from vyre.app.sequences.execution import Ran, total

        timing = total([Ran(self.timing, self.submissions), Ran(other.timing, other.submissions)]).timing
        return SequenceRun(timing, other.plan, *(one + behind for one, behind in zip(self[2:], other[2:], strict=True)))

    @property
    def wall_ns(self) -> int:
        """The whole run in ns."""
        return self.timing.wall_ns

    @property
    def device_ns(self) -> int | None:
        """From the start of the first kernel to the end of the last in ns; None if it was not measured."""
        return self.timing.device_ns

    @property
    def enqueue_ns(self) -> int | None:
        """Host time before waiting in ns; None if it was not measured."""
        return self.timing.enqueue_ns

    @property
    def wait_ns(self) -> int | None:
        """Waiting in ns; None if it was not measured."""
        return self.timing.wait_ns

    @property
    def launches(self) -> int | None:
        """The kernels that were launched one by one and not replayed; None if they were not counted."""
        return self.timing.launches

    @property
    def launch_ns(self) -> int | None:
        """Host time of submitting one of them in ns; None if it was not measured."""
        return self.timing.launch_ns

    def __str__(self) -> str:
        return f"{self.kernels} kernels in {self.submissions} submissions, {self.wall_ns} ns; {self.plan}"

    def _repr_html_(self) -> str:
        """Returns a piece of HTML for notebooks."""
        from vyre.domain.html.times import timing_view

        return timing_view(self.timing)
