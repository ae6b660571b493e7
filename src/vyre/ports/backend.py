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

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, DispatchTiming
from vyre.domain.errors import InvalidInput, InvalidResource, UnsupportedFeature
from vyre.domain.float_mode import in_default_mode
from vyre.domain.host_options import NO_HOST_OPTIONS, HostOptions
from vyre.domain.names import BackendId, OpId
from vyre.ports.resident_buffer import Described as Described  # the buffers are a part of this port
from vyre.ports.resident_buffer import ResidentBuffer as ResidentBuffer
from vyre.ports.support import SILENT, Telemetry

if TYPE_CHECKING:
    from vyre.domain.device import EngineKind
    from vyre.domain.ir.program import Program
    from vyre.policies.frontiers.fixpoint import FixpointExecutor
    from vyre.policies.journal import DecisionSink
    from vyre.policies.launching.grid_sync_mode import GridSyncInputs
    from vyre.ports.artifact_store import ArtifactStore
    from vyre.ports.bundles import BundleSupport
    from vyre.ports.cancellation import Cancellation
    from vyre.ports.cost_probe import CostProbe
    from vyre.ports.device_passes import DevicePassesOf
    from vyre.ports.emission import CodeEmission
    from vyre.ports.gathering import GatheredReads
    from vyre.ports.lifecycle import DeviceLifecycle
    from vyre.ports.persistent import PersistentExecutor, PersistentSteps
    from vyre.ports.planning import ExecutionPlanning
    from vyre.ports.tunable import Tunable

PORT_API_VERSION: Final = 11
FLAG_BYTES: Final = 4
"""Bytes of the flag of a sequence, which is a u32."""
FacetT = TypeVar("FacetT")


# ---------------------------------------------------------------- memory
class OutputStorage(Protocol):
    """Host memory into which an adapter writes results.  ``vyre.domain.dispatch.OutputArena`` implements it."""

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Returns one writable, C-contiguous byte view per output, of these sizes in bytes.

        The content is undefined, and the start of each view is aligned for 8-byte words.  The view of a buffer that is
        passed in and returned may instead be the memory of its input, all of it, aligned for its elements: then the
        caller wants it updated in place, and it holds the input.
        """
        ...

    def clear(self) -> None:
        """Discards the views that ``begin`` returned, because the dispatch failed and has no outputs."""
        ...


HostBytes: TypeAlias = memoryview
"""A C-contiguous, read-only, one-dimensional view of unsigned bytes."""
Resource: TypeAlias = "HostBytes | ResidentBuffer"


class Upload(NamedTuple):
    """A copy of the host bytes ``data`` to ``buffer`` at byte ``offset``."""

    buffer: ResidentBuffer
    data: HostBytes
    offset: int = 0


class Readback(NamedTuple):
    """A copy from ``buffer``, starting at byte ``offset``, that fills the writable view ``into``."""

    buffer: ResidentBuffer
    into: memoryview
    offset: int = 0


# ---------------------------------------------------------------- requests
@dataclass(frozen=True, slots=True)
class DispatchRequest:
    """A program, one view of host bytes per input in binding order, and the config of its dispatch."""

    program: Program
    inputs: tuple[HostBytes, ...]
    config: DispatchConfig = DEFAULT_CONFIG


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ResidentStep:
    """One launch on device memory.

    ``resources`` holds one entry per non-workgroup buffer, in binding order.  A buffer that the program writes must
    be a ``ResidentBuffer``; host bytes are allowed for buffers that it only reads (scalar parameters are always host
    bytes).  A resident buffer may be longer than the program needs.  Outputs that the backend allocates are zeroed
    first.  Memory that is bound twice, even in part, and written through one of the bindings is refused, and so is
    memory that is not aligned for the elements of its buffer (``InvalidResource``).
    """

    program: Program
    resources: tuple[Resource, ...]
    config: DispatchConfig = DEFAULT_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class ResidentSequence:
    """Launches and copies that run strictly in order with one host synchronisation.

    ``prefix`` runs once, then ``repeated`` runs ``repeat_count`` times, then ``reads`` are copied to the host.

    With a ``flag`` the rounds end early: before each round the u32 at byte 0 of ``flag`` is set to 0, and a round that
    leaves it 0 is the last.  ``repeat_count`` bounds the rounds; with 0 the flag is left alone.  The timing tells how
    many rounds ran and whether the last left the flag at 0, whichever way the backend repeats them.  Raises
    ``InvalidInput`` for a flag without steps to repeat, and ``InvalidResource`` for one of fewer than 4 bytes.

    ``replayed`` says whether the rounds are to be replayed as a graph; None: as the backend decides.  Only a backend
    whose ``submission`` is ``CHOSEN`` heeds it; it raises ``UnsupportedFeature`` for a graph that cannot be recorded.

    ``cancellation`` may ask for the end of the run.  A backend that can stop it raises ``DispatchFailed`` then, and the
    contents of what the steps write are unspecified; any other runs to its end.
    """

    prefix: tuple[ResidentStep, ...] = ()
    repeated: tuple[ResidentStep, ...] = ()
    repeat_count: int = 0
    reads: tuple[Readback, ...] = ()
    flag: ResidentBuffer | None = None
    replayed: bool | None = None
    cancellation: Cancellation | None = None

    def __post_init__(self) -> None:
        if self.flag is None:
            return
        if not self.repeated:
            raise InvalidInput("a sequence with a flag has no steps to repeat", fix="give at least one, or no flag.")
        if self.flag.nbytes < FLAG_BYTES:
            raise InvalidResource(
                f"the flag of a sequence is {self.flag!r}", fix=f"use a buffer of at least {FLAG_BYTES} bytes."
            )


class SequenceSubmission(Enum):
    """How a backend submits a ``ResidentSequence``.

    ``EACH``: launch by launch.  ``LIST``: as one list of commands.  ``CHOSEN``: as the backend decides from costs for
    each sequence, launch by launch or as a graph.
    """

    EACH = "each"
    LIST = "list"
    CHOSEN = "chosen"


# ---------------------------------------------------------------- facets
class ProgramExecutor(Protocol):
    """Blocking dispatch: the one facet that every backend has."""

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        """Runs a program on host bytes, writes its outputs to ``outputs``, and returns the measured times."""


class CompiledPipeline(Protocol):
    """A program compiled under one config; ``dispatch`` may be called any number of times, from any thread.

    Its results are bit-identical to those of ``ProgramExecutor.execute`` with that config.  Input lengths may differ
    between calls.
    """

    @property
    def id(self) -> str:
        """Returns the identity of the pipeline, under which launch costs are kept and messages name it."""

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Runs the program on a byte view per input, writes its outputs to ``outputs``, and returns the times."""


@runtime_checkable
class PreparablePipeline(CompiledPipeline, Protocol):
    """A pipeline that prepares an executable for each combination of input lengths, and caches a bounded number.

    Neither method launches anything.
    """

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        """Returns whether a dispatch with inputs of these lengths in bytes finds everything prepared."""

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        """Prepares dispatches with inputs of these lengths in bytes.

        Raises the same errors as a dispatch of such inputs raises before its launch.
        """


class CacheOutcome(Enum):
    """The result of a look-up in a pipeline cache; ``UNKNOWN`` means that the backend does not report it."""

    HIT = "hit"
    MISS = "miss"
    UNKNOWN = "unknown"


class CacheCounters(NamedTuple):
    """Monotonic counts of cache hits and misses since the backend was made."""

    hits: int = 0
    misses: int = 0


Phases: TypeAlias = "tuple[tuple[str, int], ...]"
"""Names and durations, in nanoseconds, of the phases of a compilation, in order."""


class CompileResult(NamedTuple):
    """A compiled pipeline and how it came about.

    ``phases`` is empty where nothing was compiled or no times were measured.  ``reason`` says why it was compiled.
    """

    pipeline: CompiledPipeline
    cache: CacheOutcome = CacheOutcome.UNKNOWN
    phases: Phases = ()
    reason: str = ""


class PipelineCompiler(Protocol):
    """Ahead-of-time compilation.  The facet caches pipelines and decides which calls share one."""

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        """Returns a pipeline of the program under this config, compiled or from the cache."""

    def cache_counters(self) -> CacheCounters:
        """Returns the counts of hits and misses of the pipeline cache."""

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        """Evicts the pipelines of programs with these digests, or of all programs, from memory; returns how many.

        Evicted pipelines remain usable for their holders.  The next ``compile`` builds a new pipeline, at most from
        stored code.
        """
        ...


class PendingDispatch(Protocol):
    """A submitted dispatch."""

    def done(self) -> bool:
        """Returns whether the run has ended, with or without an error."""

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        """Waits for the run, writes its outputs to ``outputs``, and returns the measured times.

        Raises the error of the run, and ``TimeoutError`` after ``timeout`` seconds.  Another call returns the same
        outputs or raises the same error.
        """

    def add_done_callback(self, callback: Callable[[], object], /) -> None:
        """Calls ``callback`` once when the run has ended, or at once if it has ended already."""

    def cancel(self) -> bool:
        """Asks for an early end: a run that has not begun does not begin, and one under way is stopped if it can be.

        Returns whether the device was asked; False where the run has ended, and where it cannot be told.  A run that
        was stopped has failed: ``wait`` raises ``DispatchFailed``.  Its callbacks are called as always, and other work
        is not disturbed.
        """
        ...


class AsyncExecutor(Protocol):
    """Dispatches that run in the background."""

    def submit(self, request: DispatchRequest, /) -> PendingDispatch:
        """Starts a dispatch.  Copies the inputs before it returns, and keeps no view of the caller's memory."""


class ResidentMemory(Protocol):
    """Device memory, zeroed when it is allocated.

    A batch of copies is one staging operation, in order: every range is checked before the first byte is copied.
    """

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        """Returns a handle of ``nbytes`` zeroed bytes; ``label`` names it in messages."""

    def upload(self, uploads: Sequence[Upload], /) -> None:
        """Copies host bytes to the device."""

    def download(self, reads: Sequence[Readback], /) -> None:
        """Copies device bytes to the host."""


class ForeignMemory(Protocol):
    """Access to device memory of other libraries in this process."""

    def adopt(self, array: object, /, *, label: str | None = None) -> ResidentBuffer:
        """Returns a buffer over the memory of ``array``, which stays alive until the buffer is closed; copies
        nothing.

        Raises ``InvalidResource`` for anything except contiguous memory of this device.
        """
        ...


class ResidentExecutor(Protocol):
    """Launches on device memory."""

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        """Runs a sequence, waits for its end, and returns the measured times."""


class LoopSupport(Protocol):
    """The ways in which a backend repeats the steps of a sequence with a flag by itself, with one wait at the end."""

    def loop_executors(self, steps: Sequence[ResidentStep], /) -> frozenset[FixpointExecutor]:
        """Returns the ways that work for these steps.  May open the device.  Raises as ``ResidentExecutor.run`` does.

        Without any of them ``ResidentExecutor`` honours a flag by waiting after each round.
        """
        ...

    def grid_sync(self, step: ResidentStep, /) -> GridSyncInputs:
        """Returns the grid of a step with grid barriers, and how much of it the device holds at once.

        May open the device and compile.  Raises as ``ResidentExecutor.run`` does.
        """
        ...


class BoundResidentStep(Protocol):
    """A step with everything resolved: calling it launches and waits.  One thread at a time may use it; it must be
    closed.
    """

    def __call__(self) -> None: ...
    def close(self) -> None:
        """Releases what the step has prepared; it cannot be called afterwards."""


class ResidentBinder(Protocol):
    """Prepared launches on resident memory: the cheapest way to run the same step repeatedly."""

    def bind(self, step: ResidentStep, /) -> BoundResidentStep:
        """Returns ``step``, checked and prepared once.

        Host bytes in it are read during this call only.  It refuses once a buffer is closed, which tells it
        (``ResidentBuffer.expires``).
        """
        ...


class MetricSource(Protocol):
    """Counters of a backend."""

    def metrics(self) -> Mapping[str, int]:
        """Returns the current value of every counter, by name."""


# ---------------------------------------------------------------- the record
def _all_ops() -> frozenset[OpId]:
    from vyre.domain.op_ids import ALL_OPS  # imports the language of programs, which registrations do not need

    return ALL_OPS


@dataclass(frozen=True, slots=True, kw_only=True)
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
    supported_ops: frozenset[OpId] = field(default_factory=_all_ops)
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


# ---------------------------------------------------------------- registration
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendServices:
    """Services that an application provides to the backends that it makes.

    ``artifacts`` opens the store of compiled code, the same one on each call, or returns None; a backend that
    compiles nothing does not call it.  ``decisions`` receives every decision that a backend takes.  ``host`` holds what
    the application says about threads; only backends whose registration is ``on_host`` heed it.  ``optimize`` says
    whether the optimizer may prepare programs, and ``device_passes`` which passes run on a device; None: none.
    """

    artifacts: Callable[[], ArtifactStore | None] = _no_artifacts
    telemetry: Telemetry = SILENT
    decisions: DecisionSink | None = None
    host: HostOptions = NO_HOST_OPTIONS
    optimize: bool = True
    device_passes: DevicePassesOf | None = None


NO_SERVICES: Final = BackendServices()


@dataclass(frozen=True, slots=True, kw_only=True)
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
    known without one, with which it begins.
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
    api_version: int = PORT_API_VERSION

    @in_default_mode
    def make(self, services: BackendServices = NO_SERVICES) -> Backend:
        """Returns a new backend that uses these services."""
        return self.factory(services)


class DiscoveryFailure(NamedTuple):
    """An entry point that yielded no usable registration, and the reason."""

    entry_point: str
    reason: str


@dataclass(frozen=True, slots=True)
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
