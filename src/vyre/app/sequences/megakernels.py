"""Dependent waves of steps as one kernel with barriers of the grid, and where they stay separate launches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from vyre.app.fusing import FusionLimits
from vyre.app.sequences.description import Work, WorkPart, WorkStep
from vyre.app.sequences.execution import Launch
from vyre.app.sequences.joining import Range, partly_shared, stage_of, stays_apart
from vyre.app.sequences.structure import Structure, Unit, alone, structure_of
from vyre.app.sequences.temporary import TemporaryBuffer
from vyre.app.sequences.wave_plans import WaveChoice, WavePlans
from vyre.app.sequences.waves import waves_of_steps
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.fusion.examination import live_locals
from vyre.domain.fusion.stages import CannotJoin, StageCall
from vyre.domain.fusion.wave_rounds import pieces_of
from vyre.domain.fusion.waves import MOST_STAGES, JoinedWaves, WaveArgument
from vyre.domain.record import U32_MAX
from vyre.policies.frontiers.fixpoint import FixpointExecutor
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, GridSyncMode, choose_grid_sync
from vyre.ports.backend import Backend
from vyre.ports.execution import LoopSupport
from vyre.ports.requests import FLAG_BYTES, ResidentStep, Resource
from vyre.ports.resident_buffer import ResidentBuffer

_Wave: TypeAlias = "Sequence[WorkStep]"


class WaveKernels:
    """Makes kernels of the waves of one sequence; ``plans`` remember what an equal graph had.

    ``sink`` receives the decisions.
    """

    def __init__(self, work: Work, backend: Backend, plans: WavePlans, sink: DecisionSink | None = None) -> None:
        self._work, self._backend, self._plans, self._sink = work, backend, plans, sink
        parts = [tuple(map(alone, part.steps)) for part in work.parts]
        self._waves: list[list[_Wave]] = [
            [[part.steps[place] for place in wave] for wave in waves_of_steps(part, units, sink)]
            for part, units in zip(work.parts, parts, strict=True)
        ]

    def choice(self, launches: int, kernel_ns: int, gap_ns: int) -> WaveChoice | None:
        """Returns whether the waves of a round of so many launches are to run in one kernel, by the measured time of a
        launch and of what one costs beside it; None for a graph without a step.
        """
        calls = [
            call
            for part, waves in zip(self._work.parts, self._waves, strict=True)
            if part.times
            for call in _calls(waves)
        ]
        return self._plans.choice(calls, launches, kernel_ns, gap_ns) if calls else None

    def structure(self, limits: FusionLimits) -> Structure:
        """Returns the structure in which successive waves of each part are one launch, wherever that can be.

        A launch that does not fit the device at once is made smaller, so that its workgroups take turns.  Where that is
        not possible either, its steps stay separate launches.
        """
        work = self._work
        partly = partly_shared(resource for step in work.steps for resource in step.step.resources)
        make = _Maker(self._backend, self._plans, limits, self._sink)
        parts: list[tuple[tuple[Unit, ...], WorkPart]] = []
        for part, waves in zip(work.parts, self._waves, strict=True):
            units, times = make.part(waves, part.times, partly)
            parts.append((units, replace(part, times=times)))
        return structure_of(tuple(map(alone, work.first.steps)), parts)


class _Maker:
    def __init__(self, backend: Backend, plans: WavePlans, limits: FusionLimits, sink: DecisionSink | None) -> None:
        self._backend, self._plans, self._limits, self._sink = backend, plans, limits, sink

    def part(self, waves: Sequence[_Wave], times: int, partly: Collection[Range]) -> tuple[tuple[Unit, ...], int]:
        """Returns the launches of a part, and how often they run."""
        runs = _runs(waves, partly)
        if len(runs) == 1 and not runs[0].why and (len(waves) > 1 or times > 1):
            unit = self._made(waves, times)
            if isinstance(unit, Unit):
                return (unit,), 1
        units: list[Unit] = []
        for run in runs:
            units += (
                [alone(step, run.why) for wave in run.waves for step in wave] if run.why else self._pieces(run.waves)
            )
        return tuple(units), times

    def _pieces(self, waves: Sequence[_Wave]) -> list[Unit]:
        """Returns the launches of waves that may be joined as far as their configs go."""
        units: list[Unit] = []
        calls = _calls(waves)
        for piece in pieces_of(calls, MOST_STAGES):
            start, why = piece.start, ""
            while start < piece.stop:
                stop = piece.stop
                unit: Unit | CannotJoin = CannotJoin(why, 0)
                while stop - start > 1 or (stop > start and len(waves[start]) > 1):
                    unit = self._made(waves[start:stop], 1)
                    if isinstance(unit, Unit) or stop - start == 1:
                        break
                    why = unit.reason
                    stop = start + max(1, min(_wave_of(waves[start:stop], unit.stage), stop - start - 1))
                if isinstance(unit, Unit):
                    units.append(unit)
                else:
                    stop = start + 1
                    units += [alone(step, unit.reason or "a wave by itself") for step in waves[start]]
                start = stop
        return units

    def _made(self, waves: Sequence[_Wave], times: int) -> Unit | CannotJoin:
        """Returns waves as one launch that the device runs at once, or why they are none."""
        most = U32_MAX
        if self._limits.most_groups is not None:
            most = self._limits.most_groups[0]
        calls = _calls(waves)
        for _ in range(2):
            joined = self._plans.joined(calls, times, most)
            if isinstance(joined, CannotJoin):
                return joined
            if (live := live_locals(joined.program)) > self._limits.most_live:
                return CannotJoin(f"{live} locals of a lane would be alive at once", sum(map(len, calls)) // 2)
            unit = self._unit(waves, joined, times)
            loops = self._backend.loops
            if loops is None:
                return CannotJoin("the backend has no barrier of the grid", 0)
            if FixpointExecutor.COMMAND_LIST in loops.loop_executors(()):
                return unit  # the parts between barriers are commands of a list
            grid = self._grid(unit.launch.step, loops)
            verdict = decide(self._sink, choose_grid_sync, grid)
            if verdict.mode is GridSyncMode.NATIVE and verdict.possible:
                return unit
            most = grid.multiprocessors * grid.resident_per_multiprocessor
            if not grid.cooperative or not 0 < most < grid.workgroups:
                break
        return CannotJoin(str(verdict.why), 0)

    def _grid(self, step: ResidentStep, loops: LoopSupport) -> GridSyncInputs:
        """Returns the grid of a launch, and how much of it the device holds; temporary arrays get memory for that."""
        memory = self._backend.require_memory()
        temporaries: dict[int, ResidentBuffer] = {}
        try:
            for resource in step.resources:
                if isinstance(resource, TemporaryBuffer) and id(resource) not in temporaries:
                    temporaries[id(resource)] = memory.allocate(resource.nbytes, label=resource.label)
            return loops.grid_sync(
                replace(step, resources=tuple(temporaries.get(id(resource), resource) for resource in step.resources))
            )
        finally:
            for buffer in temporaries.values():
                buffer.close()

    def _unit(self, waves: Sequence[_Wave], joined: JoinedWaves, times: int) -> Unit:
        steps = [step for wave in waves for step in wave]
        own: dict[WaveArgument, Resource] = {WaveArgument.TABLE: memoryview(joined.table)}
        if WaveArgument.FLAG in joined.arguments:
            epoch = self._backend.lifecycle.epoch
            own[WaveArgument.FLAG] = TemporaryBuffer(
                backend_id=self._backend.id, nbytes=FLAG_BYTES, epoch=epoch, label="flag of a megakernel"
            )
        resources: list[Resource] = []
        sizes: list[int] = []
        for argument in joined.arguments:
            if isinstance(argument, WaveArgument):
                resources.append(own[argument])
                sizes.append(own[argument].nbytes)
            else:
                stage, position = argument
                resources.append(steps[stage].step.resources[position])
                sizes.append(steps[stage].work.launch.nbytes[position])
        step = ResidentStep(joined.program, tuple(resources), DispatchConfig(grid=joined.grid))
        places = tuple(dict.fromkeys(one.place for one in steps))
        many = f", {times} times" if times > 1 else ""
        why = f"{len(waves)} waves{many} are one launch, with {joined.barriers} barriers of {joined.grid[0]} workgroups"
        return Unit(Launch(step, 1, sum(sizes)), places, why, tuple(sizes), runs=len(steps) * times)


class _Run(NamedTuple):
    """Waves that may be joined, or one that may not be, and ``why``."""

    waves: Sequence[_Wave]
    why: str


def _runs(waves: Sequence[_Wave], partly: Collection[Range]) -> list[_Run]:
    """Returns the waves in order, cut before and behind those with a step that is never joined."""
    runs: list[_Run] = []
    joinable: list[_Wave] = []
    for wave in waves:
        why = next((why for step in wave if (why := stays_apart(step, partly))), "")
        if not why:
            joinable.append(wave)
            continue
        if joinable:
            runs.append(_Run(joinable, ""))
            joinable = []
        runs.append(_Run((wave,), why))
    return [*runs, _Run(joinable, "")] if joinable else runs


def _calls(waves: Sequence[_Wave]) -> list[list[StageCall]]:
    return [[stage_of(step.step, step.work.launch, step.number) for step in wave] for wave in waves]


def _wave_of(waves: Sequence[_Wave], stage: int) -> int:
    """Returns the wave of a launch that is counted over all waves."""
    for number, wave in enumerate(waves):
        if stage < len(wave):
            return number
        stage -= len(wave)
    return len(waves) - 1
