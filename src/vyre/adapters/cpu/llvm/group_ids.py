"""``GroupIds``: the position of the running workgroup in the grid, of which the text has the axes that are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cpu.llvm.writer import Section, Writer

_AXES: Final = "xyz"


class GroupIds:
    """The ids of the workgroup along the axes x, y and z; made at the start of the loop over the workgroups.

    The first workgroup of a range is found with divisions, and every next one by counting, since x is fastest.  Both
    are written after the body of the loop, for the axes up to the last one that the body has read.
    """

    def __init__(self, w: Writer, word: Callable[[int], str]) -> None:
        """``word`` returns a word of the frame, an i64 operand; the first ones are the workgroups along x, y and z."""
        self._w: Final = w
        self._word: Final = word
        self._results: Final = [(w.result(), w.result()) for _ in _AXES]
        """The counter of each axis, an i64, and the id, an i32."""
        self._axes: int = 0

    def __getitem__(self, axis: int) -> str:
        """Returns the id along an axis, an i32 operand."""
        self._axes = max(self._axes, axis + 1)
        return self._results[axis][1]

    def write(self, before: Section, head: Section, entered: str) -> None:
        """Writes what the ids need, and the step to the next workgroup at the current place.

        ``before`` stands in front of the loop, in the block ``entered``, and ``head`` behind the first phi of the loop.
        """
        w, word = self._w, self._word
        number, starts = "%begin", list[str]()
        for place in range(self._axes):
            start = number
            if place < 2:
                start, rest = f"%group.start.{_AXES[place]}", f"%group.rest.{_AXES[place]}"
                before.append(f"  {start} = urem i64 {number}, {word(place)}")
                if place + 1 < self._axes:
                    before.append(f"  {rest} = udiv i64 {number}, {word(place)}")
                number = rest
            starts.append(start)
        axes = list(zip(_AXES, self._results, starts, strict=False))
        head.extend(
            f"  {counter} = phi i64 [ {start}, %{entered} ], [ %group.next.{axis}, %group.latch ]"
            for axis, (counter, _), start in axes
        )
        head.extend(f"  {low} = trunc i64 {counter} to i32" for _, (counter, low), _ in axes)
        carry = "1"
        for place, (axis, (counter, _), _) in enumerate(axes):
            if place == 2:
                w.line(f"%group.next.z = add i64 {counter}, {carry}")
                break
            w.line(f"%group.{axis} = add i64 {counter}, {carry}")
            w.line(f"%group.wrap.{axis} = icmp eq i64 %group.{axis}, {word(place)}")
            w.line(f"%group.next.{axis} = select i1 %group.wrap.{axis}, i64 0, i64 %group.{axis}")
            if place + 1 < len(axes):
                carry = f"%group.carry.{axis}"
                w.line(f"{carry} = zext i1 %group.wrap.{axis} to i64")
