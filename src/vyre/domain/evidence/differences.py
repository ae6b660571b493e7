"""Where two results first differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Difference(NamedTuple):
    """The first difference of a returned buffer.

    ``slot`` is the position of the buffer among the returned ones, ``name`` its name.  ``element`` is the index of the
    element and ``byte`` that of the byte in the buffer.  ``expected`` and ``found`` are the bytes of the element, the
    most significant first, in hexadecimal; empty where one result ends before it.
    """

    slot: int
    name: str
    element: int
    byte: int
    expected: str
    found: str

    def __str__(self) -> str:
        was, is_ = (f"0x{text}" if text else "nothing" for text in (self.expected, self.found))
        return f"`{self.name}`[{self.element}] (slot {self.slot}, byte {self.byte}) is {is_}, expected was {was}"


class Returned(NamedTuple):
    """A returned buffer: its name, the bytes of an element, and its content."""

    name: str
    element_bytes: int
    content: bytes


def differences(expected: tuple[Returned, ...], found: tuple[Returned, ...]) -> Iterator[Difference]:
    """Yields the first difference of every buffer that differs; both sides have the same buffers, in the same order."""
    for slot, (right, wrong) in enumerate(zip(expected, found, strict=True)):
        if right.content != wrong.content:
            byte = first_difference(right.content, wrong.content)
            size = right.element_bytes
            start = byte - byte % size
            was, is_ = (side.content[start : start + size][::-1].hex() for side in (right, wrong))
            yield Difference(slot, right.name, start // size, byte, was, is_)


def first_difference(right: bytes, wrong: bytes) -> int:
    """Returns the first byte at which two results differ; the length of the shorter one if it begins the other."""
    shorter = min(len(right), len(wrong))
    if right[:shorter] == wrong[:shorter]:
        return shorter
    low, high = 0, shorter  # the first difference lies in low..high-1
    while high - low > 1:
        middle = (low + high) // 2
        if right[low:middle] == wrong[low:middle]:
            low = middle
        else:
            high = middle
    return low
