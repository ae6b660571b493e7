"""Test doubles: backends that record calls, fail on demand, or are a Python function; a store in memory.

``recording``, ``failing`` and ``hooked`` wrap any other backend, field by field, and keep its facets: a facet that the
wrapped backend lacks, the wrapper lacks too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import BackendError, DispatchFailed
from vyre.domain.ir.buffers import inputs_of, outputs_of
from vyre.domain.ir.program import BackendId, Program
from vyre.ports.artifact_store import NEIGHBOURS, Artifact, StoredEntry, StoreStats
from vyre.ports.backend import (
    AsyncExecutor,
    Backend,
    BackendRegistration,
    BackendRole,
    CacheCounters,
    CompiledPipeline,
    CompileResult,
    DispatchRequest,
    HostBytes,
    OutputStorage,
    PendingDispatch,
    PipelineCompiler,
    PreparablePipeline,
    ProgramExecutor,
    Readback,
    ResidentBuffer,
    ResidentExecutor,
    ResidentMemory,
    ResidentSequence,
    Upload,
)
from vyre.ports.lifecycle import NullLifecycle

FACETS: Final = ("executor", "compiler", "memory", "resident_executor", "async_executor")
"""Facets that touch the device; lifecycle and metrics pass through the wrappers unchanged."""


class Call(NamedTuple):
    """One call of a facet method, such as ``Call("memory.upload", ...)``; ``nbytes`` is the size of its data."""

    name: str
    program: Program | None = None
    nbytes: int = 0


Hook: TypeAlias = Callable[[Call], None]
"""A function called before the wrapped method; its exceptions reach the caller."""


class CallLog:
    """A thread-safe record of calls, in order; use it as a hook."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.calls: list[Call] = []

    def __call__(self, call: Call) -> None:
        with self._lock:
            self.calls.append(call)

    @property
    def names(self) -> list[str]:
        """Names of the recorded calls, in order."""
        return [call.name for call in self.calls]


class FailNth:
    """A hook that raises ``error`` on the ``nth`` call (from 1) whose name starts with ``prefix``."""

    def __init__(self, nth: int, error: BackendError | None = None, *, prefix: str = "") -> None:
        self._lock = Lock()
        self._nth = nth
        self._prefix = prefix
        self._error = error if error is not None else DispatchFailed("injected fault")
        self.count: int = 0

    def __call__(self, call: Call) -> None:
        if not call.name.startswith(self._prefix):
            return
        with self._lock:
            self.count += 1
            fail = self.count == self._nth
        if fail:
            raise self._error


def hooked(backend: Backend, hook: Hook) -> Backend:
    """Returns ``backend`` with ``hook`` called before every method of the facets in ``FACETS``."""
    return replace(
        backend,
        executor=_Executor(backend.executor, hook),
        compiler=backend.compiler and _Compiler(backend.compiler, hook),
        memory=backend.memory and _Memory(backend.memory, hook),
        resident_executor=backend.resident_executor and _ResidentExecutor(backend.resident_executor, hook),
        async_executor=backend.async_executor and _AsyncExecutor(backend.async_executor, hook),
    )


def recording(backend: Backend) -> tuple[Backend, CallLog]:
    """Returns ``backend`` and a log of its calls."""
    log = CallLog()
    return hooked(backend, log), log


def failing(backend: Backend, nth: int, error: BackendError | None = None, *, prefix: str = "") -> Backend:
    """Returns ``backend`` whose ``nth`` facet call (of those whose name starts with ``prefix``) raises ``error``."""
    return hooked(backend, FailNth(nth, error, prefix=prefix))


@dataclass(frozen=True, slots=True)
class _Executor:
    inner: ProgramExecutor
    hook: Hook

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        self.hook(Call("executor.execute", request.program, _total(request.inputs)))
        return self.inner.execute(request, outputs)


@dataclass(frozen=True, slots=True)
class _Compiler:
    inner: PipelineCompiler
    hook: Hook

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        self.hook(Call("compiler.compile", program))
        compiled = self.inner.compile(program, config)
        if isinstance(compiled.pipeline, PreparablePipeline):
            return compiled._replace(pipeline=_PreparablePipeline(compiled.pipeline, program, self.hook))
        return compiled._replace(pipeline=_Pipeline(compiled.pipeline, program, self.hook))

    def cache_counters(self) -> CacheCounters:
        return self.inner.cache_counters()

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        return self.inner.forget(programs)


@dataclass(frozen=True, slots=True)
class _Pipeline:
    inner: CompiledPipeline
    program: Program
    hook: Hook

    @property
    def id(self) -> str:
        return self.inner.id

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        self.hook(Call("pipeline.dispatch", self.program, _total(inputs)))
        return self.inner.dispatch(inputs, outputs)


@dataclass(frozen=True, slots=True)
class _PreparablePipeline(_Pipeline):
    inner: PreparablePipeline

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        return self.inner.is_prepared(input_nbytes)

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        self.hook(Call("pipeline.prepare", self.program, sum(input_nbytes)))
        self.inner.prepare(input_nbytes)


@dataclass(frozen=True, slots=True)
class _Memory:
    inner: ResidentMemory
    hook: Hook

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        self.hook(Call("memory.allocate", nbytes=nbytes))
        return self.inner.allocate(nbytes, label=label)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        self.hook(Call("memory.upload", nbytes=_total([u.data for u in uploads])))
        self.inner.upload(uploads)

    def download(self, reads: Sequence[Readback], /) -> None:
        self.hook(Call("memory.download", nbytes=_total([r.into for r in reads])))
        self.inner.download(reads)


@dataclass(frozen=True, slots=True)
class _ResidentExecutor:
    inner: ResidentExecutor
    hook: Hook

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        steps = (*sequence.prefix, *sequence.repeated)
        self.hook(Call("resident_executor.run", steps[0].program if steps else None))
        return self.inner.run(sequence)


@dataclass(frozen=True, slots=True)
class _AsyncExecutor:
    inner: AsyncExecutor
    hook: Hook

    def submit(self, request: DispatchRequest, /) -> PendingDispatch:
        self.hook(Call("async_executor.submit", request.program, _total(request.inputs)))
        return self.inner.submit(request)


def _total(views: Sequence[memoryview]) -> int:
    return sum(view.nbytes for view in views)


# ---------------------------------------------------------------- a backend from a function
Kernel: TypeAlias = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""A function from input bytes by buffer name to output bytes by buffer name."""


@dataclass(frozen=True, slots=True)
class FunctionExecutor:
    """Answers every dispatch with a Python function; for tests that must not depend on any engine.

    ``requests`` holds the requests so far.
    """

    kernel: Kernel
    requests: list[DispatchRequest] = field(default_factory=list)

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        """Implements ``ProgramExecutor.execute``; its timing is 0."""
        self.requests.append(request)
        program = request.program
        names = [b.name for b in inputs_of(program.abi_buffers)]
        results = self.kernel({n: bytes(v) for n, v in zip(names, request.inputs, strict=True)})
        returned = [results[b.name] for b in outputs_of(program.abi_buffers)]
        for view, data in zip(outputs.begin(tuple(map(len, returned))), returned, strict=True):
            view[:] = data
        return DispatchTiming(0)


def function_backend(kernel: Kernel, name: str = "fake") -> Backend:
    """Returns a backend whose only facet is a ``FunctionExecutor``."""
    backend_id = BackendId(name)
    return Backend(
        id=backend_id,
        profile=DeviceProfile(backend=backend_id),
        executor=FunctionExecutor(kernel),
        lifecycle=NullLifecycle(backend_id),
    )


def registration_of(
    backend: Backend, *, role: BackendRole = BackendRole.PRODUCTION, rank: int = 1
) -> BackendRegistration:
    """Returns a registration whose factory returns this very backend."""
    return BackendRegistration(
        id=backend.id, rank=rank, role=role, factory=lambda services: backend, probe=lambda: backend.profile
    )


class MemoryArtifactStore:
    """An ``ArtifactStore`` in a dictionary; iterating it yields its keys."""

    def __init__(self) -> None:
        self._artifacts: dict[ArtifactKey, Artifact] = {}
        self._hits = self._misses = self._puts = 0

    def __iter__(self) -> Iterator[ArtifactKey]:
        return iter(self._artifacts)

    def get(self, key: ArtifactKey, /) -> Artifact | None:
        """Implements ``ArtifactStore.get``."""
        found = self._artifacts.get(key)
        self._hits += found is not None
        self._misses += found is None
        return found

    def put(self, key: ArtifactKey, artifact: Artifact, /) -> bool:
        """Implements ``ArtifactStore.put``; always stores."""
        self._artifacts[key] = artifact
        self._puts += 1
        return True

    def neighbours(self, key: ArtifactKey, /) -> Sequence[ArtifactKey]:
        """Implements ``ArtifactStore.neighbours``."""
        same = [other for other in self._artifacts if (other.program, other.kind) == (key.program, key.kind)]
        return same[-NEIGHBOURS:]

    def entries(self) -> Iterator[StoredEntry]:
        """Implements ``ArtifactStore.entries``."""
        return iter([StoredEntry(key, artifact.nbytes) for key, artifact in self._artifacts.items()])

    def remove(self, key: ArtifactKey, /) -> bool:
        """Implements ``ArtifactStore.remove``."""
        self._artifacts.pop(key, None)
        return True

    def stats(self) -> StoreStats:
        """Implements ``ArtifactStore.stats``."""
        nbytes = sum(artifact.nbytes for artifact in self._artifacts.values())
        return StoreStats(len(self._artifacts), nbytes, self._hits, self._misses, self._puts)

    def close(self) -> None:
        """Implements ``ArtifactStore.close``; does nothing."""
