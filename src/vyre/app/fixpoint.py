"""Fixed points: steps on resident memory that are repeated until they change nothing, with one wait at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters.forks import process_lock, refuse_within
from vyre.app.host_memory import bytes_of
from vyre.app.indirect import grids_of
from vyre.app.resident import ResidentArray
from vyre.app.resident_dispatch import BoundWork, host_arrays_of
from vyre.app.sequences.description import WRITTEN, Work, describe
from vyre.app.sequences.sequence import WorkServices
from vyre.app.sequences.steps import Item, parts_of, refuse_host_steps
from vyre.domain import guarding
from vyre.domain.arguments import expect, member, whole
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError, DispatchTimeout, InvalidInput
from vyre.domain.launch_costs import ASSUMED, Provenance, weakest
from vyre.domain.record import U32_MAX
from vyre.domain.unique import Unique
from vyre.policies.frontiers.fixpoint import (
    FixpointExecutor,
    FixpointPlan,
    FixpointProfile,
    RoundCosts,
    choose_executor,
    may_pay,
    rounds_unrolled,
)
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.fixpoint_iterations import FixpointInputs, resolve_fixpoint_iterations
from vyre.ports.interrupts import sealed
from vyre.ports.requests import FLAG_BYTES, Readback, ResidentSequence, ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from pathlib import Path

    from vyre.app.lease import BackendLease
    from vyre.app.shadow.state import ShadowState
    from vyre.domain.evidence.records import Evidence

ExecutorName: TypeAlias = "FixpointExecutor | str"


class FixedPointResult(NamedTuple):
    """The result of a fixed point.

    ``iterations``: the number of times that the steps ran.  ``converged``: whether the last iteration left the flag at
    0; if not, the arrays hold the state after ``limit`` iterations.  ``executor``: the mechanism that repeated the
    steps, with the reason for its choice in ``why``.
    """

    iterations: int
    converged: bool
    executor: FixpointExecutor
    why: str
    timing: DispatchTiming

    @property
    def shadow(self) -> ShadowState:
        """Whether the run was sampled by the shadow of its session, and what that has found so far."""
        from vyre.app.shadow.state import state_of  # imported on use

        return state_of(self.timing)

    def __repr__(self) -> str:
        end = "converged after" if self.converged else "NOT converged after"
        return f"<FixedPointResult {end} {self.iterations} iteration(s) by {self.executor.value}: {self.why}>"


class FixedPoint(Unique):
    """Steps with all their memory bound that run until they change nothing: call it, from any thread.

    ``plan`` tells what repeats them, and why.  Calls run one after the other.
    """

    def __init__(
        self,
        services: WorkServices,
        steps: Sequence[Item],
        first: Sequence[Item],
        changed: ResidentArray,
        limit: int,
        executor: ExecutorName | None,
        early_exit: bool,
    ) -> None:
        lease, sink = services.lease, services.decisions
        lease.check_open()
        self._lease, self._services = lease, services
        self._lock = process_lock()
        parts, once = parts_of("steps", steps), parts_of("first", first)
        if not any(part.times for part in parts):
            raise InvalidInput("a fixed point without steps", fix="give at least one.")
        fix = "repeat session.sequence(...) in a loop of your own that looks at the flag, or call it before and after."
        refuse_host_steps((*once, *parts), "the device repeats the steps of a fixed point by itself", fix)
        lease.backend.require_resident_executor()
        expect("early_exit", early_exit, bool, "True or False")
        forced = None if executor is None else member("executor", executor, FixpointExecutor)
        limit = whole("limit", limit, 1, U32_MAX, f"give an int from 1 to {U32_MAX}.")
        self._flag = _flag_of(changed)
        self._work = work = describe(lease, services.bind, once, parts, sink)
        written = sum(part.times * len(part.steps) for part in work.parts)
        if written > WRITTEN:
            raise InvalidInput(
                f"a round has {written} launches, which are written out, and the most are {WRITTEN}",
                fix="repeat steps fewer times in a round.",
            )
        own = self._memory(work)
        self._first = tuple(step.work.with_memory(own).step for step in work.first.steps)
        self._works = tuple(
            again for part in work.parts for again in [step.work.with_memory(own) for step in part.steps] * part.times
        )
        self._steps = tuple(bound.step for bound in self._works)
        self._joined: ResidentStep | None = None
        self.plan: Final = self._decided(limit, forced, early_exit, sink)
        run, grids = self._way(), grids_of(lease, work)
        self._run = run if grids is None else partial(grids.run, run)

    def __call__(self) -> FixedPointResult:
        """Runs ``first`` once, then the steps until an iteration leaves the flag at 0, at most ``limit`` times.

        Raises what a dispatch raises; after a failure the arrays hold what the steps had written until then.
        """
        self._lease.check_open()
        refuse_within(self._lock, repr(self))
        try:
            with self._lock, sealed:
                timing = self._run()
        except BackendError as error:
            self._lease.failed(error, f"fixed point={self!r}")
            raise
        if timing.launches != 0:
            self._services.remember(timing)
            self._lease.launched()
        assert timing.rounds is not None
        assert timing.converged is not None
        return FixedPointResult(timing.rounds, timing.converged, self.plan.executor, str(self.plan.why), timing)

    def write_evidence(self, path: Path | str) -> Evidence:
        """Runs as a call does, and writes a file by which others can run it again and compare; returns its manifest.

        The file holds the rounds that ran and whether they converged; else as ``StepSequence.write_evidence``.
        """
        from vyre.app.evidence.work_recording import parts_of, record_work
        from vyre.domain.evidence.records import FixedPointCall

        plan, services = self.plan, self._services
        how = plan.max_iterations, plan.early_exit, plan.executor.value
        return record_work(
            path, services.lease, services.journal, parts_of(self._work), self,
            lambda recording, _: FixedPointCall(recording.part(self._flag), *how), self._flag,
        )  # fmt: skip

    def __repr__(self) -> str:
        steps = (*self._first, *self._steps)
        names = " ".join(step.program.name or "unnamed" for step in self._steps)
        how = f"by {self.plan.executor.value}{host_arrays_of(steps)}"
        return f"<FixedPoint {names} limit={self.plan.max_iterations} {how}>"

    def _memory(self, work: Work) -> dict[int, ResidentBuffer]:
        """Returns memory for the temporary arrays, by the identity of their handles; it lives as long as this."""
        memory = self._lease.backend.require_memory()
        buffers: dict[int, ResidentBuffer] = {}
        for key, use in work.temporaries.items():
            buffers[key] = memory.allocate(use.buffer.nbytes, label=use.buffer.label).quiet()
        return buffers

    # ---------------------------------------------------------------- what repeats the steps
    def _decided(
        self, limit: int, forced: FixpointExecutor | None, early_exit: bool, sink: DecisionSink | None
    ) -> FixpointPlan:
        backend = self._lease.backend
        own = frozenset() if backend.loops is None else backend.loops.loop_executors(self._steps)
        counts = [
            resolve_fixpoint_iterations(FixpointInputs(step.config.fixpoint_iterations, str(backend.id)))
            for step in self._steps
        ]
        profile = FixpointProfile(
            max_iterations=limit,
            grid=None,
            supports_conditional_graphs=FixpointExecutor.WHILE_GRAPH in own,
            early_exit=early_exit,
            repeats_lists=FixpointExecutor.COMMAND_LIST in own,
            guardable=all(guarding.guarded(step.program) is not None for step in self._steps),
            steps=min(sum(counts) + 1, U32_MAX),
            forced=forced,
            apart="no measured cost says that a kernel for all rounds would pay",
            costs=self._round_costs(),
        )
        if forced is FixpointExecutor.COOPERATIVE or (forced is None and may_pay(profile)):
            profile = self._in_one_kernel(profile)
        self._unrolled = rounds_unrolled(profile)
        return decide(sink, choose_executor, profile)

    def _way(self) -> Callable[[], DispatchTiming]:
        """Returns what a call does, without a reference to this object: dropped, it is freed at once."""
        if not self.plan.early_exit:
            return self._all_rounds()
        match self.plan.executor:
            case FixpointExecutor.UNROLLED_GRAPH:
                return self._unrolled_rounds()
            case FixpointExecutor.POLLED:
                return self._polled_rounds()
            case FixpointExecutor.COOPERATIVE:
                return self._rounds_in_a_kernel()
            case _:
                return self._own_rounds()

    def _own_rounds(self) -> Callable[[], DispatchTiming]:
        """The backend repeats the steps."""
        sequence = ResidentSequence(
            prefix=self._first, repeated=self._steps, repeat_count=self.plan.max_iterations, flag=self._flag
        )
        return partial(_ran, self._lease, sequence)

    def _round_costs(self) -> RoundCosts | None:
        """Returns what is measured of the backend, or None where too little is."""
        if self._lease.backend.planning is None:
            return None
        costs = self._services.costs()
        known = [costs.graph_gap, costs.launch, costs.round_trip]
        times = [cost.median_ns for cost in known if cost is not None and cost.provenance is Provenance.MEASURED]
        if len(times) < len(known):
            return None
        gap_ns, launch_ns, wait_ns = times
        barrier, build = costs.grid_barrier or ASSUMED.grid_barrier, costs.build or ASSUMED.build
        assert barrier is not None and build is not None, "all costs have an assumed value"
        provenance = weakest((barrier.provenance, build.provenance))
        return RoundCosts(gap_ns, barrier.median_ns, launch_ns, wait_ns, build.median_ns, provenance)

    def _in_one_kernel(self, profile: FixpointProfile) -> FixpointProfile:
        """Joins the steps of a round; returns the profile with the grid of the kernel, or why there is none."""
        from vyre.app.known_devices import known_profile
        from vyre.app.sequences.joining import joined_rounds, limits_of  # needs the rules of programs

        backend = self._lease.backend
        if backend.loops is None:
            return replace(profile, apart="the backend repeats nothing by itself")
        memory = backend.require_memory()
        rounds = memory.allocate(4, label="rounds of a fixed point").quiet()
        with self._lease.within():
            known = known_profile(backend).profile
        limits = limits_of(known, self._services.costs(), forced=True)
        joined = joined_rounds(self._works, self._flag, profile.max_iterations, rounds, limits)
        if isinstance(joined, str):
            return replace(profile, apart=joined)
        self._joined = joined.step
        return replace(profile, grid=backend.loops.grid_sync(joined.step), barriers=joined.barriers)

    def _rounds_in_a_kernel(self) -> Callable[[], DispatchTiming]:
        """One kernel runs all rounds; it counts them."""
        step = self._joined
        assert step is not None
        rounds = step.resources[-1]
        assert isinstance(rounds, ResidentBuffer)
        return self._counted(ResidentSequence(prefix=(*self._first, step)), rounds, 0)

    def _counted(
        self, sequence: ResidentSequence, counted: ResidentBuffer, offset: int
    ) -> Callable[[], DispatchTiming]:
        """Returns what runs a sequence that leaves the number of its rounds at a byte of a buffer."""
        lease, ran, changed = self._lease, np.empty(1, np.uint32), np.empty(1, np.uint32)
        reads = (Readback(counted, bytes_of(ran), offset), Readback(self._flag, bytes_of(changed)))
        reading = replace(sequence, reads=reads)

        def run() -> DispatchTiming:
            return _ran(lease, reading)._replace(rounds=int(ran[0]), converged=not changed[0])

        return run

    def _unrolled_rounds(self) -> Callable[[], DispatchTiming]:
        """The steps return at once where a word in memory says that nothing changed."""
        memory = self._lease.backend.require_memory()
        control = memory.allocate(4 * guarding.CONTROL_WORDS, label="control of a fixed point").quiet()
        limit = memoryview(self.plan.max_iterations.to_bytes(4, "little"))
        enter, advance = (ResidentStep(each, (limit, self._flag, control)) for each in guarding.round_programs())
        steps = [_guarded(bound, control) for bound in self._works]
        rounds = self._unrolled
        sequence = ResidentSequence(
            prefix=(*self._first, enter),
            repeated=(*steps, advance) * rounds,
            repeat_count=-(-self.plan.max_iterations // rounds),
        )
        return self._counted(sequence, control, 4 * guarding.ROUNDS)

    def _polled_rounds(self) -> Callable[[], DispatchTiming]:
        """The host reads the flag after each round."""
        lease, limit, flag = self._lease, self.plan.max_iterations, np.empty(1, np.uint32)
        clear = ResidentStep(guarding.clear_program(), (self._flag,))
        once = ResidentSequence(prefix=self._first)
        steps = (*self._first, *self._steps)
        limit_s = min((s.config.timeout_s for s in steps if s.config.timeout_s is not None), default=None)
        again = ResidentSequence(
            repeated=(clear, *self._steps), repeat_count=1, reads=(Readback(self._flag, bytes_of(flag)),)
        )

        def run() -> DispatchTiming:
            started = lease.now_ns()
            timings = [_ran(lease, once)] if once.prefix else []
            rounds, converged = 0, False
            while rounds < limit and not converged:
                if limit_s is not None and lease.now_ns() - started > limit_s * 1e9:
                    raise DispatchTimeout(f"the fixed point did not end within {limit_s} s, after {rounds} iterations")
                timings.append(_ran(lease, again))
                rounds += 1
                converged = not flag[0]
            known = [timing.launches for timing in timings if timing.launches is not None]
            launches = sum(known) if len(known) == len(timings) else None
            wall_ns = lease.now_ns() - started
            return DispatchTiming(wall_ns, launches=launches, rounds=rounds, converged=converged)

        return run

    def _all_rounds(self) -> Callable[[], DispatchTiming]:
        """All rounds run, whatever the flag is: the baseline of leaving early."""
        lease, limit, flag = self._lease, self.plan.max_iterations, np.empty(1, np.uint32)
        clear = ResidentStep(guarding.clear_program(), (self._flag,))
        sequence = ResidentSequence(
            prefix=self._first,
            repeated=(clear, *self._steps),
            repeat_count=limit,
            reads=(Readback(self._flag, bytes_of(flag)),),
        )

        def run() -> DispatchTiming:
            return _ran(lease, sequence)._replace(rounds=limit, converged=not flag[0])

        return run


def _ran(lease: BackendLease, sequence: ResidentSequence) -> DispatchTiming:
    lease.wait_for(None)
    return lease.backend.require_resident_executor().run(sequence)


def _flag_of(changed: ResidentArray) -> ResidentBuffer:
    """Returns the memory of the flag.

    Raises ``InvalidInput`` for anything but a resident array of u32.
    """
    expect("changed", changed, ResidentArray, "a resident array", InvalidInput)
    if changed.dtype != np.uint32 or changed.nbytes < FLAG_BYTES:
        raise InvalidInput(
            f"changed is {changed!r}", fix="make it with session.resident(numpy.zeros(1, numpy.uint32))."
        )
    return changed.buffer


def _guarded(bound: BoundWork, control: ResidentBuffer) -> ResidentStep:
    """Returns the step with the control buffer.  Its grid is written out: the new buffer must not take part in it."""
    step, launch = bound.step, bound.launch
    program = guarding.guarded(step.program)
    assert program is not None
    config = replace(step.config, grid=launch.grid, extent=None)
    return ResidentStep(program, (*step.resources, control), config)
