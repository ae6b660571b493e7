"""Launches on the resident memory of the reference backends."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from vyre.adapters.host.memory import HostMemory, aligned, arrays_of, counted_buffers, in_turn, turns_of
from vyre.adapters.reference.executor import ReferenceExecutor
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError, DispatchTimeout
from vyre.domain.ir.program import BackendId
from vyre.domain.sites import locate
from vyre.policies.frontiers.fixpoint import FixpointExecutor
from vyre.policies.launching.grid_sync_mode import GridSyncInputs
from vyre.ports.requests import FLAG_BYTES, ResidentSequence, ResidentStep

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ReferenceMemory(HostMemory):
    """``ResidentMemory``, ``ResidentExecutor`` and ``LoopSupport`` of a reference backend."""

    def __init__(self, backend: BackendId, executor: ReferenceExecutor) -> None:
        super().__init__(backend)
        self._executor = executor

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        started = self._executor.now_ns()
        flag = None if sequence.flag is None else self.range(sequence.flag, 0, FLAG_BYTES)
        limits = [s.config.timeout_s for s in (*sequence.prefix, *sequence.repeated) if s.config.timeout_s is not None]
        deadline = started + int(min(limits) * 1e9) if limits else None
        rounds, converged = 0, False
        for step in sequence.prefix:
            self._step(step)
        while rounds < sequence.repeat_count and not converged:
            if flag is not None:
                flag.fill(0)
            for step in sequence.repeated:
                self._step(step)
            rounds += 1
            if flag is not None and deadline is not None and self._executor.now_ns() > deadline:
                raise DispatchTimeout(f"the deadline passed after {rounds} rounds of a sequence")
            converged = flag is not None and not flag.any()
        self.download(sequence.reads)
        ns = self._executor.now_ns() - started
        return DispatchTiming(ns) if flag is None else DispatchTiming(ns, rounds=rounds, converged=converged)

    def loop_executors(self, steps: Sequence[ResidentStep], /) -> frozenset[FixpointExecutor]:
        return frozenset({FixpointExecutor.COMMAND_LIST})

    def grid_sync(self, step: ResidentStep, /) -> GridSyncInputs:
        """Implements ``LoopSupport.grid_sync``: the parts between barriers run one after the other."""
        resolved = self.resolve(step)
        pipeline, _ = self._executor.pipeline(step.program, resolved.sized)
        return GridSyncInputs(False, prod(pipeline.launch(resolved.input_nbytes).grid), 0, 0)

    def _step(self, step: ResidentStep) -> None:
        resolved = self.resolve(step)
        pipeline, _ = self._executor.pipeline(step.program, resolved.sized)
        launch = pipeline.launch(resolved.input_nbytes)
        resolved.check(launch)
        memory: dict[str, npt.NDArray[np.uint8]] = {}
        for binding, data, nbytes in zip(resolved.plan.bindings, arrays_of(resolved), launch.nbytes, strict=True):
            memory[binding.buffer.name] = aligned(data[:nbytes], binding.element_size)  # copies host bytes only
            if binding.input_index is None:
                memory[binding.buffer.name].fill(0)
        try:
            in_turn(turns_of(counted_buffers(step.program, resolved)), pipeline.run, memory, launch)
        except BackendError as error:
            locate(error, (step.program,))
            raise
