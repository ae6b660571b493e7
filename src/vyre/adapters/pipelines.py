"""Executing by pipelines: the part of an executor that is the same whatever a pipeline is made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from vyre.adapters.caching.memory_cache import Built, MemoryBudget, MemoryCache
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.identity import program_digest
from vyre.domain.ir.program import Program
from vyre.ports.backend import (
    CacheCounters,
    CacheOutcome,
    CompiledPipeline,
    CompileResult,
    DispatchRequest,
    OutputStorage,
)

PIPELINES: Final = 1024
"""Pipelines kept."""


PipelineT = TypeVar("PipelineT", bound=CompiledPipeline)


class PipelineExecutor(Generic[PipelineT]):
    """``ProgramExecutor`` and ``PipelineCompiler`` over ``make``; pipelines are shared by digest and config.

    Threads that want one pipeline wait for one compilation, as long as the timeout of their config allows.
    """

    def __init__(self, make: Callable[[Program, DispatchConfig], PipelineT]) -> None:
        self._make = make
        self._pipelines: MemoryCache[tuple[Any, ...], PipelineT] = MemoryCache(
            MemoryBudget(entries=PIPELINES), name=lambda key: f"the pipeline of program {key[0].hex()[:16]}"
        )

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        return self.pipeline(request.program, request.config)[0].dispatch(request.inputs, outputs)

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        started = time.perf_counter_ns()
        pipeline, built = self.pipeline(program, config)
        if not built:
            return CompileResult(pipeline, CacheOutcome.HIT)
        return CompileResult(pipeline, CacheOutcome.MISS, (("compile", time.perf_counter_ns() - started),))

    def cache_counters(self) -> CacheCounters:
        stats = self._pipelines.stats()
        return CacheCounters(stats.hits + stats.shared + stats.revived, stats.misses - stats.failures)

    def pipeline(self, program: Program, config: DispatchConfig) -> tuple[PipelineT, bool]:
        """The pipeline of a program under a config, and whether it was compiled for this call."""
        counts = tuple(sorted(config.output_counts.items())) if config.output_counts else ()
        if config.label is not None and config.timeout_s is None:
            # Only a timeout names the label; a label per dispatch must not mean a pipeline per dispatch.
            config = replace(config, label=None)
        # Names of buffers and spec constants are interface: programs that differ in them are kept apart.
        key = (program_digest(program), tuple(b.name for b in program.abi_buffers), config, counts)
        found = self._pipelines.get(key)
        if found is not None:
            return found, False
        built = False

        def build() -> Built[PipelineT]:
            nonlocal built
            built = True
            return Built(self._make(program, config), 0)

        return self._pipelines.get_or_build(key, build, timeout_s=config.timeout_s), built
