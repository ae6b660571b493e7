"""Facets for dispatches of host data: the compiler, the executor and the async executor of a shadowed backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from vyre.adapters.forwarding import ForwardsCompiler, ForwardsPreparation, KeptStorage, is_preparable
from vyre.app.gated import Gate, GatedPipeline
from vyre.app.shadow.checker import Incomparable, check_comparable
from vyre.app.shadow.comparing import Outcome, mismatch
from vyre.app.shadow.service import Found, ShadowService
from vyre.app.shadow.state import ShadowState
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, OutputArena
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.program import Program
from vyre.domain.unique import Unique
from vyre.ports.backend import Backend
from vyre.ports.execution import (
    AsyncExecutor,
    CompiledPipeline,
    CompileResult,
    PendingDispatch,
    PipelineCompiler,
    PreparablePipeline,
    ProgramExecutor,
)
from vyre.ports.requests import DispatchRequest, HostBytes, OutputStorage


class HostSamples:
    """Samples dispatches of host data, and has them compared.

    ``agrees`` returns whether code of a program without optimizations gives the right outputs for some inputs.
    """

    def __init__(self, service: ShadowService, agrees: Callable[[Program, DispatchConfig, Outcome], bool]) -> None:
        self.service: Final = service
        self._agrees = agrees

    def run(
        self,
        program: Program,
        config: DispatchConfig,
        inputs: Sequence[HostBytes],
        outputs: OutputStorage,
        run: Callable[[Sequence[HostBytes], OutputStorage], DispatchTiming],
        number: int,
    ) -> DispatchTiming:
        """Runs a dispatch that is due to be sampled, and returns its times with the state of the sample."""
        service = self.service
        state = service.sample(number, (program,), sum(map(len, inputs)))
        if state is None:
            return run(inputs, outputs)
        copies = self.held(state, inputs)
        if copies is None:
            return service.timing(run(inputs, outputs), state)
        kept = KeptStorage(outputs)
        try:
            timing = run(inputs, kept)
        except BaseException:
            service.drop(state, "an error of the dispatch")
            raise
        self.compare(state, program, config, copies, kept.views)
        return service.timing(timing, state)

    def held(self, state: ShadowState, inputs: Sequence[HostBytes]) -> tuple[bytes, ...] | None:
        """Returns copies of the inputs of a sample that is pending; else None."""
        copies: tuple[bytes, ...] | None = None
        if state.is_pending:
            with self.service.copying(state):
                copies = tuple(map(bytes, inputs))
        return copies

    def compare(
        self,
        state: ShadowState,
        program: Program,
        config: DispatchConfig,
        inputs: tuple[bytes, ...],
        outputs: Sequence[memoryview],
    ) -> None:
        """Copies the outputs of a dispatch that has ended, and queues the comparison."""
        with self.service.copying(state):
            got = tuple(map(bytes, outputs))
            outcome = Outcome(program, config, inputs, got)
            self.service.queue(state, partial(self._check, outcome), program.name or "unnamed")

    def _check(self, outcome: Outcome, checker: Backend) -> Found | None:
        check_comparable(outcome.program, outcome.config, checker)
        program, config = self.service.checked(outcome.program, outcome.config)
        try:
            expected = run_on(checker.executor.execute, program, config, outcome.inputs)
        except UnsupportedFeature as error:
            raise Incomparable(outcome.program, error.message, always=False) from None
        if expected == outcome.got:
            return None
        right = outcome._replace(got=expected)
        return Found(
            (outcome.program,),
            mismatch(outcome, right, program, self.service.usual, checker),
            lambda: self._agrees(outcome.program, outcome.config, right),
        )


def run_on(
    execute: Callable[[DispatchRequest, OutputStorage], DispatchTiming],
    program: Program,
    config: DispatchConfig,
    inputs: Sequence[bytes],
) -> tuple[bytes, ...]:
    """Returns the outputs of a dispatch."""
    arena = OutputArena()
    execute(DispatchRequest(program, tuple(map(memoryview, inputs)), config), arena)
    return arena.to_bytes()


class ShadowedCompiler(ForwardsCompiler):
    """``PipelineCompiler`` whose pipelines are sampled, and run unoptimized code once they are in quarantine."""

    def __init__(self, inner: PipelineCompiler, service: ShadowService) -> None:
        super().__init__(inner)
        self.service: Final = service
        self.samples: Final = HostSamples(service, self._agrees)

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        service = self.service
        gate = service.gate  # before it is asked: what comes into quarantine from now on, the pipeline looks for itself
        if service.quarantined and service.quarantine_of(program) is not None:
            compiled = self._made_now(program, config)
        else:
            compiled = self._inner.compile(program, config)
        kind = ShadowedPreparable if is_preparable(type(compiled.pipeline)) else ShadowedPipeline
        pipeline = kind(compiled.pipeline, program, config, self, gate)
        return CompileResult(pipeline, compiled.cache, compiled.phases, compiled.reason)

    def fallback(self, program: Program, config: DispatchConfig) -> CompiledPipeline | None:
        """Returns code without optimizations for a program in quarantine; None for others, and if there is none."""
        if self.service.quarantine_of(program) is None:
            return None
        return self.service.attempt(program, partial(self._fallback, program, config))

    def _made_now(self, program: Program, config: DispatchConfig) -> CompileResult:
        """Returns code for a program in quarantine, which is the usual one if there is no other."""
        fallback = partial(self._inner.compile, *self.service.fallback_of(program, config))
        return self.service.attempt(program, fallback) or self._inner.compile(program, config)

    def _agrees(self, program: Program, config: DispatchConfig, right: Outcome) -> bool:
        dispatch = self._fallback(program, config).dispatch
        answer = run_on(lambda request, outputs: dispatch(request.inputs, outputs), program, config, right.inputs)
        return answer == right.got

    def _fallback(self, program: Program, config: DispatchConfig) -> CompiledPipeline:
        return self._inner.compile(*self.service.fallback_of(program, config)).pipeline


class ShadowedPipeline(GatedPipeline):
    """``CompiledPipeline`` of which dispatches are sampled."""

    __slots__ = ("__weakref__", "_compiler", "_inner", "config", "program")

    def __init__(
        self, inner: CompiledPipeline, program: Program, config: DispatchConfig, compiler: ShadowedCompiler, gate: Gate
    ) -> None:
        self.gate: Gate = gate
        self.usual: Callable[[Sequence[HostBytes], OutputStorage], DispatchTiming] = inner.dispatch
        self.program: Final = program
        self.config: Final = config
        self._compiler = compiler
        self._inner = inner

    @property
    def id(self) -> str:
        return self._inner.id

    def looked(self, inputs: Sequence[HostBytes], outputs: OutputStorage, number: int) -> DispatchTiming:
        """Runs a dispatch that is due to be sampled, or the first one since a program came into quarantine."""
        service = self._compiler.service
        gate = service.gate
        if self.gate is not gate:
            self.gate = gate
            fallback = self._compiler.fallback(self.program, self.config)
            if fallback is not None:
                self._inner, self.usual = fallback, fallback.dispatch
            if number < gate.at:
                return self.usual(inputs, outputs)
        refused = service.refused(number)
        if refused is not None:
            return service.timing(self.usual(inputs, outputs), refused)
        return self._compiler.samples.run(self.program, self.config, inputs, outputs, self.usual, number)


class ShadowedPreparable(ForwardsPreparation, ShadowedPipeline):
    """``PreparablePipeline`` of which dispatches are sampled."""

    __slots__ = ()
    _inner: PreparablePipeline


class ShadowedExecutor:
    """``ProgramExecutor`` of which dispatches are sampled; programs in quarantine run without optimizations."""

    def __init__(self, inner: ProgramExecutor, service: ShadowService) -> None:
        self._inner, self._service = inner, service
        self.samples: Final = HostSamples(service, self._agrees)

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        service = self._service
        request = fallback_request(service, request)
        number = next(service.numbers)
        if number < service.at:
            return self._inner.execute(request, outputs)
        program, config = request.program, request.config

        def run(inputs: Sequence[HostBytes], storage: OutputStorage) -> DispatchTiming:
            return self._inner.execute(request, storage)

        return self.samples.run(program, config, request.inputs, outputs, run, number)

    def _agrees(self, program: Program, config: DispatchConfig, right: Outcome) -> bool:
        return run_on(self._inner.execute, *self._service.fallback_of(program, config), right.inputs) == right.got


class ShadowedAsyncExecutor:
    """``AsyncExecutor`` of which dispatches are sampled."""

    def __init__(self, inner: AsyncExecutor, samples: HostSamples) -> None:
        self._inner, self._service, self._samples = inner, samples.service, samples

    def submit(self, request: DispatchRequest, /) -> PendingDispatch:
        service = self._service
        request = fallback_request(service, request)
        number = next(service.numbers)
        if number < service.at:
            return self._inner.submit(request)
        state = service.sample(number, (request.program,), sum(map(len, request.inputs)))
        if state is None:
            return self._inner.submit(request)
        copies = self._samples.held(state, request.inputs)
        try:
            pending = self._inner.submit(request)
        except BaseException:
            service.drop(state, "an error of the dispatch")
            raise
        return _ShadowedPending(pending, request, copies, state, self._samples)


def fallback_request(service: ShadowService, request: DispatchRequest) -> DispatchRequest:
    """Returns the request of code without optimizations for a program in quarantine; else the same."""
    if service.quarantined and service.quarantine_of(request.program) is not None:
        program, config = service.fallback_of(request.program, request.config)
        return replace(request, program=program, config=config)
    return request


class _ShadowedPending(Unique):
    """``PendingDispatch`` that was sampled: it is compared when its outputs are first waited for."""

    def __init__(
        self,
        inner: PendingDispatch,
        request: DispatchRequest,
        copies: tuple[bytes, ...] | None,
        state: ShadowState,
        samples: HostSamples,
    ) -> None:
        self._request, self._copies, self._state, self._samples = request, copies, state, samples
        self._inner = inner
        self.done: Final = inner.done
        self.add_done_callback: Final = inner.add_done_callback
        self.cancel: Final = inner.cancel

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        service, state = self._samples.service, self._state
        kept = KeptStorage(outputs)
        try:
            timing = self._inner.wait(kept, timeout=timeout)
        except TimeoutError:
            raise
        except BaseException:
            service.drop(state, "an error of the dispatch")
            raise
        copies, self._copies = self._copies, None
        if copies is not None:
            self._samples.compare(state, self._request.program, self._request.config, copies, kept.views)
        return service.timing(timing, state)

    def __del__(self) -> None:
        if getattr(self, "_copies", None) is not None:
            self._samples.service.drop(self._state, "nobody waited for its outputs")
