"""How many device buffers, read-backs and kernel arguments does a captured launch graph need?

A capture fixes every pointer, so all buffers are allocated before it.  O(bindings).

vyre-driver has the same plan, and uses it to return a host copy of the outputs for a repeated input, with a device time
of 0.  Here the plan only says whether inputs may stay on the device (``resident_input_replay_safe``); no result is
returned without a launch.
"""

from __future__ import annotations

from enum import Enum

from vyre.policies.record import U64, record, verdict


class BindingRole(Enum):
    """The purpose of a binding; SHARED is workgroup memory and needs no buffer."""

    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"
    UNIFORM = "uniform"
    SHARED = "shared"
    PERSISTENT = "persistent"


@record
class CaptureBinding:
    """A binding, and its positions among the launch's inputs and outputs; None if it is not among them."""

    role: BindingRole
    input_index: U64 | None
    output_index: U64 | None


@record
class CaptureInputs:
    """The bindings of a launch."""

    bindings: tuple[CaptureBinding, ...]


@verdict
class CapturePlan:
    """Counts of buffers, read-backs and arguments; the arguments are the pointers and one block of launch
    parameters.
    """

    input_device_capacity: int
    output_device_capacity: int
    output_readback_capacity: int
    kernel_pointer_capacity: int
    kernel_argument_capacity: int
    resident_input_replay_safe: bool


def plan_capture(inputs: CaptureInputs) -> CapturePlan:
    """Returns the buffers of a captured launch.

    Replaying without copying the inputs again is safe unless a buffer is both input and output, which the first run
    overwrites.
    """
    bound = [b for b in inputs.bindings if b.role is not BindingRole.SHARED]
    staged = sum(b.input_index is not None for b in bound)
    return CapturePlan(
        input_device_capacity=staged,
        output_device_capacity=len(bound) - staged,
        output_readback_capacity=sum(b.output_index is not None for b in bound),
        kernel_pointer_capacity=len(bound),
        kernel_argument_capacity=len(bound) + 1,
        resident_input_replay_safe=not any(b.input_index is not None and b.output_index is not None for b in bound),
    )
