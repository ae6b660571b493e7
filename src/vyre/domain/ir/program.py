"""``Program`` and ``Buffer``: one kernel, its memory and its launch shape, as immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NewType, TypeAlias

from vyre.domain.ir.node import Node, SourceLocation
from vyre.domain.ir.stmt import Body
from vyre.domain.ir.types import DataType, ScalarType

BackendId = NewType("BackendId", str)
OpId = NewType("OpId", str)
Dim3: TypeAlias = tuple[int, int, int]


class Access(Enum):
    """What the program may do with a buffer; the value is the stable wire tag."""

    READ_ONLY = 0
    READ_WRITE = 1
    UNIFORM = 2
    WORKGROUP = 3
    WRITE_ONLY = 4

    __hash__ = object.__hash__


class MemoryKind(Enum):
    """Where a buffer lives; the value is the stable wire tag."""

    GLOBAL = 0
    SHARED = 1
    UNIFORM = 2
    LOCAL = 3
    READONLY = 4
    PUSH = 5
    PERSISTENT = 6

    __hash__ = object.__hash__


DEFAULT_KIND: dict[Access, MemoryKind] = {
    Access.READ_ONLY: MemoryKind.READONLY,
    Access.READ_WRITE: MemoryKind.GLOBAL,
    Access.WRITE_ONLY: MemoryKind.GLOBAL,
    Access.UNIFORM: MemoryKind.UNIFORM,
    Access.WORKGROUP: MemoryKind.SHARED,
}


class CacheLocality(Enum):
    STREAMING = 0
    TEMPORAL = 1
    RANDOM = 2

    __hash__ = object.__hash__


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Program(Node):
    """A kernel: buffers, workgroup size and body.

    ``name`` and ``non_composable`` are labels outside the digest.  Nothing is checked here:
    ``vyre.validate`` does that and collects every error.
    """

    buffers: tuple[Buffer, ...]
    workgroup_size: Dim3
    body: Body
    name: str | None = None
    non_composable: bool = False
    # Not an argument: `dataclasses.replace` must not hand the facts of one program to another.
    _cache: dict[str, object] = field(default_factory=dict, init=False)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name; raises ``KeyError``."""
        return self.buffers_by_name[name]

    @property
    def buffers_by_name(self) -> Mapping[str, Buffer]:
        """First declaration of each name."""
        found = self._cache.get("buffers_by_name")
        if found is None:
            found = {b.name: b for b in reversed(self.buffers)}
            self._cache["buffers_by_name"] = found
        return found  # type: ignore[return-value]

    @property
    def abi_buffers(self) -> tuple[Buffer, ...]:
        """Non-workgroup buffers in ABI order: ascending binding number."""
        return tuple(sorted((b for b in self.buffers if not b.is_workgroup), key=lambda b: b.binding))

    # Written forms and identity. Their modules import this one, hence the imports on use.

    @property
    def digest(self) -> bytes:
        """BLAKE3-256 (32 bytes) of what can change a result; names, labels and hints are not in it.

        Raises ``InvalidProgram`` if a name in the program does not resolve.
        """
        from vyre.domain.identity import program_digest

        return program_digest(self)

    def to_text(self) -> str:
        """The program as ``.vyre`` text; ``from_text`` reads it back."""
        from vyre.domain.ir.text import print_program

        return print_program(self)

    @classmethod
    def from_text(cls, text: str, filename: str = "<text>") -> Program:
        """The program of ``.vyre`` text, with source locations in ``filename``; raises ``MalformedText``."""
        from vyre.domain.ir.text import parse_program

        return parse_program(text, filename)

    def to_wire(self) -> bytes:
        """The program as ``.vyrb`` bytes; raises ``InvalidProgram`` if a name does not resolve."""
        from vyre.domain.ir.wire import encode

        return encode(self)

    @classmethod
    def from_wire(cls, data: bytes | bytearray | memoryview) -> Program:
        """The program of ``.vyrb`` bytes; raises ``MalformedWire``."""
        from vyre.domain.ir.wire import decode

        return decode(data)

    def to_json(self) -> dict[str, Any]:
        """The program as a JSON value of format ``vyre-program/1``."""
        from vyre.domain.ir.json_form import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, value: object) -> Program:
        """The program of a JSON value of format ``vyre-program/1``; raises ``MalformedJson``."""
        from vyre.domain.ir.json_form import from_json

        return from_json(value)

    def __repr__(self) -> str:
        wg = ",".join(map(str, self.workgroup_size))
        return f"<Program {self.name or 'unnamed'} workgroup={wg} buffers={len(self.buffers)}>"
