"""The tuner: measures configs that may replace the declared one, and decides whether one is significantly faster.

The bytes of every candidate are checked against the reference before it may win.  Samples are stored as they were
measured; a pure policy derives the winner from them anew each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from vyre.app.notebooks.progress import progress
from vyre.app.pipeline import Pipeline
from vyre.app.preparing import merged_for
from vyre.app.tuning.keys import time_kind, tuning_key
from vyre.app.tuning.launches import TunedLaunch
from vyre.app.tuning.remembered import step_of, told, why_of
from vyre.app.tuning.report import Rejected, TuningReport, TuningSource
from vyre.app.tuning.timing import WARM_UP, bytes_of, estimated_cost, run_ns
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, DispatchFailed, InvalidConfig, VyreError
from vyre.domain.ir.program import Program
from vyre.domain.record import FloatRange, record
from vyre.domain.tuning import PADDED, Candidate, TimeKind, TuningKey, TuningRecord
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.tuning.successive_halving import DEFAULT_THRESHOLDS, HalvingThresholds, Step
from vyre.policies.tuning.workgroup_candidates import SizeOccupancy, shortlist
from vyre.ports.support import Clock

if TYPE_CHECKING:
    from vyre.app.host_arrays import HostInputs
    from vyre.app.kernels.launches import KernelLaunch
    from vyre.ports.backend import Backend
    from vyre.ports.requests import HostBytes
    from vyre.ports.tuning_store import TuningStore

Variants: TypeAlias = "Mapping[str, Callable[[], KernelLaunch]]"
MOST_CANDIDATES: Final = 64
WRONG_BYTES: Final = "its bytes are not those of the reference"
_NOT_TUNED: Final = ("fixpoint_iterations", "race_check", "profile")
"""Fields of a config under which there is nothing to tune."""


@record
class TuningSettings:
    """Settings of one tuning run.

    ``thresholds``: those of the race.  ``profiles``: whether to try code generation profiles and padded grids too.
    ``budget_s``: seconds of measuring after which no candidate wins; None: no limit.  ``again``: measure even if the
    store has a result.  ``now_ns``: the clock for times on the host.  ``now_s``: seconds since the epoch; None: the
    clock of the session.  ``new_run``: returns a unique name for the run.
    """

    _: KW_ONLY
    thresholds: HalvingThresholds = DEFAULT_THRESHOLDS
    profiles: bool = True
    budget_s: Annotated[float, FloatRange(0.0)] | None = None
    again: bool = False
    now_ns: Callable[[], int] | None = None
    now_s: Callable[[], int] | None = None
    new_run: Callable[[], str] = lambda: os.urandom(16).hex()


DEFAULT_SETTINGS: Final = TuningSettings()


class Lent(NamedTuple):
    """The parts of a session that the tuner uses.

    ``pipeline`` and ``reference`` prepare a program under a config, on the backend and on the reference; the reference
    is open as long as the context.  ``inputs`` returns what converts those of a program.
    """

    backend: Backend
    pipeline: Callable[[Program, DispatchConfig], Pipeline]
    inputs: Callable[[Program], HostInputs]
    reference: Callable[[Program, DispatchConfig], AbstractContextManager[Pipeline]]
    decisions: DecisionSink | None
    clock: Clock


class _Entrant(NamedTuple):
    candidate: Candidate
    pipeline: Pipeline
    views: tuple[HostBytes, ...]


class Tuner:
    """Tunes one launch, once; ``variants`` are launches of its kernel with other constants.

    Raises ``InvalidConfig`` for a config under which there is nothing to tune.
    """

    def __init__(
        self,
        lent: Lent,
        launch: TunedLaunch,
        views: tuple[HostBytes, ...],
        settings: TuningSettings = DEFAULT_SETTINGS,
        variants: Variants = MappingProxyType({}),
    ) -> None:
        check_tunable(launch.config)
        self._variants = variants
        self._lent, self._launch, self._views, self._settings = lent, launch, views, settings
        self._now_ns = settings.now_ns or lent.clock.now_ns
        self._sizes = launch.sizes(lent.decisions)
        self._rejected: list[Rejected] = []
        self.kind: TimeKind = time_kind(lent.backend)
        self.key: TuningKey = tuning_key(lent.backend, launch)

    def tune(self, store: TuningStore | None = None) -> TuningReport:
        """Returns the stored winner, or measures.

        Raises what a dispatch under the given config raises, and ``DispatchFailed`` if its bytes are not those of the
        reference.
        """
        if store is not None and not self._settings.again:
            remembered = self._remembered(store)
            if remembered is not None:
                return remembered
        entrants = self._entrants()
        expected = self._expected(entrants[0])
        right = self._right(entrants, expected)
        samples, step = self._estimated(right) if self.kind is TimeKind.ESTIMATED else self._raced(right)
        candidates = tuple(entrant.candidate for entrant in right)
        winner = candidates[step.winner] if step.winner else None
        if winner is not None and bytes_of(*right[step.winner][1:]) != expected:
            self._rejected.append(Rejected(winner, WRONG_BYTES))
            return self._report(TuningSource.RUN, candidates, samples, None, f"{winner} won, but {WRONG_BYTES}")
        if store is not None and not step.measure:
            store.put(self._records(candidates, samples))
        return self._report(TuningSource.RUN, candidates, samples, winner, self._why(step, candidates))

    # ---- candidates
    def _entrants(self) -> list[_Entrant]:
        """Returns the candidates, the declared config first; those that the backend cannot compile are rejected."""
        usual = Candidate(self._launch.declared)
        entrants = [_Entrant(usual, self._pipeline(usual), self._views)]
        for candidate in self._proposed():
            if len(entrants) == MOST_CANDIDATES:
                self._rejected.append(Rejected(candidate, f"{MOST_CANDIDATES} candidates are enough"))
                continue
            try:
                entrants.append(_Entrant(candidate, self._pipeline(candidate), self._views))
            except BackendError as error:
                self._rejected.append(Rejected(candidate, error.message))
        for constants, launch_of in self._variants.items():
            candidate = Candidate(self._launch.declared, constants)
            try:
                if why := self._launch.why_not(candidate):
                    raise InvalidConfig(why)
                entrants.append(self._varied(constants, launch_of()))
            except VyreError as error:
                self._rejected.append(Rejected(candidate, error.message))
        return entrants

    def _varied(self, constants: str, launch: KernelLaunch) -> _Entrant:
        pipeline = self._lent.pipeline(launch.program, merged_for(launch.program, launch.config, **launch.shorthand))
        candidate = Candidate(launch.program.workgroup_size[0], constants)
        return _Entrant(candidate, pipeline, self._lent.inputs(launch.program).views(launch.inputs))

    def _pipeline(self, candidate: Candidate) -> Pipeline:
        return self._lent.pipeline(self._launch.program, self._launch.config_of(candidate))

    def _proposed(self) -> list[Candidate]:
        """Returns all candidates except the declared one: other sizes first."""
        sizes = self._shortlist()
        profiled = [Candidate(size, profile) for size in sizes for profile in self._profiles(size)]
        return [Candidate(size) for size in sizes if size != self._launch.declared] + profiled

    def _shortlist(self) -> tuple[int, ...]:
        occupancies = tuple(SizeOccupancy(size, self._occupancy_bps(size)) for size in self._sizes.sizes)
        short = decide(self._lent.decisions, shortlist, occupancies)
        for refused in (*self._sizes.refused, *short.refused):
            self._rejected.append(Rejected(Candidate(refused.size), str(refused.why)))
        return short.sizes

    def _occupancy_bps(self, size: int) -> int | None:
        tunable = self._lent.backend.tunable
        if tunable is None:
            return None
        config = self._launch.config_of(Candidate(size))
        try:
            return tunable.occupancy_bps(self._launch.program, config, self._launch.launch_of(config))
        except BackendError:  # reported when it is compiled
            return None

    def _profiles(self, size: int) -> Sequence[str]:
        if not self._settings.profiles:
            return ()
        return (*((PADDED,) if self._launch.pads(size) else ()), *self._generated(size))

    def _generated(self, size: int) -> Sequence[str]:
        tunable = self._lent.backend.tunable
        if tunable is None:
            return ()
        config = self._launch.config_of(Candidate(size))
        try:
            return tunable.profiles(self._launch.program, config, self._launch.launch_of(config))
        except BackendError:
            return ()

    # ---- measuring
    def _expected(self, usual: _Entrant) -> dict[str, bytes]:
        """Returns the reference's bytes.  Approximations may differ between backends: then the given config is the
        reference.
        """
        config = self._launch.config
        if config.ulp_budget:
            return bytes_of(usual.pipeline, self._views)
        with self._lent.reference(self._launch.program, _portable(config)) as pipeline:
            return bytes_of(pipeline, self._views)

    def _right(self, entrants: list[_Entrant], expected: dict[str, bytes]) -> list[_Entrant]:
        """Returns the candidates whose bytes are as expected, after warming them up."""
        right: list[_Entrant] = []
        with progress("checking candidates", len(entrants)) as step:
            for entrant in entrants:
                self._check(entrant, expected, right, is_usual=entrant is entrants[0])
                step("")
        return right

    def _check(self, entrant: _Entrant, expected: dict[str, bytes], right: list[_Entrant], *, is_usual: bool) -> None:
        """Adds a candidate to ``right`` if its bytes are as expected, and else rejects it."""
        try:
            outputs = [bytes_of(entrant.pipeline, entrant.views) for _ in range(WARM_UP)]
        except BackendError as error:
            if is_usual:
                raise
            self._rejected.append(Rejected(entrant.candidate, error.message))
            return
        if all(output == expected for output in outputs):
            right.append(entrant)
        elif is_usual:
            raise DispatchFailed(
                f"under the given config `{self._lent.backend.id}` and the reference give different bytes",
                fix="tune nothing before that is understood; look for data races on `reference`.",
            )
        else:
            self._rejected.append(Rejected(entrant.candidate, WRONG_BYTES))

    def _raced(self, entrants: list[_Entrant]) -> tuple[tuple[tuple[int, ...], ...], Step]:
        """Races the candidates.  If the budget ends it early, the last step still has candidates to measure."""
        samples: list[list[int]] = [[] for _ in entrants]
        started, budget_s = self._now_ns(), self._settings.budget_s
        forwards = True
        with progress("timing candidates", _most_rounds(len(entrants), self._settings.thresholds)) as advance:
            while True:
                times = tuple(map(tuple, samples))
                step = step_of(self.kind, times, self._settings.thresholds, self._lent.decisions)
                if not step.measure or (budget_s is not None and self._now_ns() - started > budget_s * 1_000_000_000):
                    return times, step
                for place in step.measure if forwards else reversed(step.measure):  # alternating the order
                    samples[place].append(run_ns(*entrants[place][1:], self.kind, self._now_ns))
                forwards = not forwards
                advance("")

    def _estimated(self, entrants: list[_Entrant]) -> tuple[tuple[tuple[int, ...], ...], Step]:
        backend = self._lent.backend
        costs = tuple((estimated_cost(entrant.pipeline, entrant.views, backend),) for entrant in entrants)
        return costs, step_of(self.kind, costs, self._settings.thresholds, self._lent.decisions)

    # ---- remembering
    def _records(
        self, candidates: tuple[Candidate, ...], samples: tuple[tuple[int, ...], ...]
    ) -> tuple[TuningRecord, ...]:
        now_s = self._settings.now_s
        run, at_s = self._settings.new_run(), self._lent.clock.time_ns() // 10**9 if now_s is None else now_s()
        wrong = tuple(rejected.candidate for rejected in self._rejected if rejected.reason == WRONG_BYTES)
        rows = [*zip(candidates, samples, strict=True), *((candidate, ()) for candidate in wrong)]
        return tuple(
            TuningRecord(self.key, candidate, self.kind, run, place, len(rows), times, place < len(candidates), at_s)
            for place, (candidate, times) in enumerate(rows)
        )

    def _remembered(self, store: TuningStore) -> TuningReport | None:
        verdict = told(store.get(self.key), self.kind, self._settings.thresholds)
        if verdict is None or (verdict.winner is not None and self._launch.why_not(verdict.winner) is not None):
            return None
        if not self._variants.keys() <= {candidate.profile for candidate in (*verdict.candidates, *verdict.wrong)}:
            return None
        self._rejected += [Rejected(candidate, WRONG_BYTES) for candidate in verdict.wrong]
        why = self._why(verdict.step, verdict.candidates)
        return self._report(TuningSource.STORE, verdict.candidates, verdict.samples, verdict.winner, why)

    # ---- telling
    def _why(self, step: Step, candidates: tuple[Candidate, ...]) -> str:
        if len(candidates) == 1:
            return f"nothing may or can stand in for the declared size: {self._sizes.why}"
        return f"{'the time was up: ' * bool(step.measure)}{why_of(step, candidates)}"

    def _report(
        self,
        source: TuningSource,
        candidates: tuple[Candidate, ...],
        samples: tuple[tuple[int, ...], ...],
        winner: Candidate | None,
        why: str,
    ) -> TuningReport:
        config = self._launch.config if winner is None else self._launch.config_of(winner)
        rejected = tuple(self._rejected)
        return TuningReport(self.key, self.kind, source, candidates, samples, winner, config, why, rejected)


def _most_rounds(candidates: int, thresholds: HalvingThresholds) -> int:
    """Returns how many samples of one candidate are taken at most, for the length of a bar."""
    halvings = (candidates - 1).bit_length()
    rounds: int = sum(thresholds.first_round * thresholds.growth**number for number in range(halvings))
    return rounds + thresholds.final_pairs


def check_tunable(config: DispatchConfig) -> None:
    """Raises ``InvalidConfig`` for a config under which there is nothing to tune."""
    for name in _NOT_TUNED:
        if getattr(config, name):
            raise InvalidConfig(f"a launch with {name} cannot be tuned", fix=f"leave {name} out.")


def _portable(config: DispatchConfig) -> DispatchConfig:
    """Returns the config without the fields that the reference does not use."""
    return replace(config, cooperative=False, timeout_s=None, speculation=None, persistent_thread=None, pad_grid=False)
