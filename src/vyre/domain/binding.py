"""The buffers that a caller passes, the buffers that are returned, and their sizes in bytes.

Everything positional follows ascending binding number.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from vyre.domain.ir.buffers import Access, Buffer, MemoryKind
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.types import ScalarType
from vyre.domain.program_report import InvalidProgram


class BindingRole(Enum):
    """The role of a buffer for the caller."""

    INPUT = "input"
    INPUT_OUTPUT = "input_output"
    OUTPUT = "output"
    UNIFORM = "uniform"
    PUSH = "push"
    PERSISTENT = "persistent"
    SHARED = "shared"
    PRIVATE = "private"


class Binding(NamedTuple):
    """One buffer that a caller binds memory to.

    ``element_size`` is in bytes.  ``static_nbytes`` is None for a buffer sized at run time.  ``alignment`` is the
    larger of element size and hint, in bytes.  ``input_index`` and ``output_index`` are the buffer's positions among
    inputs and outputs, or None.
    """

    buffer: Buffer
    role: BindingRole
    element_size: int
    static_nbytes: int | None
    alignment: int
    input_index: int | None
    output_index: int | None


class BindingPlan(NamedTuple):
    """The bindings of a program in ascending binding number.

    ``inputs`` and ``outputs`` are positions in ``bindings``; ``shared`` holds the workgroup buffers.
    """

    bindings: tuple[Binding, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shared: tuple[Buffer, ...]

    @property
    def layout(self) -> tuple[tuple[int, BindingRole, int], ...]:
        """Returns number, role and element size of each binding: the facts on which descriptor layouts depend."""
        return tuple((b.buffer.binding, b.role, b.element_size) for b in self.bindings)


def role_of(buffer: Buffer) -> BindingRole:
    """Returns the role of one buffer."""
    kind, access = buffer.kind, buffer.access
    if kind is MemoryKind.SHARED or access is Access.WORKGROUP:
        return BindingRole.SHARED
    if access is Access.PRIVATE:
        return BindingRole.PRIVATE
    if kind is MemoryKind.PERSISTENT:
        return BindingRole.PERSISTENT
    if kind is MemoryKind.PUSH:
        return BindingRole.PUSH
    if buffer.is_output:
        return BindingRole.OUTPUT
    match access:
        case Access.READ_ONLY:
            return BindingRole.INPUT
        case Access.UNIFORM:
            return BindingRole.UNIFORM
        case Access.WRITE_ONLY:
            return BindingRole.OUTPUT
        case _:
            return BindingRole.INPUT_OUTPUT


@kept_with_program("binding_plan")
def plan_bindings(program: Program) -> BindingPlan:
    """Returns the plan of the program's buffers; cached on the program.

    Raises ``InvalidProgram`` for a reserved element type or an alignment hint that is no power of two.
    """
    bindings: list[Binding] = []
    inputs: list[int] = []
    outputs: list[int] = []
    bound = program.abi_buffers
    for position, buffer in enumerate(bound):
        element = buffer.element
        if not isinstance(element, ScalarType):
            raise InvalidProgram(f"buffer `{buffer.name}` has elements of {element.text}", fix="use a scalar type.")
        hint = buffer.hints.preferred_alignment
        if hint & (hint - 1):
            raise InvalidProgram(
                f"buffer `{buffer.name}` asks for an alignment of {hint} bytes", fix="use a power of two, or 0."
            )
        taken, size = not buffer.is_output, element.size  # as it is bound memory
        returned = not taken or buffer.access is Access.READ_WRITE
        bindings.append(
            Binding(
                buffer,
                role_of(buffer),
                size,
                buffer.count * size or None,
                max(hint, size),
                len(inputs) if taken else None,
                len(outputs) if returned else None,
            )
        )
        if taken:
            inputs.append(position)
        if returned:
            outputs.append(position)
    shared: tuple[Buffer, ...] = ()
    if len(bound) < len(program.buffers):
        shared = tuple([buffer for buffer in program.buffers if buffer.access is Access.WORKGROUP])
    return BindingPlan(tuple(bindings), tuple(inputs), tuple(outputs), shared)
