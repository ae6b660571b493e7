"""Counted loops: rounds for all lanes at once, or for those that are still in the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from vyre.adapters.lanes.types import LANE_DTYPE, Lanes
from vyre.adapters.reference.vector.branches import Execute
from vyre.adapters.reference.vector.chunk import Chunk, Local
from vyre.adapters.reference.vector.lanes_context import Context, select, union, without
from vyre.adapters.reference.vector.value_types import Value, Word
from vyre.adapters.reference.vector.values import U32, EvaluateWord, full
from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ONE: Final = np.uint64(1)


class Rounds:
    """The number of a loop, and whether lanes may leave a round of it for the next one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.continued = False


@dataclass(slots=True)
class CountedLoop:
    """A counted loop: plain while all lanes agree on the bounds, else on the lanes that are still in it."""

    bounds: tuple[EvaluateWord, EvaluateWord, EvaluateWord]
    dtype: ScalarType
    slot: int
    rounds: Rounds
    kept: tuple[int, ...]
    body: Execute

    def run(self, chunk: Chunk, ctx: Context) -> Context | None:
        """Runs the loop; returns the lanes that continue after it."""
        start, stop, step = (bound(chunk, ctx) for bound in self.bounds)
        for slot in self.kept:
            chunk.locals[slot] = None
        chunk.locals[self.slot] = Local(start, ctx)
        ended = len(chunk.ended)
        if type(start) is int and type(stop) is int and type(step) is int:
            self._uniform(chunk, ctx, start, stop, step)
        else:
            self._divergent(chunk, ctx, start, stop, step)
        gone = chunk.ended[ended:]
        return without(ctx, gone) if gone else ctx

    def _round(self, chunk: Chunk, lanes: Context, value: Value) -> Context | None:
        """Runs one iteration; returns the lanes that may take another."""
        counter = chunk.locals[self.slot]
        assert counter is not None
        counter.value, counter.home = value, lanes
        if not self.rounds.continued:
            return self.body(chunk, lanes)
        continuing: list[Context] = []
        chunk.continuing[self.rounds.number] = continuing
        left = self.body(chunk, lanes)
        if continuing:
            return union(([left] if left is not None else []) + continuing)
        return left

    def _uniform(self, chunk: Chunk, ctx: Context, start: int, stop: int, step: int) -> None:
        if not step:
            return
        watched = chunk.options.step_budget is not None or chunk.options.is_late is not None
        counter = chunk.locals[self.slot]
        assert counter is not None
        values = range(start, stop, step)
        rounds = iter(values) if self.dtype is U32 else map(LANE_DTYPE[self.dtype].type, values)
        if not (watched or self.rounds.continued):
            body = self.body
            for counter.value in rounds:
                lanes = body(chunk, ctx)
                if lanes is None:
                    return
                counter.home = ctx = lanes
            return
        value = next(rounds, None)
        while value is not None:
            lanes = self._round(chunk, ctx, value)
            value = next(rounds, None)
            if lanes is None or value is None:
                return
            if watched:
                lanes = chunk.take_step(lanes)
                if lanes is None:
                    return
            ctx = lanes

    def _divergent(self, chunk: Chunk, ctx: Context, start: Word, stop: Word, step: Word) -> None:
        value = full(start, ctx, self.dtype).reshape(-1)
        left = _rounds(value, full(stop, ctx, self.dtype).reshape(-1), step, ctx, self.dtype)
        by = full(step, ctx, self.dtype).reshape(-1) if not isinstance(step, int) else None
        constant = LANE_DTYPE[self.dtype].type(step) if isinstance(step, int) else None
        lanes: Context | None = select(ctx, (left != 0).reshape(ctx.shape))
        outer: Context = ctx
        while lanes is not None:
            if lanes is not outer:
                chosen = np.searchsorted(outer.numbers, lanes.numbers)
                value, left = value[chosen], left[chosen]
                by = None if by is None else by[chosen]
                outer = lanes
            remaining = self._round(chunk, lanes, value.reshape(lanes.shape))
            if remaining is None:
                return
            if remaining is not lanes:
                chosen = np.searchsorted(outer.numbers, remaining.numbers)
                value, left = value[chosen], left[chosen]
                by = None if by is None else by[chosen]
                outer = remaining
            value = value + (constant if by is None else by)  # may wrap where the loop ends, and is not used there
            left = left - _ONE
            lanes = select(remaining, (left != 0).reshape(remaining.shape))
            if lanes is not None:
                lanes = chunk.take_step(lanes)


def _rounds(start: Lanes, stop: Lanes, step: Word, ctx: Context, dtype: ScalarType) -> NDArray[np.uint64]:
    """Returns the number of rounds of each lane.

    It is at most 2^64 - 1, the greatest distance of two numbers of 64 bits, which a difference modulo 2^64 gives.
    """
    distance = _words(stop) - _words(start)
    if isinstance(step, int):
        if step == 0:
            return np.zeros_like(distance)
        rising: NDArray[np.bool_] | bool = step > 0
        size: NDArray[np.uint64] | np.uint64 = np.uint64(abs(step))
    else:
        steps = full(step, ctx, dtype).reshape(-1)
        rising = steps > 0
        size = _words(steps)
        size = np.maximum(np.where(rising, size, -size), _ONE)
        distance = np.where(steps != 0, distance, np.uint64(0))
    distance = np.where(rising, distance, -distance)
    inside = np.where(rising, start < stop, start > stop)
    if not (isinstance(step, int) and abs(step) == 1):
        distance = (distance - _ONE) // size + _ONE  # where it is 0, there is no round either
    return np.where(inside, distance, np.uint64(0))


def _words(values: Lanes) -> NDArray[np.uint64]:
    """Returns integers of any type modulo 2^64."""
    return values.astype(np.uint64)
