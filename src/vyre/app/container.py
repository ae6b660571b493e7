"""The composition root for applications: a container with one provider per adapter, annotated with its port.

    container = Container()
    container.telemetry.override(providers.Object(RecordingTelemetry()))
    with container.session() as session: ...

Library code never imports this module; ``vyre.open`` builds the same objects by the same functions, without the
container.  Each instance has its own singletons; override on an instance before its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dependency_injector import containers, providers

from vyre.adapters.discovery import load_catalog
from vyre.adapters.disk.configuration import CacheOption
from vyre.adapters.system import ProcessEnvironment
from vyre.adapters.telemetry.application import ApplicationTelemetry
from vyre.adapters.telemetry.decisions import decision_sink
from vyre.adapters.telemetry.guarded import GuardedTelemetry, session_telemetry
from vyre.app import services as services_of
from vyre.app.asynchrony.admission import USUAL_IN_FLIGHT, checked_in_flight
from vyre.app.device_passes.passes import DevicePasses
from vyre.app.journal import DecisionJournal
from vyre.app.lease import checked_resident_budget
from vyre.app.opening import bind_device_passes, device_passes_for
from vyre.app.prediction import PredictionConfig
from vyre.app.selection import AUTO, FORCE_VARIABLE, BackendSelector, Selection
from vyre.app.services import backend_services
from vyre.app.session import Session
from vyre.app.shadow.opening import with_shadow
from vyre.app.shadow.settings import Shadow
from vyre.app.tuning import sources
from vyre.app.tuning.sources import PinsOption, TuningSources, reference_of
from vyre.domain.gates import Gate, checked_gates
from vyre.policies.journal import DecisionSink
from vyre.ports.artifact_store import ArtifactStore
from vyre.ports.backend import Backend, BackendCatalog, BackendServices
from vyre.ports.cost_store import CostStore
from vyre.ports.support import Environment, Telemetry
from vyre.ports.tuning_store import TuningStore
from vyre.ports.verdict_store import VerdictStore
from vyre.ports.wave_time_store import WaveTimeStore


def forced_backend(environment: Environment) -> str | None:
    """Returns the backend that the environment names for ``auto``, or None."""
    return environment.get(FORCE_VARIABLE)


def select(
    selector: BackendSelector,
    name: str,
    shadow: Shadow | None,
    catalog: BackendCatalog,
    telemetry: Telemetry,
    told: Telemetry | Sequence[Telemetry],
    environment: Environment,
    cache: CacheOption,
    threads: int | None,
    affinity: Iterable[int] | None,
    device_passes: DevicePasses | None,
) -> Selection:
    """Returns ``selector.select(name)``, with its shadow and its passes on a device if there are to be any."""
    selection = selector.select(name)
    bind_device_passes(device_passes, selection, catalog, told, environment, cache, threads, affinity)
    return selection if shadow is None else with_shadow(selection, shadow, catalog, telemetry)


class Container(containers.DeclarativeContainer):
    """Providers for a session; overriding one replaces what it provides.

    ``backend_name`` holds ``auto`` or an id, ``telemetry`` one receiver or a list of several; ``cache``, ``pins``,
    ``predict``, ``journal``, ``shadow``, ``gates``, ``threads``, ``affinity``, ``max_in_flight``, ``resident_budget``,
    ``optimize`` and ``optimizer`` hold what ``vyre.open`` takes under these names.
    """

    environment: providers.ThreadSafeSingleton[Environment] = providers.ThreadSafeSingleton(ProcessEnvironment)
    telemetry: providers.ThreadSafeSingleton[Telemetry] = providers.ThreadSafeSingleton(ApplicationTelemetry)
    guarded: providers.ThreadSafeSingleton[GuardedTelemetry] = providers.ThreadSafeSingleton(
        session_telemetry, telemetry, environment
    )
    catalog: providers.ThreadSafeSingleton[BackendCatalog] = providers.ThreadSafeSingleton(load_catalog)
    cache: providers.Object[CacheOption] = providers.Object(None)
    journal: providers.Object[DecisionJournal | None] = providers.Object(None)
    decisions: providers.ThreadSafeSingleton[DecisionSink | None] = providers.ThreadSafeSingleton(
        decision_sink, guarded, journal
    )
    optimize: providers.Object[bool] = providers.Object(True)
    optimizer: providers.Object[str] = providers.Object("host")
    device_passes: providers.ThreadSafeSingleton[DevicePasses | None] = providers.ThreadSafeSingleton(
        device_passes_for, optimizer
    )
    threads: providers.Object[int | None] = providers.Object(None)
    affinity: providers.Object[Iterable[int] | None] = providers.Object(None)
    artifact_store: providers.ThreadSafeSingleton[ArtifactStore | None] = providers.ThreadSafeSingleton(
        services_of.artifact_store, cache, environment, guarded, decisions
    )
    services: providers.ThreadSafeSingleton[BackendServices] = providers.ThreadSafeSingleton(
        backend_services,
        cache,
        environment,
        guarded,
        decisions,
        threads,
        affinity,
        optimize,
        device_passes,
        artifact_store.provider,
    )
    backend_name: providers.Object[str] = providers.Object(AUTO)
    forced: providers.Callable[str | None] = providers.Callable(forced_backend, environment)
    selector: providers.ThreadSafeSingleton[BackendSelector] = providers.ThreadSafeSingleton(
        BackendSelector, catalog, guarded, forced, services
    )
    shadow: providers.Object[Shadow | None] = providers.Object(None)
    selection: providers.Factory[Selection] = providers.Factory(
        select,
        selector,
        backend_name,
        shadow,
        catalog,
        guarded,
        telemetry,
        environment,
        cache,
        threads,
        affinity,
        device_passes,
    )
    pins: providers.Object[PinsOption] = providers.Object(None)
    reference: providers.Factory[Backend] = providers.Factory(reference_of, catalog, guarded)
    tuning_store: providers.ThreadSafeSingleton[TuningStore | None] = providers.ThreadSafeSingleton(
        sources.tuning_store, cache, environment, guarded
    )
    cost_store: providers.ThreadSafeSingleton[CostStore | None] = providers.ThreadSafeSingleton(
        sources.cost_store, cache, environment
    )
    wave_time_store: providers.ThreadSafeSingleton[WaveTimeStore | None] = providers.ThreadSafeSingleton(
        sources.wave_time_store, cache, environment
    )
    verdict_store: providers.ThreadSafeSingleton[VerdictStore | None] = providers.ThreadSafeSingleton(
        sources.verdict_store, cache, environment, guarded
    )
    tuning: providers.ThreadSafeSingleton[TuningSources] = providers.ThreadSafeSingleton(
        sources.tuning_sources,
        pins,
        reference.provider,
        tuning_store.provider,
        cost_store.provider,
        wave_time_store.provider,
        verdict_store.provider,
    )
    predict: providers.Object[bool | PredictionConfig] = providers.Object(False)
    gates: providers.Object[tuple[Gate, ...]] = providers.Object(())
    max_in_flight: providers.Object[int] = providers.Object(USUAL_IN_FLIGHT)
    resident_budget: providers.Object[int | None] = providers.Object(None)
    session: providers.Factory[Session] = providers.Factory(
        Session,
        selection,
        guarded,
        tuning,
        predict,
        journal,
        providers.Callable(checked_in_flight, max_in_flight),
        providers.Callable(checked_resident_budget, resident_budget),
        providers.Callable(checked_gates, gates),
    )
