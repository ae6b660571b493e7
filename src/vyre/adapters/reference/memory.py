"""Launches on the resident memory of the reference backends."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from vyre.adapters.host.memory import HostMemory, aligned, turn_of
from vyre.adapters.reference.executor import ReferenceExecutor
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.ir.program import BackendId
from vyre.ports.backend import ResidentSequence, ResidentStep

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ReferenceMemory(HostMemory):
    """``ResidentMemory`` and ``ResidentExecutor`` of a reference backend."""

    def __init__(self, backend: BackendId, executor: ReferenceExecutor) -> None:
        super().__init__(backend)
        self._executor = executor

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        """Implements ``ResidentExecutor.run``."""
        started = time.perf_counter_ns()
        for step in sequence.prefix:
            self._step(step)
        for _ in range(sequence.repeat_count):
            for step in sequence.repeated:
                self._step(step)
        self.download(sequence.reads)
        return DispatchTiming(time.perf_counter_ns() - started)

    def _step(self, step: ResidentStep) -> None:
        found = self.resolve(step)
        pipeline, _ = self._executor.pipeline(step.program, found.sized)
        launch = pipeline.launch(found.input_nbytes)
        found.check(launch)
        memory: dict[str, npt.NDArray[np.uint8]] = {}
        for binding, data, nbytes in zip(found.plan.bindings, found.arrays, launch.nbytes, strict=True):
            memory[binding.buffer.name] = aligned(data[:nbytes], binding.element_size)  # copies host bytes only
            if binding.input_index is None:
                memory[binding.buffer.name].fill(0)
        with turn_of(found.counted) or nullcontext():
            pipeline.run(memory, launch)
