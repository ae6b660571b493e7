"""``vyre.open``: a session with the adapters of this process."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from functools import cache as once
from functools import partial
from typing import TYPE_CHECKING, Any

from vyre.adapters.disk.configuration import CacheOption, config_of
from vyre.adapters.telemetry.guarded import decision_sink, expect_methods, session_telemetry
from vyre.app.asynchrony.admission import USUAL_IN_FLIGHT, checked_in_flight
from vyre.app.lease import checked_resident_budget
from vyre.app.selection import AUTO, FORCE_VARIABLE, BackendSelector, Selection
from vyre.app.services import WIRING, Place, Wiring, wired
from vyre.app.session import Session
from vyre.app.tuning.sources import PinsOption, TuningSources, load_pins, reference_of
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig
from vyre.domain.float_mode import in_default_mode
from vyre.domain.host_options import host_options
from vyre.domain.printable import shown
from vyre.ports.backend import BackendCatalog, BackendServices

if TYPE_CHECKING:
    from vyre.app.device_passes.passes import DevicePasses
    from vyre.app.journal import DecisionJournal
    from vyre.app.prediction import PredictionConfig
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
    ``vyre.container.Container`` has a provider for each adapter and argument; while it is applied they are used here.
    Raises ``BackendUnavailable``, ``InvalidConfig`` for an invalid setting, ``UnsupportedFeature`` for threads or
    affinity of a named backend that takes neither, and for pins ``UnreadableFile`` and ``MalformedJson``.
    """
    wiring = WIRING.get()
    if wiring.options:
        return _completed(wiring, locals())
    if journal is not None:
        from vyre.app.journal import DecisionJournal

        if not isinstance(journal, DecisionJournal):
            raise InvalidConfig(f"journal={shown(journal)}", fix="pass a vyre.DecisionJournal().")
    expect("backend", backend, str, "the name of a backend")
    max_in_flight = checked_in_flight(max_in_flight)
    resident_budget = checked_resident_budget(resident_budget)
    expect("catalog", catalog, (BackendCatalog, type(None)), "a BackendCatalog, or None")
    environment = wiring.environment() if environment is None else environment
    expect_methods("environment", environment, "get")
    telemetry = wiring.telemetry() if telemetry is None else telemetry
    clock, profiler = wiring.clock(), wiring.profiler(environment)
    told = session_telemetry(telemetry, clock, profiler)
    expect("optimize", optimize, bool, "True or False")
    if gates != ():
        from vyre.domain.gates import checked_gates  # imported on use

        gates = checked_gates(gates)
    sink = decision_sink(told, journal)
    device_passes = device_passes_for(optimizer)
    place = Place(cache, environment, told, sink, clock)
    config_of(cache)
    services = BackendServices(
        artifacts=once(partial(wiring.artifact_store, place)), telemetry=told, decisions=sink,
        host=host_options(threads, affinity), optimize=optimize, device_passes=device_passes,
        environment=environment, profiler=profiler, now_ns=clock.now_ns,
    )  # fmt: skip
    catalog = wiring.catalog() if catalog is None else catalog
    selection = BackendSelector(catalog, told, environment.get(FORCE_VARIABLE), services).select(backend)
    tuning = TuningSources(
        once(partial(wiring.tuning_store, place)),
        partial(reference_of, catalog, told),
        once(partial(wiring.cost_store, place)),
        load_pins(pins),
        once(partial(wiring.wave_time_store, place)),
        once(partial(wiring.verdict_store, place)),
    )
    own = environment, catalog, telemetry
    wiring = wiring._replace(environment=lambda: own[0], catalog=lambda: own[1], telemetry=lambda: own[2])
    bind_device_passes(device_passes, selection, wiring, cache, threads, affinity)
    if shadow is not None:
        from vyre.app.shadow.opening import with_shadow  # imported on use
        from vyre.app.shadow.service import Clock as ShadowClock

        selection = with_shadow(selection, shadow, catalog, told, ShadowClock(clock.now_ns))
    return Session(selection, told, tuning, predict, journal, max_in_flight, resident_budget, tuple(gates), wiring)


def _completed(wiring: Wiring, arguments: dict[str, Any]) -> Session:
    """Opens a session with the options of a wiring for arguments that are left at their defaults."""
    del arguments["wiring"]
    usual = {"backend": AUTO, **(inspect.unwrap(open).__kwdefaults__ or {})}
    arguments |= {name: value for name, value in wiring.options.items() if arguments[name] is usual[name]}
    with wired(wiring._replace(options={})):
        return open(**arguments)


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
    wiring: Wiring,
    cache: CacheOption,
    threads: int | None,
    affinity: Iterable[int] | None,
) -> None:
    """Lets passes run on a session of their own, opened like that of the selection on first use."""
    if passes is None:
        return
    on_host = any(each.on_host for each in wiring.catalog().registrations if each.id == selection.backend.id)
    threads, affinity = (threads, affinity) if on_host else (None, None)

    def again() -> Session:
        with wired(wiring):
            return open(selection.backend.id, cache=cache, threads=threads, affinity=affinity, optimize=False)

    passes.bind(again)
