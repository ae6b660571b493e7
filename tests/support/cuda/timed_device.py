"""A device whose launches take what a test says: for costs, and for what observation makes of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from vyre.adapters.discovery import load_catalog
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import BackendError
from vyre.domain.launch_costs import CostSource
from vyre.domain.tuning import TimeKind
from vyre.ports.backend import Backend, BackendCatalog
from vyre.ports.cost_probe import CostExperiment, ExperimentTimer
from vyre.ports.execution import CompiledPipeline, CompileResult, PipelineCompiler, ResidentExecutor
from vyre.ports.requests import HostBytes, OutputStorage, ResidentSequence
from vyre.testing.fakes import registration_of

TRUE_NS: Final[dict[CostExperiment, tuple[int, int]]] = {
    CostExperiment.ROUND_TRIP: (4_000, 0),
    CostExperiment.LAUNCHES: (50, 3_000),
    CostExperiment.KERNELS: (700, 1_000),
    CostExperiment.GRAPH_RECORD: (20_000, 4_000),
    CostExperiment.GRAPH_UPDATE: (500, 1_000),
    CostExperiment.GRAPH_REPLAY: (2_500, 10),
    CostExperiment.GRAPH_KERNELS: (700, 600),
    CostExperiment.PINNED_COPY: (8_000, 0),
    CostExperiment.PAGEABLE_COPY: (11_000, 0),
    CostExperiment.EVENT_PAIRS: (50, 440),
    CostExperiment.PERSISTENT: (50_000, 400),
    CostExperiment.GRID_BARRIERS: (6_000, 1_700),
    CostExperiment.BUILD: (9_000_000, 0),
    CostExperiment.TRAFFIC: (900, 0),
}
"""What an experiment takes as a whole, and for each part but bytes."""
GIB_NS: Final = {
    CostExperiment.PINNED_COPY: 43_000_000,
    CostExperiment.PAGEABLE_COPY: 180_000_000,
    CostExperiment.TRAFFIC: 100_000_000,
}
ENQUEUE_NS, WAIT_NS, DEVICE_NS = 20_000, 30_000, 10_000
SOURCE: Final = CostSource("reference", "a device", "13.0")


@dataclass
class TimedDevice:
    """``CostProbe`` and ``Tunable`` on top of the reference backend.  ``true_ns``: by experiment.  ``jitter_ns``: added
    by turns.  ``enqueue_ns``, ``wait_ns``, ``device_ns``, ``launches``, ``launch_ns``: of every dispatch.
    ``fails_at``: the experiment, counted from 1, that fails.  ``ran``: experiments so far.
    """

    true_ns: dict[CostExperiment, tuple[int, int]] = field(default_factory=lambda: dict(TRUE_NS))
    jitter_ns: Sequence[int] = (0,)
    kind: TimeKind = TimeKind.DEVICE
    device: str = SOURCE.device
    driver: str = SOURCE.driver
    enqueue_ns: int | None = ENQUEUE_NS
    wait_ns: int | None = WAIT_NS
    device_ns: int | None = DEVICE_NS
    launches: int | None = None
    launch_ns: int | None = None
    fails_at: int = 0
    ran: list[tuple[CostExperiment, int]] = field(default_factory=list)
    versions: str = "none"

    # ---- cost probe
    @property
    def experiments(self) -> frozenset[CostExperiment]:
        return frozenset(self.true_ns)

    @contextmanager
    def measuring(self) -> Iterator[ExperimentTimer]:
        yield self._timed

    def _timed(self, experiment: CostExperiment, size: int, /) -> int:
        self.ran.append((experiment, size))
        if len(self.ran) == self.fails_at:
            raise BackendError("no times today")
        whole, part = self.true_ns[experiment]
        per_gib = GIB_NS.get(experiment, 0) * size // (1 << 30)
        return whole + part * size + per_gib + self.jitter_ns[len(self.ran) % len(self.jitter_ns)]

    # ---- tunable
    def profiles(self, *_: Any) -> Sequence[str]:
        return ()

    def occupancy_bps(self, *_: Any) -> int | None:
        return None

    def work_done(self) -> int:
        return 0

    # ---- around
    @property
    def timing(self) -> DispatchTiming:
        return DispatchTiming(60_000, self.device_ns, self.enqueue_ns, self.wait_ns, self.launches, self.launch_ns)

    def backend(self, **changes: Any) -> Backend:
        registration = load_catalog().get("reference")
        assert registration is not None
        inner = registration.make()
        assert inner.compiler is not None and inner.resident_executor is not None
        changed: dict[str, Any] = {
            "compiler": _Compiler(self, inner.compiler),
            "resident_executor": _Resident(self, inner.resident_executor),
            "cost_probe": self,
            "tunable": self,
        }
        return replace(inner, **changed | changes)

    def catalog(self, **changes: Any) -> BackendCatalog:
        return BackendCatalog((registration_of(self.backend(**changes)),))


@dataclass
class _Compiler:
    device: TimedDevice
    inner: PipelineCompiler

    def compile(self, *asked: Any) -> CompileResult:
        found = self.inner.compile(*asked)
        return found._replace(pipeline=_Pipeline(self.device, found.pipeline))

    def cache_counters(self) -> Any:
        return self.inner.cache_counters()

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        return self.inner.forget(programs)


@dataclass
class _Pipeline:
    device: TimedDevice
    inner: CompiledPipeline

    @property
    def id(self) -> str:
        return self.inner.id

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        self.inner.dispatch(inputs, outputs)
        return self.device.timing


@dataclass
class _Resident:
    device: TimedDevice
    inner: ResidentExecutor

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        self.inner.run(sequence)
        return self.device.timing
