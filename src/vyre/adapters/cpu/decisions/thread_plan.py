"""How many threads run a launch, and how many workgroups does a thread take at a time?

Units: ns.  Rule: a further thread must get work for at least the time that it takes to hand it over; a launch of less
work stays on one thread.  Each thread takes its share in several pieces, so that threads with cheap workgroups help
those with dear ones, but no piece is shorter than taking it is worth.  O(1).

Order-sensitive programs run on one thread, in the order that the semantics prescribe.
"""

from __future__ import annotations

from typing import Annotated, Final

from vyre.policies.record import U32, U64, Count, IntRange, Nanoseconds, Reason, record, verdict, why_field


@record
class ThreadInputs:
    """A launch and the threads for it.

    - ``groups``: its workgroups.
    - ``group_ns``: the measured time of a workgroup; None if it must be estimated from the next two.
    - ``group_nodes``: the nodes of the program times the vectors of lanes of a workgroup.
    - ``rounds``: the rounds of its loops, 1 if it has none; None if they are unknown.
    - ``handoff_ns``: the measured time from handing work to a thread until that thread runs.
    - ``threads``: the threads that may run it, the calling one included.
    - ``order_sensitive``: whether the program depends on the order of atomics.
    """

    groups: U64
    group_ns: Nanoseconds | None
    handoff_ns: Nanoseconds
    threads: Annotated[int, IntRange(1, 2**32 - 1)]
    group_nodes: Count = 1
    rounds: U32 | None = None
    order_sensitive: bool = False


@record
class ThreadThresholds:
    """Limits, and the estimated time of a workgroup.

    - ``pieces`` and ``piece_ns``: the pieces into which the share of a thread is cut, and the least time of a piece.
    - ``node_ns`` and ``rounds``: the assumed time of a node for a vector of lanes, and the assumed rounds of loops.
    """

    pieces: Annotated[int, IntRange(1, 2**32 - 1)] = 8
    piece_ns: Nanoseconds = 5_000
    node_ns: Nanoseconds = 1
    rounds: U32 = 16


@verdict
class ThreadPlan:
    """``threads`` run the launch, each of which takes ``grain`` workgroups at a time; both are at least 1."""

    threads: int
    grain: int
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether several threads run it, for telemetry."""
        return "one thread" if self.threads == 1 else "several threads"


DEFAULT_THRESHOLDS: Final = ThreadThresholds()


def thread_plan(inputs: ThreadInputs, thresholds: ThreadThresholds = DEFAULT_THRESHOLDS) -> ThreadPlan:
    """Returns the threads and the grain of a launch; one thread takes all workgroups at once."""
    groups = inputs.groups
    if inputs.order_sensitive:
        return ThreadPlan(1, max(groups, 1), Reason("the program depends on the order of atomics"))
    if inputs.threads == 1:
        return ThreadPlan(1, max(groups, 1), Reason("one thread is available"))
    if groups < 2:
        return ThreadPlan(1, 1, Reason("{} workgroups cannot be divided", (groups,)))
    each = inputs.group_ns
    if each is None:
        each = inputs.group_nodes * (thresholds.rounds if inputs.rounds is None else inputs.rounds) * thresholds.node_ns
    work = groups * each
    worth = work // max(inputs.handoff_ns, 1)
    if worth < 2:
        figures = (groups, work, inputs.handoff_ns)
        return ThreadPlan(1, groups, Reason("{} workgroups of {} ns in all repay no hand-off of {} ns", figures))
    threads = min(inputs.threads, worth)
    share = -(-groups // threads)
    even = -(-share // thresholds.pieces)
    least = -(-thresholds.piece_ns // max(each, 1))
    grain = min(max(even, least), share)
    threads = min(threads, -(-groups // grain))
    return ThreadPlan(
        threads,
        grain,
        Reason(
            "{} ns of work for {} threads that take {} ns to start, {} workgroups at a time",
            (work, threads, inputs.handoff_ns, grain),
        ),
    )
