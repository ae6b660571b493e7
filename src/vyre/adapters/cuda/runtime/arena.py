"""The layout of everything that one dispatch keeps in device memory.

One block holds it all, ordered so that each phase is one range:

    inputs | table | passed in and returned | outputs | trap records | never returned | barriers
    '-------------- upload ---------------' '---------------- zeroed ------------------------'
                     '------------- read back -------------'

Every part starts at a multiple of 256 bytes.  Scalar parameters and inlined uniforms take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.domain.binding import BindingPlan
from vyre.domain.frozen import frozen
from vyre.domain.launch import Launch

ALIGNMENT: Final = 256
ARENA_FACTS: Final = frozenset({Assumption.ALIGNED16, Assumption.NOALIAS})
"""Facts that kernels may assume about an arena: its parts are aligned and do not overlap."""
GAP: Final = 4096
"""Unneeded bytes up to which one copy across them is cheaper than a second copy."""


class Range(NamedTuple):
    """Bytes [start, end) of the arena."""

    start: int
    end: int

    @property
    def nbytes(self) -> int:
        """Returns the length of the range in bytes."""
        return self.end - self.start


class InputPlace(NamedTuple):
    """The place of an input: ``nbytes`` bytes of input number ``source`` go to ``offset``."""

    source: int
    offset: int
    nbytes: int


@frozen
class Arena:
    """Offsets in bytes.

    ``offsets`` has one entry per binding, None where it has no memory.  ``outputs`` are the ranges that are returned,
    in output order; ``reads`` are the ranges that cover them and the trap records, each copied at once.
    """

    nbytes: int
    offsets: tuple[int | None, ...]
    inputs: tuple[InputPlace, ...]
    table: Range
    upload: Range
    zero: Range
    traps: Range
    zeroed_scratch: int
    outputs: tuple[Range, ...]
    reads: tuple[Range, ...]

    @property
    def mirror_nbytes(self) -> int:
        """Returns the number of host bytes, counted from offset 0, that mirror the uploaded and the read part."""
        return max(self.upload.end, max((r.end for r in self.reads), default=0))


def plan_arena(
    plan: BindingPlan, launch: Launch, without_memory: Collection[int], *, table: int, traps: int, scratch: int
) -> Arena:
    """Returns the arena of a launch.

    ``without_memory``: positions of bindings that travel as parameters.  ``table``, ``traps`` and ``scratch``: bytes of
    the pointer table, the trap records and the zeroed scratch memory.
    """
    offsets: list[int | None] = [None] * len(plan.bindings)
    end = 0

    def place(nbytes: int) -> int:
        nonlocal end
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + nbytes
        return start

    def place_bindings(takes_input: bool, is_returned: bool) -> None:
        for position, binding in enumerate(plan.bindings):
            wanted = (binding.input_index is not None, binding.output_index is not None)
            if wanted == (takes_input, is_returned) and position not in without_memory and launch.nbytes[position]:
                offsets[position] = place(launch.nbytes[position])

    place_bindings(True, False)
    table_range = _placed(place, table)
    place_bindings(True, True)
    upload = Range(0, end)
    first_zero = place(0)
    place_bindings(False, True)
    trap_range = _placed(place, traps)
    place_bindings(False, False)
    scratch_range = _placed(place, scratch)
    inputs = tuple(
        InputPlace(binding.input_index, offset, launch.nbytes[position])
        for position, (binding, offset) in enumerate(zip(plan.bindings, offsets, strict=True))
        if binding.input_index is not None and offset is not None
    )
    outputs = tuple(
        Range((offsets[position] or 0) + start, (offsets[position] or 0) + stop)
        for position, (start, stop) in zip(plan.outputs, launch.output_ranges, strict=True)
    )
    return Arena(
        nbytes=end,
        offsets=tuple(offsets),
        inputs=inputs,
        table=table_range,
        upload=upload,
        zero=Range(first_zero, max(first_zero, end)),
        traps=trap_range,
        zeroed_scratch=scratch_range.start,
        outputs=outputs,
        reads=fuse([*outputs, trap_range]),
    )


def fuse(ranges: Sequence[Range], gap: int = GAP) -> tuple[Range, ...]:
    """Returns the fewest ascending ranges that cover all non-empty ones, joined across at most ``gap`` bytes.

    For example, [0, 100) and [200, 300) become [0, 300) if ``gap`` is at least 100.
    """
    fused: list[Range] = []
    for r in sorted(r for r in ranges if r.nbytes):
        if fused and r.start - fused[-1].end <= gap:
            fused[-1] = Range(fused[-1].start, max(fused[-1].end, r.end))
        else:
            fused.append(r)
    return tuple(fused)


def _placed(place: Callable[[int], int], nbytes: int) -> Range:
    if not nbytes:
        return Range(0, 0)
    start = place(nbytes)
    return Range(start, start + nbytes)
