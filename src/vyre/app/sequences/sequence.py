"""Sequences: steps with all their memory, run any number of times with one wait at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vyre.adapters.forks import process_lock
from vyre.app.indirect import CheckedExecutor, grids_of
from vyre.app.resident import ResidentArray
from vyre.app.resident_dispatch import BoundWork, host_arrays_of
from vyre.app.sequences.description import describe
from vyre.app.sequences.execution import AsLists, ByWorkers, Launches, OneByOne, Ran, Waves, WorkExecutor
from vyre.app.sequences.host_steps import InPieces
from vyre.app.sequences.modes import ModesWanted, modes_of
from vyre.app.sequences.plan import SequenceRun, WorkPlan
from vyre.app.sequences.planner import Chosen, WorkPlanner
from vyre.app.sequences.residency import kept_memory
from vyre.app.sequences.steps import Item, Step, parts_of
from vyre.domain.arguments import whole
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError, InvalidInput
from vyre.domain.launch_costs import Measured, Provenance
from vyre.domain.record import U32_MAX, U64_MAX
from vyre.domain.unique import Closing
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from pathlib import Path

    from vyre.app.explain.service import CostsOf, CostsWanted
    from vyre.app.journal import DecisionJournal
    from vyre.app.lease import BackendLease
    from vyre.app.sequences.structure import Structure
    from vyre.app.sequences.temporary import TemporaryBuffer
    from vyre.app.sequences.wave_plans import WavePlans
    from vyre.domain.evidence.records import Evidence
    from vyre.domain.launch_costs import LaunchCosts
    from vyre.policies.journal import DecisionSink
    from vyre.ports.resident_buffer import ResidentBuffer

_BYTE: Final = np.dtype(np.uint8)


class WorkServices(NamedTuple):
    """The services of a session that sequences use.

    ``bind`` binds the memory of a step.  ``remember`` receives the timing of every run that launched a step by itself.
    ``costs`` returns the launch costs to plan with, and ``costs_of`` those that a caller asks for.  ``waves`` returns
    the plans that graphs of a session share.  ``journal`` is that of the session.
    """

    lease: BackendLease
    bind: Callable[[Step], BoundWork]
    remember: Callable[[DispatchTiming], None]
    costs: Callable[[], LaunchCosts]
    decisions: DecisionSink | None
    costs_of: CostsOf
    waves: Callable[[], WavePlans]
    journal: DecisionJournal | None


class StepSequence(Closing):
    """Steps with all their memory bound: call it to run it, from any thread.

    The results are those of running the steps strictly in order, in whichever mode they are run.  Memory of temporary
    arrays is allocated by the first run whose plan needs it, and freed by ``close``, which also a ``with`` block calls.
    """

    def __init__(
        self,
        services: WorkServices,
        steps: Sequence[Item],
        first: Sequence[Item] = (),
        modes: ModesWanted | None = None,
    ) -> None:
        lease = services.lease
        lease.check_open()
        wanted = modes_of(modes)
        parts, once = parts_of("steps", steps), parts_of("first", first)
        if not parts and not once:
            raise InvalidInput("a sequence without steps", fix="give at least one.")
        lease.backend.require_resident_executor()
        work = describe(lease, services.bind, once, parts, services.decisions)
        self._services, self._work = services, work
        self._names = tuple(step.name for step in work.steps)
        self._has_host_steps: Final = work.has_host_steps
        self._planner = WorkPlanner(
            lease.backend, work, wanted, services.costs, services.decisions, services.waves, lease.within
        )
        self._grids: Final = grids_of(lease, work)
        self._temporaries = _Held(lease)
        self._ready: _Ready | None = None
        self._epoch = lease.backend.lifecycle.epoch
        self._lock = process_lock()

    def __call__(self, rounds: int = 1) -> SequenceRun:
        """Runs ``first`` once and then ``steps`` that many times, waits, and says what was done.

        Raises what a dispatch raises; after a failure the arrays hold what the steps had written until then.
        """
        rounds = _rounds(rounds)
        lease = self._services.lease
        if lease.closed:
            lease.check_open()
        if lease.order.under_way:
            lease.wait_for(None)
        try:
            probe = self._planner.probe(rounds) if rounds > 1 else 0
            if probe:  # two pieces, between which temporary arrays keep their content
                with self._lock, sealed:
                    one = self._run(probe, rounds)
                    other = self._run(rounds - probe, rounds - probe, first=False)
                return one.followed_by(other)
            return self._run(rounds, rounds)
        except BackendError as error:
            lease.failed(error, f"sequence={self!r}")
            raise

    def _run(self, rounds: int, ahead: int, *, first: bool = True) -> SequenceRun:
        """Runs so many rounds of those that are ahead, and ``first`` unless it is left out."""
        planner, usual, now_ns = self._planner, self._ready, self._services.lease.now_ns
        began = now_ns() if planner.is_curious else None
        ran: Ran | None = None
        with self._lock, sealed:
            ready, allocations, allocated = self._prepare(ahead)
            if self._has_host_steps:  # a function may run this sequence again, or wait for who does
                taken, vacant = self._temporaries, _Held(self._services.lease)
                self._ready, self._temporaries = None, vacant
            elif ready.exclusive:
                ran = ready.executor.run(rounds, first=first)
        try:
            timing, submissions, host_ns = ran or ready.executor.run(rounds, first=first)
        finally:
            if self._has_host_steps:
                self._give_back(ready, taken, vacant)
        chosen = ready.chosen
        once, each = chosen.launches.once, chosen.launches.each
        kernels, nbytes = rounds * each.kernels, rounds * each.nbytes
        if first:
            kernels, nbytes = once.kernels + kernels, once.nbytes + nbytes
        if began is not None:
            prepared = usual is not None and usual.executor is ready.executor and not self._has_host_steps
            planner.took(kernels, chosen, timing, now_ns() - began if prepared else None)
        timing = timing._replace(wall_ns=timing.wall_ns + host_ns) if host_ns else timing
        if timing.launches != 0 and kernels:  # else nothing ran, or all was replayed
            if timing.launches is not None or chosen.plan.mode is not ExecutionMode.PLAIN:
                self._services.remember(timing)
            self._services.lease.launched()
        plan = planner.plan_of(chosen, timing)
        return SequenceRun._make((timing, plan, kernels, submissions, nbytes, allocations, allocated, host_ns))

    def _give_back(self, ready: _Ready, taken: _Held, vacant: _Held) -> None:
        """Keeps what a run has used for the next one, unless the sequence was closed, or another run was quicker."""
        with self._lock, sealed:
            if self._temporaries is vacant and self._ready is None:
                self._ready, self._temporaries = ready, taken
            else:
                taken.close()

    def plan(self, rounds: int = 1) -> WorkPlan:
        """Returns what a run of so many rounds would do now, and why; runs nothing."""
        rounds = _rounds(rounds)
        with self._lock, sealed:
            chosen = self._planner.choose(rounds, seen=False)
            return replace(chosen.plan, residency=kept_memory(chosen.structure, rounds, self._budget))

    def explain(
        self, rounds: int = 1, *, repeats: int = 1, costs: CostsWanted = None, kernel_time_ns: int | None = None
    ) -> WorkPlan:
        """Returns what would be decided for ``repeats`` runs of so many rounds, with the price of every mode; runs
        nothing.

        ``costs`` and ``kernel_time_ns``, the mean device time of a launch, as for ``Session.explain``.
        """
        from vyre.app.explain.service import known_costs  # imported on use

        rounds = _rounds(rounds)
        repeats = whole("repeats", repeats, 1, U32_MAX, "give an int from 1 to 2^32-1.")
        kernel = None
        if kernel_time_ns is not None:
            kernel_time_ns = whole("kernel_time_ns", kernel_time_ns, 0, U64_MAX, "give nanoseconds as an int.")
            kernel = Measured(kernel_time_ns, 0, 0, 0, Provenance.ASSUMED)
        self._services.lease.check_open()
        known = known_costs(costs, self._services.costs_of)
        with self._lock, sealed:
            return self._planner.explain(rounds, repeats, kernel, known.costs)

    def write_evidence(self, path: Path | str, rounds: int = 1) -> Evidence:
        """Runs as a call does, and writes a file by which others can run it again and compare; returns its manifest.

        The file holds the steps with their programs, the bytes of all memory that they bind as it was before the run
        and of what they write as it is after it, and how the run was submitted; else as ``Session.write_evidence``.  An
        error of a program is recorded, and not raised.  Nobody else may write the memory meanwhile.

        Raises every other error of a call, ``InvalidInput`` for more bytes than a file holds, and ``UnreadableFile``.
        """
        from vyre.app.evidence.work_recording import parts_of, record_work
        from vyre.domain.evidence.records import SequenceCall

        rounds, services, modes_of = _rounds(rounds), self._services, self._planner.modes_of
        plan = self.plan(rounds)
        return record_work(
            path, services.lease, services.journal, parts_of(self._work), lambda: self(rounds),
            lambda _, ran: SequenceCall(rounds, modes_of(plan if ran is None else ran.plan)),
        )  # fmt: skip

    @property
    def _structure(self) -> Structure:
        """Returns the launches of the latest plan."""
        return self._planner.structure

    def close(self) -> None:
        """Frees the memory of temporary arrays and what was prepared; a later run prepares anew.  Idempotent."""
        with self._lock, sealed:
            self._ready = None
            self._temporaries.close()
            self._temporaries = _Held(self._services.lease)  # what a run has taken is closed at its end

    def __repr__(self) -> str:
        steps = (step.work.step for part in (self._work.first, *self._work.parts) for step in part.steps)
        return f"<StepSequence {' '.join(self._names)}{host_arrays_of(steps)}>"

    @property
    def _budget(self) -> int | None:
        """The bytes of resident memory that the session may take; None: no limit."""
        budget = self._services.lease.budget
        return None if budget is None else budget.nbytes

    def _prepare(self, rounds: int) -> tuple[_Ready, int, int]:
        """Returns what runs now, and the number and bytes of the allocations that this took."""
        lease = self._services.lease
        epoch = lease.backend.lifecycle.epoch
        if epoch != self._epoch:
            self.close()
            self._epoch = epoch
        chosen = self._planner.choose(rounds)
        ready = self._ready
        if ready is not None and ready.chosen is chosen:
            return ready, 0, 0
        if ready is not None and ready.chosen.is_like(chosen):
            if ready.chosen is not chosen:
                ready = self._ready = ready._replace(chosen=chosen)
            return ready, 0, 0
        self._ready = None
        if (budget := self._budget) is not None:
            kept_memory(chosen.structure, rounds, budget)  # raises where the budget does not hold it
        allocations, allocated = self._temporaries.hold(chosen.structure.needed)
        launches = chosen.launches.with_memory(self._temporaries.memory)
        make = partial(self._executor, chosen)
        executor = (
            InPieces(lease, launches, chosen.waves, make) if self._has_host_steps else make(launches, chosen.waves)
        )
        exclusive = chosen.one_by_one or bool(chosen.waves or self._temporaries.memory) or self._grids is not None
        self._temporaries.use(executor)
        ready = self._ready = _Ready(chosen, executor, exclusive)
        return ready, allocations, allocated

    def _executor(self, chosen: Chosen, launches: Launches, waves: Sequence[Waves]) -> WorkExecutor:
        """Returns what runs launches without host steps, as was chosen; ``waves`` are theirs."""
        lease = self._services.lease
        executor: WorkExecutor
        workers = lease.backend.persistent_steps
        if waves and workers is not None:
            executor = ByWorkers(workers, launches, waves)
        elif chosen.one_by_one:
            executor = OneByOne(lease.backend, launches, lease.now_ns)
        else:
            executor = AsLists(lease.backend, launches, chosen.replayed)
        return executor if self._grids is None else CheckedExecutor(executor, self._grids)


def _rounds(rounds: object) -> int:
    if type(rounds) is int and 0 <= rounds <= U64_MAX:
        return rounds  # without another call
    return whole("rounds", rounds, 0, U64_MAX, "give an int that is not negative.")


class _Ready(NamedTuple):
    """A prepared run; ``exclusive``: one thread at a time may run it."""

    chosen: Chosen
    executor: WorkExecutor
    exclusive: bool


class _Held:
    """The resources of a sequence: memory of temporary arrays, by the identity of their handles, and an executor."""

    def __init__(self, lease: BackendLease) -> None:
        self._lease = lease
        self._arrays: dict[int, ResidentArray] = {}
        self._executor: WorkExecutor | None = None

    @property
    def memory(self) -> dict[int, ResidentBuffer]:
        """Returns the memory by handle."""
        return {key: array.buffer for key, array in self._arrays.items()}

    def hold(self, needed: dict[int, TemporaryBuffer]) -> tuple[int, int]:
        """Frees memory that is not needed, allocates what is, and returns the number and bytes of the allocations."""
        self.release()
        for key in [key for key, array in self._arrays.items() if key not in needed or array.closed]:
            self._arrays.pop(key).close()
        allocations = allocated = 0
        memory = self._lease.backend.require_memory()
        for key, handle in needed.items():
            if key not in self._arrays:
                buffer = memory.allocate(handle.nbytes, label=handle.label).quiet()
                array = ResidentArray(buffer, memory, _BYTE, (handle.nbytes,))
                self._lease.adopt(array)
                self._arrays[key] = array
                allocations, allocated = allocations + 1, allocated + handle.nbytes
        return allocations, allocated

    def use(self, executor: WorkExecutor) -> None:
        """Keeps an executor until it is released."""
        self._executor = executor

    def release(self) -> None:
        """Closes the executor."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()

    def close(self) -> None:
        """Releases everything; idempotent."""
        self.release()
        arrays, self._arrays = self._arrays, {}
        for array in arrays.values():
            array.close()
