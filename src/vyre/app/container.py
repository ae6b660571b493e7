"""The composition root for applications: a container with one provider per adapter, annotated with its port.

    container = Container()
    container.telemetry.override(providers.Object(RecordingTelemetry()))
    with container.session() as session: ...
    with container.applied(): ...  # vyre.open, kernels and the command line use it, too

``vyre.open`` and the command line use the same wiring (``vyre.app.services.Wiring``), of which a container replaces
parts; library code never imports this module.  Each instance has its own singletons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from dependency_injector import containers, providers

from vyre.adapters.discovery import load_catalog
from vyre.adapters.disk.configuration import CacheOption
from vyre.adapters.system import ProcessEnvironment, SystemClock
from vyre.adapters.telemetry.application import ApplicationTelemetry
from vyre.app import services
from vyre.app.asynchrony.admission import USUAL_IN_FLIGHT
from vyre.app.dialects.registry import DialectRegistry
from vyre.app.journal import DecisionJournal
from vyre.app.kernels.current_session import DefaultSession
from vyre.app.opening import open as open_session
from vyre.app.prediction import PredictionConfig
from vyre.app.selection import AUTO
from vyre.app.services import Wiring, wired
from vyre.app.session import Session
from vyre.app.shadow.settings import Shadow
from vyre.app.tuning.sources import PinsOption
from vyre.domain.gates import Gate
from vyre.ports.artifact_store import ArtifactStore
from vyre.ports.backend import BackendCatalog
from vyre.ports.cost_store import CostStore
from vyre.ports.provenance import SourceRepository
from vyre.ports.support import Clock, Environment, Profiler, Telemetry
from vyre.ports.tuning_store import TuningStore
from vyre.ports.verdict_store import VerdictStore
from vyre.ports.wave_time_store import WaveTimeStore

ADAPTERS: Final = ("environment", "clock", "telemetry", "catalog", "source_repository")
"""Providers that take the place of a function of the wiring, whether they are overridden or not."""
MADE: Final = (
    "profiler", "dialect_registry",
    "artifact_store", "tuning_store", "cost_store", "wave_time_store", "verdict_store",
)  # fmt: skip
"""Providers that are called with the environment, or the ``Place``, of each session, unless they are overridden."""


def wiring_of(container: containers.Container) -> Wiring:
    """Returns the wiring whose adapters and options are those of a container."""
    known: Mapping[str, Any] = container.providers
    adapters: dict[str, Any] = {name: known[name] for name in ADAPTERS}
    adapters |= {name: lambda _, provider=known[name]: provider() for name in MADE if known[name].overridden}
    options = {name: provider() for name, provider in known.items() if isinstance(provider, providers.Object)}
    options["backend"] = options.pop("backend_name")
    return Wiring(**adapters, options=options)


def session_of(container: containers.Container) -> Session:
    """Opens a session, as ``vyre.open`` does while the container is applied."""
    with wired(wiring_of(container)):
        return open_session()


@contextmanager
def applied(container: containers.Container) -> Iterator[None]:
    """Has ``vyre.open``, kernels that are called outside of a session, and the command line use the container."""
    usual = DefaultSession()
    try:
        with wired(wiring_of(container)._replace(kernels=usual.get)):
            yield
    finally:
        usual.close()


class Container(containers.DeclarativeContainer):
    """Providers for a session; overriding one replaces what it provides, wherever it is used.

    ``session()`` opens a session; within ``with container.applied():`` ``vyre.open``, called kernels and the command
    line (``vyre.container.main``) use the providers, too.  ``backend_name`` holds ``auto`` or an id, ``telemetry`` one
    receiver or a list of several; ``cache``, ``pins``, ``predict``, ``journal``, ``shadow``, ``gates``, ``threads``,
    ``affinity``, ``max_in_flight``, ``resident_budget``, ``optimize`` and ``optimizer`` hold what ``vyre.open`` takes
    under these names, and stand for the arguments of a call that are left at their defaults.  ``catalog`` discovers
    the backends.  ``clock`` tells the times of events, entries, evidence, results, metrics and the tuner, and when a
    time limit is over, but on ``cpu``, where machine code keeps the limits.
    """

    __self__ = providers.Self()
    environment: providers.ThreadSafeSingleton[Environment] = providers.ThreadSafeSingleton(ProcessEnvironment)
    clock: providers.ThreadSafeSingleton[Clock] = providers.ThreadSafeSingleton(SystemClock)
    telemetry: providers.ThreadSafeSingleton[Telemetry] = providers.ThreadSafeSingleton(ApplicationTelemetry)
    catalog: providers.ThreadSafeSingleton[BackendCatalog] = providers.ThreadSafeSingleton(load_catalog)
    source_repository: providers.ThreadSafeSingleton[SourceRepository] = providers.ThreadSafeSingleton(
        services.source_repository
    )
    profiler: providers.Factory[Profiler | None] = providers.Factory(services.profiler_of)
    dialect_registry: providers.Factory[DialectRegistry] = providers.Factory(services.registry_of)
    cache: providers.Object[CacheOption] = providers.Object(None)
    artifact_store: providers.Factory[ArtifactStore | None] = providers.Factory(services.artifact_store)
    tuning_store: providers.Factory[TuningStore | None] = providers.Factory(services.tuning_store)
    cost_store: providers.Factory[CostStore | None] = providers.Factory(services.cost_store)
    wave_time_store: providers.Factory[WaveTimeStore | None] = providers.Factory(services.wave_time_store)
    verdict_store: providers.Factory[VerdictStore | None] = providers.Factory(services.verdict_store)
    backend_name: providers.Object[str] = providers.Object(AUTO)
    pins: providers.Object[PinsOption] = providers.Object(None)
    predict: providers.Object[bool | PredictionConfig] = providers.Object(False)
    journal: providers.Object[DecisionJournal | None] = providers.Object(None)
    threads: providers.Object[int | None] = providers.Object(None)
    affinity: providers.Object[Iterable[int] | None] = providers.Object(None)
    max_in_flight: providers.Object[int] = providers.Object(USUAL_IN_FLIGHT)
    resident_budget: providers.Object[int | None] = providers.Object(None)
    optimize: providers.Object[bool] = providers.Object(True)
    optimizer: providers.Object[str] = providers.Object("host")
    shadow: providers.Object[Shadow | None] = providers.Object(None)
    gates: providers.Object[tuple[Gate, ...]] = providers.Object(())
    session: providers.Factory[Session] = providers.Factory(session_of, __self__)
    applied: providers.Factory[AbstractContextManager[None]] = providers.Factory(applied, __self__)
