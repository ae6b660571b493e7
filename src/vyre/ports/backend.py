"""The backend port: a backend is *data*, a frozen record of small facets.

A facet that is ``None`` is the one way to say "not supported"; nothing degrades silently.  A decorator (recording,
fault injection, tracing) replaces single facets with ``dataclasses.replace`` and keeps all others.  Facets are
protocols: an adapter needs no base class of vyre.

Rules for every facet
    * Re-entrant and thread-safe.  An ``OutputStorage`` belongs to one call at a time.
    * Programs that a facet receives have passed validation.  Arity and byte lengths of inputs have not been
      checked: the adapter does so (``vyre.domain.binding``) and raises ``InvalidInput``.
    * A config field that is set and cannot be honoured raises ``UnsupportedFeature``.
    * Same program, input bytes and config: same bytes, on every backend.
    * Only ``BackendError``, its subclasses and, for a config that does not fit, ``InvalidConfig`` leave a facet.

Binding order
    Everything positional follows ascending binding number.  *Inputs*: buffers with ``takes_input``.
    *Outputs*: buffers with ``is_returned``.  *Resources*: all buffers except workgroup memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from vyre.domain.device import DeviceProfile, EngineKind
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.float_mode import in_default_mode
from vyre.domain.frozen import frozen
from vyre.domain.host_options import NO_HOST_OPTIONS, HostOptions
from vyre.domain.names import BackendId, OpId
from vyre.ports.requests import SequenceSubmission
from vyre.ports.support import SILENT, Environment, Profiler, Telemetry

if TYPE_CHECKING:
    from vyre.policies.journal import DecisionSink
    from vyre.ports.artifact_store import ArtifactStore
    from vyre.ports.bundles import BundleSupport
    from vyre.ports.cost_probe import CostProbe
    from vyre.ports.device_passes import DevicePassesOf
    from vyre.ports.emission import CodeEmission
    from vyre.ports.execution import (
        AsyncExecutor,
        ForeignMemory,
        LoopSupport,
        MetricSource,
        PipelineCompiler,
        ProgramExecutor,
        ResidentBinder,
        ResidentExecutor,
        ResidentMemory,
    )
    from vyre.ports.gathering import GatheredReads
    from vyre.ports.lifecycle import DeviceLifecycle
    from vyre.ports.persistent import PersistentExecutor, PersistentSteps
    from vyre.ports.planning import ExecutionPlanning
    from vyre.ports.tunable import Tunable

PORT_API_VERSION: Final = 12
FacetT = TypeVar("FacetT")


def _usual_ops() -> frozenset[OpId]:
    from vyre.domain.op_ids import USUAL_OPS  # imports the language of programs, which registrations do not need

    return USUAL_OPS


@frozen(kw_only=True)
class Backend:
    """A backend: its identity and its facets.

    ``version`` is that of the adapter's package, which certificates and cache keys contain.  ``stores_code``: compiled
    code is written to the store in ``BackendServices``, so that opening it is worthwhile.  ``restriction`` is what the
    report about the selection adds to its reason, such as that only stored code runs.  ``submission`` is how
    ``resident_executor`` submits a sequence.  ``optimizes``: the kind of engine for which the optimizer prepares its
    programs; None if all run as they are written.  ``toolchain`` returns the versions of the backend and of
    everything that makes running code of its programs, to which verdicts on lowerings are bound; an empty text stands
    for ``version`` alone.  ``opens_on_use``: whether the first use prepares the backend, so that a session
    that names it need not.
    """

    id: BackendId
    profile: DeviceProfile
    executor: ProgramExecutor
    lifecycle: DeviceLifecycle
    version: str = "unspecified"
    supported_ops: frozenset[OpId] = field(default_factory=_usual_ops)
    compiler: PipelineCompiler | None = None
    memory: ResidentMemory | None = None
    foreign_memory: ForeignMemory | None = None
    gathering: GatheredReads | None = None
    resident_executor: ResidentExecutor | None = None
    resident_binder: ResidentBinder | None = None
    loops: LoopSupport | None = None
    async_executor: AsyncExecutor | None = None
    metric_source: MetricSource | None = None
    tunable: Tunable | None = None
    cost_probe: CostProbe | None = None
    planning: ExecutionPlanning | None = None
    persistent: PersistentExecutor | None = None
    persistent_steps: PersistentSteps | None = None
    stores_code: bool = False
    restriction: str = ""
    submission: SequenceSubmission = SequenceSubmission.EACH
    optimizes: EngineKind | None = None
    toolchain: Callable[[], str] = str
    opens_on_use: bool = False

    def require_memory(self) -> ResidentMemory:
        """Returns the facet ``memory``, or raises ``UnsupportedFeature``."""
        return require(self.memory, feature="resident buffers", backend=self.id)

    def require_resident_executor(self) -> ResidentExecutor:
        """Returns the facet ``resident_executor``, or raises ``UnsupportedFeature``."""
        return require(self.resident_executor, feature="dispatch on resident buffers", backend=self.id)


def require(facet: FacetT | None, *, feature: str, backend: BackendId) -> FacetT:
    """Returns the facet, or raises ``UnsupportedFeature`` if it is None."""
    if facet is None:
        raise UnsupportedFeature(feature=feature, backend=backend)
    return facet


class BackendRole(Enum):
    """The purpose of a backend, which decides whether it may be selected without being named.

    ``PRODUCTION`` runs programs on a device.  ``REFERENCE`` defines the right answer.  ``EMULATION`` is a test double
    of a device, used only when it is named.  ``EMIT_ONLY`` generates code and runs nothing.
    """

    PRODUCTION = "production"
    REFERENCE = "reference"
    EMULATION = "emulation"
    EMIT_ONLY = "emit_only"


def _no_artifacts() -> None:
    return None


@frozen(kw_only=True)
class BackendServices:
    """Services that an application provides to the backends that it makes.

    ``artifacts`` opens the store of compiled code, the same one on each call, or returns None; a backend that
    compiles nothing does not call it.  ``decisions`` receives every decision that a backend takes.  ``host`` holds what
    the application says about threads; only backends whose registration is ``on_host`` heed it.  ``optimize`` says
    whether the optimizer may prepare programs, and ``device_passes`` which passes run on a device; None: none.
    ``environment`` holds the variables that configure the backend; None: those of the process.  ``profiler`` marks
    what the backend does; None: nobody does.  ``now_ns`` is ``Clock.now_ns`` of the application: time limits and the
    times that a backend measures on the host are told by it.
    """

    artifacts: Callable[[], ArtifactStore | None] = _no_artifacts
    telemetry: Telemetry = SILENT
    decisions: DecisionSink | None = None
    host: HostOptions = NO_HOST_OPTIONS
    optimize: bool = True
    device_passes: DevicePassesOf | None = None
    environment: Environment | None = None
    profiler: Profiler | None = None
    now_ns: Callable[[], int] = time.perf_counter_ns


NO_SERVICES: Final = BackendServices()


@frozen(kw_only=True)
class BackendRegistration:
    """The recipe for a backend.  ``rank`` breaks ties, lower wins.

    ``factory`` constructs the backend and opens no device.  ``probe`` reads the device's profile cheaply and creates
    no context.  Both raise ``BackendError`` when the backend cannot run here.

    ``emission`` and ``bundles`` make facets that need no ``Backend``, None if there are none: the one translates
    programs to code, the other compiles them ahead of time and runs them.  ``packages`` are distributions that it uses.

    ``on_host`` says that the backend runs programs on the processor of this machine, so that a device of its own is
    preferred and ``BackendServices.host`` applies.  ``facts`` returns what ``vyre doctor`` shows about the device, as
    texts by topic, and opens no device either; it may raise ``BackendError``.  ``toolchain`` returns that of the
    backend; None where a driver takes part, whose version only an open device tells.  ``emitter`` returns the part
    known without one, with which it begins.  ``probe_in`` is ``probe`` under the variables of another environment than
    that of the process; None where no variable configures the backend.
    """

    id: BackendId
    rank: int
    role: BackendRole
    factory: Callable[[BackendServices], Backend]
    probe: Callable[[], DeviceProfile]
    emission: Callable[[], CodeEmission] | None = None
    bundles: Callable[[], BundleSupport] | None = None
    packages: tuple[str, ...] = ()
    on_host: bool = False
    facts: Callable[[], Mapping[str, str]] | None = None
    toolchain: Callable[[], str] | None = None
    emitter: Callable[[], str] | None = None
    probe_in: Callable[[Environment], DeviceProfile] | None = None
    api_version: int = PORT_API_VERSION

    @in_default_mode
    def make(self, services: BackendServices = NO_SERVICES) -> Backend:
        """Returns a new backend that uses these services."""
        return self.factory(services)


class DiscoveryFailure(NamedTuple):
    """An entry point that yielded no usable registration, and the reason."""

    entry_point: str
    reason: str


@frozen
class BackendCatalog:
    """Every known registration, each id once, and the entry points that could not be loaded."""

    registrations: tuple[BackendRegistration, ...] = ()
    failures: tuple[DiscoveryFailure, ...] = ()

    def by_precedence(self) -> tuple[BackendRegistration, ...]:
        """Returns the registrations by ascending rank, then by id."""
        return tuple(sorted(self.registrations, key=lambda r: (r.rank, r.id)))

    def get(self, backend_id: str) -> BackendRegistration | None:
        """Returns the registration with this id, or None."""
        return next((r for r in self.registrations if r.id == backend_id), None)
