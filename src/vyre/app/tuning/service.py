"""The tuning service of a session: measures on request, and returns pinned or stored choices on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.files import write_files
from vyre.adapters.forks import process_lock
from vyre.app.host_arrays import HostInputs
from vyre.app.lease import BackendLease
from vyre.app.pipeline import Inputs, Pipeline
from vyre.app.resident import ResidentArray
from vyre.app.resident_dispatch import has_resident
from vyre.app.tuning.keys import time_kind, tuning_key
from vyre.app.tuning.launches import TunedLaunch, tuned_launch
from vyre.app.tuning.remembered import told, why_of, winners
from vyre.app.tuning.report import Tuned, TuningReport, TuningSource
from vyre.app.tuning.tuner import DEFAULT_SETTINGS, Lent, Tuner, TuningSettings, Variants, check_tunable
from vyre.domain.arguments import path_of
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.ir.program import Program
from vyre.domain.tuning import Candidate, TuningKey
from vyre.domain.tuning_pins import Pin, Pins, pins_text
from vyre.domain.validation.validator import check_rules, without_calls
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre.app.tuning.sources import TuningSources
    from vyre.policies.journal import DecisionSink
    from vyre.ports.support import Clock, Telemetry

_REMEMBERED: Final = 1024
"""Maximum number of launches whose choice is cached in memory."""


class _Bound(NamedTuple):
    """A program with its inputs' converter; holding the program keeps its id from being reused."""

    program: Program
    inputs: HostInputs


class _Chosen(NamedTuple):
    """A cached choice; holding the program keeps its id from being reused."""

    program: Program
    tuned: Tuned


class TuningService:
    """Tunes the launches of one session.

    ``pipeline``: prepares a program under a config on ``lease``.  Every method may be called from any thread; one
    thread measures at a time.
    """

    def __init__(
        self,
        lease: BackendLease,
        pipeline: Callable[[Program, DispatchConfig], Pipeline],
        sources: TuningSources,
        telemetry: Telemetry,
        decisions: DecisionSink | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._lease, self._pipeline, self._sources, self._telemetry = lease, pipeline, sources, telemetry
        self._decisions = decisions
        self._limits = lease.backend.profile.launch_limits()
        self._measuring = process_lock()
        self._bound: dict[int, _Bound] = {}
        self._chosen: dict[tuple[int, DispatchConfig, tuple[int, ...]], _Chosen] = {}

    def tune(
        self,
        program: Program,
        inputs: Inputs,
        config: DispatchConfig,
        settings: TuningSettings = DEFAULT_SETTINGS,
        variants: Variants = MappingProxyType({}),
    ) -> TuningReport:
        """Implements ``Session.tune``; ``variants`` as for ``Tuner``."""
        hosts = self._inputs(program)
        if self._lease.has_residents and has_resident(inputs):
            raise InvalidInput("a launch on resident memory cannot be tuned", fix="tune it on host data of that size.")
        views = hosts.views(inputs)
        launch = tuned_launch(without_calls(program), tuple(view.nbytes for view in views), config, self._limits)
        with self._measuring, sealed:
            prepare, hosts_of = self._pipeline, self._inputs
            lent = Lent(self._lease.backend, prepare, hosts_of, self._reference, self._decisions, self._clock)
            tuner = Tuner(lent, launch, views, settings, variants)
            pins = self._sources.pins
            pin = None if pins is None else pins.get(tuner.key)
            if pin is not None and launch.why_not(pin.candidate) is None:
                return _report_of_pin(pin, launch)
            report = tuner.tune(self._sources.store())
        self._chosen.clear()
        self._telemetry.count("vyre.tuning.tuned", source=report.source.value, kind=report.kind.value)
        return report

    def tuned(self, program: Program, inputs: Inputs, config: DispatchConfig) -> Tuned:
        """Implements ``Session.tuned``; returns the same object for the same program, config and lengths of inputs."""
        hosts = self._inputs(program)
        if self._lease.has_residents and has_resident(inputs):
            named = zip(hosts.names, hosts.values(inputs), strict=True)
            nbytes = tuple(
                [x.nbytes if isinstance(x, ResidentArray) else hosts.view(name, x).nbytes for name, x in named]
            )
        else:
            nbytes = tuple([view.nbytes for view in hosts.views(inputs)])
        key = id(program), config, nbytes
        chosen = self._chosen.get(key)
        if chosen is None:
            if len(self._chosen) >= _REMEMBERED:
                self._chosen.clear()
            tuned = self._choose(tuned_launch(without_calls(program), nbytes, config, self._limits))
            chosen = self._chosen[key] = _Chosen(program, tuned)
        return chosen.tuned

    def export_pins(self, path: Path | str) -> Pins:
        """Implements ``Session.export_pins``."""
        store = self._sources.store()
        if store is None:
            raise InvalidConfig("nothing is remembered: the cache is turned off", fix="open the session with a cache.")
        pins = winners(store.records())
        write_files({path_of("path", path): pins_text(pins).encode("ascii")})
        return pins

    # ---- choosing
    def _choose(self, launch: TunedLaunch) -> Tuned:
        """Returns the choice: a pin takes precedence over a stored winner, and that over the declared config."""
        try:
            check_tunable(launch.config)
        except InvalidConfig as refusal:
            return Tuned(launch.config, TuningSource.DECLARED, refusal.message)
        key = tuning_key(self._lease.backend, launch)
        obstacles: list[str] = []
        for look in (self._pinned, self._remembered):
            tuned = look(key, launch)
            if isinstance(tuned, Tuned):
                return tuned._replace(why="; ".join([*obstacles, tuned.why]))
            obstacles += [tuned] * bool(tuned)
        return Tuned(launch.config, TuningSource.DECLARED, "; ".join(obstacles))

    def _pinned(self, key: TuningKey, launch: TunedLaunch) -> Tuned | str:
        """Returns the pinned choice, or why there is none; empty without any pins."""
        pins = self._sources.pins
        if pins is None or not len(pins):
            return ""
        pin = pins.get(key)
        obstacle = pins.why_none(key) if pin is None else launch.why_not(pin.candidate)
        if obstacle is not None:
            self._telemetry.event("vyre.tuning.pin_ignored", program=key.program, reason=obstacle)
            return obstacle
        assert pin is not None
        why, config = f"{pin.candidate} is pinned", launch.config_of(pin.candidate)
        return Tuned(config, TuningSource.PIN, why, pin.kind.is_measured, pin.candidate.constants)

    def _remembered(self, key: TuningKey, launch: TunedLaunch) -> Tuned | str:
        """Returns the winner of the latest stored run, or why there is none."""
        store, kind = self._sources.store(), time_kind(self._lease.backend)
        if store is None:
            return "nothing is remembered: the cache is turned off"
        verdict = told(store.get(key), kind)
        if verdict is None:
            return "this launch was not tuned"
        why = why_of(verdict.step, verdict.candidates)
        if verdict.winner is None:
            return why
        obstacle = launch.why_not(verdict.winner)
        if obstacle is not None:
            return f"{verdict.winner} won, but here {obstacle}"
        config, constants = launch.config_of(verdict.winner), verdict.winner.constants
        return Tuned(config, TuningSource.STORE, why, kind.is_measured, constants)

    # ---- details
    def _inputs(self, program: Program) -> HostInputs:
        bound = self._bound.get(id(program))
        if bound is None:
            self._lease.check_open()
            check_rules(program).raise_if_invalid()
            if len(self._bound) >= _REMEMBERED:
                self._bound.clear()
            bound = self._bound[id(program)] = _Bound(program, HostInputs(program))
        return bound.inputs

    @contextmanager
    def _reference(self, program: Program, config: DispatchConfig) -> Iterator[Pipeline]:
        lease = BackendLease(self._sources.reference())
        try:
            yield Pipeline(lease, program, config)
        finally:
            lease.close()


def _report_of_pin(pin: Pin, launch: TunedLaunch) -> TuningReport:
    """Returns the report of a pinned launch, for which nothing is measured."""
    return TuningReport(
        key=pin.key,
        kind=pin.kind,
        source=TuningSource.PIN,
        candidates=(Candidate(launch.declared), pin.candidate),
        samples=((), ()),
        winner=pin.candidate,
        config=launch.config_of(pin.candidate),
        why=f"{pin.candidate} is pinned; open the session without the pin to measure",
    )
