"""Executors made of pipelines: the part that does not depend on what a pipeline consists of."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

from vyre.adapters.caching.memory_cache import Built, MemoryBudget, MemoryCache
from vyre.adapters.forks import process_lock
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.identity import program_digest
from vyre.domain.ir.program import Program
from vyre.policies.journal import DecisionSink
from vyre.ports.execution import CacheCounters, CacheOutcome, CompiledPipeline, CompileResult, Phases
from vyre.ports.interrupts import sealed
from vyre.ports.requests import DispatchRequest, OutputStorage

PIPELINES: Final = 1024
"""Capacity of the cache, in pipelines."""
VARIANTS: Final = 16
"""Number of keys of one program that are kept, to say why another one had to be compiled."""
PipelineT = TypeVar("PipelineT", bound=CompiledPipeline)


_SETTINGS: Final = tuple(field.name for field in fields(DispatchConfig) if field.name != "output_counts")
_settings_of: Final[Callable[[DispatchConfig], tuple[object, ...]]] = attrgetter(*_SETTINGS)


class Compilation(NamedTuple):
    """A compilation of a pipeline.

    ``phases``: its steps, as names and nanoseconds.  ``missed``: the reason why code had to be generated; empty if the
    maker cannot tell; None if a store had the code.
    """

    phases: Phases = ()
    missed: str | None = ""


class PipelineKey(NamedTuple):
    """The key of a pipeline.

    ``interface``: names of buffers, which distinguish programs of one digest, and the locations that reports of races
    name.  ``settings``: the other fields of the
    config, in the order of ``_SETTINGS``.  A tuple of plain values is hashed without a call of Python.
    """

    program: bytes
    interface: tuple[str, ...]
    settings: tuple[object, ...]
    output_counts: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, program: Program, config: DispatchConfig) -> PipelineKey:
        """Returns the key of a program under a config."""
        counts = tuple(sorted(config.output_counts.items())) if config.output_counts else ()
        # Names of buffers and spec constants are interface: programs that differ in them are kept apart.
        names = tuple([buffer.name for buffer in program.abi_buffers])
        if config.race_check:  # the reports of races name locations, which are in no digest
            from vyre.domain.ir.location_table import table_of  # on use

            names = (*names, str(table_of(program)))
        return cls(program_digest(program), names, _settings_of(config), counts)

    def __str__(self) -> str:
        return f"pipeline of program {self.program.hex()[:16]}"

    def differences(self, other: PipelineKey) -> tuple[str, ...]:
        """Returns the names of the fields that differ between two keys of one program."""
        pairs = zip(_SETTINGS, self.settings, other.settings, strict=True)
        names = [name for name, ours, theirs in pairs if ours != theirs]
        names += [name for name in ("interface", "output_counts") if getattr(self, name) != getattr(other, name)]
        return tuple(names)


class PipelineExecutor(Generic[PipelineT]):
    """``ProgramExecutor`` and ``PipelineCompiler`` over ``make``; pipelines are shared by digest and config.

    Threads that request the same pipeline wait for one compilation, as long as the timeout of their config allows.
    ``sink`` receives the evictions.  ``discard`` drops what was compiled of programs, by digest, or all for None; it is
    called after their pipelines were dropped, which would compile them again.
    """

    def __init__(
        self,
        make: Callable[[Program, DispatchConfig], tuple[PipelineT, Compilation]],
        sink: DecisionSink | None = None,
        discard: Callable[[Collection[bytes] | None], object] = lambda programs: None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._make, self._discard, self._now_ns = make, discard, now_ns
        self._pipelines: MemoryCache[PipelineKey, PipelineT] = MemoryCache(
            MemoryBudget(entries=PIPELINES), now_ns=now_ns, name=lambda key: f"the {key}", sink=sink
        )
        self._variants: OrderedDict[bytes, deque[PipelineKey]] = OrderedDict()
        self._lock = process_lock()
        self.forgotten: int = 0
        """How often ``forget`` was called: a pipeline that was found before may have been dropped."""

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        return self.pipeline(request.program, request.config)[0].dispatch(request.inputs, outputs)

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        started = self._now_ns()
        pipeline, compilation = self.pipeline(program, config)
        if compilation is None:
            return CompileResult(pipeline, CacheOutcome.HIT)
        phases = compilation.phases or (("compile", self._now_ns() - started),)
        if compilation.missed is None:
            return CompileResult(pipeline, CacheOutcome.HIT, phases)
        return CompileResult(pipeline, CacheOutcome.MISS, phases, compilation.missed)

    def cache_counters(self) -> CacheCounters:
        stats = self._pipelines.stats()
        return CacheCounters(stats.hits + stats.shared + stats.revived, stats.misses - stats.failures)

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        # A program that stays known without a variant: it is not new, but none of its pipelines is cached.
        with self._lock, sealed:
            self.forgotten += 1
            for program, known in self._variants.items():
                if programs is None or program in programs:
                    known.clear()
        forgotten = self._pipelines.discard_where(lambda key: programs is None or key.program in programs)
        self._discard(programs)
        return forgotten

    def pipeline(self, program: Program, config: DispatchConfig) -> tuple[PipelineT, Compilation | None]:
        """Returns the pipeline of a program under a config, and its compilation if it was made for this call."""
        if config.label is not None and config.timeout_s is None:
            # Only a timeout names the label; a label per dispatch must not mean a pipeline per dispatch.
            config = replace(config, label=None)
        key = PipelineKey.of(program, config)
        cached = self._pipelines.get(key)
        if cached is not None:
            return cached, None
        compilation = None

        def build() -> Built[PipelineT]:
            nonlocal compilation
            pipeline, compilation = self._make(program, config)
            if compilation.missed == "":
                compilation = compilation._replace(missed=_reason(key, self._others(key)))
            return Built(pipeline, 0)

        return self._pipelines.get_or_build(key, build, timeout_s=config.timeout_s), compilation

    def _others(self, key: PipelineKey) -> tuple[PipelineKey, ...] | None:
        """Returns the recent keys of the program, None for a program that is new here, and records ``key``."""
        with self._lock, sealed:
            is_new = key.program not in self._variants
            known = self._variants.setdefault(key.program, deque(maxlen=VARIANTS))
            self._variants.move_to_end(key.program)
            if len(self._variants) > PIPELINES:
                self._variants.popitem(last=False)
            others = tuple(known)
            known.append(key)
        return None if is_new else others


def _reason(key: PipelineKey, others: tuple[PipelineKey, ...] | None) -> str:
    """Returns why ``key`` was not cached beside ``others``, the recent keys of its program."""
    if others is None:
        return "the program is new here"
    if not others:
        return "the program was invalidated"
    if key in others:
        return "it had been evicted"
    nearest: tuple[str, ...] = min((key.differences(other) for other in others), key=len)
    return f"the program is known, but with another {', '.join(nearest)}"
