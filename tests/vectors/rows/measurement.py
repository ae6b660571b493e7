"""Rows of occupancy, launch diagnostics and the speed-up gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vectors.codec import Json, PlanCodec, Row
from vectors.seeds.launch_diagnosis import (
    DiagnosisInputs,
    LaunchDiagnosis,
    LaunchFailure,
    ShapeDiagnosis,
    ShapeDiagnosisInputs,
    TensorCores,
    diagnose,
    diagnose_shape,
)
from vectors.seeds.speedup_gate import HEADER, GateInputs, SpeedupEvidence, format_csv, parse_csv, validate
from vyre.policies.devices.occupancy import (
    SM_MODELS,
    CooperativeLaunch,
    KernelUsage,
    Occupancy,
    estimate,
)

CODEC: Final = PlanCodec()


def _active_blocks(
    target: str,
    regs_per_thread: int,
    static_shared_bytes: int,
    dynamic_shared_bytes: int,
    block_size: int,
    block_barriers: int,
) -> Occupancy:
    usage = KernelUsage(regs_per_thread, static_shared_bytes, dynamic_shared_bytes, block_size, block_barriers)
    return estimate(SM_MODELS[target], usage)


def _failures(found: tuple[LaunchFailure, ...]) -> list[Json]:
    """Kinds without members are bare names."""
    return [
        type(failure).__name__
        if isinstance(failure, CooperativeLaunch | TensorCores)
        else CODEC.encode(LaunchFailure, failure)
        for failure in found
    ]


def _diagnose(inputs: DiagnosisInputs) -> dict[str, Json]:
    found = diagnose(inputs)
    encoded: dict[str, Json] = CODEC.encode(LaunchDiagnosis, found)
    return encoded | {"failures": _failures(found.failures)}


def _diagnose_shape(inputs: ShapeDiagnosisInputs) -> dict[str, Json]:
    found = diagnose_shape(inputs)
    encoded: dict[str, Json] = CODEC.encode(ShapeDiagnosis, found)
    return encoded | {"failures": _failures(found.failures)}


def _parse_csv(csv: str, required_speedup_x: float) -> SpeedupEvidence:
    return parse_csv(csv.replace("{HEADER}", HEADER), required_speedup_x)


def _format_csv(inputs: GateInputs) -> str:
    return format_csv(inputs)


FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "occupancy_hardware_model": {"nvidia_max_active_blocks": Row(_active_blocks, fallible=True)},
    "kernel_failure_diagnostics": {
        "diagnose_cuda_kernel_launch": Row(_diagnose),
        "diagnose_cuda_kernel_launch_shape": Row(_diagnose_shape, fallible=True),
    },
    "megakernel_speedup_gate": {
        "validate_cuda_megakernel_speedup_gate": Row(validate, fallible=True),
        "format_validated_cuda_megakernel_speedup_evidence_csv": Row(_format_csv, fallible=True),
        "validate_cuda_megakernel_speedup_evidence_csv": Row(_parse_csv, fallible=True),
    },
}
