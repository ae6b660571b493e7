"""``Buffer``: what a program and its caller know of one piece of memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.node import Node, SourceLocation
from vyre.domain.ir.types import DataType, ScalarType


class Access(IdentityEnum):
    """What the program may do with a buffer; the value is the stable wire tag."""

    READ_ONLY = 0
    READ_WRITE = 1
    UNIFORM = 2
    WORKGROUP = 3
    WRITE_ONLY = 4


class MemoryKind(IdentityEnum):
    """Where a buffer lives; the value is the stable wire tag."""

    GLOBAL = 0
    SHARED = 1
    UNIFORM = 2
    LOCAL = 3
    READONLY = 4
    PUSH = 5
    PERSISTENT = 6


DEFAULT_KIND: dict[Access, MemoryKind] = {
    Access.READ_ONLY: MemoryKind.READONLY,
    Access.READ_WRITE: MemoryKind.GLOBAL,
    Access.WRITE_ONLY: MemoryKind.GLOBAL,
    Access.UNIFORM: MemoryKind.UNIFORM,
    Access.WORKGROUP: MemoryKind.SHARED,
}


class CacheLocality(IdentityEnum):
    STREAMING = 0
    TEMPORAL = 1
    RANDOM = 2


@dataclass(frozen=True, slots=True)
class BufferHints:
    """Advice without meaning; outside the digest."""

    coalesce_axis: int | None = None
    preferred_alignment: int = 0
    locality: CacheLocality = CacheLocality.TEMPORAL


NO_HINTS = BufferHints()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer(Node):
    """One buffer of a program.

    ``binding``: slot number, unique among non-workgroup buffers (0 for workgroup memory); inputs and
    outputs are passed in ascending binding number.  ``count``: elements, 0 = sized at run time.
    ``is_output``: allocated zeroed by the backend and returned (always so for WRITE_ONLY).
    ``like``: a buffer whose element count this backend-allocated buffer of count 0 takes over.
    ``output_range``: bytes [start, end) returned instead of the whole buffer.
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
        """A buffer whose ``kind`` follows from its access and which is an output if it is WRITE_ONLY."""
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
        return self.access is Access.WORKGROUP

    @property
    def is_push(self) -> bool:
        """A scalar kernel parameter."""
        return self.kind is MemoryKind.PUSH

    @property
    def takes_input(self) -> bool:
        """The caller passes bytes for it."""
        return not (self.is_workgroup or self.is_output)

    @property
    def is_returned(self) -> bool:
        """Its bytes are part of the result."""
        return not self.is_workgroup and (self.is_output or self.access is Access.READ_WRITE)

    @property
    def is_writable(self) -> bool:
        return self.access in (Access.READ_WRITE, Access.WRITE_ONLY, Access.WORKGROUP)

    @property
    def static_nbytes(self) -> int | None:
        """Exact byte length, or None if sized at run time or of a reserved type."""
        if self.count == 0 or not isinstance(self.element, ScalarType):
            return None
        return self.count * self.element.size


def abi_order(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Those that a caller binds (all but workgroup memory), in ascending binding number."""
    return tuple(sorted((b for b in buffers if not b.is_workgroup), key=lambda b: b.binding))
