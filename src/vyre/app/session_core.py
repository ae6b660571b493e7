"""The core of a session: its backend, its prepared pipelines, and services that are made on first use."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from vyre.adapters.forks import process_lock
from vyre.adapters.telemetry.guarded import guarded
from vyre.app.asynchrony.admission import USUAL_IN_FLIGHT
from vyre.app.asynchrony.work import AsyncWork
from vyre.app.background import BackgroundCompiler
from vyre.app.lease import BackendLease
from vyre.app.persistent.kept import KeptJobs
from vyre.app.preparing import Key, PreparedPipelines, Wanted, merged_for, shorthand_key
from vyre.app.race_checks import RaceChecks
from vyre.app.selection import Selection
from vyre.app.services import USUAL, Wiring, wired
from vyre.app.shorthand import Keywords, keywords_of
from vyre.app.tuning.sources import TuningSources, no_store
from vyre.domain.arguments import expect
from vyre.domain.dispatch import DEFAULT_CONFIG, REMEMBERED_TIMINGS, DispatchConfig, DispatchTiming, ReadableBuffer
from vyre.domain.errors import UnsupportedFeature, VyreError
from vyre.domain.ir.program import Program, ProgramLike, ProgramSource
from vyre.ports.interrupts import sealed
from vyre.ports.requests import SequenceSubmission

if TYPE_CHECKING:
    from vyre.app.calibration.review import CostReview
    from vyre.app.calibration.service import CalibrationService
    from vyre.app.dialects.lowered import LoweredProgram
    from vyre.app.host_arrays import Shapes
    from vyre.app.journal import DecisionJournal
    from vyre.app.kernels.launches import KernelLaunch, KernelSource
    from vyre.app.persistent.many import ItemTimes
    from vyre.app.pipeline import Inputs, OutArrays, Pipeline
    from vyre.app.prediction import Kind, PredictionConfig, ShapeObserver
    from vyre.app.resident import ElementType, ResidentArray
    from vyre.app.tuning.service import TuningService
    from vyre.domain.gates import Gate
    from vyre.domain.names import Grid, Size
    from vyre.domain.specialization import SpecInput
    from vyre.ports.support import Telemetry


class SessionCore:
    """The part of ``Session`` that prepares programs and holds what the other parts share."""

    def __init__(
        self,
        selection: Selection,
        telemetry: Telemetry,
        tuning: TuningSources | None = None,
        predict: bool | PredictionConfig = False,
        journal: DecisionJournal | None = None,
        max_in_flight: int = USUAL_IN_FLIGHT,
        resident_budget: int | None = None,
        gates: tuple[Gate, ...] = (),
        wiring: Wiring = USUAL,
    ) -> None:
        self._gates, self._clock = gates, wiring.clock()
        telemetry = guarded(telemetry, self._clock)
        self._selection, self._telemetry, self._journal = selection, telemetry, journal
        self._decisions = selection.services.decisions
        if resident_budget is not None:
            selection.backend.require_memory()
        self._lease = BackendLease(selection.backend, telemetry)
        self._lease.within = partial(wired, wiring)
        if selection.shadow is not None:
            selection.shadow.within = self._lease.within
        if resident_budget is not None:
            self._lease.keep_to(resident_budget, self._decisions)
        self._race_checks = RaceChecks(selection, self._lease, telemetry)
        self._background = BackgroundCompiler(telemetry)
        self._pipelines = PreparedPipelines()
        self._prepared, self._calls = self._pipelines.table, self._pipelines.calls
        self._sequence_timings: deque[DispatchTiming] = deque(maxlen=REMEMBERED_TIMINGS)
        self._sources = tuning
        self._tuning_service: TuningService | None = None
        self._costs_service: CalibrationService | None = None
        self._adopts = False
        self._lock = process_lock()
        self._wave_times = no_store if tuning is None else tuning.wave_times
        self._verdicts = no_store if tuning is None else tuning.verdicts
        self._closing = process_lock()
        self._work = self._lease.work = AsyncWork(max_in_flight, self._lease.order)
        self._kept_jobs = KeptJobs()
        self._item_times: WeakKeyDictionary[Pipeline, ItemTimes] = WeakKeyDictionary()
        self._observer: ShapeObserver | None = None
        if predict is not False:
            from vyre.app.prediction import PredictionConfig, ShapeObserver  # imported on use

            settings = PredictionConfig() if predict is True else predict
            expect("predict", settings, PredictionConfig, "True, False or a PredictionConfig")
            self._observer = ShapeObserver(
                settings, telemetry, self._background, self._pipelines, self._prepare, self._decisions
            )

        chosen, why = str(selection.backend.id), selection.report.reason
        telemetry.event("vyre.session.opened", level="debug", backend=chosen, reason=why)

    # ---------------------------------------------------------------- preparing
    def compile(
        self,
        program: ProgramLike,
        config: DispatchConfig | None = None,
        *,
        spec: Mapping[str, SpecInput] | None = None,
        grid: Grid | None = None,
        extent: Grid | None = None,
        output_counts: Mapping[str, Size] | None = None,
        race_check: bool = False,
    ) -> Pipeline:
        """Validates and compiles ``program``; calling the returned pipeline with inputs runs it.

        The keywords are fields of the config, as for ``dispatch``; other methods call them ``shorthand``.  Threads that
        request the same pipeline at once share one compilation, and its error if it fails; ``timeout_s`` of the config
        bounds how long they wait for it (``DispatchTimeout``).
        """
        # A pipeline keeps program and config alive: while it is in the table, no other object has their ids.
        key: Key
        plain = spec is None and grid is None and extent is None and output_counts is None and race_check is False
        if plain:
            key = id(program), id(config)
        else:
            key = shorthand_key(program, config, spec, grid, extent, output_counts, race_check)
        try:
            return self._prepared[key][0]
        except (KeyError, TypeError):  # a cache miss, or an invalid argument without a hash, refused below
            pass
        if type(program) is not Program and isinstance(program, ProgramSource):
            from vyre.app.kernels.launches import check_covered, program_of

            source = cast("KernelSource", program)
            shorthand = keywords_of(spec, grid, extent, output_counts, race_check)
            whole, config, shorthand = program_of(source, config, shorthand)
            check_covered(source, whole, config, shorthand)
            return self.compile(whole, config, **shorthand)
        if self._lease.is_inherited:
            self._lease.check_process()
        if plain and config is None and type(program) is Program:
            merged = DEFAULT_CONFIG
        else:
            merged = merged_for(program, config, spec, grid, extent, output_counts, race_check)
        make = self._compiled if self._observer is None else self._observer.compile
        return self._pipelines.get(Wanted(key, program, config, merged), make)

    def _compiled(self, wanted: Wanted) -> Pipeline:
        return self._prepare(wanted.program, wanted.merged)

    def _prepare(self, program: Program, config: DispatchConfig, kind: Kind | None = None) -> Pipeline:
        try:
            with self._lease.within():
                pipeline = self._made(program, config, kind)
        except VyreError as error:
            self._lease.told(error, f"preparing {program.name or 'unnamed'}")
            raise
        backend, cache = pipeline.backend, pipeline.cache._value_
        self._telemetry.count("vyre.pipeline.prepared", backend=backend, cache=cache)
        name, took = program.name or "unnamed", sum([ns for _, ns in pipeline.phases])
        self._telemetry.event(
            "vyre.pipeline.prepared", level="debug", backend=backend, program=name, cache=cache, took_ns=took
        )
        return pipeline

    def _made(self, program: Program, config: DispatchConfig, kind: Kind | None) -> Pipeline:
        from vyre.app.pipeline import Pipeline
        from vyre.app.verdicts import valid_program
        from vyre.domain.missing import missing_from, refusal

        if self._lease.closed:
            self._lease.check_open()
        started = self._clock.now_ns()
        backend = (lease := self._race_checks.lease if config.race_check else self._lease).backend
        artifacts = self._selection.services.artifacts if backend.stores_code else None
        program = valid_program(program, artifacts)
        if self._gates or program.definitions:
            from vyre.app.gating import admit

            admit(program, self._gates, self._telemetry)
        written, program = program, self._lowered(program, config).program
        if written.definitions and self._selection.shadow is not None:
            self._selection.shadow.keep_written(program, written)
        if config.pad_grid:
            from vyre.domain.padding import masked

            program = masked(program, config)
        validated = self._clock.now_ns() - started
        if missing := missing_from(program, backend.profile, backend.supported_ops, config):
            raise refusal(missing, backend.id)
        if backend.planning is not None and lease is self._lease and not lease.is_reviewed:
            lease.review_with(self._planning_review())
        return (kind or Pipeline)(lease, program, config, (("validate", validated),))

    def _lowered(self, program: Program, config: DispatchConfig) -> LoweredProgram:
        from vyre.app.dialects.for_session import lowered_for

        return lowered_for(program, config, self._lease.backend, self._verdicts, self._selection.services.optimize)

    def _launch(
        self, source: ProgramSource, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords,
        out: OutArrays | None = None,
    ) -> KernelLaunch:  # fmt: skip
        from vyre.app.kernels.launches import launch_of

        self._lease.check_process()
        return launch_of(cast("KernelSource", source), inputs, config, shorthand, out)

    def _compiled_launch(
        self, program: ProgramLike, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords
    ) -> tuple[Pipeline, Inputs, Shapes | None]:
        """Returns the pipeline of a launch, its inputs, and the shapes that a kernel declares for its outputs."""
        if type(program) is not Program and isinstance(program, ProgramSource):
            plan, inputs = cast("KernelSource", program)._launch_on(self, inputs, config, shorthand)
            return plan.pipeline, inputs, plan.shapes
        return self.compile(program, config, **shorthand), inputs, None

    # ---------------------------------------------------------------- memory
    def resident(
        self, data: ReadableBuffer | int | ElementType, count: int | None = None, *, label: str | None = None
    ) -> ResidentArray:
        """Allocates device memory with a copy of ``data``, or with that many zero bytes, or with ``count`` zeros of a
        type of vyre or NumPy: ``session.resident(u32, 1000)``.

        Memory with an element type keeps it; raw bytes and a size may be bound to a buffer of any.  Truth values of
        NumPy become 32-bit words, for buffers of bool; for bool8 pass ``x.view(numpy.uint8)``.  Raises
        ``InvalidInput`` for anything else, ``UnsupportedFeature`` on a backend without device memory, and
        ``DeviceOutOfMemory`` if it is full.
        """
        from vyre.app.resident import make_resident

        expect("label", label, (str, type(None)), "a text, or None")
        self._lease.check_open()
        array = make_resident(self._lease.backend.require_memory(), data, label, count)
        self._lease.adopt(array)
        return array

    # ---------------------------------------------------------------- services
    def _calibration(self) -> CalibrationService:
        """Returns the service that measures and keeps costs.  Raises ``DispatchFailed`` in a forked child."""
        self._lease.check_process()
        with self._lock, sealed:
            if self._costs_service is None:
                from vyre.app.calibration.service import calibration_of

                timings, telemetry = self._sequence_timings, self._telemetry
                self._costs_service = calibration_of(
                    self._lease, self._sources, self._pipelines, timings, telemetry, self._decisions, self._clock
                )
                if self._adopts:
                    self._costs_service.adopt()
            return self._costs_service

    def _planning_review(self) -> CostReview:
        """Returns the review of the costs that the backend plans with; it passes stored costs to the backend.

        Where costs choose no way to submit a sequence, the review reads them, or whoever first asks for the service.
        """
        if self._costs_service is None and self._lease.backend.submission is SequenceSubmission.LIST:
            from vyre.app.calibration.review import CostReview

            self._adopts = True
            return CostReview(lambda: self._calibration().review(), self._telemetry)
        return self._calibration().planning_review()

    def _tuning(self) -> TuningService:
        """Returns the service that tunes.  Raises ``UnsupportedFeature`` for a session without sources of tuning."""
        self._lease.check_process()
        if self._sources is None:
            raise UnsupportedFeature(
                feature="tuning", backend=self._lease.backend.id, fix="make the session with vyre.open()."
            )
        with self._lock, sealed:
            if self._tuning_service is None:
                from vyre.app.tuning.service import TuningService

                self._tuning_service = TuningService(
                    self._lease, self._prepare, self._sources, self._telemetry, self._decisions, self._clock
                )
            return self._tuning_service
