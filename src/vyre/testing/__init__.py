"""Test doubles and runners for the tests of programs that use vyre.

``cuda_machine`` emulates a CUDA device; ``recording``, ``failing`` and ``hooked`` wrap a backend, ``function_backend``
makes one from a Python function; ``RecordingTelemetry`` keeps counters and events.  The modules
``vyre.testing.backend_contract``, ``vyre.testing.conformance`` and ``vyre.testing.filetests`` are commands too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.fault_plan import (
        FOREVER as FOREVER, DriverCall as DriverCall, Fault as Fault, FaultPlan as FaultPlan, RunName as RunName,
        SlowKernel as SlowKernel,
    )
    from vyre.adapters.cuda.machine.machine_options import MachineOptions as MachineOptions
    from vyre.adapters.discovery import assemble_catalog as assemble_catalog, load_catalog as load_catalog
    from vyre.testing.fakes import (
        BytesFunction as BytesFunction, Call as Call, CallLog as CallLog, CallName as CallName, FailNth as FailNth,
        FunctionExecutor as FunctionExecutor, Hook as Hook,
        MemoryArtifactStore as MemoryArtifactStore, failing as failing, function_backend as function_backend,
        hooked as hooked, recording as recording, registration_of as registration_of,
    )
    from vyre.testing.machine import CudaMachine as CudaMachine, cuda_machine as cuda_machine
    from vyre.testing.recording_telemetry import Event as Event, RecordingTelemetry as RecordingTelemetry
else:
    from vyre.domain.lazy_names import homes, importer
# isort: on
# fmt: on

# The imports above for run time: module -> names.
_HOME: Final[dict[str, str]] = {
    "vyre.adapters.cuda.machine.fault_plan": "FOREVER DriverCall Fault FaultPlan RunName SlowKernel",
    "vyre.adapters.cuda.machine.machine_options": "MachineOptions",
    "vyre.adapters.discovery": "assemble_catalog load_catalog",
    "vyre.testing.fakes": (
        "BytesFunction Call CallLog CallName FailNth FunctionExecutor Hook MemoryArtifactStore failing "
        "function_backend hooked recording registration_of"
    ),
    "vyre.testing.machine": "CudaMachine cuda_machine",
    "vyre.testing.recording_telemetry": "Event RecordingTelemetry",
}

__all__ = sorted(name for names in _HOME.values() for name in names.split())

if not TYPE_CHECKING:  # so that a type checker refuses names that do not exist
    __getattr__ = importer(__name__, homes(_HOME))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
