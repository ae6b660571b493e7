"""The backend port: a backend is *data*, a frozen record of small facets.

A facet that is ``None`` is the one way to say "not supported"; nothing degrades silently.  A decorator
(recording, fault injection, tracing) replaces single facets with ``dataclasses.replace`` and so cannot
forget the others.  Facets are protocols: an adapter needs no base class of ours.

Rules for every facet
    * Re-entrant and thread-safe.  An ``OutputStorage`` belongs to one call at a time.
    * Programs that arrive have passed validation.  Arity and byte lengths of inputs have not been
      checked: the adapter does so (``vyre.domain.binding``) and raises ``InvalidInput``.
    * A config field that is set and cannot be honoured raises ``UnsupportedFeature``.
    * Same program, input bytes and config: same bytes, on every backend.
    * Only ``BackendError``, its subclasses and, for a config that does not fit, ``InvalidConfig`` leave a facet.

Binding order
    Everything positional follows ascending binding number.  *Inputs*: buffers with ``takes_input``.
    *Outputs*: buffers with ``is_returned``.  *Resources*: all buffers but workgroup memory.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar, final, runtime_checkable

from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, DispatchTiming
from vyre.domain.errors import InvalidResource, UnsupportedFeature
from vyre.domain.ir.program import BackendId, OpId, Program
from vyre.domain.op_ids import ALL_OPS
from vyre.ports.support import SILENT, Telemetry

if TYPE_CHECKING:
    from vyre.domain.launch import Launch
    from vyre.domain.tuning import TimeKind
    from vyre.policies.journal import DecisionSink
    from vyre.ports.artifact_store import ArtifactStore
    from vyre.ports.cost_probe import CostProbe
    from vyre.ports.planning import ExecutionPlanning

PORT_API_VERSION: Final = 4
FacetT = TypeVar("FacetT")


# ---------------------------------------------------------------- memory
class OutputStorage(Protocol):
    """Where an adapter puts results.  ``vyre.domain.dispatch.OutputArena`` is one."""

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """One writable, C-contiguous byte view per output; undefined content, aligned for 8-byte words."""
        ...

    def clear(self) -> None:
        """Forget what ``begin`` handed out: the dispatch failed and has no outputs."""
        ...


class ResidentBuffer(ABC):
    """Handle of one device allocation of ``nbytes`` bytes, born in device epoch ``epoch``.

    Nominal on purpose: closing once, ownership and the leak warning are ours, not the adapter's.
    Shareable between threads; ``close`` is idempotent.
    """

    __slots__ = ("__weakref__", "_closed", "_lock", "backend_id", "epoch", "label", "nbytes")

    def __init__(self, *, backend_id: BackendId, nbytes: int, epoch: int, label: str | None = None) -> None:
        self.backend_id: Final = backend_id
        self.nbytes: Final = nbytes
        self.epoch: Final = epoch
        self.label: Final = label
        self._closed = False
        self._lock = Lock()

    @property
    def closed(self) -> bool:
        return self._closed

    @final
    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._release()

    @abstractmethod
    def _release(self) -> None:
        """Return the allocation to the device; called exactly once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            name = self.label or f"of {self.nbytes} bytes"
            warnings.warn(f"resident buffer {name} was never closed", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<{type(self).__name__} {self.label or 'unnamed'} {self.nbytes} bytes on {self.backend_id}, {state}>"


HostBytes: TypeAlias = memoryview
"""A C-contiguous, read-only, one-dimensional view of unsigned bytes."""
Resource: TypeAlias = "HostBytes | ResidentBuffer"


class Upload(NamedTuple):
    """Copy ``data`` to ``buffer`` at byte ``offset``."""

    buffer: ResidentBuffer
    data: HostBytes
    offset: int = 0


class Readback(NamedTuple):
    """Fill the writable view ``into`` from ``buffer``, starting at byte ``offset``."""

    buffer: ResidentBuffer
    into: memoryview
    offset: int = 0


# ---------------------------------------------------------------- requests
@dataclass(frozen=True, slots=True)
class DispatchRequest:
    program: Program
    inputs: tuple[HostBytes, ...]
    config: DispatchConfig = DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ResidentStep:
    """One launch on device memory.

    ``resources``: one per non-workgroup buffer, in binding order.  What the program writes must be a
    ``ResidentBuffer``; host bytes are allowed for what it only reads (scalar parameters are always so).
    A resident buffer may be longer than the program needs.  Backend-allocated outputs are zeroed first.
    Memory bound twice and written through one of the bindings is refused (``InvalidResource``).
    """

    program: Program
    resources: tuple[Resource, ...]
    config: DispatchConfig = DEFAULT_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentSequence:
    """``prefix`` once, then ``repeated`` ``repeat_count`` times, then ``reads``: strictly in order, one host sync."""

    prefix: tuple[ResidentStep, ...] = ()
    repeated: tuple[ResidentStep, ...] = ()
    repeat_count: int = 0
    reads: tuple[Readback, ...] = ()


# ---------------------------------------------------------------- facets
class ProgramExecutor(Protocol):
    """Blocking dispatch: the one facet that every backend has."""

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming: ...


class CompiledPipeline(Protocol):
    """A program compiled under one config; ``dispatch`` may be called any number of times, from any thread.

    Bit-identical to ``ProgramExecutor.execute`` with that config.  Input lengths may differ between calls.
    """

    @property
    def id(self) -> str: ...
    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming: ...


@runtime_checkable
class PreparablePipeline(CompiledPipeline, Protocol):
    """A pipeline that makes something for each combination of input lengths, and keeps a bounded number of them.

    Neither method launches anything.  ``prepare`` raises what a dispatch of such inputs raises before its launch.
    """

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool: ...
    def prepare(self, input_nbytes: tuple[int, ...], /) -> None: ...


class CacheOutcome(Enum):
    HIT = "hit"
    MISS = "miss"
    UNKNOWN = "unknown"


class CacheCounters(NamedTuple):
    """Monotonic counts since the backend was made."""

    hits: int = 0
    misses: int = 0


Phases: TypeAlias = "tuple[tuple[str, int], ...]"
"""What a compilation did, in order, and the nanoseconds that each part took."""


class CompileResult(NamedTuple):
    """``phases``: empty where nothing was compiled, or nobody measured.  ``reason``: why it was compiled."""

    pipeline: CompiledPipeline
    cache: CacheOutcome = CacheOutcome.UNKNOWN
    phases: Phases = ()
    reason: str = ""


class PipelineCompiler(Protocol):
    """Ahead-of-time compilation.  What is shared between calls is this facet's own cache's business."""

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult: ...
    def cache_counters(self) -> CacheCounters: ...

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        """Drop what is kept in memory of the programs with these digests, or of all; how many pipelines?

        Pipelines that somebody holds work on.  The next ``compile`` makes a new one, of a store at most.
        """
        ...


class PendingDispatch(Protocol):
    """A submitted dispatch.  ``wait`` raises what the run raised, and ``TimeoutError`` after ``timeout`` seconds.

    It may be called again, and then gives the same outputs or raises the same error.
    """

    def done(self) -> bool: ...
    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming: ...
    def add_done_callback(self, callback: Callable[[], object], /) -> None: ...


class AsyncExecutor(Protocol):
    """``submit`` snapshots the inputs before it returns and keeps no view of the caller's memory."""

    def submit(self, request: DispatchRequest, /) -> PendingDispatch: ...


class ResidentMemory(Protocol):
    """Device memory, zero when it is allocated.

    Batches are one staging operation, in order: every range is checked before the first byte moves.
    """

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer: ...
    def upload(self, uploads: Sequence[Upload], /) -> None: ...
    def download(self, reads: Sequence[Readback], /) -> None: ...


class ForeignMemory(Protocol):
    """Device memory of other libraries in this process."""

    def adopt(self, array: object, /, *, label: str | None = None) -> ResidentBuffer:
        """A buffer over the memory of ``array``, which stays alive until the buffer is closed; nothing is copied.

        Raises ``InvalidResource`` for what is not contiguous memory of this device.
        """
        ...


class ResidentExecutor(Protocol):
    def run(self, sequence: ResidentSequence, /) -> DispatchTiming: ...


class BoundResidentStep(Protocol):
    """A step with everything resolved: calling it launches and waits.  For one thread at a time; close it after use."""

    def __call__(self) -> None: ...
    def close(self) -> None: ...


class ResidentBinder(Protocol):
    """Prepared launches on resident memory: the cheapest way to run the same step again and again."""

    def bind(self, step: ResidentStep, /) -> BoundResidentStep:
        """``step``, checked and prepared once.  Host bytes in it are taken now; its buffers must stay open."""
        ...


class DeviceLifecycle(Protocol):
    """``epoch`` grows with every recovery; buffers and pipelines of an older epoch are refused."""

    @property
    def epoch(self) -> int: ...
    def prepare(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def device_lost(self) -> bool: ...
    def recover(self) -> None: ...


class MetricSource(Protocol):
    def metrics(self) -> Mapping[str, int]: ...


class Tunable(Protocol):
    """What a tuner asks of a device beside the time that a dispatch takes; called from one thread at a time."""

    @property
    def kind(self) -> TimeKind:
        """ESTIMATED: no time is real, and ``work_done`` is what candidates are compared by."""
        ...

    @property
    def device(self) -> str:
        """Which device it is."""
        ...

    @property
    def driver(self) -> str:
        """Version of what assembles or runs code."""
        ...

    @property
    def versions(self) -> str:
        """Of what generates code."""
        ...

    def profiles(self, program: Program, config: DispatchConfig, launch: Launch, /) -> Sequence[str]:
        """Values of ``DispatchConfig.profile`` that give other code than none, for this launch."""
        ...

    def occupancy_bps(self, program: Program, config: DispatchConfig, launch: Launch, /) -> int | None:
        """Lanes that a compute unit keeps resident, in parts of 10 000 of its limit; None if unknown."""
        ...

    def work_done(self) -> int:
        """What the model has counted so far; 0 where times are measured."""
        ...


class NullLifecycle:
    """For backends that queue nothing and own nothing."""

    __slots__ = ("_backend",)

    def __init__(self, backend: BackendId) -> None:
        self._backend = backend

    @property
    def epoch(self) -> int:
        return 0

    def prepare(self) -> None:
        return None

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None

    def device_lost(self) -> bool:
        return False

    def recover(self) -> None:
        raise UnsupportedFeature(feature="device recovery", backend=self._backend)


# ---------------------------------------------------------------- the record
@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """``version`` is that of the adapter's package; certificates and cache keys carry it.

    ``stores_code``: what it compiles goes to the store that it was lent, so that opening that store pays.
    """

    id: BackendId
    profile: DeviceProfile
    executor: ProgramExecutor
    lifecycle: DeviceLifecycle
    version: str = "unspecified"
    supported_ops: frozenset[OpId] = ALL_OPS
    compiler: PipelineCompiler | None = None
    memory: ResidentMemory | None = None
    foreign_memory: ForeignMemory | None = None
    resident_executor: ResidentExecutor | None = None
    resident_binder: ResidentBinder | None = None
    async_executor: AsyncExecutor | None = None
    metric_source: MetricSource | None = None
    tunable: Tunable | None = None
    cost_probe: CostProbe | None = None
    planning: ExecutionPlanning | None = None
    stores_code: bool = False

    def require_memory(self) -> ResidentMemory:
        return require(self.memory, feature="resident buffers", backend=self.id)

    def require_resident_executor(self) -> ResidentExecutor:
        return require(self.resident_executor, feature="dispatch on resident buffers", backend=self.id)


def require(facet: FacetT | None, *, feature: str, backend: BackendId) -> FacetT:
    """The facet, or ``UnsupportedFeature``."""
    if facet is None:
        raise UnsupportedFeature(feature=feature, backend=backend)
    return facet


def check_ownership(backend: BackendId, epoch: int, buffers: Sequence[ResidentBuffer]) -> None:
    """Raise ``InvalidResource`` unless every buffer is open, of this backend and of this device epoch."""
    for buffer in buffers:
        if buffer.backend_id != backend:
            raise InvalidResource(
                f"{buffer!r} belongs to backend `{buffer.backend_id}`, not to `{backend}`",
                fix="download it there and upload it here.",
            )
        if buffer.closed:
            raise InvalidResource(f"{buffer!r} is used after close()", fix="keep it open until the dispatch returns.")
        if buffer.epoch != epoch:
            raise InvalidResource(
                f"{buffer!r} was allocated in device epoch {buffer.epoch}, the current epoch is {epoch}",
                fix="allocate and upload again after recover().",
            )


# ---------------------------------------------------------------- registration
class BackendRole(Enum):
    """EMULATION: a test double of a device that runs programs; taken only when asked for by name."""

    PRODUCTION = "production"
    REFERENCE = "reference"
    EMULATION = "emulation"
    EMIT_ONLY = "emit_only"


def _no_artifacts() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendServices:
    """What an application lends the backends that it makes.

    ``artifacts`` opens the store of compiled code, the same one each time, or gives None: a backend that compiles
    nothing does not call it.  ``decisions`` is told what they decide.
    """

    artifacts: Callable[[], ArtifactStore | None] = _no_artifacts
    telemetry: Telemetry = SILENT
    decisions: DecisionSink | None = None


NO_SERVICES: Final = BackendServices()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRegistration:
    """How to get a backend.  Making one opens no device; ``rank`` breaks ties, lower wins.

    ``factory`` constructs the backend.  ``probe`` is a cheap read-only look that creates no context;
    both raise ``BackendError`` when the backend cannot run here.
    """

    id: BackendId
    rank: int
    role: BackendRole
    factory: Callable[[BackendServices], Backend]
    probe: Callable[[], DeviceProfile]
    api_version: int = PORT_API_VERSION

    def make(self, services: BackendServices = NO_SERVICES) -> Backend:
        """A backend of its own."""
        return self.factory(services)


class DiscoveryFailure(NamedTuple):
    """An entry point that yielded no usable registration, and why."""

    entry_point: str
    reason: str


@dataclass(frozen=True, slots=True)
class BackendCatalog:
    """Every known registration, each id once, and what could not be loaded."""

    registrations: tuple[BackendRegistration, ...] = ()
    failures: tuple[DiscoveryFailure, ...] = ()

    def by_precedence(self) -> tuple[BackendRegistration, ...]:
        return tuple(sorted(self.registrations, key=lambda r: (r.rank, r.id)))

    def get(self, backend_id: str) -> BackendRegistration | None:
        return next((r for r in self.registrations if r.id == backend_id), None)
