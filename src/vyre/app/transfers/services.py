"""The services of downloads by any layout: packing memory, and what copies and launches cost here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vyre.app.transfers.scratch import Scratch
from vyre.domain.errors import VyreError
from vyre.domain.launch_costs import ASSUMED
from vyre.policies.transfer.packing import PackingThresholds

if TYPE_CHECKING:
    from vyre.app.calibration.service import CalibrationService
    from vyre.app.lease import BackendLease
    from vyre.policies.journal import DecisionSink


class TransferServices:
    """The services that copies of many arrays use; a session makes them with its first such copy."""

    def __init__(
        self, lease: BackendLease, calibration: Callable[[], CalibrationService], decisions: DecisionSink | None
    ) -> None:
        self.lease: BackendLease = lease
        self.decisions: DecisionSink | None = decisions
        self._calibration = calibration
        self.scratch: Scratch = Scratch(lease)
        self._thresholds: PackingThresholds | None = None

    def thresholds(self) -> PackingThresholds:
        """Returns what copies and launches cost here, by measurements where there are any; looked up once."""
        if self._thresholds is None:
            try:
                costs = self._calibration().load()
            except VyreError:
                costs = ASSUMED

            def median(name: str) -> int:
                cost = getattr(costs, name) or getattr(ASSUMED, name)
                return int(cost.median_ns)

            self._thresholds = PackingThresholds(
                copy_ns=median("pinned_latency"),
                gib_ns=median("pinned_per_gib"),
                pack_ns=median("bind") + median("round_trip"),
                launch_ns=median("launch"),
            )
        return self._thresholds
