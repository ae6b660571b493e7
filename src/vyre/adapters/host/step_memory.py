"""The memory that a step on resident buffers binds: what is checked before the first byte moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from vyre.domain.binding import Binding, BindingPlan, BindingRole, plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.launch import Launch
from vyre.domain.memory_ranges import BoundRange, check_alignment, check_overlap
from vyre.ports.requests import HostBytes, ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer


class Addressed(Protocol):
    """A resident buffer of a backend: the address of its first byte, and whether launches may not write it."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...


Own = TypeVar("Own", bound=Addressed)


class StepMemory(NamedTuple, Generic[Own]):
    """The memory of a step, by position in the binding plan: buffers of one backend, and bytes of the host.

    ``sizes`` are the bytes that the program may see: whole elements, or the static length.
    """

    config: DispatchConfig
    plan: BindingPlan
    memory: tuple[Own | HostBytes, ...]
    sizes: tuple[int, ...]

    @property
    def sized(self) -> DispatchConfig:
        """Returns the config with counts for the outputs whose size only their memory determines."""
        if len(self.plan.inputs) == len(self.plan.bindings):
            return self.config
        counts = {
            b.buffer.name: nbytes // b.element_size
            for b, nbytes in zip(self.plan.bindings, self.sizes, strict=True)
            if b.input_index is None and b.buffer.count == 0 and b.buffer.like is None
        }
        if not counts:
            return self.config
        return replace(self.config, output_counts={**counts, **(self.config.output_counts or {})})

    @property
    def input_nbytes(self) -> tuple[int, ...]:
        """Returns the length of each input in bytes."""
        return tuple([self.sizes[i] for i in self.plan.inputs])

    def check(self, launch: Launch) -> None:
        """Raises ``InvalidResource`` if some memory is shorter than ``launch`` needs."""
        for binding, nbytes, needed in zip(self.plan.bindings, self.sizes, launch.nbytes, strict=True):
            if nbytes < needed:
                raise _too_short(binding, needed, nbytes)


def step_memory(step: ResidentStep, own: Callable[[ResidentBuffer], Own]) -> StepMemory[Own]:
    """Returns the memory that a step binds; reads no byte of it.

    ``own`` returns a buffer as one of the backend, and raises ``InvalidResource`` for memory that is closed or foreign.
    Raises ``InvalidInput`` for a wrong number of resources, and ``InvalidResource`` for memory that is resident and
    bound to a parameter, read-only and written, misaligned, too short for a static count, on the host and written, or
    aliased and written.
    """
    plan = plan_bindings(step.program)
    if len(step.resources) != len(plan.bindings):
        raise InvalidInput(
            f"{len(step.resources)} resources for {len(plan.bindings)} buffers",
            fix="pass one per non-workgroup buffer, in binding order.",
        )
    memory: list[Own | HostBytes] = []
    sizes: list[int] = []
    ranges: list[BoundRange] = []
    for binding, resource in zip(plan.bindings, step.resources, strict=True):
        buffer = binding.buffer
        written = buffer.is_writable
        if isinstance(resource, memoryview):
            if written:
                raise InvalidResource(
                    f"`{buffer.name}` is written, but bound to host bytes", fix="bind a resident buffer."
                )
            memory.append(resource)
            sizes.append(resource.nbytes)
            continue
        resident = own(resource)
        if binding.role is BindingRole.PUSH:
            raise InvalidResource(f"parameter `{buffer.name}` is bound to {resident!r}", fix="pass its bytes.")
        if written and resident.readonly:
            raise InvalidResource(f"`{buffer.name}` is written, but {resident!r} is read-only", fix="bind a copy.")
        address, nbytes, element = resident.address, resident.nbytes, binding.element_size
        if address % element:
            check_alignment(buffer.name, element, address, resident)
        memory.append(resident)
        static = binding.static_nbytes
        sizes.append(nbytes - nbytes % element if static is None else _static(binding, nbytes, static))
        ranges.append((buffer.name, written, address, address + nbytes))
    if len(ranges) > 1:
        check_overlap(ranges)
    return StepMemory(step.config, plan, tuple(memory), tuple(sizes))


def check_range(buffer: Addressed, offset: int, nbytes: int, *, writing: bool) -> None:
    """Raises ``InvalidResource`` for bytes outside a buffer, and for writing to one that is read-only."""
    if offset < 0 or offset + nbytes > buffer.nbytes:
        raise InvalidResource(
            f"bytes {offset}..{offset + nbytes} of {buffer!r}", fix=f"stay within its {buffer.nbytes} bytes."
        )
    if writing and buffer.readonly:
        raise InvalidResource(f"{buffer!r} is read-only", fix="adopt a writable array, or copy it.")


def _static(binding: Binding, nbytes: int, needed: int) -> int:
    """Returns the bytes that a program sees of a buffer of a static count."""
    if nbytes < needed:
        raise _too_short(binding, needed, nbytes)
    return needed


def _too_short(binding: Binding, needed: int, nbytes: int) -> InvalidResource:
    return InvalidResource(
        f"`{binding.buffer.name}` needs {needed} bytes, its memory has {nbytes}", fix="allocate at least that much."
    )
