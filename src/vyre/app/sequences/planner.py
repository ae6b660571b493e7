"""The planner of a sequence: which steps are joined, and how the launches are submitted.

A decision is taken before the first run, after 1, 2, 4 and 8 runs and so on, and before a run of twice as many rounds.
``plan_execution`` decides, with the launch costs that the backend plans with and the device times of the runs so far.
It assumes as many further runs as were seen.

Joined steps have no time before they were run once.  Until then they are priced by the bytes that they read and write;
the first runs replace that price, and the next decision may undo the joining.  Steps are joined for a decision only if
the work ahead takes longer than joining.  A first run of many rounds is timed for some of them, and decided about for
the others.

Units: nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.app.resident_dispatch import reads_host
from vyre.app.sequences.description import Work
from vyre.app.sequences.execution import Launches, Waves
from vyre.app.sequences.host_steps import HostCall, name_of
from vyre.app.sequences.modes import Modes
from vyre.app.sequences.plan import WorkGroup, WorkPlan
from vyre.app.sequences.structure import Structure, Unit, apart
from vyre.app.sequences.times import SAMPLES, RunTimes
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance
from vyre.domain.record import U32_MAX
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.journal import decide
from vyre.policies.launching.execution_prices import Around, ExecutionMode, Fusion, Quote, Unavailable, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution
from vyre.policies.record import Reason
from vyre.policies.stage_fusion.launch_fusion import BufferUse, DataflowInputs, DataflowStage, StageBuffer
from vyre.ports.requests import SequenceSubmission

if TYPE_CHECKING:
    from vyre.app.sequences.megakernels import WaveKernels
    from vyre.app.sequences.wave_plans import WaveChoice, WavePlans
    from vyre.policies.journal import DecisionSink
    from vyre.ports.backend import Backend

ASSUMED_BUILD: Final = ASSUMED.build
"""The time to join steps and to compile the result, where nobody measured it."""
JOINING_NS: Final = 10_000_000
"""The device time of the work ahead for which steps are joined, to know what the result would bind."""
PROBED: Final = 16
"""The part of a long first run that is timed before the rest is decided about."""
KERNEL_NS: Final = 5_000
"""The assumed device time of a launch that nobody timed: a short one, for which launch costs matter."""
MOST_NODES: Final = 4_096
"""The launches of a round beyond which nothing is decided: a decision looks at each of them."""
OVERLAPPED_NS: Final = 10_000
"""The device time of a launch up to which launches of a wave are predicted to overlap: longer ones are spread over the
processors by themselves."""
_NO_WORKERS: Final = "no resident workers take launches on resident memory"
_READS_HOST: Final = "workers keep their steps, and one reads an array of the host, which may change"
_FORBIDDEN: Final = "it is forbidden"
_DEFAULTS: Final = {
    SequenceSubmission.EACH: (ExecutionMode.PLAIN, "the backend runs the steps of a sequence one by one"),
    SequenceSubmission.LIST: (ExecutionMode.GRAPH, "a run is one list of commands"),
    SequenceSubmission.CHOSEN: (ExecutionMode.GRAPH, "the backend replays a round as a graph where that pays"),
}


class Chosen(NamedTuple):
    """A plan, and the ``launches`` of the structure that carry it out.

    ``one_by_one``: the host launches each by itself.  ``replayed``: what a backend that chooses is told.  ``waves``:
    those of ``first`` and of each part, where resident workers run the launches; empty elsewhere.
    """

    plan: WorkPlan
    structure: Structure
    one_by_one: bool
    replayed: bool | None
    launches: Launches
    waves: tuple[Waves, ...] = ()

    def is_like(self, other: Chosen) -> bool:
        """Returns whether what was prepared for this serves the other."""
        return (
            self.structure is other.structure
            and self.one_by_one is other.one_by_one
            and self.replayed is other.replayed
            and self.waves == other.waves
        )


class WorkPlanner:
    """Decides about one sequence; one thread at a time may ask it.

    ``join`` returns the structure with joined steps, with or without barriers of the grid between stages.  Raises
    ``UnsupportedFeature`` for a forced mode that cannot run.
    """

    def __init__(
        self,
        backend: Backend,
        work: Work,
        modes: Modes,
        costs: Callable[[], LaunchCosts],
        sink: DecisionSink | None,
        waves: Callable[[], WavePlans],
        within: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._within = within
        self._notes: tuple[str, ...] = ()
        self._backend, self._work, self._modes, self._costs, self._sink = backend, work, modes, costs, sink
        self._plans = waves
        self._wave_choice: WaveChoice | None = None
        """The shape of the waves, where they are joined to one kernel."""
        self._waves_why = ""
        """Why waves run in one kernel, or in launches, where that was asked."""
        self._apart = apart(work)
        self._joined: Structure | None = None
        self._times = RunTimes(overlaps=self._overlaps)
        self._runs = self._batch = 0
        self._due = 0
        if modes.graph and backend.submission is SequenceSubmission.EACH:
            raise _cannot("graph", backend, "it launches the steps of a sequence one by one")
        self._waves: dict[int, tuple[Waves, ...]] = {}
        self._submission, self._why = _DEFAULTS[backend.submission]
        if modes.persistent:
            if why := self._no_workers:
                raise _cannot("persistent", backend, why)
            self._submission, self._why = ExecutionMode.PERSISTENT, "asked for"
        elif modes.graph is not None:
            self._submission = ExecutionMode.GRAPH if modes.graph else ExecutionMode.PLAIN
            self._why = "asked for"
        if modes.joins:
            self._joined = self._join(forced=True)
            if not self._joins:
                reasons = "; ".join(f"{unit.places[0]}: {unit.why}" for unit in self._joined.units)
                name = "megakernel" if modes.megakernel else "fused"
                raise _cannot(name, backend, f"no two steps can be joined ({reasons})")
        self._structure = self._joined if modes.joins and self._joined is not None else self._apart
        self._is_free: Final = backend.planning is not None and (
            self._may_be_plain or (modes.joins is None and len(self._apart.units) > 1)
        )
        """Costs decide about something."""
        self._plan: ExecutionPlan | None = None
        self._now: Chosen | None = None
        self._single: tuple[Chosen, WorkPlan] | None = None

    def choose(self, rounds: int, *, seen: bool = True) -> Chosen:
        """Returns the plan for a run of so many rounds; ``seen`` False: it is only asked for."""
        if seen:
            self._runs += 1
        if self._runs > self._due or rounds > self._batch:
            if self._is_free:
                self._decide(max(1, rounds))
                self._now = None
            self._due, self._batch = max(1, 2 * (self._runs - 1)), 2 * rounds
        if self._now is None:
            self._now = self._chosen()
        return self._now

    def explain(self, rounds: int, repeats: int, kernel: Measured | None, costs: LaunchCosts) -> WorkPlan:
        """Returns the plan for so many runs of so many rounds if these were the costs; decides nothing.

        ``kernel``: device time of a launch; None: that of the runs so far, else an assumed one.
        """
        notes: list[str] = []
        if kernel is None:
            kernel = self._times.kernel(self._apart, costs)
        if kernel is None:
            kernel = Measured(KERNEL_NS, KERNEL_NS, KERNEL_NS, 0, Provenance.ASSUMED)
            notes.append(f"nobody timed the launches: {KERNEL_NS} ns each are assumed")
        if self._joined is None and self._modes.joins is None:
            self._joined = self._join(forced=False)
        inputs = self._inputs(max(1, rounds), repeats, kernel, costs)
        if inputs is None:
            return replace(self._chosen().plan, notes=(*notes, "a round of so many launches is not planned"))
        plan = decide(self._sink, plan_execution, replace(inputs, incumbent=None))
        if self._waves_why:
            notes.append(self._waves_why)
        structure = self._joined if plan.mode is ExecutionMode.FUSED and self._joined is not None else self._structure
        mode = _submission_of(plan) if self._may_be_plain else self._submission
        if plan.predicted is not None and plan.predicted.provenance is not Provenance.MEASURED:
            notes.append("some of the costs are assumed")
        return WorkPlan(
            mode,
            str(plan.why),
            self._groups(structure, mode),
            self._quotes(plan),
            structure.temporary_bytes,
            (*notes, *self._notes),
        )

    def probe(self, rounds: int) -> int:
        """Returns how many rounds of a first run are to be timed before the others are decided about; 0: none."""
        if (
            rounds < PROBED
            or self._runs
            or self._work.has_host_steps
            or not self._is_free
            or self._modes.joins is not None
            or self._timed_steps
        ):
            return 0
        return rounds // PROBED if len(self._apart.units) > 1 else 0

    @property
    def _timed_steps(self) -> bool:
        """Returns whether a timeout bounds some step, which holds for a whole list of launches."""
        return any(step.step.config.timeout_s is not None for step in self._work.steps)

    def plan_of(self, chosen: Chosen, timing: DispatchTiming) -> WorkPlan:
        """Returns the plan of a run that took these times: a backend that chooses may have replayed nothing."""
        if chosen.replayed is not None or self._backend.submission is not SequenceSubmission.CHOSEN:
            return chosen.plan
        if not timing.launches:
            return chosen.plan
        if self._single is None or self._single[0] is not chosen:
            groups = tuple(
                group if group.mode is ExecutionMode.FUSED else replace(group, mode=ExecutionMode.PLAIN)
                for group in chosen.plan.groups
            )
            why = f"no replay was predicted to pay ({chosen.plan.why})"
            self._single = chosen, replace(chosen.plan, mode=ExecutionMode.PLAIN, groups=groups, why=why)
        return self._single[1]

    def modes_of(self, plan: WorkPlan) -> dict[str, bool]:
        """Returns the modes that force what a run with this plan did."""
        joined = any(group.mode is ExecutionMode.FUSED for group in plan.groups)
        waved = joined and (self._modes.megakernel or self._wave_choice is not None)
        modes = {mode.value: plan.mode is mode for mode in (ExecutionMode.GRAPH, ExecutionMode.PERSISTENT)}
        return modes | ({"megakernel": True} if waved else {"fused": joined})

    @property
    def is_curious(self) -> bool:
        """Returns whether the time of the next run is wanted: the next decision looks at those of the last few runs."""
        return self._runs >= self._due - SAMPLES

    def took(self, kernels: int, chosen: Chosen, timing: DispatchTiming, whole_ns: int | None = None) -> None:
        """Records the time of a run of these launches, of which there were so many, and the time of the whole call,
        unless more was done in it.
        """
        if chosen.waves:
            self._times.took_by_workers(chosen.structure, kernels, timing, whole_ns)
        else:
            self._times.took(chosen.structure, kernels, timing, one_by_one=chosen.one_by_one, whole_ns=whole_ns)

    @property
    def structure(self) -> Structure:
        """Returns the launches of the latest decision."""
        return self._structure

    # ---- deciding
    @property
    def _may_be_plain(self) -> bool:
        return self._modes.submission_is_free and self._backend.submission is SequenceSubmission.LIST

    @property
    def _no_workers(self) -> str:
        """Returns why resident workers cannot run this graph, or an empty text."""
        if self._modes.persistent is False:
            return _FORBIDDEN
        workers = self._backend.persistent_steps
        if workers is None:
            return _NO_WORKERS
        longest = max(map(len, (self._apart.first, *(units for units, _ in self._apart.parts))))
        if longest > workers.most_steps:
            return f"workers take {workers.most_steps} launches of a part, and one has {longest}"
        return _READS_HOST if any(reads_host(unit.launch.step) for unit in self._apart.units) else ""

    def _waves_of(self, structure: Structure) -> tuple[Waves, ...]:
        waves = self._waves.get(id(structure))
        if waves is None:
            from vyre.app.sequences.waves import waves_of  # needs the rules of programs, which most runs do not

            waves = self._waves[id(structure)] = waves_of(self._work, structure, self._sink)
        return waves

    @property
    def _overlaps(self) -> bool:
        """Returns whether the host submits launches while the device executes, and does not run them itself."""
        return self._backend.submission is not SequenceSubmission.LIST

    @property
    def _joins(self) -> bool:
        return self._joined is not None and any(unit.is_joined for unit in self._joined.units)

    def _decide(self, rounds: int) -> None:
        costs = self._costs()
        kernel = self._times.kernel(self._apart, costs)
        if self._modes.joins is None and self._joined is None and kernel is not None:
            ahead_ns = kernel.median_ns * self._nodes * rounds * max(1, self._runs - 1)
            if ahead_ns >= JOINING_NS:
                self._joined = self._join(forced=False)
        self._learn(kernel, costs)
        if kernel is None and self._modes.joins:
            kernel = self._times.kernel(self._structure, costs)
        inputs = None if kernel is None else self._inputs(rounds, max(1, self._runs - 1), kernel, costs)
        if inputs is None:
            return
        self._plan = plan = decide(self._sink, plan_execution, inputs)
        self._why = str(plan.why)
        if plan.mode is ExecutionMode.FUSED and self._joined is not None:
            self._structure = self._joined
        elif self._modes.joins is None:
            self._structure = self._apart
        if self._may_be_plain and costs.provenance is Provenance.MEASURED:
            self._submission = _submission_of(plan)

    def _inputs(self, rounds: int, repeats: int, kernel: Measured, costs: LaunchCosts) -> ExecutionInputs | None:
        """Returns the work for ``plan_execution``, or None for a round of too many launches."""
        nodes = self._nodes
        if not 0 < nodes <= MOST_NODES or nodes * rounds > U32_MAX:
            return None
        fused = self._joins and self._modes.joins is not False
        executable = {ExecutionMode.GRAPH} if self._submission is ExecutionMode.GRAPH or self._may_be_plain else set()
        resident, around = None, self._around(costs)
        if self._submission is ExecutionMode.PERSISTENT or (self._may_be_plain and not self._no_workers):
            executable.add(ExecutionMode.PERSISTENT)
            before = costs
            resident, costs = self._times.kept(self._apart, around.one_by_one or around.listed, costs)
            resident = resident or self._overlapped(kernel)
            if costs is before:  # nobody has handed a run to them: all runs share the price of opening them
                costs = replace(costs, persistent_setup=_shared(costs.persistent_setup, repeats))
        workload = Workload(
            nodes=nodes,
            batch=rounds,
            repeats=repeats,
            kernel=kernel,
            resident_kernel=resident,
            recorded=True,
            fusion=self._fusion(costs) if fused else None,
            overlaps=self._overlaps,
            launched=self._times.launched(self._apart),
            around=around,
        )
        return ExecutionInputs(
            workload, costs, frozenset(executable | ({ExecutionMode.FUSED} if fused else set())), self._incumbent
        )

    def _around(self, costs: LaunchCosts) -> Around:
        """Returns what is around runs of the launches as they are and joined."""
        return Around(
            *(
                None if structure is None else self._times.around(structure, costs, one_by_one=one_by_one)
                for structure in (self._apart, self._joined)
                for one_by_one in (True, False)
            )
        )

    @property
    def _nodes(self) -> int:
        """Returns the launches of a round in which nothing is joined."""
        return self._apart.launches.each.kernels

    @property
    def _incumbent(self) -> ExecutionMode:
        if self._structure is self._joined:
            return ExecutionMode.FUSED
        return self._submission

    def _overlapped(self, kernel: Measured) -> Measured | None:
        """Returns the predicted mean time of a launch where workers run those of a wave at once; None: no other."""
        workers = self._backend.persistent_steps
        if workers is None or kernel.median_ns > OVERLAPPED_NS or workers.workers < 2:
            return None
        turns = 0
        for waves, part in zip(self._waves_of(self._apart)[1:], self._work.parts, strict=True):
            turns += part.times * sum(-(-len(wave) // workers.workers) for wave in waves)
        each = kernel.median_ns * turns // max(1, self._nodes)
        return Measured(each, 0, 0, 0, Provenance.ASSUMED) if each < kernel.median_ns else None

    def _fusion(self, costs: LaunchCosts) -> Fusion:
        """Returns the stages of a round with the time of a joined launch, or before it ran with its traffic."""
        assert self._joined is not None
        stages = stages_of(self._joined)
        kernel = self._times.kernel(self._joined, costs)
        together = None if self._may_be_plain else self._submission is not ExecutionMode.PLAIN
        if kernel is not None:
            return Fusion(stages, kernel, None, together, self._times.launched(self._joined))
        build = costs.build or ASSUMED_BUILD
        return Fusion(stages, None, build, together, None, self._apart.traffic, self._joined.traffic)

    def _join(self, *, forced: bool) -> Structure:
        # Joining needs the rules of programs, which most runs do not.
        from vyre.app.known_devices import known_profile
        from vyre.app.sequences.joining import joined, limits_of

        with self._within():
            known = known_profile(self._backend)
        self._notes = known.notes
        limits = limits_of(known.profile, self._costs(), forced=forced)
        if self._modes.megakernel or (not forced and self._modes.megakernel is None):
            from vyre.app.sequences.megakernels import WaveKernels

            kernels = WaveKernels(self._work, self._backend, self._plans(), self._sink)
            if self._modes.megakernel:
                return kernels.structure(limits)
            choice = self._choice_about(kernels)
            self._waves_why = "" if choice is None else f"waves: {choice.kernel.why}"
            if choice is not None and choice.kernel.one_kernel:
                fused, waved = joined(self._work, limits, self._sink), kernels.structure(limits)
                if waved.launches.each.kernels >= fused.launches.each.kernels:
                    return fused
                self._wave_choice = choice
                return waved
        return joined(self._work, limits, self._sink)

    def _choice_about(self, kernels: WaveKernels) -> WaveChoice | None:
        """Returns whether waves run in one kernel, or None where that is out of the question or nothing was timed."""
        costs = self._costs()
        kernel, profile = self._times.kernel(self._apart, costs), self._backend.profile
        if not (profile.supports_grid_sync or profile.allows_host_grid_sync_split) or self._backend.loops is None:
            return None
        if kernel is None or len(self._apart.units) > MOST_NODES:
            return None
        return kernels.choice(self._nodes, kernel.median_ns, self._launch_ns(costs))

    def _launch_ns(self, costs: LaunchCosts) -> int:
        """Returns what a launch costs beside its kernel, as launches are submitted."""
        cost = costs.graph_gap if self._backend.submission is SequenceSubmission.LIST else costs.launch
        return 0 if cost is None else cost.median_ns

    def _learn(self, kernel: Measured | None, costs: LaunchCosts) -> None:
        """Tells other graphs with equal waves how long these take, in one kernel and in launches."""
        if self._wave_choice is None or self._joined is None or kernel is None:
            return
        together = self._times.kernel(self._joined, costs)
        if together is not None:
            launches = self._joined.launches.each.kernels
            gap_ns = self._launch_ns(costs)
            one_ns, apart_ns = launches * (together.median_ns + gap_ns), self._nodes * (kernel.median_ns + gap_ns)
            self._plans().learn(self._wave_choice.key, one_ns, apart_ns)

    # ---- the result
    def _chosen(self) -> Chosen:
        structure, mode = self._structure, self._submission
        one_by_one = mode is ExecutionMode.PLAIN and self._backend.submission is SequenceSubmission.LIST
        quotes = () if self._plan is None else self._quotes(self._plan)
        notes = (*((self._waves_why,) if self._waves_why else ()), *self._notes)
        plan = WorkPlan(mode, self._why, self._groups(structure, mode), quotes, structure.temporary_bytes, notes)
        waves = self._waves_of(structure) if mode is ExecutionMode.PERSISTENT else ()
        return Chosen(plan, structure, one_by_one, self._modes.graph, structure.launches, waves)

    def _quotes(self, plan: ExecutionPlan) -> tuple[Quote, ...]:
        """Returns the quotes of a plan, with the reason of this graph where the backend is not what stands against
        a mode.
        """
        whys = {ExecutionMode.PERSISTENT: self._no_workers or "another mode is asked for"}
        if self._modes.joins is False:
            whys[ExecutionMode.FUSED] = _FORBIDDEN
        elif not self._joins:
            units = () if self._joined is None else self._joined.units
            apart_whys = "; ".join(f"{unit.places[0]}: {unit.why}" for unit in units[1:])
            whys[ExecutionMode.FUSED] = apart_whys or "steps are joined after runs that took longer than joining takes"
        if self._modes.graph is False:
            whys[ExecutionMode.GRAPH] = _FORBIDDEN
        return tuple(
            Unavailable(quote.mode, why=Reason("{}", (whys[quote.mode],)))
            if isinstance(quote, Unavailable) and not quote.unknown and quote.mode in whys
            else quote
            for quote in plan.quotes
        )

    def _groups(self, structure: Structure, mode: ExecutionMode) -> tuple[WorkGroup, ...]:
        buffers = {key: use.buffer for key, use in self._work.temporaries.items()}
        units = structure.units
        whys = self._why_in_waves(structure) if mode is ExecutionMode.PERSISTENT else [unit.why for unit in units]
        return tuple(
            _group(unit, mode, why, sum(buffers[key].nbytes for key in unit.unallocated if key in buffers))
            for unit, why in zip(units, whys, strict=True)
        )

    def _why_in_waves(self, structure: Structure) -> list[str]:
        reasons: list[str] = []
        parts = (structure.first, *(units for units, _ in structure.parts))
        for units, waves in zip(parts, self._waves_of(structure), strict=True):
            places = {place: (number, len(wave)) for number, wave in enumerate(waves) for place in wave}
            for place, unit in enumerate(units):
                number, width = places[place]
                beside = f"beside {width - 1} others" if width > 1 else "by itself"
                reasons.append(f"{unit.why}; {beside} in wave {number + 1} of {len(waves)}")
        return reasons


def _shared(cost: Measured | None, runs: int) -> Measured | None:
    """Returns the part of a cost that one of so many runs has which pay it once: the workers are kept."""
    if cost is None:
        return None
    each = (cost.median_ns // runs, cost.spread_ns // runs, -(-cost.standard_error_ns // runs))
    return Measured(*each, cost.count, cost.provenance)


def _submission_of(plan: ExecutionPlan) -> ExecutionMode:
    """Returns how a plan submits launches, joined or not, where every way is possible."""
    if plan.mode is ExecutionMode.PERSISTENT:
        return ExecutionMode.PERSISTENT
    together = plan.predicted is not None and plan.predicted.together
    return ExecutionMode.GRAPH if together else ExecutionMode.PLAIN


def stages_of(structure: Structure) -> DataflowInputs:
    """Returns the stages of a round for the prices: those of one launch have one layout, and share its memory."""
    stages: list[DataflowStage] = []
    layout = 0
    for units, times in structure.parts:
        for unit in units * times:
            for _ in range(unit.replaces if unit.is_joined else unit.launch.kernels):
                stages.append(DataflowStage(len(stages), layout, 0, False, (BufferUse(0, AccessMode.READ),)))
                layout += not unit.is_joined
            layout += unit.is_joined
    return DataflowInputs(tuple(stages), (StageBuffer(0, 1),), 1)


def _group(unit: Unit, mode: ExecutionMode, why: str, unallocated: int) -> WorkGroup:
    step = unit.launch.step
    mode = ExecutionMode.FUSED if unit.is_joined else ExecutionMode.PLAIN if isinstance(step, HostCall) else mode
    return WorkGroup(unit.places, mode, name_of(step), why, unallocated, isinstance(step, HostCall))


def _cannot(mode: str, backend: Backend, why: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        feature=f"the forced mode {mode}", backend=backend.id, fix=f"leave the mode to the planner: {why}."
    )
