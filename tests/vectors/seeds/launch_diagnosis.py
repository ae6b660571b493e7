"""The reasons why a kernel with given requirements cannot be launched, whatever its shape; see ``diagnose_shape``."""

from __future__ import annotations

from vyre.policies.devices.occupancy import DeviceEnvelope, KernelRequirement, LaunchFailure, _failures, _message
from vyre.policies.record import record, verdict


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


def diagnose(inputs: DiagnosisInputs) -> LaunchDiagnosis:
    """Returns all failures, in a fixed order."""
    failures = _failures(inputs.device, inputs.requirement)
    return LaunchDiagnosis(failures, not failures, _message(inputs.kernel, failures))
