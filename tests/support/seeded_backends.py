"""Backends that run another program than they are given, unless every optimization is off: what a shadow must find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from vyre.adapters.discovery import load_catalog
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.ir.program import Program
from vyre.domain.names import BackendId
from vyre.ports.backend import Backend, BackendCatalog, BackendRegistration, BackendRole, BackendServices
from vyre.ports.execution import (
    AsyncExecutor,
    BoundResidentStep,
    CacheCounters,
    CompileResult,
    PendingDispatch,
    PipelineCompiler,
    ProgramExecutor,
    ResidentBinder,
    ResidentExecutor,
)
from vyre.ports.persistent import KeptSteps, PersistentEngine, PersistentExecutor, PersistentSteps
from vyre.ports.requests import DispatchRequest, OutputStorage, ResidentSequence, ResidentStep

SEEDED: Final = BackendId("seeded")
Wrong = Callable[[Program], Program]


@dataclass(frozen=True)
class Seed:
    """The program that runs in the place of one."""

    wrong: Wrong
    always: bool = False

    def program(self, program: Program, config: DispatchConfig) -> Program:
        return self.wrong(program) if config.optimize or self.always else program

    def request(self, request: DispatchRequest) -> DispatchRequest:
        return replace(request, program=self.program(request.program, request.config))

    def step(self, step: ResidentStep) -> ResidentStep:
        return replace(step, program=self.program(step.program, step.config))


def seeded(wrong: Wrong, base: str = "cpu", *, always: bool = False) -> BackendCatalog:
    """The installed backends, and ``SEEDED``: ``base`` that runs ``wrong(program)``, optimized only or ``always``."""
    catalog = load_catalog()
    found = catalog.get(base)
    assert found is not None
    seed = Seed(wrong, always)

    def make(services: BackendServices) -> Backend:
        return seeded_backend(found.make(services), seed)

    return with_backend(catalog, found, make)


def with_backend(
    catalog: BackendCatalog, base: BackendRegistration, make: Callable[[BackendServices], Backend]
) -> BackendCatalog:
    made = replace(base, id=SEEDED, rank=900, role=BackendRole.EMULATION, factory=make)
    return BackendCatalog((*catalog.registrations, made))


def seeded_backend(backend: Backend, seed: Seed) -> Backend:
    def of(facet: Any, wrap: Callable[[Any, Seed], Any]) -> Any:
        return None if facet is None else wrap(facet, seed)

    return replace(
        backend,
        id=SEEDED,
        executor=_Executor(backend.executor, seed),
        compiler=of(backend.compiler, _Compiler),
        async_executor=of(backend.async_executor, _Async),
        resident_executor=of(backend.resident_executor, _Resident),
        resident_binder=of(backend.resident_binder, _Binder),
        persistent=of(backend.persistent, _Persistent),
        persistent_steps=of(backend.persistent_steps, _Steps),
    )


@dataclass
class _Executor:
    inner: ProgramExecutor
    seed: Seed

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        return self.inner.execute(self.seed.request(request), outputs)


@dataclass
class _Compiler:
    inner: PipelineCompiler
    seed: Seed

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        return self.inner.compile(self.seed.program(program, config), config)

    def cache_counters(self) -> CacheCounters:
        return self.inner.cache_counters()

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        return self.inner.forget(programs)


@dataclass
class _Async:
    inner: AsyncExecutor
    seed: Seed

    def submit(self, request: DispatchRequest, /) -> PendingDispatch:
        return self.inner.submit(self.seed.request(request))


@dataclass
class _Resident:
    inner: ResidentExecutor
    seed: Seed

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        prefix, repeated = (tuple(map(self.seed.step, steps)) for steps in (sequence.prefix, sequence.repeated))
        return self.inner.run(replace(sequence, prefix=prefix, repeated=repeated))


@dataclass
class _Binder:
    inner: ResidentBinder
    seed: Seed

    def bind(self, step: ResidentStep, /) -> BoundResidentStep:
        return self.inner.bind(self.seed.step(step))


@dataclass
class _Persistent:
    inner: PersistentExecutor
    seed: Seed

    def open(
        self, program: Program, config: DispatchConfig, input_nbytes: tuple[int, ...], capacity: int, /
    ) -> PersistentEngine:
        return self.inner.open(self.seed.program(program, config), config, input_nbytes, capacity)


class _Steps:
    def __init__(self, inner: PersistentSteps, seed: Seed) -> None:
        self.inner, self.seed = inner, seed

    @property
    def workers(self) -> int:
        return self.inner.workers

    @property
    def most_steps(self) -> int:
        return self.inner.most_steps

    def keep(self, parts: Sequence[Sequence[Sequence[ResidentStep]]], /) -> KeptSteps:
        return self.inner.keep([[[self.seed.step(step) for step in wave] for wave in part] for part in parts])
