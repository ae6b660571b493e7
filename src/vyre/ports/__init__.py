"""The interfaces between the application and what lies outside it: backends, stores, telemetry, environment.

A package that adds a backend implements facets of ``Backend`` and describes the backend by a ``BackendRegistration``.
A test can replace any implementation by another one of the same interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.domain.device import DeviceProfile as DeviceProfile
    from vyre.domain.ir.program import BackendId as BackendId
    from vyre.ports.artifact_store import (
        Artifact as Artifact, ArtifactStore as ArtifactStore, StoreStats as StoreStats, StoredEntry as StoredEntry,
    )
    from vyre.ports.backend import (
        Backend as Backend, BackendCatalog as BackendCatalog, BackendRegistration as BackendRegistration,
        BackendRole as BackendRole, BackendServices as BackendServices, DiscoveryFailure as DiscoveryFailure,
        require as require,
    )
    from vyre.ports.cancellation import Cancellation as Cancellation
    from vyre.ports.cost_probe import (
        CostExperiment as CostExperiment, CostProbe as CostProbe, ExperimentTimer as ExperimentTimer,
    )
    from vyre.ports.cost_store import CostStore as CostStore
    from vyre.ports.execution import (
        AsyncExecutor as AsyncExecutor, BoundResidentStep as BoundResidentStep, CacheCounters as CacheCounters,
        CacheOutcome as CacheOutcome, CompileResult as CompileResult, CompiledPipeline as CompiledPipeline,
        ForeignMemory as ForeignMemory, LoopSupport as LoopSupport, MetricSource as MetricSource,
        PendingDispatch as PendingDispatch, PipelineCompiler as PipelineCompiler,
        PreparablePipeline as PreparablePipeline, ProgramExecutor as ProgramExecutor,
        ResidentBinder as ResidentBinder, ResidentExecutor as ResidentExecutor, ResidentMemory as ResidentMemory,
    )
    from vyre.ports.gathering import BoundGather as BoundGather, GatheredReads as GatheredReads, Ranges as Ranges
    from vyre.ports.lifecycle import DeviceLifecycle as DeviceLifecycle, NullLifecycle as NullLifecycle
    from vyre.ports.ownership import check_ownership as check_ownership
    from vyre.ports.persistent import (
        EndedJobs as EndedJobs, JobMemory as JobMemory, KeptSteps as KeptSteps, PersistentEngine as PersistentEngine,
        PersistentExecutor as PersistentExecutor, PersistentSteps as PersistentSteps, StepsRan as StepsRan,
    )
    from vyre.ports.planning import (
        DispatchWork as DispatchWork, ExecutionPlanning as ExecutionPlanning, PlannedExecution as PlannedExecution,
    )
    from vyre.ports.requests import (
        DispatchRequest as DispatchRequest, HostBytes as HostBytes, OutputStorage as OutputStorage,
        Readback as Readback, ResidentSequence as ResidentSequence, ResidentStep as ResidentStep,
        Resource as Resource, Upload as Upload,
    )
    from vyre.ports.resident_buffer import ResidentBuffer as ResidentBuffer
    from vyre.ports.support import Clock as Clock, Environment as Environment, NullTelemetry as NullTelemetry
    from vyre.ports.support import Profiler as Profiler, Telemetry as Telemetry
    from vyre.ports.tunable import Tunable as Tunable
    from vyre.ports.tuning_store import TuningStore as TuningStore, TuningStoreStats as TuningStoreStats
else:
    from vyre.domain.lazy_names import homes, importer
# isort: on
# fmt: on

# The same names for run time, where they are imported on first use: module -> names.
_HOME: Final[dict[str, str]] = {
    "vyre.domain.device": "DeviceProfile",
    "vyre.domain.ir.program": "BackendId",
    "vyre.ports.artifact_store": "Artifact ArtifactStore StoreStats StoredEntry",
    "vyre.ports.backend": (
        "Backend BackendCatalog BackendRegistration BackendRole BackendServices DiscoveryFailure require"
    ),
    "vyre.ports.cancellation": "Cancellation",
    "vyre.ports.cost_probe": "CostExperiment CostProbe ExperimentTimer",
    "vyre.ports.cost_store": "CostStore",
    "vyre.ports.execution": (
        "AsyncExecutor BoundResidentStep CacheCounters CacheOutcome CompileResult CompiledPipeline ForeignMemory "
        "LoopSupport MetricSource PendingDispatch PipelineCompiler PreparablePipeline ProgramExecutor ResidentBinder "
        "ResidentExecutor ResidentMemory"
    ),
    "vyre.ports.gathering": "BoundGather GatheredReads Ranges",
    "vyre.ports.lifecycle": "DeviceLifecycle NullLifecycle",
    "vyre.ports.ownership": "check_ownership",
    "vyre.ports.persistent": (
        "EndedJobs JobMemory KeptSteps PersistentEngine PersistentExecutor PersistentSteps StepsRan"
    ),
    "vyre.ports.planning": "DispatchWork ExecutionPlanning PlannedExecution",
    "vyre.ports.requests": (
        "DispatchRequest HostBytes OutputStorage Readback ResidentSequence ResidentStep Resource Upload"
    ),
    "vyre.ports.resident_buffer": "ResidentBuffer",
    "vyre.ports.support": "Clock Environment NullTelemetry Profiler Telemetry",
    "vyre.ports.tunable": "Tunable",
    "vyre.ports.tuning_store": "TuningStore TuningStoreStats",
}

__all__ = sorted(name for names in _HOME.values() for name in names.split())

if not TYPE_CHECKING:  # so that type checkers refuse names that do not exist
    __getattr__ = importer(__name__, homes(_HOME))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
