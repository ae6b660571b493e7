"""Pipelines that guess scalar parameters, and run code in which the guessed values are constants.

Specialization constants are fixed when a program is compiled, so only scalar parameters can change from one dispatch to
the next.  The guess is their last value.  Once the trace-JIT policy finds the program hot and the guess reliable, code
for it is compiled in the background.  Before every run the host compares bytes: the special code runs only for exactly
the values that it was made for, all other values run the general code.  A guess that fails too often, by the moving
average of the speculation policy, is replaced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.caching.held_decisions import HeldDecisions
from vyre.adapters.forks import process_lock
from vyre.app.resident_dispatch import has_resident
from vyre.app.tuning.race import RaceReport, VariantRace
from vyre.domain.arguments import expect, items_of
from vyre.domain.errors import InvalidConfig, InvalidInput, VyreError
from vyre.domain.ir.bake import baked, parameter_literal
from vyre.domain.ir.buffers import inputs_of
from vyre.domain.unique import Unique
from vyre.policies.journal import Decision, DecisionSink, decide, sifted
from vyre.policies.prediction.speculate import (
    FULL_RATE_PPM,
    GuessRate,
    PathInputs,
    PathVerdict,
    SpeculationPath,
    choose_path,
)
from vyre.policies.prediction.trace_jit import Speculate, TraceJitInputs, decide_trace_jit_speculation
from vyre.policies.record import U32_MAX, Reason
from vyre.policies.tuning.paired_race import DEFAULT_THRESHOLDS, RaceThresholds
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.background import BackgroundCompiler
    from vyre.app.pipeline import Inputs, OutArrays, Pipeline
    from vyre.app.result import Result
    from vyre.domain.dispatch import DispatchConfig, OutputArena, SpeculationMode
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend
    from vyre.ports.requests import HostBytes

_DECISIONS: Final = 32


class _Guess:
    """A guess of parameters.

    ``values``: bytes of the parameters.  ``pipeline``: the special code, once it is compiled.  ``refused``: the reason
    why there is none.
    """

    __slots__ = ("hits", "pipeline", "refused", "values")

    def __init__(self, values: tuple[bytes, ...]) -> None:
        self.values = values
        self.hits = 0
        self.pipeline: Pipeline | None = None
        self.refused: Reason | None = None


class Specialization(Enum):
    """The outcomes of a decision about a guess."""

    COMPILE = "compile"
    ANOTHER_GUESS = "another guess"
    GENERAL_CODE = "general code from now on"


class SpecializationDecision(NamedTuple):
    """A decision about a guess, with its reason."""

    what: Specialization
    why: Reason

    def __str__(self) -> str:
        return f"{self.what.value}: {self.why}"


class SpecializationReport(NamedTuple):
    """The state of a specialized pipeline.

    ``guess``: values by name; None before the first call.  ``state``: a sentence about it. ``special`` and ``general``:
    number of calls that ran special code (of any guess), and the general code. ``guesses``: number of guesses so far.
    ``decisions``: the last ones.
    """

    guess: dict[str, int | float | bool] | None
    state: str
    special: int
    general: int
    guesses: int
    decisions: tuple[SpecializationDecision, ...]

    def __str__(self) -> str:
        lines = [f"guess {self.guess}: {self.state}; {self.special} special and {self.general} general run(s)"]
        return "\n  ".join([*lines, *map(str, self.decisions)])


class SpecializedPipeline(Unique):
    """A pipeline called as a ``Pipeline``, from any thread; results are those of ``general``, bit for bit."""

    def __init__(
        self,
        general: Pipeline,
        parameters: Sequence[str] | None,
        compiled: Callable[[Program, DispatchConfig], Pipeline],
        background: BackgroundCompiler,
        backend: Backend,
        mode: SpeculationMode | None = None,
        sink: DecisionSink | None = None,
    ) -> None:
        """``mode`` forces or disables the special code.  ``sink`` receives the decisions to compile, and the path of a
        call where it differs from that of the call before.

        Raises ``InvalidInput`` where a name is not that of a scalar parameter, or the program has none.
        """
        self.general: Final = general
        self._sink, self._mode = sink, mode
        self._buffered = None if sink is None else HeldDecisions(sink)
        self._paths = sifted(self._buffered, self._turns)
        self._path: SpeculationPath | None = None
        inputs = inputs_of(general.program.abi_buffers)
        scalars = {buffer.name: place for place, buffer in enumerate(inputs) if buffer.is_push}
        names = tuple(scalars if parameters is None else items_of("parameters", parameters))
        for name in names:
            expect("a name in parameters", name, str, "the name of a scalar parameter", InvalidInput)
        wrong = [name for name in names if name not in scalars]
        if wrong or not names:
            title = general.program.name or "the program"
            raise InvalidInput(
                f"{title} has no scalar parameter {', '.join(f'`{name}`' for name in wrong)}".rstrip(),
                fix=f"name some of: {', '.join(scalars) or 'there are none'}.",
            )
        self._names, self._places = names, tuple(scalars[name] for name in names)
        self._compiled, self._background, self._backend = compiled, background, backend
        self._guess: _Guess | None = None
        self._rate = GuessRate()
        self._special = self._general = self._guesses = 0
        self._decisions: deque[SpecializationDecision] = deque(maxlen=_DECISIONS)
        self._lock = process_lock()

    def __call__(
        self, inputs: Inputs = (), *, out: OutArrays | None = None, outputs: OutputArena | None = None
    ) -> Result:
        """Runs once.  ``inputs``, ``out`` and ``outputs`` as for ``Session.dispatch``; resident memory is never
        guessed.
        """
        if has_resident(inputs):
            return self.general(inputs, out=out, outputs=outputs)
        self.general.check_open()
        views = self.general.views(inputs)
        pipeline = self._chosen(views)
        if self._buffered is not None:
            self._buffered.tell()
        return pipeline.run(views, out, outputs, self.general.shapes(inputs))

    def race(self, inputs: Inputs, thresholds: RaceThresholds = DEFAULT_THRESHOLDS) -> RaceReport:
        """Measures whether the special code is significantly faster than the general one; if it is not, stops using it.

        Raises ``InvalidConfig`` if there is none for the parameters in ``inputs``, and as ``Session.race``.
        """
        views = self.general.views(inputs)
        guess = self._guess
        special = None if guess is None else guess.pipeline
        if guess is None or special is None or not self._holds(guess, views):
            raise InvalidConfig(
                "there is no special code for these parameters", fix="call it with them until `explain` says so."
            )
        variants = {"general": self.general, "special": special}
        report = VariantRace(self._backend, variants, inputs, thresholds, self.general._lease.now_ns, self._sink).run()
        if report.measured and report.winner == "general":
            self._refuse(guess, Reason("the race: {}", (report.raced[0].verdict.why,)))
        return report

    def explain(self) -> SpecializationReport:
        """Returns the present guess, the decisions about it, and how often it was right.  ``print`` it."""
        with self._lock, sealed:
            guess, values = self._guess, None
            if guess is not None:
                program = self.general.program
                values = {
                    name: parameter_literal(program, name, data).value
                    for name, data in zip(self._names, guess.values, strict=True)
                }
            counts = self._special, self._general, self._guesses
            return SpecializationReport(values, _state(guess), *counts, tuple(self._decisions))

    # ---- details
    def _holds(self, guess: _Guess, views: tuple[HostBytes, ...]) -> bool:
        return all(views[place] == data for place, data in zip(self._places, guess.values, strict=True))

    def _chosen(self, views: tuple[HostBytes, ...]) -> Pipeline:
        with self._lock, sealed:
            guess = self._guess
            holds = guess is not None and self._holds(guess, views)
            if holds and self._rate.ema_ppm == FULL_RATE_PPM and guess is not None and guess.pipeline is not None:
                self._special += 1  # the same decision as for the call before
                return guess.pipeline
            pipeline = self._decided(views, holds)
            self._special += pipeline is not self.general
            self._general += pipeline is self.general
            return pipeline

    def _decided(self, views: tuple[HostBytes, ...], holds: bool) -> Pipeline:
        rate = self._rate = self._rate.after(holds)
        guess = self._guess
        if guess is None or not (holds or rate.enabled):
            self._guess_anew(views, rate)
            return self.general
        if not holds:
            return self.general
        guess.hits = min(guess.hits + 1, U32_MAX)
        inputs = PathInputs(self._mode, rate)
        if guess.refused or decide(self._paths, choose_path, inputs).path is not SpeculationPath.SPECIAL:
            return self.general
        if guess.pipeline is None:
            self._consider(guess)
        return guess.pipeline or self.general

    def _turns(self, decision: Decision) -> bool:
        """Returns whether the path differs from that of the decision before it, about the same guess."""
        assert isinstance(decision.verdict, PathVerdict)
        before, self._path = self._path, decision.verdict.path
        return self._path is not before

    def _guess_anew(self, views: tuple[HostBytes, ...], rate: GuessRate) -> None:
        if self._guess is not None:
            self._note(Specialization.ANOTHER_GUESS, Reason("it held in {} ppm of calls", (rate.ema_ppm,)))
        self._guess = _Guess(tuple(bytes(views[place]) for place in self._places))
        self._guesses += 1
        self._path = None
        self._rate = GuessRate()

    def _consider(self, guess: _Guess) -> None:
        """Decides whether to compile for the guess.  A miss costs at least the compilation of the general code."""
        compile_ns = sum(spent for _, spent in self.general.phases)
        inputs = TraceJitInputs(
            shader_hit_count=guess.hits,
            prediction_confidence_bps=self._rate.ema_ppm // 100,
            speculative_spec_cost_ns=compile_ns * self._background.load_bps // 10_000,
            miss_cost_ns=compile_ns,
        )
        verdict = decide(self._buffered, decide_trace_jit_speculation, inputs)
        if isinstance(verdict, Speculate) and self._background.wish(guess, lambda: self._compile(guess)):
            self._note(Specialization.COMPILE, verdict.why)

    def _compile(self, guess: _Guess) -> None:
        """Compiles the special code, on the background thread."""
        program = baked(self.general.program, dict(zip(self._names, guess.values, strict=True)))
        try:
            special = self._compiled(program, self.general.config)
        except VyreError as error:
            self._refuse(guess, Reason("it cannot be compiled: {}", (error.message,)))
            raise
        with self._lock, sealed:
            if guess.refused is None:
                guess.pipeline = special

    def _refuse(self, guess: _Guess, why: Reason) -> None:
        with self._lock, sealed:
            guess.pipeline, guess.refused = None, why
            self._note(Specialization.GENERAL_CODE, why)

    def _note(self, what: Specialization, why: Reason) -> None:
        self._decisions.append(SpecializationDecision(what, why))


def _state(guess: _Guess | None) -> str:
    if guess is None:
        return "nothing was run yet"
    if guess.refused is not None:
        return str(guess.refused)
    if guess.pipeline is not None:
        return "special code is there"
    return f"{guess.hits} hit(s), and no special code yet"
