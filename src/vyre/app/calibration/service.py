"""The calibration service of a session: measures, stores and loads launch costs, and compares them with its dispatches.

Every answer states the origin of its costs: measured here, emulated, or assumed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vyre.adapters.forks import process_lock
from vyre.app.calibration.observed import Observed, kernel_times, merged_kernels, most_telling, observed
from vyre.app.calibration.review import CostReview
from vyre.app.tuning.keys import source_of, time_kind
from vyre.app.views import as_html
from vyre.domain.arguments import expect, whole
from vyre.domain.cost_limits import LEAST_SAMPLES, MAX_AGE_S, MOST_ROUNDS, USUAL_SAMPLES
from vyre.domain.errors import InvalidConfig, UnusableCosts, VyreError
from vyre.domain.frozen import frozen
from vyre.domain.launch_costs import ASSUMED, CostSource, LaunchCosts, Provenance, age_s, check_usable, of_samples
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.cost_observation import CostCorrected, CostSamples, judge_cost
from vyre.ports.backend import Backend, require
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.calibration.experiments import Samples
    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Pipeline
    from vyre.app.preparing import PreparedPipelines
    from vyre.app.tuning.sources import TuningSources
    from vyre.domain.dispatch import DispatchTiming
    from vyre.ports.cost_store import CostStore
    from vyre.ports.support import Clock, Telemetry

WARM_UP: Final = 2
"""Rounds before the first measured one."""


@frozen
class KnownCosts:
    """Launch costs with their origin.

    ``why``: the origin.  ``problem``: why they are only assumed, or were not stored.  ``corrected``: costs that differ
    from those believed before, with the reason of each.
    """

    costs: LaunchCosts
    why: str
    problem: VyreError | None = None
    corrected: tuple[CostCorrected, ...] = ()

    @property
    def provenance(self) -> Provenance | None:
        """The weakest provenance among the costs; only ``MEASURED`` describes a device."""
        return self.costs.provenance

    _repr_html_ = as_html


class CalibrationService:
    """Measures, stores and corrects the launch costs of one session.

    ``store``: where costs are kept; None: nowhere.  ``pipelines``: those whose dispatches are observed, besides the
    timings in ``sequences``.  ``now_s``: seconds since the epoch.

    Every method may be called from any thread; one thread measures at a time.  Costs that were read before another
    thread passed newer ones to the backend are not passed to it afterwards.
    """

    def __init__(
        self,
        lease: BackendLease,
        store: Callable[[], CostStore | None],
        pipelines: Callable[[], Iterable[Pipeline]],
        sequences: Callable[[], Iterable[DispatchTiming]],
        telemetry: Telemetry,
        now_s: Callable[[], int],
        sink: DecisionSink | None = None,
    ) -> None:
        self._lease, self._store, self._pipelines, self._sequences = lease, store, pipelines, sequences
        self._telemetry, self._now_s, self._sink = telemetry, now_s, sink
        self._measuring = process_lock()
        self._lock = process_lock()
        self._taken: LaunchCosts | None = None
        self._handed_over: LaunchCosts | None = None
        self._told: set[tuple[str, str]] = set()

    @property
    def source(self) -> CostSource:
        """The device and driver for which costs measured here are valid."""
        return source_of(self._lease.backend)

    def calibrate(self, rounds: int = USUAL_SAMPLES, warm_up: int = WARM_UP) -> KnownCosts:
        """Implements ``Session.calibrate``."""
        self._lease.check_open()
        fix = f"measure {LEAST_SAMPLES} to {MOST_ROUNDS} rounds."
        rounds = whole("rounds", rounds, LEAST_SAMPLES, MOST_ROUNDS, fix)
        backend = self._lease.backend
        probe = require(backend.cost_probe, feature="measuring launch costs", backend=backend.id)
        from vyre.app.calibration.experiments import take_samples  # imported on use

        with self._measuring, sealed:
            before = self._before()
            samples = take_samples(probe, rounds, warm_up)
            costs = self._costs(samples, before)
            with self._lock, sealed:
                self._taken = costs
                self._plan_with(costs)
            problem = self._keep(costs)
        self._telemetry.count("vyre.costs.calibrated", backend=str(backend.id))
        why = f"{_text(costs.provenance)} now on {costs.source}, in {rounds} rounds"
        if problem is not None:
            why += f"; not kept: {problem.message}"
        return KnownCosts(costs, why, problem, self._changes(samples, before))

    def adopt(self) -> None:
        """Passes stored costs to the backend if they are valid here; without any it keeps assuming."""
        believed = self._handed_over
        try:
            self._hand_over(self.load(), believed)
        except VyreError as error:
            if type(error) is not UnusableCosts:  # missing costs are no problem to report
                self._tell_problem("vyre.costs.assumed", error)

    def load(self, path: Path | None = None, max_age_s: int = MAX_AGE_S) -> LaunchCosts:
        """Returns stored costs, or those of a file; they are valid here and not too old.

        Raises ``UnusableCosts`` where none are stored, ``ForeignCosts``, ``StaleCosts``, ``MalformedJson`` and
        ``UnreadableFile``.
        """
        source = self.source
        if path is not None:
            from vyre.adapters.disk.measurement_stores import costs_of_file

            costs: LaunchCosts | None = costs_of_file(path)
        else:
            costs = self._taken or self._load(source)
        if costs is None:
            raise UnusableCosts(
                f"no launch costs are known of {source}", fix="measure them with session.calibrate() or vyre calibrate."
            )
        check_usable(costs, source, self._now_s(), max_age_s)
        return costs

    def known(self, path: Path | None = None, max_age_s: int = MAX_AGE_S, *, assume: bool = True) -> KnownCosts:
        """Implements ``Session.launch_costs``.

        The backend plans with the answer from now on, except with costs of a file.  If the answer replaces costs that
        cannot be used, the backend gets only the corrected ones, and only if it had no others.
        """
        expect("max_age_s", max_age_s, int, "seconds as an int")
        expect("assume", assume, bool, "True or False")
        believed = self._handed_over
        problem: VyreError | None = None
        try:
            costs = self.load(path, max_age_s)
        except VyreError as error:
            if not assume:
                raise
            costs, problem = ASSUMED, error
            self._tell_problem("vyre.costs.assumed", error)
        pipelines = tuple(self._pipelines())
        costs, corrected = self._observed(costs, pipelines)
        kernels = kernel_times(pipelines, costs.launch_gap, _provenance(self._lease.backend))
        costs = replace(costs, kernels=merged_kernels(kernels, costs, costs.launch_gap))
        why = (
            f"assumed: {problem.message}"
            if problem is not None
            else f"{_text(costs.provenance)} {age_s(costs, self._now_s())} s ago on {costs.source}"
        )
        why += "".join(f"; {verdict.why}" for verdict in corrected)
        if path is None and (problem is None or (corrected and believed is None)):
            self._hand_over(costs, believed)
        return KnownCosts(costs, why, problem, corrected)

    def planning_costs(self) -> LaunchCosts:
        """Returns the costs that the backend plans with: those that were passed to it, else assumed ones."""
        return self._handed_over or ASSUMED

    def planning_review(self) -> CostReview:
        """Passes stored costs to the backend, and returns a review that corrects them by ``review`` as runs are
        reported.
        """
        self.adopt()
        return CostReview(self.review, self._telemetry)

    def review(self) -> None:
        """Corrects the costs that the backend plans with where dispatches of this session refute them.

        Reports nothing about costs that are assumed or unreadable: ``known`` does.
        """
        believed = self._handed_over
        costs, corrected = self._observed(believed or ASSUMED, most_telling(self._pipelines()))
        if corrected:
            self._hand_over(costs, believed)

    # ---- observing
    def _observed(
        self, costs: LaunchCosts, pipelines: Iterable[Pipeline]
    ) -> tuple[LaunchCosts, tuple[CostCorrected, ...]]:
        """Returns the costs as dispatches of these pipelines and sequences correct them, and the corrections."""
        corrected = self._corrected(costs, observed(pipelines, self._sequences()))
        for verdict in corrected:
            self._tell("vyre.costs.corrected", verdict.cost, reason=str(verdict.why), level="info")
        values: dict[str, Any] = {verdict.cost: verdict.value for verdict in corrected}
        return replace(costs, **values), corrected

    def _corrected(self, costs: LaunchCosts, seen: Iterable[Observed]) -> tuple[CostCorrected, ...]:
        """Returns corrections of costs that differ from observations, or exceed a time that contains them."""
        known, provenance = costs.known(), _provenance(self._lease.backend)
        verdicts = [
            decide(self._sink, judge_cost, CostSamples(cost, known.get(cost), times, provenance, bounds))
            for cost, times, bounds in seen
            if times
        ]
        return tuple(verdict for verdict in verdicts if isinstance(verdict, CostCorrected))

    # ---- measuring
    def _costs(self, samples: Samples, before: LaunchCosts | None) -> LaunchCosts:
        """Returns the new measurements; of the older costs only times of kernels that did not run here are kept."""
        provenance = _provenance(self._lease.backend)
        values: dict[str, Any] = {name: of_samples(times, provenance) for name, times in samples.items()}
        costs = LaunchCosts(self.source, self._now_s(), **values)
        new = kernel_times(self._pipelines(), costs.launch_gap, provenance)
        old = before or LaunchCosts(costs.source, 0)
        return replace(costs, kernels=merged_kernels(new, old, costs.launch_gap))

    def _changes(self, samples: Samples, before: LaunchCosts | None) -> tuple[CostCorrected, ...]:
        """Returns corrections of costs that were believed before."""
        if before is None:
            return ()
        seen = [Observed(cost, tuple(samples[cost]), bounds=False) for cost in before.known() if cost in samples]
        return self._corrected(before, seen)

    # ---- keeping
    def _load(self, source: CostSource) -> LaunchCosts | None:
        store = self._store()
        return None if store is None else store.load(source)

    def _before(self) -> LaunchCosts | None:
        """Returns the stored costs; unreadable ones count as none, and will be replaced."""
        try:
            return self._taken or self._load(self.source)
        except VyreError:
            return None

    def _keep(self, costs: LaunchCosts) -> VyreError | None:
        store = self._store()
        if store is None:
            return InvalidConfig("the cache is turned off", fix="open the session with a cache.")
        try:
            store.save(costs)
        except VyreError as error:
            self._tell_problem("vyre.costs.not_kept", error)
            return error
        return None

    def _hand_over(self, costs: LaunchCosts, believed: LaunchCosts | None) -> None:
        """Passes costs to the backend, unless it got others since ``believed`` was read."""
        with self._lock, sealed:
            if self._handed_over is believed:
                self._plan_with(costs)

    def _plan_with(self, costs: LaunchCosts) -> None:
        """Passes the costs to the backend if it plans with costs and has others so far.  Call with the lock held.

        Times of kernels are left out: plans do not use them, and every recorded decision holds its costs.
        """
        planning, costs = self._lease.backend.planning, replace(costs, kernels=())
        if planning is not None and costs != self._handed_over:
            planning.use_costs(costs)
            self._handed_over = costs

    def _tell_problem(self, event: str, error: VyreError) -> None:
        self._tell(event, type(error).__name__, reason=error.message, fix=error.fix)

    def _tell(self, event: str, about: str, *, level: str = "warning", **fields: str) -> None:
        """Emits an event once per subject."""
        with self._lock, sealed:
            if (event, about) in self._told:
                return
            self._told.add((event, about))
        self._telemetry.event(event, level=level, **fields)


def calibration_of(
    lease: BackendLease,
    sources: TuningSources | None,
    prepared: PreparedPipelines,
    sequences: Iterable[DispatchTiming],
    telemetry: Telemetry,
    sink: DecisionSink | None,
    clock: Clock,
) -> CalibrationService:
    """Returns the service of a session, which stores costs beside the results of tuning."""
    return CalibrationService(
        lease,
        (lambda: None) if sources is None else sources.costs,
        lambda: [pipeline for pipeline, _ in tuple(prepared.table.values())],
        lambda: tuple(sequences),
        telemetry,
        lambda: clock.time_ns() // 10**9,
        sink,
    )


def _provenance(backend: Backend) -> Provenance:
    return Provenance.MEASURED if time_kind(backend).is_measured else Provenance.EMULATED


def _text(provenance: Provenance | None) -> str:
    return "nothing" if provenance is None else provenance.value
