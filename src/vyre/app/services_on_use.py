"""The services of a session that are made, and whose modules are imported, when they are first used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.adapters.forks import process_lock
from vyre.domain.errors import UnsupportedFeature
from vyre.ports.interrupts import sealed
from vyre.ports.requests import SequenceSubmission

if TYPE_CHECKING:
    from vyre.app.calibration.review import CostReview
    from vyre.app.calibration.service import CalibrationService
    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Pipeline
    from vyre.app.preparing import PreparedPipelines
    from vyre.app.tuning.service import TuningService
    from vyre.app.tuning.sources import TuningSources
    from vyre.domain.dispatch import DispatchConfig, DispatchTiming
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import DecisionSink
    from vyre.ports.support import Telemetry


class ServicesOnUse:
    """Calibration and tuning of one session; every method may be called from any thread."""

    def __init__(
        self,
        lease: BackendLease,
        prepare: Callable[[Program, DispatchConfig], Pipeline],
        sources: TuningSources | None,
        pipelines: PreparedPipelines,
        timings: deque[DispatchTiming],
        telemetry: Telemetry,
        decisions: DecisionSink | None,
    ) -> None:
        self._lease, self._prepare, self._sources, self._pipelines = lease, prepare, sources, pipelines
        self._timings, self._telemetry, self._decisions = timings, telemetry, decisions
        self._tuning: TuningService | None = None
        self._calibration: CalibrationService | None = None
        self._adopts = False
        self.lock: Final = process_lock()

    def calibration(self) -> CalibrationService:
        """Returns the service that measures and keeps costs.  Raises ``DispatchFailed`` in a forked child."""
        self._lease.check_process()
        with self.lock, sealed:
            if self._calibration is None:
                from vyre.app.calibration.service import calibration_of

                self._calibration = calibration_of(
                    self._lease, self._sources, self._pipelines, self._timings, self._telemetry, self._decisions
                )
                if self._adopts:
                    self._calibration.adopt()
            return self._calibration

    def planning_review(self) -> CostReview:
        """Returns the review of the costs that the backend plans with; it passes stored costs to the backend.

        Where costs choose no way to submit a sequence, the review reads them, or whoever first asks for the service.
        """
        if self._calibration is None and self._lease.backend.submission is SequenceSubmission.LIST:
            from vyre.app.calibration.review import CostReview

            self._adopts = True
            return CostReview(lambda: self.calibration().review(), self._telemetry)
        return self.calibration().planning_review()

    def tuning(self) -> TuningService:
        """Returns the service that tunes.  Raises ``UnsupportedFeature`` for a session without sources of tuning."""
        self._lease.check_process()
        if self._sources is None:
            raise UnsupportedFeature(
                feature="tuning", backend=self._lease.backend.id, fix="make the session with vyre.open()."
            )
        with self.lock, sealed:
            if self._tuning is None:
                from vyre.app.tuning.service import TuningService

                self._tuning = TuningService(
                    self._lease, self._prepare, self._sources, self._telemetry, self._decisions
                )
            return self._tuning
