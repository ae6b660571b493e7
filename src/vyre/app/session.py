"""``Session``: runs programs on one backend, owns resident memory, and closes both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack, cast, overload

from vyre.app.kernels.entered import enter, leave
from vyre.app.misuse import ForeignSessionUse, explain_call
from vyre.app.persistent.sessions import SessionPersistence
from vyre.app.preparing import merged_for
from vyre.app.queries.sessions import SessionQueries
from vyre.app.selection import SelectionReport
from vyre.app.sequences.sessions import SessionSequences
from vyre.app.session_reports import SessionReports
from vyre.app.shorthand import Indirect, Keywords, keywords_of
from vyre.app.transfers.sessions import SessionTransfers
from vyre.domain.arguments import expect
from vyre.domain.dispatch import DispatchConfig, OutputArena, without_mode
from vyre.domain.errors import InvalidInput, UnsupportedFeature
from vyre.domain.float_mode import public_in_default_mode
from vyre.domain.ir.program import Program, ProgramLike, ProgramSource, program_of

if TYPE_CHECKING:
    from vyre.app.explain.explanation import Explanation
    from vyre.app.explain.service import CostsWanted
    from vyre.app.invalidation import InvalidationReport
    from vyre.app.kernels.launches import KernelSource
    from vyre.app.pipeline import BoundLaunch, Inputs, OutArrays, Pipeline
    from vyre.app.resident import ResidentArray
    from vyre.app.resident_dispatch import BoundResidentLaunch
    from vyre.app.result import Result
    from vyre.app.specialized import SpecializedPipeline
    from vyre.app.tuning.race import RaceReport
    from vyre.app.tuning.report import Tuned, TuningReport
    from vyre.app.tuning.tuner import TuningSettings
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.names import Grid, Size
    from vyre.domain.specialization import SpecInput
    from vyre.domain.tuning_pins import Pins
    from vyre.policies.tuning.paired_race import RaceThresholds


@public_in_default_mode("dispatch", "compile")
class Session(
    SessionPersistence, SessionQueries, SessionReports, SessionTransfers, SessionSequences, ForeignSessionUse
):
    """Runs programs on one backend.  A context manager; every method may be called from any thread.

    A session belongs to the process that opened it.  In a forked child it is closed, whatever the backend is: every use
    raises ``DispatchFailed``, and ``close`` does nothing.

    Programs are validated and compiled on first use and remembered by identity (the last 1024 combinations of program
    and config), so dispatching the same ``Program`` object again costs no preparation.
    """

    # ---------------------------------------------------------------- running
    def dispatch(
        self,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        *,
        spec: Mapping[str, SpecInput] | None = None,
        grid: Grid | Indirect | None = None,
        extent: Grid | None = None,
        output_counts: Mapping[str, Size] | None = None,
        race_check: bool = False,
        out: OutArrays | None = None,
        outputs: OutputArena | None = None,
        tune: bool = False,
    ) -> Result:
        """Runs ``program`` once and waits for its outputs.

        ``inputs``: data by buffer name, or a sequence in binding order.  Arrays must have the buffer's element type,
        little-endian and C-contiguous, any shape; ``bool`` takes ``numpy.bool_`` or 32-bit words, ``bf16`` raw
        ``uint16``.  Other objects with memory (``memoryview``, ``array.array``, ``ctypes``) follow the same rule;
        memory whose format is bytes (``B``, ``b``, ``c``) is raw.  Arrays of other libraries are taken by DLPack,
        ``__array_interface__`` or ``__array__``; numbers may stand in lists.  Masked arrays and missing values are
        refused.  Scalar parameters are Python or NumPy numbers.  ``spec``, ``grid``, ``extent``, ``output_counts``,
        ``race_check``: shorthand for the config fields of that name (giving both is an error); plain numbers in
        ``spec`` take the type of the constant.  ``grid`` may be an ``Indirect``, whose counts are read when the launch
        begins (``GridOverflow`` for too many).  ``out``: arrays by name that receive results, written only if the
        dispatch succeeds; they share memory neither with an input nor with each other.  But the very array that is the
        input of a buffer of kind ``inout`` is updated in place, without a copy on ``cpu``; after an error its contents
        are unspecified, and the error says so.  ``outputs``: an arena that receives all results; the arrays of the
        result are then read-only views that are valid until its next dispatch. ``tune``: whether to run with the config
        that ``tuned`` returns, which changes no byte of the results.  Where no backend was asked for by name, the
        reference runs what is checked for races, and ``explain()`` and a warning event say so.

        ``Result`` describes the shapes of the outputs; ``Result.launch`` names the rule that chose the grid.

        Raises ``InvalidProgram``, ``InvalidInput``, ``InvalidResource``, ``InvalidConfig``, ``UnsupportedFeature``
        before anything runs; ``TrapError``, ``StepBudgetExceeded``, ``DataRaceError``, ``DispatchTimeout``,
        ``DispatchFailed`` and other ``BackendError``s from the run.  A failed dispatch has no outputs.
        """
        if grid is not None and isinstance(grid, Indirect):
            from vyre.app.indirect import dispatch_indirect

            shorthand = keywords_of(spec, grid.most, extent, output_counts, race_check)
            return dispatch_indirect(self, self.dispatch, program, inputs, config, shorthand, grid, out, outputs, tune)
        if type(program) is not Program and isinstance(program, ProgramSource):
            shorthand = keywords_of(spec, grid, extent, output_counts, race_check)
            if tune is False:
                plan, inputs = cast("KernelSource", program)._launch_on(self, inputs, config, shorthand, out)
                return plan.pipeline.dispatch(inputs, out, outputs, plan.shapes)
            if tune is True and (constants := self.tuned(program, inputs, config, **shorthand).constants):
                from vyre.app.tuning.varied import with_constants

                inputs = with_constants(cast("KernelSource", program), inputs, constants)
                return self.dispatch(program, inputs, config, **shorthand, out=out, outputs=outputs)
            own = self._launch(program, inputs, config, shorthand, out)
            words = own.shorthand
            result = self.dispatch(own.program, own.inputs, own.config, **words, out=out, outputs=outputs, tune=tune)
            return result.in_shapes(own.resolved.shapes)
        if tune is not False:
            expect("tune", tune, bool, "True or False")
            declared = merged_for(program, config, spec, grid, extent, output_counts, race_check)
            config = self._tuning().tuned(program, inputs, declared).config
            spec = grid = extent = output_counts = None
            race_check = False
        pipeline = self.compile(
            program, config, spec=spec, grid=grid, extent=extent, output_counts=output_counts, race_check=race_check
        )
        return pipeline.dispatch(inputs, out, outputs)

    def prepare(
        self, program: ProgramLike, config: DispatchConfig | None = None, **shorthand: Unpack[Keywords]
    ) -> None:
        """Validates and compiles ahead of the first dispatch; launches nothing.  ``shorthand`` as for ``compile``."""
        if type(program) is not Program and isinstance(program, ProgramSource):
            from vyre.app.kernels.launches import program_of

            program, config, shorthand = program_of(cast("KernelSource", program), config, shorthand)
        self.compile(program, config, **shorthand)

    def bind(
        self,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        **shorthand: Unpack[Keywords],
    ) -> BoundLaunch:
        """Binds inputs to a launch: it is checked once, and calling it runs it.  ``shorthand`` as for ``compile``.

        Each call reads the arrays as they are then; numbers, lists and ``numpy.bool_`` arrays are taken by value now.
        ``x.copy()`` keeps what an array holds now.
        """
        from vyre.app.pipeline import BoundLaunch

        pipeline, inputs, shapes = self._compiled_launch(program, inputs, config, shorthand)
        views = pipeline.views(inputs)
        return BoundLaunch(pipeline, views, pipeline.shapes(inputs) if shapes is None else shapes)

    def bind_resident(
        self,
        program: ProgramLike,
        inputs: Inputs,
        config: DispatchConfig | None = None,
        *,
        spec: Mapping[str, SpecInput] | None = None,
        grid: Grid | Indirect | None = None,
        extent: Grid | None = None,
        output_counts: Mapping[str, Size] | None = None,
        race_check: bool = False,
    ) -> BoundResidentLaunch:
        """Prepares a launch on resident memory once: the cheapest way to run it repeatedly.

        Every buffer that the program writes must be bound to a resident array.  Each call reads the arrays of the host
        as they are then, for which it is slower; ``session.resident(x)`` keeps what an array holds now, and numbers,
        lists and ``numpy.bool_`` arrays are taken by value.  Keywords as for ``dispatch``; the counts of an
        ``Indirect`` are read in each call.
        """
        if isinstance(grid, Indirect):
            from vyre.app.indirect import bind_indirect

            shorthand = keywords_of(spec, grid.most, extent, output_counts, race_check)
            return bind_indirect(self, program, inputs, config, shorthand, grid)
        shorthand = keywords_of(spec, grid, extent, output_counts, race_check)
        pipeline, inputs, _ = self._compiled_launch(program, inputs, config, shorthand)
        return pipeline.bind_resident(inputs)

    # ---------------------------------------------------------------- tuning
    def tune(
        self,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        *,
        settings: TuningSettings | None = None,
        vary: Mapping[str, Sequence[int]] | None = None,
        **shorthand: Unpack[Keywords],
    ) -> TuningReport:
        """Measures alternatives to ``config`` on launches like this one, and stores the samples.

        Candidates are workgroup sizes on which no result can depend, code generation profiles, and a kernel with all
        combinations of other values of its ``Static[int]`` parameters: ``vary={"tile": (8, 16)}``.  A candidate wins
        only if its bytes are those of the reference and it is significantly faster; where times are estimates of a
        model, the report says that nothing was ``measured``.  Nothing is launched if the store has samples or the
        launch is pinned. ``shorthand`` as for ``compile``.

        Raises what ``dispatch`` raises, ``InvalidConfig`` for a config under which there is nothing to tune, and
        ``DispatchFailed`` where backend and reference disagree on ``config`` itself.
        """
        from vyre.app.tuning.tuner import DEFAULT_SETTINGS, TuningSettings
        from vyre.app.tuning.varied import varied

        settings = DEFAULT_SETTINGS if settings is None else settings
        expect("settings", settings, TuningSettings, "TuningSettings, or None")
        variants = varied(program, inputs, config, shorthand, vary)
        if type(program) is not Program and isinstance(program, ProgramSource):
            launch = self._launch(program, inputs, config, shorthand)
            program, inputs, config, shorthand = launch.program, launch.inputs, launch.config, launch.shorthand
        return self._tuning().tune(program, inputs, merged_for(program, config, **shorthand), settings, variants)

    def tuned(
        self,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        **shorthand: Unpack[Keywords],
    ) -> Tuned:
        """Returns the config pinned for launches like this one, else the winner of stored samples, else ``config``
        unchanged.

        ``session.compile(program, session.tuned(program, inputs).config)`` applies it, and so does ``dispatch`` with
        ``tune=True``, which also passes the ``constants`` to a kernel.  Measures nothing; looked up once for each
        program, config and lengths of inputs, which may be resident or temporary arrays.  ``shorthand`` as for
        ``compile``.
        """
        if type(program) is not Program and isinstance(program, ProgramSource):
            launch = self._launch(program, inputs, config, shorthand)
            program, inputs, config, shorthand = launch.program, launch.inputs, launch.config, launch.shorthand
        return self._tuning().tuned(program, inputs, merged_for(program, config, **shorthand))

    def export_pins(self, path: Path | str) -> Pins:
        """Writes all winners of stored samples to a file for ``vyre.open(pins=...)``.

        Equal winners give equal bytes.  Raises ``InvalidConfig`` without a cache, ``UnreadableFile`` if it cannot be
        written.
        """
        return self._tuning().export_pins(path)

    def race(
        self,
        program: ProgramLike,
        inputs: Inputs,
        variants: Mapping[str, DispatchConfig | Mapping[str, SpecInput]],
        config: DispatchConfig | None = None,
        *,
        thresholds: RaceThresholds | None = None,
    ) -> RaceReport:
        """Measures which of several variants of ``program`` is significantly the fastest; the first is the baseline.

        A variant is a config, or values of specialization constants in addition to ``config``.  Runs are timed in
        alternating pairs until the paired test decides or gives up; on a backend whose times are estimates of a model
        nothing is raced, and the report says so.

        Raises what ``dispatch`` raises, and ``InvalidConfig`` for fewer than two variants and for variants whose bytes
        differ from those of the first.
        """
        from vyre.app.tuning.race import VariantRace
        from vyre.policies.tuning.paired_race import DEFAULT_THRESHOLDS

        expect("variants", variants, Mapping, "a mapping from names to variants")
        pipelines: dict[str, Pipeline] = {}
        bound = inputs
        for name, variant in variants.items():
            own, words = (
                (variant, Keywords()) if isinstance(variant, DispatchConfig) else (config, Keywords(spec=variant))
            )
            pipelines[name], bound, _ = self._compiled_launch(program, inputs, own, words)
        thresholds = DEFAULT_THRESHOLDS if thresholds is None else thresholds
        return VariantRace(self._lease.backend, pipelines, bound, thresholds, self._clock.now_ns, self._decisions).run()

    def specialize(
        self,
        program: ProgramLike,
        parameters: Sequence[str] | None = None,
        config: DispatchConfig | None = None,
        **shorthand: Unpack[Keywords],
    ) -> SpecializedPipeline:
        """Returns a pipeline that guesses that scalar parameters keep their values, and runs code specialized to them.

        ``parameters``: their names; None: all.  Every call compares the bytes of its own parameters with the guess, and
        runs the general code unless they are equal, so no result depends on guesses; ``speculation`` of the config
        forces or disables the special code.  ``shorthand`` as for ``compile``.

        Raises what ``compile`` raises, and ``InvalidInput`` where there is no such parameter.
        """
        from vyre.app.specialized import SpecializedPipeline

        mode = config.speculation if isinstance(config, DispatchConfig) else None
        general = self.compile(program, without_mode(config, "speculation") if mode else config, **shorthand)
        return SpecializedPipeline(
            general, parameters, self.compile, self._background, self._lease.backend, mode, self._decisions
        )

    # ---------------------------------------------------------------- memory
    def adopt(self, array: object, *, label: str | None = None) -> ResidentArray:
        """Uses another library's array as resident memory: nothing is copied, and both see all writes.

        ``array`` lies in the memory of the backend's device, is contiguous, and shows its memory: on a GPU by
        ``__cuda_array_interface__`` or DLPack (CuPy, Numba, PyTorch, JAX), on the host as a NumPy array, by
        ``__array_interface__`` or by DLPack, whose exports without a version are read-only.  It is kept alive until the
        result is closed.

        Raises ``InvalidResource`` for any other object, and ``UnsupportedFeature`` on a backend that shares no memory.
        """
        from vyre.app.resident import adopt_array

        if label is not None:
            expect("label", label, str, "a text, or None")
        lease = self._lease
        if lease.closed:
            lease.check_open()
        backend = lease.backend
        foreign, memory = backend.foreign_memory, backend.memory
        if foreign is None or memory is None:
            raise UnsupportedFeature(feature="memory of other libraries", backend=backend.id)
        adopted = adopt_array(foreign, memory, array, label)
        lease.adopt(adopted)
        return adopted

    # ---------------------------------------------------------------- invalidation
    def invalidate(
        self,
        program: ProgramLike | None = None,
        *,
        key: ArtifactKey | str | None = None,
        driver: str | None = None,
        tool: str | None = None,
        emitter: str | None = None,
        target: str | None = None,
        dry_run: bool = False,
    ) -> InvalidationReport:
        """Removes stored code that depends on any of these, and reports each entry with the reason; see ``Invalid``.

        Pipelines of the same programs are dropped from memory (all, if the arguments name no single programs), so that
        their next use compiles anew; pipelines that a caller holds keep working.  Raises ``InvalidConfig``.
        """
        from vyre.app.invalidation import Invalid, invalidate

        self._lease.check_open()
        expect("dry_run", dry_run, bool, "True or False")
        invalid = Invalid(
            key=key, program=program_of(program), driver=driver, tool=tool, emitter=emitter, target=target
        )
        report = invalidate(self._selection.code_store(), invalid, dry_run=dry_run, sink=self._decisions)
        if dry_run:
            return report
        programs = invalid.programs(report)
        compiler = self._lease.backend.compiler
        forgotten = 0 if compiler is None else compiler.forget(programs)
        self._pipelines.forget(programs)
        return replace(report, forgotten=forgotten)

    # ---------------------------------------------------------------- looking
    @property
    def backend(self) -> str:
        """The id of the backend in use."""
        return str(self._lease.backend.id)

    @property
    def closed(self) -> bool:
        """Whether the session is closed, or belongs to the parent of this forked process."""
        return self._lease.closed

    @overload
    def explain(self) -> SelectionReport: ...
    @overload
    def explain(
        self,
        program: ProgramLike,
        config: DispatchConfig | None = None,
        *,
        inputs: Inputs | None = None,
        batch: int = 1,
        repeats: int = 1,
        costs: CostsWanted = None,
        kernel_time_ns: int | None = None,
        **shorthand: Unpack[Keywords],
    ) -> Explanation: ...
    def explain(
        self,
        program: ProgramLike | None = None,
        config: DispatchConfig | None = None,
        *,
        inputs: Inputs | None = None,
        batch: int = 1,
        repeats: int = 1,
        costs: CostsWanted = None,
        kernel_time_ns: int | None = None,
        **shorthand: Unpack[Keywords],
    ) -> SelectionReport | Explanation:
        """Reports why this backend was selected and its plans so far; for a program, what would be decided for it, and
        why.

        ``batch`` runs of the program are submitted together, ``repeats`` times.  ``inputs`` give the lengths; None: a
        few elements where a length is open, and a note says so.  ``costs``: costs of launching, or the file that holds
        them; "measured": those of ``launch_costs``; "assumed"; None: measured where they are known, else assumed, and a
        note says so.  ``kernel_time_ns``: device time of a launch; None: the measured one, if any.  ``print`` the
        result; the program is compiled, nothing is launched.  ``shorthand`` as for ``compile``.

        Raises ``InvalidField`` for an invalid batch or number, and what ``compile`` and ``launch_costs`` raise.
        """
        if program is None:
            self._lease.check_process()
            planning = self._lease.backend.planning
            planned = () if planning is None else planning.plans()
            report = replace(self._selection.report, planned=planned, race_checks=self._race_checks.report)
            return replace(report, shadow=str(self.shadow() or ""))
        if isinstance(program, ProgramSource):
            if inputs is not None:
                launch = self._launch(program, inputs, config, shorthand)
                program, inputs, config, shorthand = launch.program, launch.inputs, launch.config, launch.shorthand
        else:
            expect("program", program, Program, "a Program, or None", InvalidInput)
        from vyre.app.explain.service import Asked, explain_program, known_costs  # imported on use

        self._lease.check_open()
        pipeline = partial(self.compile, program, config, **shorthand)
        asked = Asked(
            program_of(program), pipeline, inputs, batch, repeats, kernel_time_ns, self._selection.services.optimize,
            self._lowered,
        )  # fmt: skip
        known = known_costs(costs, self.launch_costs)
        with self._lease.within():
            answer = explain_program(self._lease.backend, asked, known, self._decisions)
        return answer if (shadow := self._selection.shadow) is None else shadow.explained(answer, pipeline().program)

    # ---------------------------------------------------------------- lifetime
    def flush(self) -> None:
        """Waits until the device has finished all queued work."""
        self._lease.check_open()
        self._lease.wait_for(None)
        self._lease.flush()

    def recover(self) -> None:
        """Reopens the device after ``DeviceLost``.

        Resident memory is lost, and its arrays are refused from now on; compiled programs are compiled again on their
        next use.  Raises ``DeviceLost`` if the driver cannot serve this process any more, and ``UnsupportedFeature`` on
        a backend that has no device to lose.
        """
        self._lease.check_open()
        self._lease.backend.lifecycle.recover()
        self._telemetry.event("vyre.device.recovered", level="warning", backend=self.backend)

    def close(self) -> None:
        """Waits for submitted dispatches, frees resident memory and closes the backend; idempotent.

        Concurrent calls all wait until it is closed.  A callback of a submitted dispatch must not wait for its own
        thread: there the call returns at once, and another thread closes the session.
        """
        if self._lease.is_inherited:
            return
        self._work.refuse()
        if self._work.is_thread_of_it():
            Thread(target=self._close, name="vyre-close").start()
        else:
            self._close()

    def __enter__(self) -> Self:
        self._lease.check_open()
        enter(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        leave(self)
        try:
            if exc_type is None and not self.closed:
                self.flush()
        finally:
            self.close()
        explain_call(exc)

    def __repr__(self) -> str:
        return f"<Session on {self.backend}, {'closed' if self.closed else 'open'}>"

    def _close(self) -> None:
        with self._closing:
            self._background.close()
            stops = self._lease.backend.async_executor is not None  # closing it ends what its threads wait for
            if not stops:
                self._work.close()
            self._kept_jobs.close()
            if self._selection.shadow is not None:
                self._selection.shadow.close()
            try:
                self._lease.close()
            finally:
                if stops:
                    self._work.close(limited=True)
                self._race_checks.close()
                if (device_passes := self._selection.services.device_passes) is not None:
                    device_passes.close()
                self._telemetry.event("vyre.session.closed", level="debug", backend=self.backend)
