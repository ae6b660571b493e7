"""The reasons why a kernel cannot be launched, with its architecture and tensor cores; see ``diagnose_shape``."""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.policies.devices import occupancy
from vyre.policies.devices.occupancy import AxisLimits, CooperativeLaunch, Dim3, SharedMemory, ThreadsPerBlock
from vyre.policies.record import U32, U32_MAX, U64, record, verdict

_ROOMY: Final = AxisLimits((U32_MAX,) * 3, (U32_MAX,) * 3, U32_MAX)


@record
class DeviceEnvelope:
    """The limits and features that a device offers to one launch."""

    sm_major: U32
    sm_minor: U32
    max_threads_per_block: U32
    shared_memory_per_block_bytes: U64
    supports_cooperative_launch: bool
    supports_tensor_cores: bool


@record
class KernelRequirement:
    """The resources and features that a kernel requires."""

    min_sm_major: U32
    min_sm_minor: U32
    requested_threads_per_block: U32
    requested_shared_memory_bytes: U64
    requires_cooperative_launch: bool
    requires_tensor_cores: bool


@verdict
class SmVersion:
    """The compute capability is too low."""

    required_major: int
    required_minor: int
    actual_major: int
    actual_minor: int

    def __str__(self) -> str:
        required, actual = (self.required_major, self.required_minor), (self.actual_major, self.actual_minor)
        return "sm_version(required={}.{},actual={}.{})".format(*required, *actual)


@verdict
class TensorCores:
    """The device has no tensor cores."""

    def __str__(self) -> str:
        return "tensor_cores"


LaunchFailure: TypeAlias = SmVersion | ThreadsPerBlock | SharedMemory | CooperativeLaunch | TensorCores


@verdict
class LaunchDiagnosis:
    """The reasons why a kernel cannot be launched, if any.

    ``stable_message`` is one log line whose form does not change between versions.
    """

    failures: tuple[LaunchFailure, ...]
    is_launchable: bool
    stable_message: str


@record
class DiagnosisInputs:
    """A kernel's name, its requirements, and a device."""

    kernel: str
    device: DeviceEnvelope
    requirement: KernelRequirement


@record
class LaunchShape:
    """The shape of a launch."""

    grid: Dim3
    block: Dim3
    dynamic_shared_memory_bytes: U32
    cooperative: bool
    requires_tensor_cores: bool


@record
class ShapeDiagnosisInputs:
    """A launch shape and a device, with the number of blocks that fit at once; None leaves this unchecked."""

    kernel: str
    device: DeviceEnvelope
    shape: LaunchShape
    cooperative_resident_block_limit: U64 | None


@verdict
class ShapeDiagnosis:
    """The reasons why a launch does not fit the device, if any, and the requirements of its shape."""

    grid_blocks: int
    threads_per_block: int
    requirement: KernelRequirement
    failures: tuple[LaunchFailure, ...]
    is_launchable: bool
    stable_message: str


def diagnose(inputs: DiagnosisInputs) -> LaunchDiagnosis:
    """Returns all failures, in a fixed order."""
    failures = _failures(inputs.device, inputs.requirement)
    message = f"{occupancy._MESSAGE}|kernel={inputs.kernel}|{occupancy._named(failures)}"
    return LaunchDiagnosis(failures, not failures, message)


def diagnose_shape(inputs: ShapeDiagnosisInputs) -> ShapeDiagnosis:
    """Returns all reasons why a launch of this shape is refused, in a fixed order.

    Raises ``PlanError("DimensionOverflow")`` like ``vyre.policies.devices.occupancy.diagnose_shape``.
    """
    shape, limit = inputs.shape, inputs.cooperative_resident_block_limit
    shared, cooperative = shape.dynamic_shared_memory_bytes, shape.cooperative
    launch = occupancy.LaunchShape(shape.grid, shape.block, shared, cooperative, 0)
    plain = occupancy.ShapeDiagnosisInputs(inputs.kernel, _limits(inputs.device), launch, limit)
    judged = occupancy.diagnose_shape(plain)
    blocks, threads = judged.grid_blocks, judged.threads_per_block
    requirement = KernelRequirement(0, 0, threads, shared, cooperative, shape.requires_tensor_cores)
    failures = _failures(inputs.device, requirement)
    message = occupancy._message(plain, blocks, threads, occupancy._named(failures))
    launchable = not failures and (limit is None or blocks <= limit)
    return ShapeDiagnosis(blocks, threads, requirement, failures, launchable, message)


def _limits(device: DeviceEnvelope) -> occupancy.DeviceEnvelope:
    return occupancy.DeviceEnvelope(
        device.max_threads_per_block, device.shared_memory_per_block_bytes, device.supports_cooperative_launch, _ROOMY
    )


def _failures(device: DeviceEnvelope, asked: KernelRequirement) -> tuple[LaunchFailure, ...]:
    required, actual = (asked.min_sm_major, asked.min_sm_minor), (device.sm_major, device.sm_minor)
    threads, shared = asked.requested_threads_per_block, asked.requested_shared_memory_bytes
    found: list[LaunchFailure] = [SmVersion(*required, *actual)] if actual < required else []
    found += occupancy._failures(_limits(device), threads, shared, asked.requires_cooperative_launch)
    if asked.requires_tensor_cores and not device.supports_tensor_cores:
        found.append(TensorCores())
    return tuple(found)
