"""The interfaces between the application and what lies outside it: backends, stores, telemetry, environment.

A package that adds a backend implements facets of ``Backend`` and describes the backend by a ``BackendRegistration``.
A test can replace any implementation by another one of the same interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.domain.artifact_key import ArtifactKey as ArtifactKey, ArtifactKind as ArtifactKind
    from vyre.domain.binding import Binding as Binding, BindingPlan as BindingPlan, BindingRole as BindingRole
    from vyre.domain.device import DeviceProfile as DeviceProfile, EngineKind as EngineKind
    from vyre.domain.dialects.lowering import (
        LoweringDifference as LoweringDifference, LoweringKey as LoweringKey, LoweringVerdict as LoweringVerdict,
    )
    from vyre.domain.dispatch import TimingQuality as TimingQuality
    from vyre.domain.evidence.provenance import SourceFile as SourceFile, WorkingTree as WorkingTree
    from vyre.domain.geometry import LaneReach as LaneReach, LaunchLimits as LaunchLimits, Reach as Reach
    from vyre.domain.host_options import HostOptions as HostOptions
    from vyre.domain.ir.program import BackendId as BackendId
    from vyre.domain.launch import Interface as Interface, Launch as Launch
    from vyre.domain.names import OpId as OpId
    from vyre.domain.optimize.passes import Pass as Pass
    from vyre.domain.tuning import (
        Candidate as Candidate, TimeKind as TimeKind, TuningKey as TuningKey, TuningRecord as TuningRecord,
    )
    from vyre.domain.wave_times import WaveTime as WaveTime, WaveTimes as WaveTimes
    from vyre.policies.journal import Decision as Decision, DecisionSink as DecisionSink
    from vyre.ports.aot import AotRegistry as AotRegistry
    from vyre.ports.artifact_store import (
        Artifact as Artifact, ArtifactStore as ArtifactStore, StoreStats as StoreStats, StoredEntry as StoredEntry,
    )
    from vyre.ports.backend import (
        Backend as Backend, BackendCatalog as BackendCatalog, BackendRegistration as BackendRegistration,
        BackendRole as BackendRole, BackendServices as BackendServices, DiscoveryFailure as DiscoveryFailure,
        require as require,
    )
    from vyre.ports.bundles import (
        Build as Build, Bundle as Bundle, BundleSupport as BundleSupport,
        OwnEmitters as OwnEmitters, BundledCode as BundledCode,
    )
    from vyre.ports.cancellation import Cancellation as Cancellation
    from vyre.ports.cost_probe import (
        CostExperiment as CostExperiment, CostProbe as CostProbe, ExperimentTimer as ExperimentTimer,
    )
    from vyre.ports.cost_store import CostStore as CostStore
    from vyre.ports.device_passes import DevicePassesOf as DevicePassesOf
    from vyre.ports.emission import (
        CodeEmission as CodeEmission, EmissionOptions as EmissionOptions, EmittedModule as EmittedModule,
    )
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
    from vyre.ports.provenance import SourceRepository as SourceRepository
    from vyre.ports.requests import (
        DispatchRequest as DispatchRequest, HostBytes as HostBytes, OutputStorage as OutputStorage,
        Readback as Readback, ResidentSequence as ResidentSequence, ResidentStep as ResidentStep, Resource as Resource,
        Upload as Upload, SequenceSubmission as SequenceSubmission,
    )
    from vyre.ports.resident_buffer import (
        ResidentBuffer as ResidentBuffer, Described as Described, Expiring as Expiring,
    )
    from vyre.ports.support import (
        Clock as Clock, Environment as Environment, NullTelemetry as NullTelemetry,
    )
    from vyre.ports.support import Profiler as Profiler, Telemetry as Telemetry
    from vyre.ports.tunable import Tunable as Tunable
    from vyre.ports.verdict_store import VerdictStore as VerdictStore
    from vyre.ports.wave_time_store import WaveTimeStore as WaveTimeStore
    from vyre.ports.tuning_store import TuningStore as TuningStore, TuningStoreStats as TuningStoreStats
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
# isort: on
# fmt: on
