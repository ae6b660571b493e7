"""The wiring: functions that make the adapters behind all ports, for sessions, the command line and containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from vyre.adapters.discovery import load_catalog
from vyre.adapters.disk.configuration import CacheOption, cache_settings
from vyre.adapters.system import USED_ENVIRONMENT, ProcessEnvironment, SystemClock
from vyre.ports.backend import BackendCatalog
from vyre.ports.support import SILENT, Clock, Environment, Profiler, Telemetry

if TYPE_CHECKING:
    from vyre.adapters.disk.file_operations import FileOperations
    from vyre.app.dialects.registry import DialectRegistry
    from vyre.app.kernels.launches import LaunchSession
    from vyre.policies.journal import DecisionSink
    from vyre.ports.artifact_store import ArtifactStore
    from vyre.ports.cost_store import CostStore
    from vyre.ports.provenance import SourceRepository
    from vyre.ports.tuning_store import TuningStore
    from vyre.ports.verdict_store import VerdictStore
    from vyre.ports.wave_time_store import WaveTimeStore


S = TypeVar("S")
GENERATED: Final = ("benchmarks/results",)
"""Where the repository of vyre keeps evidence: writing it makes no tree dirty."""


class Place(NamedTuple):
    """The arguments of the functions that open stores.

    ``cache`` and ``environment`` say where a store is; ``telemetry`` and ``decisions`` receive what it does.
    """

    cache: CacheOption
    environment: Environment
    telemetry: Telemetry = SILENT
    decisions: DecisionSink | None = None
    clock: Clock = SystemClock()  # immutable

    def files(self) -> FileOperations:
        """Returns the operations of a store on files, with the time of the clock."""
        from dataclasses import replace

        from vyre.adapters.disk.file_operations import REAL_FILES

        return replace(REAL_FILES, time_ns=self.clock.time_ns)

    def opened(self, store: Callable[..., S]) -> S | None:
        """Returns a store in the cache directory; None for a disabled cache.  Raises ``InvalidConfig``."""
        settings = cache_settings(self.cache, self.environment)
        return None if settings is None else store(str(settings.directory), files=self.files())


def artifact_store(place: Place) -> ArtifactStore | None:
    """Returns the store of compiled code; None for a disabled cache."""
    from vyre.adapters.disk.artifact_store import open_disk_store  # imported on use

    files = place.files()
    return open_disk_store(place.cache, place.environment, place.telemetry, sink=place.decisions, files=files)


def tuning_store(place: Place) -> TuningStore | None:
    """Returns the store of samples of the tuner; None for a disabled cache."""
    from vyre.adapters.disk.tuning_store import DiskTuningStore

    return place.opened(partial(DiskTuningStore, telemetry=place.telemetry))


def cost_store(place: Place) -> CostStore | None:
    """Returns the store of launch costs; None for a disabled cache."""
    from vyre.adapters.disk.measurement_stores import DiskCostStore

    return place.opened(DiskCostStore)


def wave_time_store(place: Place) -> WaveTimeStore | None:
    """Returns the store of times of waves; None for a disabled cache."""
    from vyre.adapters.disk.measurement_stores import DiskWaveTimeStore

    return place.opened(DiskWaveTimeStore)


def verdict_store(place: Place) -> VerdictStore | None:
    """Returns the store of checks of lowerings; None for a disabled cache."""
    from vyre.adapters.disk.verdict_store import DiskVerdictStore

    return place.opened(partial(DiskVerdictStore, telemetry=place.telemetry))


def profiler_of(environment: Environment) -> Profiler | None:
    """Returns the profiler that ``VYRE_NVTX`` selects, None without one.  Raises ``InvalidConfig``."""
    if not environment.get("VYRE_NVTX"):
        return None
    from vyre.adapters.profiling import NullProfiler, profiler_from

    profiler = profiler_from(environment)
    return None if isinstance(profiler, NullProfiler) else profiler


def source_repository() -> SourceRepository:
    """Returns the repository of the vyre that runs."""
    from pathlib import Path

    from vyre.adapters.git import GitRepository

    return GitRepository(Path(__file__).parents[1], GENERATED)


def registry_of(environment: Environment) -> DialectRegistry:
    """Returns the registry of dialects under the variables of an environment."""
    from vyre.app.dialects.loading import registry_of  # few programs call operations

    return registry_of(environment)


class Wiring(NamedTuple):
    """Functions that make the adapters of ``vyre.open``, the command line and containers, one function an adapter.

    ``telemetry`` returns one receiver, several, or None for the logging of the application.  ``options`` are arguments
    of ``vyre.open`` for those that are left at their defaults, and ``kernels`` returns the session of kernels that are
    called outside of one; None: that of the process.
    """

    environment: Callable[[], Environment] = ProcessEnvironment
    clock: Callable[[], Clock] = SystemClock
    telemetry: Callable[[], Telemetry | Sequence[Telemetry] | None] = lambda: None
    catalog: Callable[[], BackendCatalog] = load_catalog
    source_repository: Callable[[], SourceRepository] = source_repository
    profiler: Callable[[Environment], Profiler | None] = profiler_of
    dialect_registry: Callable[[Environment], DialectRegistry] = registry_of
    artifact_store: Callable[[Place], ArtifactStore | None] = artifact_store
    tuning_store: Callable[[Place], TuningStore | None] = tuning_store
    cost_store: Callable[[Place], CostStore | None] = cost_store
    wave_time_store: Callable[[Place], WaveTimeStore | None] = wave_time_store
    verdict_store: Callable[[Place], VerdictStore | None] = verdict_store
    options: Mapping[str, object] = MappingProxyType({})
    kernels: Callable[[], LaunchSession] | None = None

    def verdicts(self) -> VerdictStore | None:
        """Returns the store of checks of lowerings for who has no session."""
        return self.verdict_store(Place(None, self.environment(), clock=self.clock()))


USUAL: Final = Wiring()
WIRING: Final[ContextVar[Wiring]] = ContextVar("vyre_wiring", default=USUAL)
"""The wiring of what runs: that of a container that is applied, of a session that prepares a program, or the usual."""


@contextmanager
def wired(wiring: Wiring) -> Iterator[None]:
    """Has what runs inside use a wiring."""
    before, variables = WIRING.get(), USED_ENVIRONMENT.get()
    WIRING.set(wiring)
    try:
        USED_ENVIRONMENT.set(wiring.environment())
        yield
    finally:
        WIRING.set(before)
        USED_ENVIRONMENT.set(variables)


def installed() -> BackendCatalog:
    """Returns the backends that there are."""
    return WIRING.get().catalog()
