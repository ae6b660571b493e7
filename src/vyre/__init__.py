"""vyre: typed kernel programs in, the same bytes out on every backend.

    with vyre.open() as session:
        result = session.dispatch(program, {"x": xs})

Names are imported when they are first used, so that ``import vyre`` loads nothing heavy.
"""

from __future__ import annotations

import builtins
from importlib import import_module
from time import time_ns
from typing import TYPE_CHECKING, Final

from vyre.domain.lazy_names import place_functions as _place_functions
from vyre.exporting import homes as _homes

IMPORTED_NS: Final = time_ns()
"""Since the epoch: source files that changed later are not the ones that run."""

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.options import RunOptions as RunOptions
    from vyre.adapters.cuda.registration import cuda_catalog as cuda_catalog
    from vyre.adapters.cuda.runtime.device import CudaOptions as CudaOptions
    from vyre.adapters.cuda.seam import JitOptions as JitOptions
    from vyre.adapters.device_files import SignatureTable as SignatureTable
    from vyre.adapters.telemetry.guarded import RecentEvents as RecentEvents
    from vyre.adapters.telemetry.prometheus import PrometheusTelemetry as PrometheusTelemetry
    from vyre.adapters.telemetry.structured import StructlogTelemetry as StructlogTelemetry
    from vyre.app.aot import (
        WrittenBundle as WrittenBundle, aot_emitters as aot_emitters, build_bundle as build_bundle,
        write_c as write_c,
    )
    from vyre.app.bundle import LoadedBundle as LoadedBundle, load_bundle as load_bundle
    from vyre.app.calibration.service import KnownCosts as KnownCosts
    from vyre.app.drain_program import DrainProgram as DrainProgram, drain_program as drain_program
    from vyre.app.emission import emit as emit
    from vyre.app.evidence.bundle import EvidenceBundle as EvidenceBundle, read_evidence as read_evidence
    from vyre.app.evidence.replaying import EvidenceReplay as EvidenceReplay, replay_evidence as replay_evidence
    from vyre.app.explain.explanation import (
        Explanation as Explanation, DecisionSummary as DecisionSummary, Offer as Offer,
    )
    from vyre.app.explain.journals import replay_file as replay_file
    from vyre.app.invalidation import InvalidationReport as InvalidationReport, InvalidEntry as InvalidEntry
    from vyre.app.fixpoint import FixedPoint as FixedPoint, FixedPointResult as FixedPointResult
    from vyre.app.journal import DecisionJournal as DecisionJournal
    from vyre.app.kernels.kernel import Kernel as Kernel, function as function, kernel as kernel
    from vyre.app.known_devices import device_signatures as device_signatures
    from vyre.app.opening import open as open
    from vyre.app.optimizing import OptimizedProgram as OptimizedProgram, optimize as optimize
    from vyre.app.persistent.jobs import PersistentJobs as PersistentJobs
    from vyre.app.persistent.tickets import JobBatch as JobBatch, Ticket as Ticket, BatchTicket as BatchTicket
    from vyre.app.pipeline import BoundLaunch as BoundLaunch, Pipeline as Pipeline
    from vyre.app.prediction import (
        PredictionConfig as PredictionConfig, PredictionReport as PredictionReport,
        PredictionDecision as PredictionDecision,
    )
    from vyre.app.queries.cache import ResidentCache as ResidentCache
    from vyre.app.queries.plan import QueriesPlan as QueriesPlan, QueryResults as QueryResults, QueryGroup as QueryGroup
    from vyre.app.queries.queries import Queries as Queries
    from vyre.app.residency import ResidencyReport as ResidencyReport, ResidentEviction as ResidentEviction
    from vyre.app.resident import ResidentArray as ResidentArray
    from vyre.app.resident_dispatch import BoundResidentLaunch as BoundResidentLaunch
    from vyre.app.result import Result as Result
    from vyre.app.selection import SelectionReport as SelectionReport, CandidateReport as CandidateReport
    from vyre.app.session import Session as Session
    from vyre.app.shadow.settings import Shadow as Shadow
    from vyre.app.shadow.state import (
        ShadowReport as ShadowReport, ShadowState as ShadowState, ShadowStatus as ShadowStatus,
        Quarantined as Quarantined,
    )
    from vyre.app.asking import missing as missing
    from vyre.app.shorthand import Indirect as Indirect, Keywords as Keywords
    from vyre.app.specialized import (
        SpecializationReport as SpecializationReport, SpecializedPipeline as SpecializedPipeline,
        Specialization as Specialization, SpecializationDecision as SpecializationDecision,
    )
    from vyre.app.stored_programs import StoredProgram as StoredProgram, read_program as read_program
    from vyre.app.transfers.reading import BoundDownload as BoundDownload
    from vyre.app.transfers.report import Downloaded as Downloaded, TransferReport as TransferReport
    from vyre.app.dialects.current import dialect_registry as dialect_registry
    from vyre.app.dialects.lowered import LoweringChoice as LoweringChoice
    from vyre.app.dialects.registry import (
        DialectRegistry as DialectRegistry, RegisteredOperation as RegisteredOperation,
        RegistrySnapshot as RegistrySnapshot,
    )
    from vyre.app.foreign_arrays import (
        SupportsArray as SupportsArray, SupportsArrayInterface as SupportsArrayInterface,
        SupportsDLPack as SupportsDLPack,
    )
    from vyre.app.kernels.launches import Launcher as Launcher
    from vyre.app.transfers.slots import Marked as Marked
    from vyre.app.tuning.race import RaceReport as RaceReport, Raced as Raced
    from vyre.app.tuning.report import (
        Tuned as Tuned, TuningReport as TuningReport, Rejected as Rejected, TuningSource as TuningSource,
    )
    from vyre.app.tuning.tuner import TuningSettings as TuningSettings
    from vyre.app.sequences.plan import (
        SequenceRun as SequenceRun, WorkGroup as WorkGroup, WorkPlan as WorkPlan,
    )
    from vyre.app.sequences.residency import KeptMemory as KeptMemory
    from vyre.app.sequences.sequence import StepSequence as StepSequence
    from vyre.app.sequences.steps import (
        Batch as Batch, HostStep as HostStep, Repeat as Repeat, Step as Step,
    )
    from vyre.app.sequences.temporary import Temporary as Temporary
    from vyre.app.speculation import Speculation as Speculation, SpeculationResult as SpeculationResult
    from vyre.app.work_queue import WorkQueue as WorkQueue, WorkQueueResult as WorkQueueResult
    from vyre.domain.cache_config import CacheConfig as CacheConfig, Durability as Durability, Eviction as Eviction
    from vyre.domain.device_signature import DeviceSignature as DeviceSignature
    from vyre.domain.diagnostics import Diagnostic as Diagnostic, Severity as Severity
    from vyre.domain.dialects.laws.law import Law as Law, OperandUse as OperandUse
    from vyre.domain.dialects.laws.stated import StatedLaw as StatedLaw
    from vyre.domain.dialects.manifests import Manifest as Manifest
    from vyre.domain.dialects.migration import (
        Deprecation as Deprecation, Migration as Migration, OperationVersion as OperationVersion, Migrated as Migrated,
        MigratedProgram as MigratedProgram, Migrations as Migrations, MovedCalls as MovedCalls,
    )
    from vyre.domain.dialects.operations import (
        Dialect as Dialect, Lowering as Lowering, Operation as Operation, Category as Category, Signature as Signature,
        TypedName as TypedName,
    )
    from vyre.domain.dispatch import (
        DispatchConfig as DispatchConfig, DispatchTiming as DispatchTiming, OutputArena as OutputArena,
        PersistentThreadMode as PersistentThreadMode, SpeculationMode as SpeculationMode,
    )
    from vyre.domain.errors import (
        BackendError as BackendError, BackendUnavailable as BackendUnavailable, BuildError as BuildError,
        DataRaceError as DataRaceError, DeviceLimitExceeded as DeviceLimitExceeded, DeviceLost as DeviceLost,
        DeviceOutOfMemory as DeviceOutOfMemory,
        DispatchFailed as DispatchFailed, DispatchTimeout as DispatchTimeout, DuplicateOperation as DuplicateOperation,
        ErrorCode as ErrorCode, ForeignCosts as ForeignCosts, GridOverflow as GridOverflow,
        HostStepFailed as HostStepFailed,
        InvalidConfig as InvalidConfig, InvalidDialect as InvalidDialect, InvalidField as InvalidField,
        InvalidInput as InvalidInput, InvalidResource as InvalidResource, KernelCompileFailed as KernelCompileFailed,
        KernelSourceError as KernelSourceError, MalformedBundle as MalformedBundle, MigrationFailed as MigrationFailed,
        UnknownOperation as UnknownOperation, MalformedJson as MalformedJson, MalformedText as MalformedText,
        MalformedWire as MalformedWire, PlanError as PlanError, QueueFull as QueueFull, RefusedByGate as RefusedByGate,
        StaleCosts as StaleCosts, StepBudgetExceeded as StepBudgetExceeded, TrapError as TrapError,
        UnboundVariable as UnboundVariable, UnexpectedDigest as UnexpectedDigest, UnfinishedBuild as UnfinishedBuild,
        UnfinishedProgram as UnfinishedProgram, UnknownAttribute as UnknownAttribute, UnreadableFile as UnreadableFile,
        UnsupportedFeature as UnsupportedFeature, UnsupportedUse as UnsupportedUse, UnusableBundle as UnusableBundle,
        UnusableCosts as UnusableCosts, VyreError as VyreError, WorkQueueOverflow as WorkQueueOverflow, Event as Event,
    )
    from vyre.domain.frontend.annotations import (
        In as In, InOut as InOut, Out as Out, Static as Static, like as like, Like as Like,
    )
    from vyre.domain.frontend.intrinsics import (
        barrier as barrier, call as call, global_id as global_id, grid_loop as grid_loop, grid_sync as grid_sync,
        group_id as group_id, local_id as local_id,
        num_groups as num_groups, private_array as private_array, spec as spec, static as static,
        subgroup_lane as subgroup_lane, subgroup_size as subgroup_size, trap as trap,
        workgroup_array as workgroup_array,
    )
    from vyre.domain.geometry import GridRule as GridRule, LaunchGeometry as LaunchGeometry
    from vyre.domain.ir.builder import (
        BufferHandle as BufferHandle, Operand as Operand, ProgramBuilder as ProgramBuilder,
        TypeLike as TypeLike, Value as Value, Variable as Variable,
    )
    from vyre.domain.ir.typed_functions import (
        abs_ as abs_, abs_diff as abs_diff, acos as acos, asin as asin, atan as atan, ceil as ceil, clmul as clmul,
        clz as clz, cos as cos, cosh as cosh, ctz as ctz, exp as exp, exp2 as exp2, floor as floor, fma as fma,
        inverse_sqrt as inverse_sqrt, is_finite as is_finite, is_inf as is_inf, is_nan as is_nan, log as log,
        log2 as log2, max_ as max_, min_ as min_, mulhi as mulhi, narrow as narrow, pack as pack, popcount as popcount,
        reciprocal as reciprocal, reverse_bits as reverse_bits, rotl as rotl, rotr as rotr, round_ as round_,
        round_even as round_even, sat_add as sat_add, sat_mul as sat_mul, sat_sub as sat_sub, select as select,
        sign as sign, sin as sin, sinh as sinh, sqrt as sqrt,
        subgroup_add as subgroup_add, subgroup_all as subgroup_all, subgroup_and as subgroup_and,
        subgroup_any as subgroup_any, subgroup_ballot as subgroup_ballot, subgroup_broadcast as subgroup_broadcast,
        subgroup_exclusive_add as subgroup_exclusive_add, subgroup_exclusive_and as subgroup_exclusive_and,
        subgroup_exclusive_max as subgroup_exclusive_max, subgroup_exclusive_min as subgroup_exclusive_min,
        subgroup_exclusive_or as subgroup_exclusive_or, subgroup_exclusive_xor as subgroup_exclusive_xor,
        subgroup_inclusive_add as subgroup_inclusive_add, subgroup_inclusive_and as subgroup_inclusive_and,
        subgroup_inclusive_max as subgroup_inclusive_max, subgroup_inclusive_min as subgroup_inclusive_min,
        subgroup_inclusive_or as subgroup_inclusive_or, subgroup_inclusive_xor as subgroup_inclusive_xor,
        subgroup_max as subgroup_max, subgroup_min as subgroup_min, subgroup_or as subgroup_or,
        subgroup_shuffle as subgroup_shuffle, subgroup_xor as subgroup_xor, tan as tan, tanh as tanh,
        trunc as trunc, unpack as unpack, wrap_cast as wrap_cast,
    )
    from vyre.domain.ir.operators import Ordering as Ordering
    from vyre.domain.ir.program import Buffer as Buffer, Program as Program
    from vyre.domain.ir.switching import SwitchArms as SwitchArms
    from vyre.domain.ir.types import (
        ScalarType as ScalarType, bf16 as bf16, bool8 as bool8, bool_ as bool_, f16 as f16, f32 as f32, f64 as f64,
        i8 as i8, i16 as i16, i32 as i32, i64 as i64, u8 as u8, u16 as u16, u32 as u32, u64 as u64,
    )
    from vyre.domain.ir.views import View2d as View2d, View3d as View3d
    from vyre.domain.ir.upstream import import_upstream as import_upstream, Imported as Imported
    from vyre.domain.missing import Missing as Missing, MissingKind as MissingKind
    from vyre.domain.launch_costs import (
        LaunchCosts as LaunchCosts, Provenance as Provenance, CostSource as CostSource, KernelTime as KernelTime,
        Measured as Measured,
    )
    from vyre.domain.optimize.passes import PassResult as PassResult
    from vyre.domain.program_report import InvalidProgram as InvalidProgram, Report as Report
    from vyre.domain.races import DataRace as DataRace, LanePlace as LanePlace, RacingAccess as RacingAccess
    from vyre.domain.record import Reason as Reason
    from vyre.domain.specialization import SpecMap as SpecMap, SpecValue as SpecValue, SpecKind as SpecKind
    from vyre.domain.tuning_pins import Pin as Pin, Pins as Pins
    from vyre.domain.upload_reuse import UploadReuse as UploadReuse
    from vyre.domain.validation.validator import validate as validate
    from vyre.policies.decision_records import (
        DecisionRecord as DecisionRecord, ReplayOutcome as ReplayOutcome, Replayed as Replayed,
        VerdictDifference as VerdictDifference,
    )
    from vyre.policies.evidence.shadow import ShadowLimits as ShadowLimits
    from vyre.policies.frontiers.fixpoint import FixpointExecutor as FixpointExecutor
    from vyre.policies.launching.queueing import QueueDiscipline as QueueDiscipline
    from vyre.policies.prediction.confirming import ConfirmWay as ConfirmWay
    from vyre.policies.launching.execution_prices import ExecutionMode as ExecutionMode
    from vyre.policies.tuning.paired_race import RaceThresholds as RaceThresholds
    from vyre.ports.bundles import AotEmitter as AotEmitter, AotTargetId as AotTargetId
    from vyre.ports.support import Telemetry as Telemetry

    __version__: str
# isort: on
# fmt: on

_MODULE_OF: Final = _homes(__name__)

# `from vyre import *` leaves Python's own names alone: `vyre.open` is written with its module.
__all__ = sorted(name for name in _MODULE_OF if not hasattr(builtins, name))


if not TYPE_CHECKING:  # a type checker shall refuse names that do not exist

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("vyre")
        module = _MODULE_OF.get(name)
        if module is None:
            if name.startswith("_"):
                raise AttributeError(f"module 'vyre' has no attribute {name!r}")
            from vyre.domain.errors import UnknownName
            from vyre.domain.ir.caller import outside
            from vyre.domain.ir.foreign_names import module_hint

            hint = module_hint(name, __all__) or "print(vyre.__all__) lists the names; the documentation describes them"
            raise UnknownName(f"module 'vyre' has no attribute {name!r}", fix=f"{hint}.", loc=outside())
        from vyre.domain.float_mode import in_default_mode

        value: object = getattr(in_default_mode(import_module)(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})


_place_functions(
    {
        "collector_paused": "vyre.adapters.collector.collector_paused",
        "kept_lines": "vyre.adapters.kept_lines.kept_lines",
        "found_definitions": "vyre.app.dialects.current.definitions_of",
        "warn_of_deprecated": "vyre.app.dialects.current.warn_of_deprecated",
        "deprecated_calls": "vyre.app.dialects.current.deprecated_calls",
    }
)
