"""Test doubles: backends that record calls, fail on demand, or are a Python function; a store in memory.

``recording``, ``failing`` and ``hooked`` wrap any other backend, field by field, and keep its facets: a facet that the
wrapped backend lacks, the wrapper lacks too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from operator import attrgetter
from threading import Lock
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError, DispatchFailed, InvalidConfig, InvalidField
from vyre.domain.frozen import frozen
from vyre.domain.ir.buffers import inputs_of, outputs_of
from vyre.domain.ir.foreign_names import nearest_of
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.ir.program import BackendId, Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.missing import LANGUAGE_FLAGS
from vyre.ports.artifact_store import NEIGHBOURS, Artifact, StoredEntry, StoreStats
from vyre.ports.backend import Backend, BackendRegistration, BackendRole
from vyre.ports.execution import CompileResult
from vyre.ports.lifecycle import NullLifecycle
from vyre.ports.requests import DispatchRequest, OutputStorage

FACETS: Final = (
    "executor", "compiler", "memory", "foreign_memory", "gathering", "resident_executor", "resident_binder",
    "async_executor", "persistent", "persistent_steps",
)  # fmt: skip
"""Facets that touch the device; the others pass through the wrappers unchanged."""


CallName: TypeAlias = Literal[
    "executor.execute", "compiler.compile", "pipeline.dispatch", "pipeline.prepare", "memory.allocate",
    "memory.upload", "memory.download", "foreign_memory.adopt", "gathering.bind", "gather", "resident_executor.run",
    "resident_binder.bind", "bound_step", "async_executor.submit", "persistent.open", "engine.submit",
    "engine.submit_many", "persistent_steps.keep", "kept_steps.run",
]  # fmt: skip
"""A call of a facet, or of what one has prepared, which may be a function."""


class Call(NamedTuple):
    """One call of a facet, such as ``Call("memory.upload", ...)``, or of what a facet has prepared, such as
    ``Call("bound_step", ...)``; ``nbytes`` is the size of its data.
    """

    name: CallName
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
    def names(self) -> list[CallName]:
        """Names of the recorded calls, in order."""
        return [call.name for call in self.calls]


class FailNth:
    """A hook that raises ``error`` on the ``nth`` call (from 1) whose name starts with ``prefix``.

    Raises ``InvalidConfig`` if no call has such a name.
    """

    def __init__(self, nth: int, error: BackendError | None = None, *, prefix: str = "") -> None:
        _check(nth, prefix, _CALLS)
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

    def assert_fired(self) -> None:
        """Raises ``AssertionError`` if the failure has not happened."""
        if self.count < self._nth:
            raise AssertionError(f"{self.count} call(s) began with `{self._prefix}`, and call {self._nth} was to fail")


def hooked(backend: Backend, hook: Hook) -> Backend:
    """Returns ``backend`` with ``hook`` called before everything that the facets in ``FACETS``, and what they prepare,
    do on the device.
    """
    return replace(backend, **{name: _hooked(getattr(backend, name), name, hook, None) for name in FACETS})


def recording(backend: Backend) -> tuple[Backend, CallLog]:
    """Returns ``backend`` and a log of its calls."""
    log = CallLog()
    return hooked(backend, log), log


def failing(backend: Backend, nth: int, error: BackendError | None = None, *, prefix: str = "") -> Backend:
    """Returns ``backend`` whose ``nth`` call (of those whose name starts with ``prefix``) raises ``error``.

    Raises ``InvalidConfig`` if ``backend`` has no such call.
    """
    owners = {name for name in FACETS if getattr(backend, name) is not None}
    owners |= {_PREPARED[name] for name in _PREPARED if name.partition(".")[0] in owners}
    _check(nth, prefix, [name for name in _CALLS if name.partition(".")[0] in owners])
    return hooked(backend, FailNth(nth, error, prefix=prefix))


def _check(nth: int, prefix: str, calls: Collection[str]) -> None:
    """Refuses a failure that can never happen, since it is of no call."""
    if (whole_number(nth) or 0) < 1:
        raise InvalidField(record="FailNth", field="nth", value=nth, expected="an int from 1")
    if not any(call.startswith(prefix) for call in calls):
        owners = {call.partition(".")[0] for call in calls}
        raise InvalidConfig(f"no call begins with `{prefix}`", fix=f"write {nearest_of(prefix, {*owners, *calls})}.")


_CALLS: Final[Mapping[CallName, Callable[..., tuple[Program | None, int]]]] = {
    "executor.execute": lambda request, outputs: (request.program, _total(request.inputs)),
    "compiler.compile": lambda program, config: (program, 0),
    "pipeline.dispatch": lambda inputs, outputs: (None, _total(inputs)),
    "pipeline.prepare": lambda nbytes: (None, sum(nbytes)),
    "memory.allocate": lambda nbytes, label=None: (None, nbytes),
    "memory.upload": lambda uploads: (None, _total([u.data for u in uploads])),
    "memory.download": lambda reads: (None, _total([r.into for r in reads])),
    "foreign_memory.adopt": lambda array, label=None: (None, 0),
    "gathering.bind": lambda buffers, ranges: (None, 0),
    "gather": lambda into: (None, into.nbytes),
    "resident_executor.run": lambda run: (next((s.program for s in (*run.prefix, *run.repeated)), None), 0),
    "resident_binder.bind": lambda step: (step.program, 0),
    "bound_step": lambda: (None, 0),
    "async_executor.submit": lambda request: (request.program, _total(request.inputs)),
    "persistent.open": lambda program, config, nbytes, capacity: (program, 0),
    "engine.submit": lambda memory: (None, _total(memory.inputs)),
    "engine.submit_many": lambda columns, jobs, into: (None, _total(columns)),
    "persistent_steps.keep": lambda parts: (None, 0),
    "kept_steps.run": lambda part, times: (None, 0),
}
"""The part of a call that a hook sees: the program, None for that of the object itself, and the bytes of the data."""

_PREPARED: Final[Mapping[CallName, str]] = {
    "compiler.compile": "pipeline",
    "gathering.bind": "gather",
    "resident_binder.bind": "bound_step",
    "persistent.open": "engine",
    "persistent_steps.keep": "kept_steps",
}
"""Calls that prepare something which touches the device."""


class _Hooked:
    """An object of a backend with a hook before its methods; ``program`` is the one that it was prepared for."""

    def __init__(self, inner: object, hook: Hook, program: Program | None) -> None:
        self._inner, self._hook, self._program = inner, hook, program

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def _hooked(inner: Any, owner: str, hook: Hook, program: Program | None) -> Any:
    return None if inner is None else _class_of(inner.__class__, owner)(inner, hook, program)


@cache
def _class_of(inner: type, owner: str) -> type[_Hooked]:
    """Returns a class with all attributes of ``inner``, so that it implements the same protocols."""
    public = [name for name in dir(inner) if not name.startswith("_")]
    members: dict[str, Any] = {name: property(attrgetter(f"_inner.{name}")) for name in public}
    for name in _CALLS:
        role, _, method = name.partition(".")
        if role == owner and hasattr(inner, method or "__call__"):
            members[method or "__call__"] = _announced(name, method or "__call__")
    return type(f"Hooked{inner.__name__}", (_Hooked,), members)


def _announced(name: CallName, method: str) -> Callable[..., Any]:
    def call(self: _Hooked, *args: Any, **options: Any) -> Any:
        program, nbytes = _CALLS[name](*args, **options)
        program = self._program if program is None else program
        self._hook(Call(name, program, nbytes))
        result = getattr(self._inner, method)(*args, **options)
        if isinstance(result, CompileResult):
            return result._replace(pipeline=_hooked(result.pipeline, _PREPARED[name], self._hook, program))
        return _hooked(result, _PREPARED[name], self._hook, program) if name in _PREPARED else result

    return call


def _total(views: Sequence[memoryview]) -> int:
    return sum(view.nbytes for view in views)


# ---------------------------------------------------------------- a backend from a function
BytesFunction: TypeAlias = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""A function from input bytes by buffer name to output bytes by buffer name."""


@frozen
class FunctionExecutor:
    """Answers every dispatch with a Python function; for tests that must not depend on any engine.

    ``requests`` holds the requests so far.
    """

    kernel: BytesFunction
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


def claiming_all(backend_id: BackendId, **facts: Any) -> DeviceProfile:
    """Returns a profile that claims every feature of the language.  ``facts``: further fields of it."""
    claims: dict[str, Any] = {**dict.fromkeys(LANGUAGE_FLAGS, True), "element_types": frozenset(ScalarType)}
    return DeviceProfile(backend=backend_id, **(claims | facts))


def function_backend(kernel: BytesFunction, name: str = "fake") -> Backend:
    """Returns a backend whose only facet is a ``FunctionExecutor``; it claims every feature of the language."""
    backend_id = BackendId(name)
    return Backend(
        id=backend_id,
        profile=claiming_all(backend_id),
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
        artifact = self._artifacts.get(key)
        self._hits += artifact is not None
        self._misses += artifact is None
        return artifact

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
