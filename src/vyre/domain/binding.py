"""Which buffers a caller passes, which come back, and how many bytes each has.

Everything positional follows ascending binding number.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from vyre.domain.errors import InvalidProgram
from vyre.domain.ir.buffers import Access, Buffer, MemoryKind, abi_order
from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre.domain.ir.program import Program


class BindingRole(Enum):
    """What a buffer is to the caller."""

    INPUT = "input"
    INPUT_OUTPUT = "input_output"
    OUTPUT = "output"
    UNIFORM = "uniform"
    PUSH = "push"
    PERSISTENT = "persistent"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Binding:
    """One non-workgroup buffer.  ``input_index`` and ``output_index`` are its places among inputs and outputs.

    ``element_size`` in bytes; ``static_nbytes`` is None for a buffer sized at run time; ``alignment`` is the
    larger of element size and hint.
    """

    buffer: Buffer
    role: BindingRole
    element_size: int
    static_nbytes: int | None
    alignment: int
    input_index: int | None
    output_index: int | None


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """Bindings in ascending number; ``inputs`` and ``outputs`` are positions in ``bindings``."""

    bindings: tuple[Binding, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shared: tuple[Buffer, ...]

    @property
    def layout(self) -> tuple[tuple[int, BindingRole, int], ...]:
        """What descriptor layouts depend on: number, role and element size, but no counts."""
        return tuple((b.buffer.binding, b.role, b.element_size) for b in self.bindings)


def role_of(buffer: Buffer) -> BindingRole:
    """The role of one buffer."""
    if buffer.kind is MemoryKind.SHARED or buffer.access is Access.WORKGROUP:
        return BindingRole.SHARED
    if buffer.kind is MemoryKind.PERSISTENT:
        return BindingRole.PERSISTENT
    if buffer.is_push:
        return BindingRole.PUSH
    if buffer.is_output:
        return BindingRole.OUTPUT
    match buffer.access:
        case Access.READ_ONLY:
            return BindingRole.INPUT
        case Access.UNIFORM:
            return BindingRole.UNIFORM
        case Access.WRITE_ONLY:
            return BindingRole.OUTPUT
        case _:
            return BindingRole.INPUT_OUTPUT


def plan_bindings(program: Program) -> BindingPlan:
    """The plan of a program, as ``plan_buffers`` makes it; cached on it."""
    cached = program._cache.get("binding_plan")
    if isinstance(cached, BindingPlan):
        return cached
    plan = plan_buffers(program.buffers)
    program._cache["binding_plan"] = plan
    return plan


def plan_buffers(buffers: Iterable[Buffer]) -> BindingPlan:
    """The plan of a program with these buffers, in any order.

    Raises ``InvalidProgram`` for a reserved element type or an alignment hint that is no power of two.
    """
    buffers = tuple(buffers)
    bindings: list[Binding] = []
    inputs: list[int] = []
    outputs: list[int] = []
    for position, buffer in enumerate(abi_order(buffers)):
        element = buffer.element
        if not isinstance(element, ScalarType):
            raise InvalidProgram(f"buffer `{buffer.name}` has elements of {element.text}", fix="use a scalar type.")
        hint = buffer.hints.preferred_alignment
        if hint & (hint - 1):
            raise InvalidProgram(
                f"buffer `{buffer.name}` asks for an alignment of {hint} bytes", fix="use a power of two, or 0."
            )
        bindings.append(
            Binding(
                buffer,
                role_of(buffer),
                element.size,
                buffer.static_nbytes,
                max(hint, element.size),
                len(inputs) if buffer.takes_input else None,
                len(outputs) if buffer.is_returned else None,
            )
        )
        if buffer.takes_input:
            inputs.append(position)
        if buffer.is_returned:
            outputs.append(position)
    return BindingPlan(tuple(bindings), tuple(inputs), tuple(outputs), tuple(b for b in buffers if b.is_workgroup))
