"""The composition root for applications: a container with one provider per adapter, annotated with its port.

    container = Container()
    container.telemetry.override(providers.Object(RecordingTelemetry()))
    with container.session() as session: ...

Library code never imports this module; ``vyre.open`` builds the same objects without the container.  Each instance has
its own singletons; override on an instance before its first use.
"""

from __future__ import annotations

from collections.abc import Iterable

from dependency_injector import containers, providers

from vyre.adapters.discovery import load_catalog
from vyre.adapters.disk.configuration import CacheOption
from vyre.adapters.system import ProcessEnvironment
from vyre.adapters.telemetry.application import ApplicationTelemetry
from vyre.adapters.telemetry.decisions import CountedDecisions
from vyre.adapters.telemetry.guarded import GuardedTelemetry, session_telemetry
from vyre.app.journal import DecisionJournal
from vyre.app.prediction import PredictionConfig
from vyre.app.selection import AUTO, FORCE_VARIABLE, BackendSelector, Selection
from vyre.app.services import backend_services
from vyre.app.session import Session
from vyre.app.shadow.opening import with_shadow
from vyre.app.shadow.settings import Shadow
from vyre.app.tuning.sources import PinsOption, TuningSources, reference_of, tuning_sources
from vyre.domain.gates import Gate
from vyre.ports.backend import Backend, BackendCatalog, BackendServices
from vyre.ports.support import Environment, Telemetry


def forced_backend(environment: Environment) -> str | None:
    """Returns the backend that the environment names for ``auto``, or None."""
    return environment.get(FORCE_VARIABLE)


def select(
    selector: BackendSelector, name: str, shadow: Shadow | None, catalog: BackendCatalog, telemetry: Telemetry
) -> Selection:
    """Returns ``selector.select(name)``, with its shadow if there is to be one; a provider needs a function."""
    selection = selector.select(name)
    return selection if shadow is None else with_shadow(selection, shadow, catalog, telemetry)


class Container(containers.DeclarativeContainer):
    """Providers for a session; overriding one replaces what it provides.

    ``backend_name`` holds ``auto`` or an id; ``cache``, ``pins``, ``predict``, ``journal``, ``shadow``,
    ``gates``, ``threads`` and ``affinity`` hold what ``vyre.open`` takes under these names.
    """

    environment: providers.ThreadSafeSingleton[Environment] = providers.ThreadSafeSingleton(ProcessEnvironment)
    telemetry: providers.ThreadSafeSingleton[Telemetry] = providers.ThreadSafeSingleton(ApplicationTelemetry)
    guarded: providers.ThreadSafeSingleton[GuardedTelemetry] = providers.ThreadSafeSingleton(
        session_telemetry, telemetry, environment
    )
    catalog: providers.ThreadSafeSingleton[BackendCatalog] = providers.ThreadSafeSingleton(load_catalog)
    cache: providers.Object[CacheOption] = providers.Object(None)
    journal: providers.Object[DecisionJournal | None] = providers.Object(None)
    decisions: providers.ThreadSafeSingleton[CountedDecisions] = providers.ThreadSafeSingleton(
        CountedDecisions, guarded, journal
    )
    threads: providers.Object[int | None] = providers.Object(None)
    affinity: providers.Object[Iterable[int] | None] = providers.Object(None)
    services: providers.ThreadSafeSingleton[BackendServices] = providers.ThreadSafeSingleton(
        backend_services, cache, environment, guarded, decisions, threads, affinity
    )
    backend_name: providers.Object[str] = providers.Object(AUTO)
    forced: providers.Callable[str | None] = providers.Callable(forced_backend, environment)
    selector: providers.ThreadSafeSingleton[BackendSelector] = providers.ThreadSafeSingleton(
        BackendSelector, catalog, guarded, forced, services
    )
    shadow: providers.Object[Shadow | None] = providers.Object(None)
    selection: providers.Factory[Selection] = providers.Factory(
        select, selector, backend_name, shadow, catalog, guarded
    )
    pins: providers.Object[PinsOption] = providers.Object(None)
    reference: providers.Factory[Backend] = providers.Factory(reference_of, catalog, guarded)
    tuning: providers.ThreadSafeSingleton[TuningSources] = providers.ThreadSafeSingleton(
        tuning_sources, cache, pins, environment, guarded, reference.provider
    )
    predict: providers.Object[bool | PredictionConfig] = providers.Object(False)
    gates: providers.Object[tuple[Gate, ...]] = providers.Object(())
    session: providers.Factory[Session] = providers.Factory(
        Session, selection, guarded, tuning, predict, journal, gates=gates
    )
