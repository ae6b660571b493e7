"""Launch costs of the host: nothing is queued there, so submitting a dispatch runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from vyre.adapters.cost_programs import empty_program
from vyre.domain.dispatch import DEFAULT_CONFIG, OutputArena
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.program import BackendId
from vyre.ports.cost_probe import CostExperiment, ExperimentTimer
from vyre.ports.execution import PipelineCompiler

_OFFERED: Final = frozenset((CostExperiment.LAUNCHES,))


class HostCostProbe:
    """``CostProbe`` of a backend that runs on the host.  ``now_ns``: its clock."""

    def __init__(self, backend: BackendId, compiler: PipelineCompiler, now_ns: Callable[[], int]) -> None:
        self._backend, self._compiler, self._now_ns = backend, compiler, now_ns

    @property
    def experiments(self) -> frozenset[CostExperiment]:
        """The supported experiments: ``LAUNCHES``."""
        return _OFFERED

    @contextmanager
    def measuring(self) -> Iterator[ExperimentTimer]:
        """Implements ``CostProbe.measuring``; the timer raises ``UnsupportedFeature`` for any other experiment."""
        dispatch = self._compiler.compile(empty_program(), DEFAULT_CONFIG).pipeline.dispatch
        inputs, arena, now_ns = (memoryview(bytes(4)),), OutputArena(), self._now_ns

        def timed(experiment: CostExperiment, size: int, /) -> int:
            if experiment not in _OFFERED:
                raise UnsupportedFeature(feature=f"the experiment {experiment.value}", backend=self._backend)
            rounds = range(size)
            started = now_ns()
            for _ in rounds:
                dispatch(inputs, arena)
            return now_ns() - started

        yield timed
