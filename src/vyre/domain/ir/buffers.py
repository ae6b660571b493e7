"""``Buffer``: the declaration of one piece of memory that a program and its caller share."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from vyre.domain.frozen import frozen
from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.node import Node
from vyre.domain.ir.types import DataType, ScalarType
from vyre.domain.source_location import SourceLocation


class Access(IdentityEnum):
    """The accesses that the program may make to a buffer; the value is the stable wire tag."""

    READ_ONLY = 0
    READ_WRITE = 1
    UNIFORM = 2
    WORKGROUP = 3
    WRITE_ONLY = 4
    PRIVATE = 5


class MemoryKind(IdentityEnum):
    """The memory in which a buffer is allocated; the value is the stable wire tag."""

    GLOBAL = 0
    SHARED = 1
    UNIFORM = 2
    LOCAL = 3
    READONLY = 4
    PUSH = 5
    PERSISTENT = 6
    PRIVATE = 7


DEFAULT_KIND: dict[Access, MemoryKind] = {
    Access.READ_ONLY: MemoryKind.READONLY,
    Access.READ_WRITE: MemoryKind.GLOBAL,
    Access.WRITE_ONLY: MemoryKind.GLOBAL,
    Access.UNIFORM: MemoryKind.UNIFORM,
    Access.WORKGROUP: MemoryKind.SHARED,
    Access.PRIVATE: MemoryKind.PRIVATE,
}
"""The memory kind of a buffer that states none, by its access."""


class CacheLocality(IdentityEnum):
    """The expected locality of accesses to a buffer, a hint for caches; the value is the stable wire tag."""

    STREAMING = 0
    TEMPORAL = 1
    RANDOM = 2


@frozen
class BufferHints:
    """Hints that change no result; they are not part of the digest.

    ``coalesce_axis`` is an axis or None, ``preferred_alignment`` is in bytes (0 = no preference).
    """

    coalesce_axis: int | None = None
    preferred_alignment: int = 0
    locality: CacheLocality = CacheLocality.TEMPORAL


NO_HINTS = BufferHints()
"""The hints of a buffer that states none."""


@frozen(eq=False, repr=False)
class Buffer(Node):
    """One buffer of a program.

    ``binding``: slot number, unique among the buffers that a caller binds (0 for workgroup and private memory); inputs
      and outputs are passed in ascending binding number.
    ``count``: number of elements, 0 = sized at run time.
    ``is_output``: the backend allocates the buffer zeroed and returns it (always so for WRITE_ONLY).
    ``like``: the name of a buffer whose element count this backend-allocated buffer of count 0 takes over.
    ``output_range``: bytes [start, end) that are returned instead of the whole buffer.
    """

    name: str
    binding: int
    access: Access
    element: DataType
    count: int = 0
    is_output: bool = False
    kind: MemoryKind = MemoryKind.GLOBAL
    like: str | None = None
    output_range: tuple[int, int] | None = None
    hints: BufferHints = NO_HINTS

    @classmethod
    def make(
        cls,
        name: str,
        binding: int,
        access: Access,
        element: DataType,
        count: int = 0,
        *,
        is_output: bool = False,
        kind: MemoryKind | None = None,
        like: str | None = None,
        output_range: tuple[int, int] | None = None,
        hints: BufferHints = NO_HINTS,
        loc: SourceLocation | None = None,
    ) -> Buffer:
        """Returns a buffer whose ``kind`` follows from its access and which is an output if it is WRITE_ONLY."""
        return cls(
            name,
            binding,
            access,
            element,
            count,
            is_output or access is Access.WRITE_ONLY,
            kind or DEFAULT_KIND[access],
            like,
            output_range,
            hints,
            loc=loc,
        )

    @property
    def is_workgroup(self) -> bool:
        """Whether the lanes of a workgroup share the buffer."""
        return self.access is Access.WORKGROUP

    @property
    def is_private(self) -> bool:
        """Whether every lane has the buffer for itself."""
        return self.access is Access.PRIVATE

    @property
    def is_bound(self) -> bool:
        """Whether the caller binds memory to the buffer: it is neither workgroup nor private memory."""
        return self.access not in _UNBOUND

    @property
    def is_push(self) -> bool:
        """Whether the buffer is a scalar kernel parameter."""
        return self.kind is MemoryKind.PUSH

    @property
    def takes_input(self) -> bool:
        """Whether the caller passes bytes for the buffer."""
        return not self.is_output and self.access not in _UNBOUND

    @property
    def is_returned(self) -> bool:
        """Whether the buffer's bytes are part of the result."""
        return (self.is_output or self.access is Access.READ_WRITE) and self.access not in _UNBOUND

    @property
    def is_writable(self) -> bool:
        """Whether the program may write to the buffer."""
        return self.access in _WRITABLE

    @property
    def static_nbytes(self) -> int | None:
        """Returns the exact byte length, or None for a buffer that is sized at run time or has a reserved type."""
        if self.count == 0 or not isinstance(self.element, ScalarType):
            return None
        return self.count * self.element.size


def element_of(buffer: Buffer) -> ScalarType:
    """Returns the type of the elements of a buffer of a valid program, which has no others."""
    assert isinstance(buffer.element, ScalarType), "validated"
    return buffer.element


def inputs_of(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Returns those of ``buffers`` for which a caller passes bytes, in the order given."""
    return tuple([buffer for buffer in buffers if buffer.takes_input])


def outputs_of(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Returns those of ``buffers`` whose bytes are part of the result, in the order given."""
    return tuple([buffer for buffer in buffers if buffer.is_returned])


_UNBOUND: Final = frozenset({Access.WORKGROUP, Access.PRIVATE})
_WRITABLE: Final = frozenset({Access.READ_WRITE, Access.WRITE_ONLY, Access.WORKGROUP, Access.PRIVATE})


def abi_order(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Returns the buffers that a caller binds, all but workgroup and private memory, in ascending binding number."""
    return tuple(sorted([b for b in buffers if b.access not in _UNBOUND], key=attrgetter("binding")))
