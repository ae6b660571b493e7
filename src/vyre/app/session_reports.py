"""``SessionReports`` has the methods that tell about a session: launch costs, journal, predictions, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from vyre.app.session_core import SessionCore
from vyre.app.views import as_html
from vyre.domain.arguments import path_of
from vyre.domain.cost_limits import MAX_AGE_S, USUAL_SAMPLES

if TYPE_CHECKING:
    from vyre.app.calibration.service import KnownCosts
    from vyre.app.evidence.claims import JudgedClaim
    from vyre.app.journal import DecisionJournal
    from vyre.app.pipeline import Inputs
    from vyre.app.prediction import PredictionReport
    from vyre.app.shadow.state import ShadowReport
    from vyre.app.shorthand import Keywords
    from vyre.domain.device import DeviceProfile
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.errors import Event
    from vyre.domain.evidence.records import Evidence
    from vyre.domain.ir.program import ProgramLike
    from vyre.domain.missing import Missing
    from vyre.domain.names import OpId
    from vyre.domain.program_report import Report


class SessionReports(SessionCore):
    """The reports of a session about itself and its device."""

    _repr_html_ = as_html

    @property
    def profile(self) -> DeviceProfile:
        """The features, limits and sizes of the device as the backend uses it; a fact of None is unknown."""
        return self._lease.backend.profile

    @property
    def supported_ops(self) -> frozenset[OpId]:
        """The ids of the operations that the backend runs, such as ``vyre.subgroup_shuffle``."""
        return self._lease.backend.supported_ops

    @property
    def version(self) -> str:
        """The version of the backend."""
        return self._lease.backend.version

    @property
    def device_lost(self) -> bool:
        """Whether the device is lost, so that ``recover`` or a new session is needed; the driver is asked.

        Raises ``InvalidResource`` for a closed session.
        """
        self._lease.check_open()
        return self._lease.backend.lifecycle.device_lost()

    def missing(
        self,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        **shorthand: Unpack[Keywords],
    ) -> tuple[Missing, ...]:
        """Returns what the backend lacks for a program or kernel, with the places that need it; empty if it runs.

        Nothing is compiled: operations, element types, features and limits are compared with ``supported_ops`` and
        ``profile``.  ``inputs`` choose the types of a generic kernel and are else unused; ``config`` and ``shorthand``
        as for ``dispatch``, and a grid that they give is compared with the limits too.

        Raises ``InvalidProgram``, and ``InvalidInput`` and ``InvalidConfig`` for arguments that do not fit.
        """
        from vyre.app.capabilities import missing_on

        with self._lease.within():
            return missing_on(self, program, inputs, config, shorthand)

    def calibrate(self, *, rounds: int = USUAL_SAMPLES) -> KnownCosts:
        """Measures what launches, graphs and copies cost here, and stores it for other sessions.  Takes about a second.

        Costs of operations that the backend lacks stay unknown.  On an emulated device the times are those of the
        emulator and are marked so.  They replace stored costs; times of kernels stay until newer ones are measured.

        Raises ``UnsupportedFeature`` on a backend that measures no costs, ``InvalidConfig`` for fewer than 5 rounds,
        and ``BackendError``.  A failure to store the costs is reported in the result.
        """
        return self._calibration().calibrate(rounds)

    def launch_costs(
        self, path: Path | str | None = None, *, max_age_s: int = MAX_AGE_S, assume: bool = True
    ) -> KnownCosts:
        """Returns what launches cost: stored measurements, else assumed costs, and then the result says why.

        Dispatches of this session correct costs that they refute, and add times of their kernels.  ``path``: a file of
        ``vyre calibrate -o`` to read instead of the store.  ``assume`` False: raise ``UnusableCosts`` for costs that
        are missing, too old or of another device, ``MalformedJson`` and ``UnreadableFile``.
        """
        return self._calibration().known(None if path is None else path_of("path", path), max_age_s, assume=assume)

    @property
    def journal(self) -> DecisionJournal | None:
        """The journal that the session was opened with, or None; it holds the decisions so far."""
        return self._journal

    def write_journal(self, path: Path | str) -> int:
        """Writes the journal to a file for ``vyre explain --replay``; returns how many decisions it holds.

        Raises ``InvalidConfig`` without a journal, and ``UnreadableFile``.
        """
        from vyre.app.explain.journals import write_journal

        self._lease.check_process()
        return write_journal(self._journal, path_of("path", path))

    def write_evidence(
        self,
        path: Path | str,
        program: ProgramLike,
        inputs: Inputs = (),
        config: DispatchConfig | None = None,
        *,
        runs: int = 1,
        **shorthand: Unpack[Keywords],
    ) -> Evidence:
        """Runs ``program`` ``runs`` times and writes what somebody else needs to check the answer; returns its
        manifest.

        The file holds the program, the bytes of inputs and outputs, the times of every run, the decisions in the
        journal, if the session has one, and the backend, device, source revision and versions; every part has a digest.
        ``vyre replay`` and ``vyre.replay_evidence`` run the program again and compare what it comes to.  ``inputs``,
        ``config`` and ``shorthand`` as for ``dispatch``.

        A run that ends in a ``TrapError``, a ``StepBudgetExceeded`` or a ``DataRaceError`` is evidence too: the error
        is recorded instead of outputs (``evidence.run.got.error``), and not raised.  Of resident memory the parts that
        are bound are recorded, as they are before a run and after it; every run begins with the former.

        Raises every other error of ``dispatch``, ``InvalidInput`` for runs that come to different bytes or errors and
        for more bytes than a bundle holds, ``InvalidConfig`` for ``runs`` outside 1 to 10 000, and ``UnreadableFile``.
        """
        from vyre.app.evidence.recording import record_run

        pipeline, converted, _ = self._compiled_launch(program, inputs, config, shorthand)
        with self._lease.within():
            return record_run(path, pipeline, converted, runs, self._journal)

    def write_claim(
        self,
        path: Path | str,
        name: str,
        samples: Mapping[str, Sequence[float]],
        *,
        faster: str,
        slower: str,
        factor: float = 1.0,
    ) -> JudgedClaim:
        """Writes two sides' times on this session's device, and the claim that ``slower`` takes at least ``factor``
        times as long as ``faster`` if they support it; returns the verdict, whose text is a sentence.

        ``samples`` has the seconds of both sides by name, one of each round, in which they were measured in turn by
        this process.  ``name`` says what was measured.  ``vyre replay`` judges the claim again.

        Raises ``InvalidInput`` and ``InvalidConfig`` for other arguments, and ``UnreadableFile``.
        """
        from vyre.app.evidence.measuring import write_claim

        self._lease.check_open()
        with self._lease.within():
            return write_claim(path, self._lease.backend, name, samples, faster, slower, factor)

    def predictions(self) -> PredictionReport:
        """Returns the counts of predictions, of preparations ahead and of their use, and the last decisions.  ``print``
        it.

        Predictions start only after a known shape had to be prepared again: until then all known shapes are still
        prepared.
        """
        from vyre.app.prediction import OFF

        self._lease.check_process()
        return OFF if self._observer is None else self._observer.report()

    def shadow(self, *, wait_s: float = 0.0) -> ShadowReport | None:
        """Returns the counts of what the shadow of the session did, and the programs in quarantine; None without one.

        Waits for pending samples for at most ``wait_s`` seconds.  Raises ``InvalidConfig`` for what is no duration.
        """
        from vyre.app.persistent.tickets import checked_timeout

        seconds = checked_timeout(wait_s, "wait_s")
        self._lease.check_process()
        service = self._selection.shadow
        return None if service is None else service.report(seconds)

    def metrics(self) -> Mapping[str, int]:
        """Returns the backend's counters since the session was opened, by name; empty if it counts nothing."""
        self._lease.check_process()
        source = self._lease.backend.metric_source
        return {} if source is None else source.metrics()

    def metrics_text(self) -> str:
        """Returns a page of metrics in the text format of Prometheus: every ``PrometheusTelemetry`` of the session, the
        counters of the backend (``vyre_backend_...``) and the failures.

        Dispatches, their times and bytes are in it only for a session that was opened with such a telemetry.
        """
        from vyre.adapters.telemetry.prometheus import PrometheusTelemetry, backend_text  # imported on use

        backend, telemetry = str(self._lease.backend.id), self._telemetry
        pages = [each.text() for each in telemetry.inner if isinstance(each, PrometheusTelemetry)]
        return "".join(pages) + backend_text(backend, self.metrics(), {} if pages else telemetry.failures)

    def recent(self) -> tuple[Event, ...]:
        """Returns the last 256 events of the session, oldest first: what it opened, prepared and closed, fallbacks, and
        failures.  An error has the last 16 as its attribute ``recent``.

        For more of them pass a ``vyre.RecentEvents`` as telemetry.
        """
        return self._telemetry.recent()

    def validate(self, program: ProgramLike) -> Report:
        """Returns every diagnostic of the program, and its lints; the same as ``vyre.validate``."""
        from vyre.domain.validation.validator import validate

        return validate(program)
