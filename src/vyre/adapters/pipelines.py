"""Executing by pipelines: the part of an executor that is the same whatever a pipeline is made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any, Final, Generic, TypeVar

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
"""Pipelines kept, the least recently used going first."""
PipelineT = TypeVar("PipelineT", bound=CompiledPipeline)


class PipelineExecutor(Generic[PipelineT]):
    """``ProgramExecutor`` and ``PipelineCompiler`` over ``make``; pipelines are shared by digest and config."""

    def __init__(self, make: Callable[[Program, DispatchConfig], PipelineT]) -> None:
        self._make = make
        self._pipelines: OrderedDict[tuple[Any, ...], PipelineT] = OrderedDict()
        self._lock = Lock()
        self._hits = self._misses = 0

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        return self.pipeline(request.program, request.config)[0].dispatch(request.inputs, outputs)

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        pipeline, hit = self.pipeline(program, config)
        return CompileResult(pipeline, CacheOutcome.HIT if hit else CacheOutcome.MISS)

    def cache_counters(self) -> CacheCounters:
        return CacheCounters(self._hits, self._misses)

    def pipeline(self, program: Program, config: DispatchConfig) -> tuple[PipelineT, bool]:
        """The pipeline of a program under a config, and whether it was there already."""
        counts = tuple(sorted(config.output_counts.items())) if config.output_counts else ()
        if config.label is not None and config.timeout_s is None:
            # Only a timeout names the label; a label per dispatch must not mean a pipeline per dispatch.
            config = replace(config, label=None)
        # Names of buffers and spec constants are interface: programs that differ in them are kept apart.
        key = (program_digest(program), tuple(b.name for b in program.abi_buffers), config, counts)
        with self._lock:
            found = self._pipelines.get(key)
            if found is not None:
                self._hits += 1
                self._pipelines.move_to_end(key)
                return found, True
        made = self._make(program, config)
        with self._lock:
            self._misses += 1
            made = self._pipelines.setdefault(key, made)
            if len(self._pipelines) > PIPELINES:
                self._pipelines.popitem(last=False)
        return made, False
