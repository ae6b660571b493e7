"""Ranges of memory that the buffers of one launch are bound to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from vyre.domain.errors import InvalidResource

BoundRange: TypeAlias = tuple[str, bool, int, int]
"""The name of a buffer, whether the program writes it, its first byte, and the byte after its last."""


def check_overlap(bound: Iterable[BoundRange]) -> None:
    """Raises ``InvalidResource`` for memory that two buffers of a launch share, even in part, if one of them is
    written.
    """
    named = list(bound)
    ranges = sorted((start, stop, written, place) for place, (_, written, start, stop) in enumerate(named))
    reach, reader, written_reach, writer = -1, 0, -1, 0  # how far the ranges before reach, all and the written ones
    for start, stop, written, place in ranges:
        if start == stop:
            continue
        if start < written_reach or (written and start < reach):
            pair = sorted((place, writer if start < written_reach else reader))
            one, other = (named[number][0] for number in pair)
            raise InvalidResource(
                f"`{one}` and `{other}` are bound to the same memory, at least in part, and one of them is written",
                fix="bind memory that does not overlap, or copy one.",
            )
        if stop > reach:
            reach, reader = stop, place
        if written and stop > written_reach:
            written_reach, writer = stop, place


def check_alignment(name: str, element_size: int, address: int, memory: object) -> None:
    """Raises ``InvalidResource`` unless ``memory`` begins at an address that is aligned for the elements of a buffer.

    ``element_size`` is in bytes.
    """
    if address % element_size:
        raise InvalidResource(
            f"`{name}` has elements of {element_size} bytes, and {memory!r} begins at no multiple of that",
            fix="bind memory that begins at a whole element, or copy it.",
        )
