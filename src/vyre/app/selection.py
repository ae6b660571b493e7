"""Backend selection: by name, by ``VYRE_BACKEND``, or the best production backend that can run here.

A device of its own is preferred to the processor of this machine.  Every candidate gets a reason.  The reference is
never a silent fallback: it runs when it is named, or when no production backend can run, and then the report and one
warning event say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from vyre.app.views import as_html
from vyre.domain.errors import BackendError, BackendUnavailable, InvalidConfig, UnsupportedFeature
from vyre.domain.frozen import frozen
from vyre.ports.backend import (
    NO_SERVICES,
    Backend,
    BackendCatalog,
    BackendRegistration,
    BackendRole,
    BackendServices,
    DiscoveryFailure,
)
from vyre.ports.support import Telemetry

if TYPE_CHECKING:
    from vyre.app.shadow.service import ShadowService
    from vyre.domain.device import DeviceProfile
    from vyre.policies.devices.backend_ranking import Candidate
    from vyre.policies.launching.plan_execution import ExecutionPlan
    from vyre.ports.artifact_store import ArtifactStore
    from vyre.ports.planning import PlannedExecution

T = TypeVar("T")
AUTO: Final = "auto"
"""The name for which vyre chooses the backend."""
FORCE_VARIABLE: Final = "VYRE_BACKEND"
"""The variable that overrides the choice."""
_FIX: Final = ". Fix: "


@frozen
class CandidateReport:
    """One registered backend, and the reason why it was or was not chosen."""

    id: str
    role: BackendRole
    chosen: bool
    reason: str


@frozen
class SelectionReport:
    """The result of a selection.

    ``str(report)`` has one line per candidate, per plug-in that could not be loaded, and per planned execution.
    ``planned``: the plans that the backend has made in the session so far, oldest first.  ``race_checks``: the backend
    that has run race checks instead of the chosen one, and why; empty if there were none.  ``shadow``: what the shadow
    has found so far; empty without one.
    """

    requested: str
    chosen: str
    reason: str
    candidates: tuple[CandidateReport, ...]
    failures: tuple[DiscoveryFailure, ...] = ()
    planned: tuple[PlannedExecution, ...] = ()
    race_checks: str = ""
    shadow: str = ""

    _repr_html_ = as_html

    def __str__(self) -> str:
        lines = [f"backend `{self.chosen}`: {self.reason}"]
        lines += [f"  {'*' if c.chosen else '-'} {c.id} ({c.role.value}): {c.reason}" for c in self.candidates]
        lines += [f"  ! {failure.entry_point}: {failure.reason}" for failure in self.failures]
        if self.race_checks:
            lines.append(f"  race checks: {self.race_checks}")
        lines += [f"  {line}" for line in self.shadow.splitlines()]
        times = Counter(planned.work for planned in self.planned)
        latest = {planned.work: planned.plan for planned in self.planned}
        lines += [f"  {work}: {_planned(plan, times[work])}" for work, plan in latest.items()]
        return "\n".join(lines)


def _planned(plan: ExecutionPlan, times: int) -> str:
    predicted = "no price" if plan.predicted is None else f"{plan.predicted.total_ns} ns predicted"
    return f"{plan.mode.value}, decided {times} time{'s' * (times > 1)}, {predicted}: {plan.why}"


@frozen
class Selection:
    """A constructed backend with the report on its selection.

    ``services``: those that it was given.  ``race_checker`` makes the backend that runs race checks in its place; None
    if it runs them itself or was asked for by name, so that it says what it does not support.  ``shadow`` samples what
    the backend runs; None: nobody does.
    """

    backend: Backend
    report: SelectionReport
    services: BackendServices = NO_SERVICES
    race_checker: Callable[[], Backend] | None = None
    shadow: ShadowService | None = None

    def code_store(self) -> ArtifactStore | None:
        """Returns the store of compiled code and of verdicts; None for a backend whose code is not stored."""
        return self.services.artifacts() if self.backend.stores_code else None


class BackendSelector:
    """Selects a backend from a catalog.

    ``forced`` is the value of ``VYRE_BACKEND``, which names the backend that ``auto`` takes (empty: unset).
    ``services`` are passed to the backend that is chosen.
    """

    __slots__ = ("_catalog", "_forced", "_services", "_telemetry")

    def __init__(
        self,
        catalog: BackendCatalog,
        telemetry: Telemetry,
        forced: str | None = None,
        services: BackendServices | None = None,
    ) -> None:
        self._catalog = catalog
        self._telemetry = telemetry
        self._services = services or BackendServices(telemetry=telemetry)
        self._forced = (forced or "").strip() or AUTO

    def select(self, name: str = AUTO) -> Selection:
        """Constructs the backend of that name; raises ``BackendUnavailable`` or what its factory raised."""
        if name != AUTO:
            return self._by_name(name, "asked for by name", requested=name)
        if self._forced == AUTO:
            return self._best()
        selection = self._by_name(self._forced, f"forced by {FORCE_VARIABLE}", requested=AUTO)
        if self._role(self._forced) is BackendRole.REFERENCE:
            self._warn(selection.report)
        return selection

    def _role(self, name: str) -> BackendRole | None:
        registration = self._catalog.get(name)
        return None if registration is None else registration.role

    def _by_name(self, name: str, reason: str, *, requested: str) -> Selection:
        registration = self._catalog.get(name)
        if registration is None:
            raise self._unknown(name)
        if requested == name and self._services.host.given and not registration.on_host:
            raise UnsupportedFeature(
                feature="threads= and affinity=", backend=name, fix="leave them out, or open `cpu`."
            )
        if registration.role is BackendRole.EMIT_ONLY:
            raise BackendUnavailable(f"backend `{name}` only emits code, it cannot run programs")
        backend = self._construct(registration)
        reason = _restricted(reason, backend)
        return self._selection(backend, requested, reason, {name: reason})

    def _best(self) -> Selection:
        from vyre.policies.devices.backend_ranking import Candidate, capability_score, rank_candidates
        from vyre.policies.journal import decide

        reasons: dict[str, str] = {}
        candidates: list[Candidate] = []
        for registration in self._catalog.by_precedence():
            if registration.role is BackendRole.PRODUCTION:
                probe: Callable[[], DeviceProfile] = registration.probe
                if self._services.environment is not None and registration.probe_in is not None:
                    probe = partial(registration.probe_in, self._services.environment)
                profile = _attempt(probe, registration.id, reasons)
                if profile is not None:
                    candidates.append(Candidate(registration.id, registration.rank, profile, registration.on_host))
        ranked = decide(self._services.decisions, rank_candidates, candidates)
        makers = {r.id: r.make for r in self._catalog.registrations}
        for place, candidate in enumerate(ranked):
            make = partial(self._ready, makers[candidate.id], candidate)
            backend = _attempt(make, candidate.id, reasons)
            if backend is not None:
                score = capability_score(candidate.profile)
                reason = f"the best production backend that can run here (score {score} of 66)"
                if candidate.on_host:
                    reason = f"the processor of this machine; {_others(reasons)}"
                reason = _restricted(reason, backend)
                for other in ranked[place + 1 :]:
                    reasons[other.id] = f"ranked after `{candidate.id}` ({_against(other, candidate)})"
                selection = self._selection(backend, AUTO, reason, reasons | {candidate.id: reason})
                reference = self._reference()
                checker = None if reference is None else partial(self._construct, reference)
                return replace(selection, race_checker=checker)
        return self._reference_instead(reasons)

    def _ready(self, make: Callable[[BackendServices], Backend], candidate: Candidate) -> Backend:
        """Returns a new backend; one on this machine's processor is prepared, which shows whether it can run at all."""
        backend = make(self._services)
        if candidate.on_host:
            try:
                backend.lifecycle.prepare()
            except BaseException:
                backend.lifecycle.close()
                raise
        return backend

    def _reference_instead(self, reasons: dict[str, str]) -> Selection:
        why = "; ".join(f"`{name}`: {reason}" for name, reason in reasons.items()) or "none is installed"
        reference = self._reference()
        if reference is None:
            raise BackendUnavailable(
                f"no production backend can run here ({why}) and no reference backend is installed",
                fix="run `vyre doctor`, or install a backend for this machine.",
            )
        reason = f"no production backend can run here ({why})"
        selection = self._selection(self._construct(reference), AUTO, reason, reasons | {reference.id: reason})
        self._warn(selection.report)
        return selection

    def _reference(self) -> BackendRegistration | None:
        return next((r for r in self._catalog.by_precedence() if r.role is BackendRole.REFERENCE), None)

    def _selection(self, backend: Backend, requested: str, reason: str, reasons: dict[str, str]) -> Selection:
        reports = tuple(
            CandidateReport(r.id, r.role, r.id == backend.id, reasons.get(r.id) or _not_considered(r, requested))
            for r in self._catalog.by_precedence()
        )
        report = SelectionReport(requested, backend.id, reason, reports, self._catalog.failures)
        return Selection(backend, report, self._services)

    def _construct(self, registration: BackendRegistration) -> Backend:
        try:
            return registration.make(self._services)
        except (BackendError, InvalidConfig):
            raise
        except Exception as error:  # a plug-in may fail in any way
            raise BackendUnavailable(
                f"backend `{registration.id}` could not be constructed ({type(error).__name__}: {error})",
                fix="read the chained exception, then repair or upgrade the package that provides it.",
            ) from error

    def _warn(self, report: SelectionReport) -> None:
        self._telemetry.event(
            "vyre.backend.reference_selected", level="warning", backend=report.chosen, reason=report.reason
        )

    def _unknown(self, name: str) -> BackendUnavailable:
        known = ", ".join(f"`{r.id}`" for r in self._catalog.by_precedence()) or "none"
        broken = "".join(f"; {f.entry_point} could not be loaded: {f.reason}" for f in self._catalog.failures)
        return BackendUnavailable(
            f"there is no backend `{name}` (installed: {known}{broken})",
            fix="choose an installed one, or install the package that provides it.",
        )


def _attempt(call: Callable[[], T], name: str, reasons: dict[str, str]) -> T | None:
    """Returns the result, or None with the reason noted: a failure here removes the candidate and is not raised."""
    try:
        return call()
    except InvalidConfig:  # a setting of the user, who has to mend it
        raise
    except BackendError as error:
        known = error.fix not in ("", error.default_fix)
        reasons[name] = f"{error.message}{_FIX}{error.fix.removesuffix('.')}" if known else error.message
    except Exception as error:  # a plug-in may fail in any way
        reasons[name] = f"{type(error).__name__}: {error}"
    return None


def _restricted(reason: str, backend: Backend) -> str:
    return f"{reason}; {backend.restriction}" if backend.restriction else reason


def _others(reasons: dict[str, str]) -> str:
    """Returns why no other device runs; the report has the remedies where it lists the candidates."""
    failed = "; ".join(f"`{name}`: {reason.partition(_FIX)[0]}" for name, reason in reasons.items())
    return f"no other device can run here ({failed})" if failed else "no backend of another device is installed"


def _against(loser: Candidate, winner: Candidate) -> str:
    from vyre.policies.devices.backend_ranking import capability_score

    if loser.on_host and not winner.on_host:
        return "which has a device of its own"
    mine, theirs = capability_score(loser.profile), capability_score(winner.profile)
    return f"score {mine} against {theirs}" if mine != theirs else f"equal score {mine}, then clocks, bandwidth, rank"


def _not_considered(registration: BackendRegistration, requested: str) -> str:
    if requested != AUTO:
        return f"`{requested}` was asked for by name"
    match registration.role:
        case BackendRole.REFERENCE:
            return "the reference: by name, or when no production backend can run"
        case BackendRole.EMULATION:
            return "a test double: by name only"
        case BackendRole.EMIT_ONLY:
            return "only emits code"
        case BackendRole.PRODUCTION:
            return "not asked for"
