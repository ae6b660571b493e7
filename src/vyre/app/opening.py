"""``vyre.open``: a session with the adapters of this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from vyre.adapters.discovery import load_catalog
from vyre.adapters.disk.configuration import CacheOption
from vyre.adapters.system import ProcessEnvironment
from vyre.adapters.telemetry.decisions import decision_sink
from vyre.adapters.telemetry.guarded import expect_methods, session_telemetry
from vyre.app.asynchrony.admission import USUAL_IN_FLIGHT, checked_in_flight
from vyre.app.lease import checked_resident_budget
from vyre.app.selection import AUTO, FORCE_VARIABLE, BackendSelector
from vyre.app.services import backend_services
from vyre.app.session import Session
from vyre.app.tuning.sources import (
    PinsOption,
    cost_store,
    reference_of,
    tuning_sources,
    tuning_store,
    verdict_store,
    wave_time_store,
)
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig
from vyre.domain.float_mode import in_default_mode
from vyre.domain.printable import shown
from vyre.ports.backend import BackendCatalog

if TYPE_CHECKING:
    from vyre.app.device_passes.passes import DevicePasses
    from vyre.app.journal import DecisionJournal
    from vyre.app.prediction import PredictionConfig
    from vyre.app.selection import Selection
    from vyre.app.shadow.settings import Shadow
    from vyre.domain.gates import Gate
    from vyre.ports.support import Environment, Telemetry


@in_default_mode
def open(
    backend: str = AUTO,
    *,
    catalog: BackendCatalog | None = None,
    telemetry: Telemetry | Sequence[Telemetry] | None = None,
    environment: Environment | None = None,
    cache: CacheOption = None,
    pins: PinsOption = None,
    predict: bool | PredictionConfig = False,
    journal: DecisionJournal | None = None,
    threads: int | None = None,
    affinity: Iterable[int] | None = None,
    max_in_flight: int = USUAL_IN_FLIGHT,
    resident_budget: int | None = None,
    optimize: bool = True,
    optimizer: str = "host",
    shadow: Shadow | None = None,
    gates: Iterable[Gate] = (),
) -> Session:
    """Opens a session on the named backend, or on the best one that can run here (``auto``).

    ``auto`` takes a device of its own such as ``cuda``, else the processor of this machine (``cpu``), else
    ``reference``, and ``Session.explain()`` says why; for ``reference`` one warning event says so, too.
    ``VYRE_BACKEND`` names the backend that ``auto`` takes.  ``cache``: where compiled code and results of tuning are
    stored for other processes: a directory, a ``CacheConfig``, False for nowhere, or None for the setting of the
    environment.  ``pins``: winners of the tuner, or the file that holds them.  ``predict``: whether to prepare evicted
    shapes in the background before they are dispatched again; see ``Session.predictions``.  ``journal`` records
    decisions for replay; see ``Session.write_journal``.  ``threads`` and ``affinity``: how many threads take part in a
    launch of ``cpu`` at most, and the numbers of the CPUs on which they run; None: ``VYRE_CPU_THREADS`` and
    ``VYRE_CPU_AFFINITY``, else as many as the process may use.  ``max_in_flight``: how many submitted dispatches may be
    under way at once, 1 to 2^20.  ``resident_budget``: the most bytes of device memory that resident arrays, queries,
    queues and sequences of the session may take at once; arrays of its resident caches move to the host where others
    need room.  None: as many as the device has.  ``optimize``: whether the optimizer may prepare programs where that
    pays; no result depends on it.  ``optimizer``: where its passes run, on the ``"host"``, or, as far as there are
    kernels of them, on the ``"device"`` of the session.  ``shadow``: the calls that run again on another backend, whose
    bytes are compared (``vyre.Shadow``); None: none.  ``gates``: functions that every program must pass before it is
    compiled (``vyre.gates``).  ``catalog``, ``telemetry`` and ``environment`` replace the adapters of this process;
    ``telemetry`` may be several, such as ``[vyre.StructlogTelemetry(), vyre.PrometheusTelemetry()]``.
    ``vyre.app.container.Container`` wires the same parts for applications.
    Raises ``BackendUnavailable``, ``InvalidConfig`` for an invalid setting, ``UnsupportedFeature`` for threads or
    affinity of a named backend that takes neither, and for pins ``UnreadableFile`` and ``MalformedJson``.
    """
    if journal is not None:
        from vyre.app.journal import DecisionJournal

        if not isinstance(journal, DecisionJournal):
            raise InvalidConfig(f"journal={shown(journal)}", fix="pass a vyre.DecisionJournal().")
    expect("backend", backend, str, "the name of a backend")
    max_in_flight = checked_in_flight(max_in_flight)
    resident_budget = checked_resident_budget(resident_budget)
    expect("catalog", catalog, (BackendCatalog, type(None)), "a BackendCatalog, or None")
    environment = ProcessEnvironment() if environment is None else environment
    expect_methods("environment", environment, "get")
    told = session_telemetry(telemetry, environment)
    expect("optimize", optimize, bool, "True or False")
    if gates != ():
        from vyre.domain.gates import checked_gates  # imported on use

        gates = checked_gates(gates)
    sink = decision_sink(told, journal)
    device_passes = device_passes_for(optimizer)
    services = backend_services(cache, environment, told, sink, threads, affinity, optimize, device_passes)
    forced = environment.get(FORCE_VARIABLE)
    catalog = catalog if catalog is not None else load_catalog()
    selector = BackendSelector(catalog, told, forced, services)
    tuning = tuning_sources(
        pins,
        partial(reference_of, catalog, told),
        partial(tuning_store, cache, environment, told),
        partial(cost_store, cache, environment),
        partial(wave_time_store, cache, environment),
        partial(verdict_store, cache, environment, told),
    )
    selection = selector.select(backend)
    bind_device_passes(device_passes, selection, catalog, telemetry, environment, cache, threads, affinity)
    if shadow is not None:
        from vyre.app.shadow.opening import with_shadow  # imported on use

        selection = with_shadow(selection, shadow, catalog, told)
    return Session(selection, told, tuning, predict, journal, max_in_flight, resident_budget, tuple(gates))


def device_passes_for(optimizer: str) -> DevicePasses | None:
    """Returns what runs passes of the optimizer on a device, None for ``host``.  Raises ``InvalidConfig``."""
    if optimizer == "host":
        return None
    from vyre.app.device_passes.passes import DevicePasses  # imported on use
    from vyre.app.device_passes.placement import check_place

    check_place(optimizer)
    return DevicePasses()


def bind_device_passes(
    passes: DevicePasses | None,
    selection: Selection,
    catalog: BackendCatalog,
    telemetry: Telemetry | Sequence[Telemetry] | None,
    environment: Environment,
    cache: CacheOption,
    threads: int | None,
    affinity: Iterable[int] | None,
) -> None:
    """Lets passes run on a session of their own, opened like that of the selection on first use."""
    if passes is None:
        return
    on_host = any(each.on_host for each in catalog.registrations if each.id == selection.backend.id)
    again = partial(
        open,
        selection.backend.id,
        catalog=catalog,
        telemetry=telemetry,
        environment=environment,
        cache=cache,
        threads=threads if on_host else None,
        affinity=affinity if on_host else None,
        optimize=False,
    )
    passes.bind(again)
