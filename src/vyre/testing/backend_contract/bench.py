"""A backend under test, shorthand to run programs on it, expectations, and kernels that several modules run.

A violated expectation raises ``Violation``, with ``python -O`` too.
"""

from __future__ import annotations

import pickle
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import DeviceLimitExceeded, ErrorCode, UnsupportedFeature, VyreError
from vyre.domain.geometry import check_limits
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.missing import MissingKind, missing_from
from vyre.domain.unique import Closing
from vyre.domain.validation.validator import check_rules
from vyre.ports.backend import Backend, BackendRegistration, BackendRole
from vyre.ports.cost_probe import CostProbe
from vyre.ports.execution import AsyncExecutor, CompiledPipeline, MetricSource, PipelineCompiler, ResidentMemory
from vyre.ports.requests import DispatchRequest, HostBytes, Readback, ResidentSequence, ResidentStep, Resource, Upload
from vyre.ports.resident_buffer import ResidentBuffer

ErrorT = TypeVar("ErrorT", bound=VyreError)
FacetT = TypeVar("FacetT")
_SHOWN = 400


class Skipped(Exception):
    """The backend lacks what the case needs; the text names it."""


class Violation(AssertionError):
    """The backend breaks the rule of the case."""


def equal(actual: object, wanted: object, what: str = "the answer") -> None:
    """Raises ``Violation`` unless the values are equal."""
    if actual != wanted:
        raise Violation(f"{what} is {_short(actual)}, not {_short(wanted)}")


def holds(condition: bool, rule: str) -> None:
    """Raises ``Violation`` with ``rule`` unless the condition is true."""
    if not condition:
        raise Violation(rule)


def refusal(expected: type[ErrorT] | tuple[type[ErrorT], ...], call: Callable[[], object]) -> ErrorT:
    """Returns the error of ``call``, which must be of an expected type and well formed (``check_error``)."""
    names = " or ".join(e.__name__ for e in (expected if isinstance(expected, tuple) else (expected,)))
    try:
        call()
    except expected as error:
        check_error(error)
        return error
    except Skipped:
        raise
    except Exception as error:
        raise Violation(f"{type(error).__name__} is raised instead of {names}: {error}") from error
    raise Violation(f"nothing is raised, {names} is expected")


def check_error(error: VyreError) -> None:
    """Raises ``Violation`` unless ``error`` has its own code, a message and a fix, and survives pickling."""
    name = type(error).__name__
    holds(isinstance(error.code, ErrorCode) and error.code is not ErrorCode.UNKNOWN, f"{name} has no code of its own")
    holds(bool(error.message.strip()), f"{name} says nothing")
    holds(bool(error.fix.strip()) and f"Fix: {error.fix}" in str(error), f"{name} says no fix: {error}")
    copy = pickle.loads(pickle.dumps(error))
    equal(type(copy), type(error), f"the type of an unpickled {name}")
    equal((str(copy), copy.code, copy.fix), (str(error), error.code, error.fix), f"an unpickled {name}")


def _short(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


INCREMENT: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { x[gid.x] = x[gid.x] + 1u }
    """
ADD: Final = """
    workgroup_size 8, 1, 1
    param a @0 u32
    buffer x @1 read_write u32[runtime]
    body { x[gid.x] = x[gid.x] + a }
    """
SUM: Final = """
    workgroup_size 8, 1, 1
    buffer a @0 read u32[runtime]
    buffer b @1 read u32[runtime]
    buffer y @2 write u32[runtime] like a
    body { y[gid.x] = a[gid.x] + b[gid.x] }
    """
DOUBLE: Final = "workgroup_size 4, 1, 1 buffer x @0 read_write u32[runtime] body { x[gid.x] = x[gid.x] * 2u }"
SCALE: Final = """
    workgroup_size 8, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { y[gid.x] = x[gid.x] * spec(factor, 3u) + wid.x }
    """
TRAP: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if x[gid.x] == 9u { trap(gid.x, "nine") } x[gid.x] = x[gid.x] + 1u }
    """
"""Increments every element, and traps at a 9 with the place of its lane."""


def mapped(body: str, lanes: int = 4) -> str:
    """Returns a kernel that runs ``body`` for each index ``i`` of an input ``x`` and an output ``y`` of u32."""
    return f"""
    workgroup_size {lanes}, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body {{ let i = gid.x {body} }}
    """


Data: TypeAlias = "bytes | bytearray | memoryview"
Kernel: TypeAlias = "Program | str"

FACETS: Final = tuple(f.name for f in fields(Backend) if f.default is None)
FEATURES: Final = tuple(f.name for f in fields(DeviceProfile) if f.type in (bool, "bool"))
CANONICAL_ORDER: Final = "canonical_order"
GRID_BARRIERS: Final = "grid_barriers"
"""Barriers of the whole grid, in one kernel or split into several."""
_GARBAGE: Final = 0xA5


@cache
def parsed(text: str) -> Program:
    """Parses ``.vyre`` text to a valid program."""
    program = Program.from_text(text)
    check_rules(program).raise_if_invalid()
    return program


def program_of(kernel: Kernel) -> Program:
    """Returns the kernel as a program."""
    return parsed(kernel) if isinstance(kernel, str) else kernel


def words(*values: int) -> bytes:
    """Returns u32 values as little-endian bytes."""
    return struct.pack(f"<{len(values)}I", *values)


def u32s(data: Data) -> list[int]:
    """Returns the u32 values of little-endian bytes."""
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def view(data: Data) -> HostBytes:
    """Returns ``data`` as the port passes it."""
    return memoryview(data).toreadonly().cast("B") if len(data) else memoryview(b"")


class Storage:
    """An output storage that begins with garbage and records: the ``begun`` sizes, and how often it was cleared."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, ...]] = []
        self.clears: int = 0
        self.views: tuple[memoryview, ...] = ()

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Implements ``OutputStorage.begin``; the views hold garbage."""
        self.begun.append(tuple(sizes))
        self.views = tuple(memoryview(bytearray([_GARBAGE]) * size) for size in sizes)
        return self.views

    def clear(self) -> None:
        """Implements ``OutputStorage.clear``."""
        self.clears += 1
        self.views = ()

    @property
    def outputs(self) -> tuple[bytes, ...]:
        """Copies of the outputs."""
        return tuple(map(bytes, self.views))


class Subject(Closing):
    """The backend under test: made from its registration on first use, prepared, and shared by the cases.

    ``canonical_order``: whether lanes run in the canonical schedule, so that programs whose result depends on the order
    of atomics have one answer; default: whether it is not a production backend.
    """

    def __init__(self, registration: BackendRegistration, *, canonical_order: bool | None = None) -> None:
        self.registration: Final = registration
        self.canonical_order: Final = (
            registration.role is not BackendRole.PRODUCTION if canonical_order is None else canonical_order
        )
        self._backend: Backend | None = None

    @property
    def backend(self) -> Backend:
        """The shared backend, made and prepared on first use."""
        if self._backend is None:
            self._backend = self.registration.make()
            self._backend.lifecycle.prepare()
        return self._backend

    @contextmanager
    def fresh(self) -> Iterator[Backend]:
        """Yields a new backend, neither prepared nor used before; closes it at the end."""
        backend = self.registration.make()
        try:
            yield backend
        finally:
            backend.lifecycle.close()

    def close(self) -> None:
        """Closes the shared backend."""
        if self._backend is not None:
            self._backend.lifecycle.close()
            self._backend = None


class Bench:
    """The workbench of one case: the subject's backend, or a given one, and buffers that are closed at the end."""

    def __init__(self, subject: Subject, backend: Backend | None = None) -> None:
        self.subject: Final = subject
        self.backend: Final = backend or subject.backend
        self._open: list[ResidentBuffer] = []

    # ---- what the backend offers
    def need(self, *names: str) -> None:
        """Skips the case unless the backend has these facets and claims these features."""
        for name in names:
            if name == CANONICAL_ORDER:
                if not self.subject.canonical_order:
                    raise Skipped(f"`{self.backend.id}` runs lanes in an order of its own, which this program sees")
            elif name == GRID_BARRIERS:
                if not self.backend.profile.allows_host_grid_sync_split:
                    self.need("supports_grid_sync")
            elif name in FACETS:
                if getattr(self.backend, name) is None:
                    raise Skipped(f"`{self.backend.id}` has no facet {name}")
            elif name in FEATURES:
                if not getattr(self.backend.profile, name):
                    raise Skipped(f"`{self.backend.id}` does not claim {name}")
            else:
                raise ValueError(f"{name} is no facet and no feature")

    def need_room(self, workgroup: Dim3, grid: Dim3 = (1, 1, 1)) -> None:
        """Skips the case if the profile does not allow such a launch."""
        try:
            check_limits(grid, workgroup, self.backend.profile.launch_limits())
        except DeviceLimitExceeded as error:
            raise Skipped(error.message) from None

    def _facet(self, name: str, facet: FacetT | None) -> FacetT:
        self.need(name)
        assert facet is not None
        return facet

    @property
    def compiler(self) -> PipelineCompiler:
        """The facet ``compiler``; without it the case is skipped, as for the other facets."""
        return self._facet("compiler", self.backend.compiler)

    @property
    def memory(self) -> ResidentMemory:
        """The facet ``memory``."""
        return self._facet("memory", self.backend.memory)

    @property
    def asynchronous(self) -> AsyncExecutor:
        """The facet ``async_executor``."""
        return self._facet("async_executor", self.backend.async_executor)

    @property
    def metric_source(self) -> MetricSource:
        """The facet ``metric_source``."""
        return self._facet("metric_source", self.backend.metric_source)

    @property
    def cost_probe(self) -> CostProbe:
        """The facet ``cost_probe``."""
        return self._facet("cost_probe", self.backend.cost_probe)

    @contextmanager
    def elsewhere(self) -> Iterator[Bench]:
        """Yields a bench on a fresh backend, which is prepared, for cases that close or damage it."""
        with self.subject.fresh() as backend:
            backend.lifecycle.prepare()
            bench = Bench(self.subject, backend)
            try:
                yield bench
            finally:
                bench.close()

    def recover(self) -> None:
        """Reopens the device; skips the case where there is no device to lose."""
        try:
            self.backend.lifecycle.recover()
        except UnsupportedFeature as error:
            check_error(error)
            raise Skipped(f"`{self.backend.id}` does not support {error.feature}") from None

    def program(self, kernel: Kernel) -> Program:
        """Returns the kernel as a program; skips the case if it needs what the backend does not declare."""
        program = program_of(kernel)
        all_missing = missing_from(program, self.backend.profile, self.backend.supported_ops)
        if lacking := [missing.name for missing in all_missing if missing.kind is not MissingKind.LIMIT]:
            raise Skipped(f"`{self.backend.id}` does not declare {', '.join(lacking)}")
        return program

    # ---- dispatch
    def run(self, kernel: Kernel, *inputs: Data, **config: Any) -> tuple[bytes, ...]:
        """Returns the outputs of one dispatch.  ``config``: fields of ``DispatchConfig``."""
        storage = Storage()
        self.execute(storage, kernel, *inputs, **config)
        return storage.outputs

    def execute(self, storage: Storage, kernel: Kernel, *inputs: Data, **config: Any) -> DispatchTiming:
        """Runs one dispatch into ``storage``."""
        request = DispatchRequest(self.program(kernel), tuple(map(view, inputs)), DispatchConfig(**config))
        return self.backend.executor.execute(request, storage)

    def words(self, kernel: Kernel, *inputs: Data, **config: Any) -> list[int]:
        """Returns the u32 values of the only output."""
        (data,) = self.run(kernel, *inputs, **config)
        return u32s(data)

    def refuses(
        self, expected: type[ErrorT] | tuple[type[ErrorT], ...], kernel: Kernel, *inputs: Data, **config: Any
    ) -> ErrorT:
        """Returns the error of a dispatch that must fail, and must leave no outputs."""
        storage = Storage()
        error = refusal(expected, lambda: self.execute(storage, kernel, *inputs, **config))
        equal(storage.outputs, (), "what a failed dispatch left")
        holds(
            storage.clears > 0 or not storage.begun, "a dispatch that failed after begin() did not clear() its outputs"
        )
        return error

    def compile(self, kernel: Kernel, **config: Any) -> CompiledPipeline:
        """Compiles the kernel.  ``config``: fields of ``DispatchConfig``."""
        return self.compiler.compile(self.program(kernel), DispatchConfig(**config)).pipeline

    def dispatch(self, pipeline: CompiledPipeline, *inputs: Data) -> tuple[bytes, ...]:
        """Returns the outputs of one dispatch of a pipeline."""
        storage = Storage()
        pipeline.dispatch(tuple(map(view, inputs)), storage)
        return storage.outputs

    # ---- resident memory
    def allocate(self, nbytes: int, *, label: str | None = None) -> ResidentBuffer:
        """Allocates device memory that is closed with the bench."""
        buffer = self.memory.allocate(nbytes, label=label)
        self._open.append(buffer)
        return buffer

    def holding(self, *values: int) -> ResidentBuffer:
        """Allocates device memory with these u32 values."""
        buffer = self.allocate(4 * len(values))
        self.memory.upload([Upload(buffer, view(words(*values)))])
        return buffer

    def content(self, buffer: ResidentBuffer) -> list[int]:
        """Returns the u32 values in device memory."""
        into = bytearray(buffer.nbytes)
        self.memory.download([Readback(buffer, memoryview(into))])
        return u32s(into)

    def launch(self, kernel: Kernel, *resources: Resource | bytes, **config: Any) -> DispatchTiming:
        """Runs one launch on device memory."""
        return self.sequence(prefix=(self.step(kernel, *resources, **config),))

    def step(self, kernel: Kernel, *resources: Resource | bytes, **config: Any) -> ResidentStep:
        """Returns a step on device memory and host bytes.  ``config``: fields of ``DispatchConfig``."""
        bound = tuple(view(r) if isinstance(r, bytes) else r for r in resources)
        return ResidentStep(self.program(kernel), bound, DispatchConfig(**config))

    def sequence(self, **parts: Any) -> DispatchTiming:
        """Runs a sequence.  ``parts``: fields of ``ResidentSequence``."""
        self.need("resident_executor")
        return self.backend.require_resident_executor().run(ResidentSequence(**parts))

    def close(self) -> None:
        """Closes the buffers of the case."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for buffer in self._open:
                buffer.close()
            self._open.clear()


def at_once(count: int, work: Callable[[int], object]) -> None:
    """Runs ``work(0)`` to ``work(count - 1)`` at once, one thread each; raises the first failure."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count) as threads:
        for future in [threads.submit(work, number) for number in range(count)]:
            try:
                future.result()
            except (Skipped, Violation):
                raise
            except Exception as error:
                raise Violation(f"a thread failed with {type(error).__name__}: {error}") from error
