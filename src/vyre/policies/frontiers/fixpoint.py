"""How is a step repeated on the device until it changes nothing, and what does the host see of that?

``choose_executor`` says how the loop is run; the device iterates, and the host waits once and reads one flag.  How
often a plain dispatch repeats is decided by ``fixpoint_iterations``.  O(1).

vyre-driver launches the step as often as its caller says, also after nothing changes any more, and no flag tells
whether that was enough.  Every executor here has a changed flag; reaching the limit with the flag still set is a result
(not converged) that is always reported.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Final, TypeAlias

from vyre.domain.errors import PlanError
from vyre.domain.launch_costs import Provenance
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, GridSyncMode, choose_grid_sync
from vyre.policies.record import U32, U32_MAX, IntRange, Nanoseconds, Reason, record, verdict, why_field

Positive: TypeAlias = Annotated[int, IntRange(1, U32_MAX)]


class FixpointExecutor(Enum):
    """How the step is repeated.

    - ``COOPERATIVE``: by a loop inside one kernel, with grid barriers.
    - ``WHILE_GRAPH``: by a graph whose body repeats while a condition holds.
    - ``UNROLLED_GRAPH``: by graphs of many steps; the steps after the fixed point return at once.
    - ``COMMAND_LIST``: by a list of steps that the backend itself repeats and leaves early.
    - ``POLLED``: by the host, which waits after each iteration and reads the flag.
    """

    COMMAND_LIST = "command_list"
    COOPERATIVE = "cooperative"
    WHILE_GRAPH = "while_graph"
    UNROLLED_GRAPH = "unrolled_graph"
    POLLED = "polled"


@record
class RoundCosts:
    """Measured times, in ns, of what is beside the work of the steps.

    ``gap_ns`` lies between two launches that the device or the backend repeats by itself.  ``barrier_ns`` is the time
    of a barrier of the grid in a kernel.  ``launch_ns`` submits a launch, and ``wait_ns`` awaits the last one.
    ``build_ns`` is the time to join the steps to one kernel and to compile it.  ``provenance`` is the weaker one of
    these two times of a kernel; the others are measured.
    """

    gap_ns: Nanoseconds
    barrier_ns: Nanoseconds
    launch_ns: Nanoseconds
    wait_ns: Nanoseconds
    build_ns: Nanoseconds
    provenance: Provenance = Provenance.MEASURED


@record
class FixpointProfile:
    """Steps to repeat, and the device.

    ``grid`` is the grid of the kernel that the steps of an iteration were joined to, and what the device holds of it;
    None where they are not one kernel, for the reason ``apart``.  That kernel has so many ``barriers`` of the grid in
    an iteration, beside the one that ends it.  ``supports_conditional_graphs`` is the result of a probe.
    ``repeats_lists`` says that the backend repeats a list of steps by itself, and ``guardable`` that the steps can be
    made to return at once.  An iteration has ``steps`` launches, with the one that ends it.  ``costs`` are None where
    they were not measured.  ``forced`` names the executor that the caller wants, ``forbidden`` those that it does not.
    Without ``early_exit`` all iterations run, as a baseline that shows what leaving early saves.
    """

    max_iterations: Positive
    grid: GridSyncInputs | None
    supports_conditional_graphs: bool
    early_exit: bool = True
    repeats_lists: bool = False
    guardable: bool = True
    steps: Positive = 1
    forced: FixpointExecutor | None = None
    forbidden: frozenset[FixpointExecutor] = frozenset()
    apart: str = "the steps are not one kernel"
    barriers: U32 = 0
    costs: RoundCosts | None = None


@record
class FixpointThresholds:
    """``max_unrolled_steps`` is the number of steps of one unrolled graph; it bounds the memory and is not measured.

    ``paid_rounds`` is the number of iterations, of all runs together, in which a kernel built for them must pay.
    """

    max_unrolled_steps: Positive = 1024
    paid_rounds: Positive = 100_000


@verdict
class FixpointPlan:
    """How a loop is run: ``host_launches`` of kernels, lists or graphs, with ``host_sync_points`` waits.  Only
    ``POLLED`` waits between them.

    After the barrier that ends iteration k, flag ``k mod flag_buffers`` is tested and flag ``(k + 2) mod flag_buffers``
    is cleared.  With three flags, the cleared one was last tested before this barrier and is next set after the
    following one.
    """

    max_iterations: int
    executor: FixpointExecutor
    early_exit: bool
    host_launches: int = 1
    flag_buffers: int = 3
    host_sync_points: int = 1
    why: Reason = why_field()


DEFAULT_THRESHOLDS: Final = FixpointThresholds()


def choose_executor(profile: FixpointProfile, thresholds: FixpointThresholds = DEFAULT_THRESHOLDS) -> FixpointPlan:
    """Returns how the loop is run: the first executor that works and is not forbidden.

    A list that the backend repeats comes first, then a loop in the kernel where a grid barrier works (see
    ``choose_grid_sync``), a conditional graph, unrolled graphs, and polling, which works everywhere.  Where costs are
    known, a loop in the kernel comes first if it spares more time than it takes to build, and last if not.  A backend
    that repeats lists also runs one whose grid is split; without costs it comes last there.

    Raises ``PlanError``: ``GridBarrierImpossible`` where the caller forces a grid barrier that cannot work,
    ``ExecutorUnavailable`` where the forced executor does not work here, ``EveryExecutorForbidden``.
    """
    barrier = None if profile.grid is None else choose_grid_sync(profile.grid)
    if barrier is not None and not barrier.possible:
        raise PlanError("GridBarrierImpossible", fix=f"do not force it: {barrier.why}.")
    native = barrier is not None and barrier.mode is GridSyncMode.NATIVE
    no_kernel = Reason("{}", (profile.apart,)) if barrier is None else barrier.why
    works = {
        FixpointExecutor.COMMAND_LIST: profile.repeats_lists,
        FixpointExecutor.COOPERATIVE: native or (barrier is not None and profile.repeats_lists),
        FixpointExecutor.WHILE_GRAPH: profile.supports_conditional_graphs,
        FixpointExecutor.UNROLLED_GRAPH: profile.guardable,
        FixpointExecutor.POLLED: True,
    }
    forced = profile.forced
    if forced is not None:
        if not works[forced]:
            said = {"why": str(no_kernel)} if forced is FixpointExecutor.COOPERATIVE else {}
            raise PlanError(
                "ExecutorUnavailable",
                fix=f"use one of {', '.join(each.value for each, ok in works.items() if ok)}.",
                executor=forced.value,
                **said,
            )
        return _plan(profile, thresholds, forced, Reason("it is asked for"))
    order = [each for each, ok in works.items() if ok and each not in profile.forbidden]
    if FixpointExecutor.COOPERATIVE in order[:-1]:
        order.remove(FixpointExecutor.COOPERATIVE)
        pays, no_kernel = _in_kernel(profile, thresholds, order[0], native, no_kernel)
        order.insert(0 if pays else len(order), FixpointExecutor.COOPERATIVE)
    match executor := next(iter(order), None):
        case None:
            raise PlanError("EveryExecutorForbidden", fix="forbid fewer; polling works everywhere.")
        case FixpointExecutor.COMMAND_LIST:
            why = Reason("the backend repeats a list of steps by itself")
        case FixpointExecutor.COOPERATIVE:
            why = no_kernel
        case FixpointExecutor.WHILE_GRAPH:
            why = Reason("no loop in the kernel: {}", (no_kernel,))
        case FixpointExecutor.UNROLLED_GRAPH:
            why = Reason("no loop in the kernel: {}; and no conditional graphs", (no_kernel,))
        case FixpointExecutor.POLLED:
            why = Reason(
                "no loop in the kernel: {}; no conditional graphs; and the steps cannot be made to return at once",
                (no_kernel,),
            )
    return _plan(profile, thresholds, executor, why)


def may_pay(profile: FixpointProfile, thresholds: FixpointThresholds = DEFAULT_THRESHOLDS) -> bool:
    """Returns whether joining steps to one kernel is worth a try: it would pay if its barriers took no time.

    Raises ``PlanError`` as ``choose_executor`` does.
    """
    costs = profile.costs
    if costs is None:
        return False
    other = choose_executor(profile, thresholds).executor
    rounds = min(profile.max_iterations, thresholds.paid_rounds)
    return rounds * _round_ns(profile, costs, other) > costs.build_ns


def _in_kernel(
    profile: FixpointProfile, thresholds: FixpointThresholds, other: FixpointExecutor, native: bool, grid: Reason
) -> tuple[bool, Reason]:
    """Returns whether a loop in the kernel comes before another executor, and why; ``grid`` is why it is native."""
    costs = profile.costs
    if costs is None:
        return native and other is not FixpointExecutor.COMMAND_LIST, grid
    rounds = min(profile.max_iterations, thresholds.paid_rounds)
    barriers = profile.barriers + 1
    each = barriers * costs.barrier_ns if native else (barriers + 1) * costs.gap_ns
    spared = rounds * max(0, _round_ns(profile, costs, other) - each)
    why = Reason(
        "{}; against {} it spares {} ns in {} iterations, and takes {} ns to build, by {} costs",
        (grid, other.value, spared, rounds, costs.build_ns, costs.provenance.value),
    )
    return spared > costs.build_ns, why


def _round_ns(profile: FixpointProfile, costs: RoundCosts, executor: FixpointExecutor) -> int:
    """Returns the time of an iteration beside the work of its steps."""
    match executor:
        case FixpointExecutor.COMMAND_LIST:
            return (profile.steps - 1) * costs.gap_ns  # the list itself tests the flag
        case FixpointExecutor.POLLED:
            return profile.steps * costs.launch_ns + costs.wait_ns
        case _:
            return profile.steps * costs.gap_ns


def _plan(
    profile: FixpointProfile, thresholds: FixpointThresholds, executor: FixpointExecutor, why: Reason
) -> FixpointPlan:
    launches = waits = 1
    if executor is FixpointExecutor.UNROLLED_GRAPH:
        launches = -(-profile.max_iterations // rounds_unrolled(profile, thresholds))
    elif executor is FixpointExecutor.POLLED:
        launches = waits = profile.max_iterations
    return FixpointPlan(
        max_iterations=profile.max_iterations,
        executor=executor,
        early_exit=profile.early_exit,
        host_launches=launches,
        host_sync_points=waits,
        why=why,
    )


def rounds_unrolled(profile: FixpointProfile, thresholds: FixpointThresholds = DEFAULT_THRESHOLDS) -> int:
    """Returns the iterations of one unrolled graph, at least 1."""
    return min(profile.max_iterations, max(1, thresholds.max_unrolled_steps // profile.steps))
