"""A backend that computes by a Python function and keeps few shapes, so that dispatches have to prepare them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend
from vyre.ports.execution import CacheCounters, CacheOutcome, CompileResult
from vyre.ports.requests import DispatchRequest, HostBytes, OutputStorage
from vyre.testing.fakes import BytesFunction, FunctionExecutor, function_backend

Step = Callable[[str, tuple[int, ...]], None]


@dataclass
class ForgetfulCompiler:
    """``keeps``: shapes of each pipeline.  ``step``: called with ``compile`` or ``prepare`` before that is done.

    ``compiled``, ``prepared``: what was made, in order.
    """

    kernel: BytesFunction
    keeps: int = 2
    step: Step = lambda what, nbytes: None
    compiled: list[Program] = field(default_factory=list)
    prepared: list[tuple[int, ...]] = field(default_factory=list)

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        self.step("compile", ())
        self.compiled.append(program)
        return CompileResult(ForgetfulPipeline(self, program, config), CacheOutcome.MISS)

    def cache_counters(self) -> CacheCounters:
        return CacheCounters()

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        return 0  # it keeps no pipeline


class ForgetfulPipeline:
    id = "forgetful"

    def __init__(self, compiler: ForgetfulCompiler, program: Program, config: DispatchConfig) -> None:
        self._compiler, self._program, self._config = compiler, program, config
        self._executor = FunctionExecutor(compiler.kernel)
        self._shapes: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._lock = Lock()

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        self.prepare(tuple(view.nbytes for view in inputs))
        return self._executor.execute(DispatchRequest(self._program, tuple(inputs), self._config), outputs)

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        return input_nbytes in self._shapes

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        with self._lock:
            if input_nbytes in self._shapes:
                return
            self._compiler.step("prepare", input_nbytes)
            self._compiler.prepared.append(input_nbytes)
            self._shapes[input_nbytes] = None
            while len(self._shapes) > self._compiler.keeps:
                self._shapes.popitem(last=False)


def forgetful_backend(compiler: ForgetfulCompiler) -> Backend:
    """What compiles by ``compiler``."""
    return replace(function_backend(compiler.kernel), compiler=compiler)
