"""Test doubles and runners for the tests of programs that use vyre.

``cuda_machine`` emulates a CUDA device; ``recording``, ``failing`` and ``hooked`` wrap a backend, ``function_backend``
makes one from a Python function; ``RecordingTelemetry`` keeps counters and events.  The modules
``vyre.testing.backend_contract``, ``vyre.testing.conformance`` and ``vyre.testing.filetests`` are commands too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.driver import MachineDriver as MachineDriver
    from vyre.adapters.cuda.machine.fault_plan import (
        FOREVER as FOREVER, DriverCall as DriverCall, Fault as Fault, FaultPlan as FaultPlan, RunName as RunName,
        SlowKernel as SlowKernel,
    )
    from vyre.adapters.cuda.machine.faults import FaultKind as FaultKind, KernelFault as KernelFault
    from vyre.adapters.cuda.machine.journal import (
        CallRecord as CallRecord, Violation as Violation, ViolationKind as ViolationKind,
    )
    from vyre.adapters.cuda.machine.options import MachineOptions as MachineOptions
    from vyre.adapters.cuda.machine.presets import DevicePreset as DevicePreset, Speed as Speed
    from vyre.adapters.cuda.machine.streams import StreamSchedule as StreamSchedule
    from vyre.adapters.cuda.runtime.waiting import WaitingClock as WaitingClock
    from vyre.adapters.cuda.seam import (
        FoundAccess as FoundAccess, HostBlock as HostBlock, KernelFacts as KernelFacts, KernelFinding as KernelFinding,
        LaunchShape as LaunchShape, LoadedLibrary as LoadedLibrary, MemoryInfo as MemoryInfo,
        ParameterBlock as ParameterBlock, ParameterPlace as ParameterPlace, PointerFacts as PointerFacts,
        PoolUse as PoolUse, WhileNode as WhileNode,
    )
    from vyre.adapters.discovery import (
        assemble_catalog as assemble_catalog, load_catalog as load_catalog, PluginReference as PluginReference,
    )
    from vyre.testing.fakes import (
        BytesFunction as BytesFunction, Call as Call, CallLog as CallLog, CallName as CallName, FailNth as FailNth,
        FunctionExecutor as FunctionExecutor, Hook as Hook,
        MemoryArtifactStore as MemoryArtifactStore, failing as failing, function_backend as function_backend,
        hooked as hooked, recording as recording, registration_of as registration_of,
    )
    from vyre.testing.machine import CudaMachine as CudaMachine, cuda_machine as cuda_machine
    from vyre.testing.recording_telemetry import Event as Event, RecordingTelemetry as RecordingTelemetry
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
# isort: on
# fmt: on
