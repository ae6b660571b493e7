"""Where two results of one program first differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from vyre.domain.binding import plan_bindings
from vyre.domain.byte_differences import first_difference
from vyre.domain.ir.program import Program


class OutputDifference(NamedTuple):
    """The first difference of a buffer.

    ``slot`` is the position of the buffer among those of the program, in binding order, and ``buffer`` its name;
    ``element`` and ``byte`` count from the begin of the buffer.  ``expected`` and ``found`` are the bytes
    of the element, the most significant first, in hexadecimal; empty where one result ends before it.
    """

    slot: int
    buffer: str
    element: int
    byte: int
    expected: str
    found: str

    def __str__(self) -> str:
        was, is_ = (f"0x{text}" if text else "nothing" for text in (self.expected, self.found))
        return f"`{self.buffer}`[{self.element}] (slot {self.slot}, byte {self.byte}) is {is_}, expected was {was}"


class Returned(NamedTuple):
    """The content of a buffer, which begins at byte ``start`` of it; elements have ``element_bytes`` bytes."""

    slot: int
    buffer: str
    element_bytes: int
    content: bytes
    start: int = 0

    @classmethod
    def of(cls, program: Program, content: Mapping[str, bytes], whole: Collection[str] = ()) -> tuple[Returned, ...]:
        """Returns what a run returned of the buffers of ``program`` that are named in ``content``, in binding order.

        Of buffers in ``whole`` the content is that of all their memory, whatever range of it a dispatch returns.
        """
        return tuple(
            cls(
                slot,
                binding.buffer.name,
                binding.element_size,
                content[binding.buffer.name],
                0 if binding.buffer.name in whole else (binding.buffer.output_range or (0, 0))[0],
            )
            for slot, binding in enumerate(plan_bindings(program).bindings)
            if binding.buffer.name in content
        )

    def difference(self, content: bytes) -> OutputDifference:
        """Returns the first difference of ``content`` from the content here; they are not equal."""
        offset, size = first_difference(self.content, content), self.element_bytes
        first = offset - offset % size
        was, is_ = (side[first : first + size][::-1].hex() for side in (self.content, content))
        return OutputDifference(self.slot, self.buffer, (self.start + offset) // size, self.start + offset, was, is_)


def differences(expected: tuple[Returned, ...], actual: tuple[Returned, ...]) -> Iterator[OutputDifference]:
    """Yields the first difference of every buffer that differs; both sides have the same buffers, in the same order."""
    for right, wrong in zip(expected, actual, strict=True):
        if right.content != wrong.content:
            yield right.difference(wrong.content)
