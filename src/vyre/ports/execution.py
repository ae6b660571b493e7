"""The facets of a backend that run programs: dispatches, compilation, device memory, and launches on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from vyre.domain.dispatch import DispatchConfig, DispatchTiming

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program
    from vyre.policies.frontiers.fixpoint import FixpointExecutor
    from vyre.policies.launching.grid_sync_mode import GridSyncInputs
    from vyre.ports.requests import (
        DispatchRequest,
        HostBytes,
        OutputStorage,
        Readback,
        ResidentSequence,
        ResidentStep,
        Upload,
    )
    from vyre.ports.resident_buffer import ResidentBuffer


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

    def grid_sync(self, step: ResidentStep, /) -> GridSyncInputs:
        """Returns the grid of a step with grid barriers, and how much of it the device holds at once.

        May open the device and compile.  Raises as ``ResidentExecutor.run`` does.
        """


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


class MetricSource(Protocol):
    """Counters of a backend."""

    def metrics(self) -> Mapping[str, int]:
        """Returns the current value of every counter, by name."""
