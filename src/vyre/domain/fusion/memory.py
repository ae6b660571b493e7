"""The buffers of a joined program: one for each array that the stages share, under one name and one element type."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from vyre.domain.frozen import frozen
from vyre.domain.fusion.stages import Refused, StageCall
from vyre.domain.ir.buffers import DEFAULT_KIND, Access, Buffer, element_of
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.source_location import joined_places

_UNSIGNED: Final = {1: ScalarType.U8, 2: ScalarType.U16, 4: ScalarType.U32, 8: ScalarType.U64}


@frozen
class Use:
    """The use of an array by a stage, under the stage's own declaration; ``count`` elements are visible to it."""

    stage: int
    position: int
    buffer: Buffer
    count: int
    nbytes: int | None


@dataclass(slots=True)
class Joined:
    """One buffer of the joined program, before it has a binding number.

    ``identity`` is None for parameters and for memory that a program declares itself.  ``length`` is the number of
    elements, and ``is_sized`` says that the declaration states it, because the memory may be longer.
    """

    name: str
    element: ScalarType
    uses: list[Use] = field(default_factory=list)
    identity: Hashable | None = None
    is_output: bool = False

    @property
    def first(self) -> Use:
        """Returns the first use."""
        return self.uses[0]

    @property
    def length(self) -> int:
        """Returns the number of elements."""
        return max(use.count for use in self.uses)

    @property
    def is_parameter(self) -> bool:
        """Returns whether it is a scalar parameter."""
        return self.first.buffer.is_push

    @property
    def is_written(self) -> bool:
        """Returns whether a stage may write it."""
        return any(use.buffer.is_writable for use in self.uses)

    @property
    def is_sized(self) -> bool:
        """Returns whether the declaration states the number of elements."""
        return not any(_sees_all(use) and use.count == self.length for use in self.uses)

    def declaration(self, binding: int) -> Buffer:
        """Returns the buffer with a binding number."""
        buffer, place = self.first.buffer, joined_places(*[use.buffer.loc for use in self.uses])
        if self.is_parameter:
            return Buffer.make(
                self.name, binding, buffer.access, buffer.element, buffer.count, kind=buffer.kind, loc=place
            )
        if self.is_written:
            access = Access.READ_WRITE
        else:
            uniform = all(use.buffer.access is Access.UNIFORM for use in self.uses)
            access = Access.UNIFORM if uniform else Access.READ_ONLY
        kinds = {use.buffer.kind for use in self.uses}
        same = len(kinds) == 1 and all(use.buffer.access is access for use in self.uses)
        return Buffer.make(
            self.name,
            binding,
            access,
            self.element,
            self.length if self.is_sized else 0,
            is_output=self.is_output,
            kind=kinds.pop() if same else DEFAULT_KIND[access],
            loc=place,
        )


def _sees_all(use: Use) -> bool:
    """Returns whether the stage certainly sees every whole element of the memory."""
    assert isinstance(use.buffer.element, ScalarType)
    if use.nbytes is not None:
        return use.count == use.nbytes // use.buffer.element.size
    return use.buffer.count == 0 and use.buffer.like is None


class JoinedMemory:
    """The bound buffers of a joined program; ``of[stage, position]`` is the one that a stage's binding became."""

    def __init__(self, stages: Sequence[StageCall], names: UniqueNames) -> None:
        self.all: list[Joined] = []
        self.of: dict[tuple[int, int], Joined] = {}
        self._by_key: dict[Hashable, Joined] = {}
        written = {
            call.buffers[position]
            for call in stages
            for position, buffer in enumerate(call.program.abi_buffers)
            if buffer.is_writable
        }
        for stage, call in enumerate(stages):
            for position, buffer in enumerate(call.program.abi_buffers):
                self._add(stage, position, call, buffer, written, names)

    def _add(
        self,
        stage: int,
        position: int,
        call: StageCall,
        buffer: Buffer,
        written: Collection[Hashable],
        names: UniqueNames,
    ) -> None:
        element = element_of(buffer)
        use = Use(stage, position, buffer, call.counts[position], call.nbytes[position] if call.nbytes else None)
        identity: Hashable | None = None if buffer.is_push else call.buffers[position]
        key: Hashable
        if buffer.is_push:
            value: Literal | None = call.values.get(buffer.name)
            key = ("parameter", value.dtype, value.bits) if value is not None else ("parameter", stage, position)
        elif identity in written:
            key = ("array", identity)
        else:
            key = ("array", identity, element.size)
        joined = self._by_key.get(key)
        if joined is None:
            joined = self._by_key[key] = Joined(names.unique(buffer.name), element, identity=identity)
            self.all.append(joined)
        elif joined.element is not element:
            if joined.element.size != element.size:
                first = joined.first
                raise Refused(
                    f"`{buffer.name}` is the memory of `{first.buffer.name}` of stage {first.stage}, with elements of "
                    f"{element.size} instead of {joined.element.size} bytes",
                    stage,
                )
            joined.element = _UNSIGNED[element.size]
        joined.uses.append(use)
        self.of[stage, position] = joined


def counted_alike(memory: JoinedMemory, temporary: Collection[Hashable]) -> dict[int, Joined]:
    """Returns for each number of elements the buffer whose length stands for it, one that stays if there is one."""
    by_length: dict[int, Joined] = {}
    for joined in memory.all:
        if joined.is_parameter:
            continue
        present = by_length.get(joined.length)
        if present is None or (present.identity in temporary and joined.identity not in temporary):
            by_length[joined.length] = joined
    return by_length
