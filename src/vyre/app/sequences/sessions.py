"""The part of ``Session`` about sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from vyre.adapters.forks import process_lock
from vyre.app.session_core import SessionCore
from vyre.app.shorthand import Indirect
from vyre.domain.arguments import expect, path_of
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from vyre.app.calibration.service import KnownCosts
    from vyre.app.fixpoint import ExecutorName, FixedPoint
    from vyre.app.resident import ResidentArray
    from vyre.app.resident_dispatch import BoundWork
    from vyre.app.sequences.modes import ModesWanted
    from vyre.app.sequences.sequence import StepSequence, WorkServices
    from vyre.app.sequences.steps import Item, Step
    from vyre.app.sequences.temporary import Temporary
    from vyre.app.sequences.wave_plans import WavePlans
    from vyre.app.speculation import Speculation
    from vyre.app.work_queue import DisciplineName, WorkQueue
    from vyre.domain.ir.program import ProgramLike
    from vyre.domain.ir.types import ScalarType

_MAKING: Final = process_lock()


class SessionSequences(SessionCore):
    """Sequences and temporary arrays of a session."""

    _wave_plans: WavePlans | None = None

    def sequence(
        self, steps: Sequence[Item], *, first: Sequence[Item] = (), modes: ModesWanted | None = None
    ) -> StepSequence:
        """Binds launches on resident memory that run together: ``sequence(rounds=100)`` runs ``first`` once, then
        ``steps`` a hundred times, and waits once.

        Items are ``Step``, ``HostStep`` (a function of the host), ``Batch`` (one program on several inputs) and
        ``Repeat`` (a part that runs several times in each round).  Steps may be joined, replayed as a graph or
        overlapped where that pays; the bytes are those of one dispatch after the other, and the result says what was
        done and why.  ``modes`` forces (True) or forbids (False) the modes "plain", "graph", "fused", "persistent" and
        "megakernel", which changes no byte and no error.

        Raises what ``bind_resident`` raises, with the step, ``UnsupportedFeature`` on a backend without resident memory
        and for a forced mode that cannot run, and ``InvalidConfig`` for modes that exclude each other.
        """
        from vyre.app.sequences.sequence import StepSequence

        return StepSequence(self._work_services(), steps, first, modes)

    def fixpoint(
        self,
        steps: Sequence[Item],
        *,
        changed: ResidentArray,
        limit: int,
        first: Sequence[Item] = (),
        executor: ExecutorName | None = None,
        early_exit: bool = True,
    ) -> FixedPoint:
        """Binds steps that are repeated until they change nothing: calling the result runs ``first`` once and then
        ``steps`` round after round, and waits once.

        ``changed`` is a resident array of u32 whose first element is set to 0 before each round; a step stores anything
        else in it where it changes something.  The round that leaves it 0 is the last, and so is round ``limit``: the
        result tells how many rounds ran and whether they converged.  Items are those of ``sequence`` but ``HostStep``.

        ``executor`` forces what repeats the steps (``FixpointExecutor``, or its value); all give the same bytes.
        Without ``early_exit`` all ``limit`` rounds run.  Raises what ``sequence`` raises, ``InvalidInput`` for another
        flag, and ``PlanError`` for a limit of 0 and for an executor that does not work here.
        """
        from vyre.app.fixpoint import FixedPoint

        return FixedPoint(self._work_services(), steps, first, changed, limit, executor, early_exit)

    def work_queue(
        self,
        program: ProgramLike,
        inputs: Mapping[str, Any],
        *,
        items: str,
        pushed: str,
        count: str,
        capacity: int,
        items_per_launch: int | None = None,
        total_items: int | None = None,
        discipline: DisciplineName = "phased",
    ) -> WorkQueue:
        """Makes a queue of u32 items on the device: calling the result with the initial items runs ``program`` once
        for each of them, and for each item that it pushes, and waits once.

        ``items``, ``pushed`` and ``count`` name buffers of the program: lane i takes ``items[i]``; a lane that adds n
        items reserves places with ``count.atomic_add(0, n)``, and stores the items there in ``pushed``.  The queue
        binds these three; ``inputs`` binds all others, and what the program writes is resident.

        ``discipline`` (``QueueDiscipline``, or its value): "phased", an item is processed after the phase in which it
        was pushed, and sees what that phase has stored; "ring", an item may be processed as soon as it is pushed, and
        the program loads nothing that it writes.

        ``capacity``: the most items that wait or are being processed at once.  ``items_per_launch``: the most items of
        a launch; further launches follow until the queue is empty.  ``total_items``: all items that are ever in the
        queue, if known; it bounds the launches.  A ring has a power of two of slots, in which items wait until they are
        taken.

        Raises what ``sequence`` raises, ``InvalidInput`` for a program that cannot drain a queue, with the reason, and
        for one whose results depend on the order of the items, and ``InvalidConfig`` for numbers out of range,
        and ``PlanError`` for another capacity of a ring.
        """
        from vyre.app.work_queue import WorkQueue, roles_of

        services, roles = self._work_services(), roles_of(items, pushed, count)
        return WorkQueue(services, program, inputs, roles, capacity, items_per_launch, total_items, discipline)

    def speculate(
        self, prefilter: Step, confirm: Step, commit: Step, *, passed: ResidentArray, confirmed: ResidentArray
    ) -> Speculation:
        """Binds a prefilter, a confirmer and a commit that work on tiles: calling the result commits the tiles that
        passed and were confirmed, and counts them.

        ``passed`` and ``confirmed`` are resident arrays of u32 with one element for each tile, set to 0 before each
        run.  The prefilter stores anything else in ``passed`` for a tile that may be worth confirming.  The workgroups
        with number t along x of ``confirm`` and ``commit`` are tile t.  The confirmer stores anything but 0 in its
        element of ``confirmed`` for a tile to commit, and results in temporary arrays, of which each tile sees its own
        part alone.  After a run ``confirmed`` holds 1 for tiles that were committed, and 0 for others.

        The confirmer runs on every tile at once, or only on those that passed, whichever takes less time as measured;
        ``speculation`` of its config forces (FORCE) or forbids (DISABLE) the former.  Both give the same bytes.

        Raises what ``sequence`` raises, and ``InvalidInput`` where the three do not fit together.
        """
        from vyre.app.speculation import Speculation

        return Speculation(self._work_services(), (prefilter, confirm, commit), passed, confirmed)

    def temporary(
        self, dtype: ScalarType | np.dtype[Any] | type[Any], count: int, *, label: str | None = None
    ) -> Temporary:
        """Returns an array of ``count`` elements whose content lasts for one run of a sequence.

        Bind it in steps like a resident array.  It holds zeros when a run begins, and reading it afterwards is an
        error, so that the steps that use it may be joined and it need not exist: a sequence allocates memory for it
        only if its plan needs that.  ``dtype``: a type of vyre or of NumPy.  ``label`` names it in messages.

        Raises ``InvalidConfig`` for a type that no buffer holds, ``InvalidInput`` for an invalid count, and
        ``UnsupportedFeature`` on a backend without device memory.
        """
        from vyre.app.sequences.temporary import make_temporary

        expect("label", label, (str, type(None)), "a text, or None")
        self._lease.check_open()
        backend = self._lease.backend
        array = make_temporary(backend.require_memory(), backend.id, backend.lifecycle.epoch, dtype, count, label)
        self._lease.adopt(array)
        return array

    def _work_services(self) -> WorkServices:
        from vyre.app.sequences.sequence import WorkServices

        return WorkServices(
            self._lease,
            self._bound_work,
            self._sequence_timings.append,
            lambda: self._calibration().planning_costs(),
            self._decisions,
            self._launch_costs,
            self._shared_plans,
            self._journal,
        )

    def _shared_plans(self) -> WavePlans:
        """Returns the plans of waves that the graphs of this session share."""
        from vyre.app.sequences.wave_plans import WavePlans
        from vyre.app.sequences.wave_times import KnownWaveTimes
        from vyre.app.tuning.keys import source_of

        with _MAKING, sealed:
            if self._wave_plans is None:
                backend = self._lease.backend
                times = KnownWaveTimes(self._wave_times, lambda: source_of(backend), self._telemetry)
                self._wave_plans = WavePlans(self._decisions, times)
            return self._wave_plans

    def _launch_costs(self, path: Path | str | None = None, /, *, assume: bool = True) -> KnownCosts:
        """Returns what launches cost, as ``Session.launch_costs`` does."""
        return self._calibration().known(None if path is None else path_of("path", path), assume=assume)

    def _bound_work(self, step: Step) -> BoundWork:
        """Binds the memory of a step."""
        if isinstance(step.grid, Indirect):
            from vyre.app.indirect import indirect_work

            return indirect_work(self, step, step.grid)
        pipeline, inputs, _ = self._compiled_launch(step.program, step.inputs, step.config, step.shorthand)
        return pipeline._resident_work(inputs)
