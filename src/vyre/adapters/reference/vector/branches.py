"""Branches, on which the lanes part ways and come together again, and counted loops: rounds for all lanes at once, or
for those that are still in the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from vyre.adapters.lanes.types import LANE_DTYPE, Lanes
from vyre.adapters.reference.vector.affine import Affine, Extent, Split, Value, Word, share_workgroups
from vyre.adapters.reference.vector.chunk import Chunk, Local
from vyre.adapters.reference.vector.lanes_context import Context, Gather, select, union, without
from vyre.adapters.reference.vector.values import U32, EvaluateTruth, EvaluateWord, full
from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from numpy.typing import NDArray


Execute: TypeAlias = Callable[[Chunk, Context], "Context | None"]
_BOXES: Final = 8
"""More boxes than these wait for the next link of a chain as one list of lanes."""
_TABLE: Final = 1 << 12
"""Values of a selector, and those per label, up to which a table lists the arm of each."""


def _parts(chunk: Chunk, boxes: tuple[Extent, ...]) -> list[Context]:
    """Returns the boxes, one after another; as one where a workgroup in two of them would fall out of phase."""
    if len(boxes) < 2 or not chunk.in_phase:
        return [chunk.grid.box(box) for box in boxes]
    parts: list[Context] = [chunk.grid.box(box) for box in sorted(boxes)]
    if not share_workgroups(boxes):
        return parts
    whole = union(parts)
    assert whole is not None
    return [whole]


def branch(condition: EvaluateTruth, then: Execute, otherwise: Execute | None) -> Execute:
    """Runs one body where a condition holds, then the other one, if there is one, where it does not."""

    def execute(chunk: Chunk, ctx: Context) -> Context | None:
        taken = condition(chunk, ctx)
        if taken is True:
            return then(chunk, ctx)
        if taken is False:
            return ctx if otherwise is None else otherwise(chunk, ctx)
        if isinstance(taken, Split):
            yes = _parts(chunk, taken.true)
            no: list[Context] | None = None
        else:
            chosen = select(ctx, taken)
            yes = [] if chosen is None else [chosen]
            no = None
            if otherwise is not None or chosen is None:
                rest = select(ctx, ~taken)
                no = [] if rest is None else [rest]
        left = [then(chunk, part) for part in yes]
        lost = any(a is not b for a, b in zip(left, yes, strict=True))
        if otherwise is None and not lost:
            return ctx
        if no is None:
            if isinstance(taken, Split):
                no = _parts(chunk, taken.false)
            else:
                rest = select(ctx, ~taken)
                no = [] if rest is None else [rest]
        if otherwise is None:
            after: list[Context | None] = list(no)
        else:
            after = [otherwise(chunk, part) for part in no]
            if not lost and all(a is b for a, b in zip(after, no, strict=True)):
                return ctx
        return union([part for part in left + after if part is not None])

    return execute


def chain(links: Sequence[tuple[EvaluateTruth, Execute]], otherwise: Execute | None) -> Execute:
    """Runs a chain of ``else if``: the body of each link where its condition is the first that holds, then the last
    one, if there is one, where none does.

    A link evaluates its condition for the lanes that took no earlier link, so that a chain costs no depth.
    """

    def execute(chunk: Chunk, ctx: Context) -> Context | None:
        waiting: list[Context] = [ctx]
        after: list[Context] = []
        complete = True
        for condition, then in links:
            undecided: list[Context] = []
            for part in waiting:
                yes, no = _sides(chunk, part, condition(chunk, part))
                undecided += no
                for taken in yes:
                    left = then(chunk, taken)
                    complete = complete and left is taken
                    if left is not None:
                        after.append(left)
            waiting = _few(undecided)
            if not waiting:
                break
        for part in waiting:
            left = part if otherwise is None else otherwise(chunk, part)
            complete = complete and left is part
            if left is not None:
                after.append(left)
        return ctx if complete else union(after)

    return execute


def _sides(chunk: Chunk, ctx: Context, taken: bool | Split | Lanes) -> tuple[list[Context], list[Context]]:
    """Returns the lanes where a condition holds, and where it does not."""
    if isinstance(taken, bool):
        return ([ctx], []) if taken else ([], [ctx])
    if isinstance(taken, Split):
        return _parts(chunk, taken.true), _parts(chunk, taken.false)
    yes = select(ctx, taken)
    if yes is ctx or yes is None:
        return ([], [ctx]) if yes is None else ([ctx], [])
    no = select(ctx, ~taken)
    return [yes], [] if no is None else [no]


def _few(parts: list[Context]) -> list[Context]:
    """Returns the lanes of disjoint contexts as not too many contexts."""
    if len(parts) <= _BOXES:
        return parts
    whole = union(parts)
    return [] if whole is None else [whole]


def switch(
    selector: EvaluateWord,
    dtype: ScalarType,
    labels: Sequence[Sequence[int]],
    arms: Sequence[Execute],
    default: Execute,
) -> Execute:
    """Runs the arms in order, each for the lanes whose selector is among its labels, then the default for the rest.

    The lanes are sorted by their arms, so that the time does not depend on the number of arms that none of them takes.
    """
    arm_of = {label: number for number, arm in enumerate(labels) for label in arm}
    find = _finder(arm_of, len(arms))
    bodies = (*arms, default)

    def execute(chunk: Chunk, ctx: Context) -> Context | None:
        value = selector(chunk, ctx)
        if isinstance(value, int):
            return bodies[arm_of.get(value, len(arms))](chunk, ctx)
        if isinstance(value, Affine):
            value = ctx.materialise(value, dtype)
        chosen = find(value.reshape(-1))
        first = int(chosen[0])
        if (chosen == first).all():
            return bodies[first](chunk, ctx)
        order = np.argsort(chosen, kind="stable")
        counts = np.bincount(chosen)
        present = np.flatnonzero(counts)
        after: list[Context] = []
        complete = True
        start = 0
        for number, count in zip(present.tolist(), counts[present].tolist(), strict=True):
            lanes = Gather(ctx.grid, ctx.numbers[order[start : start + count]])
            start += count
            left = bodies[number](chunk, lanes)
            complete = complete and left is lanes
            if left is not None:
                after.append(left)
        return ctx if complete else union(after)

    return execute


def _finder(arm_of: Mapping[int, int], default: int) -> Callable[[Lanes], NDArray[np.unsignedinteger[Any]]]:
    """Returns the function from selectors, integers of any type, to the numbers of their arms."""
    # Sorting numbers of 16 bits takes a time in proportion to their count.
    small = np.uint16 if default < 1 << 16 else np.uint32
    labels = np.array(sorted(arm_of), object)
    if not len(labels):
        return lambda value: np.full(len(value), default, small)
    arms = np.array([arm_of[label] for label in labels], small)
    least, span = int(labels[0]), int(labels[-1]) - int(labels[0]) + 1
    if span <= max(_TABLE, 4 * len(labels)):
        table = np.full(span + 1, default, small)
        table[(labels - least).astype(np.intp)] = arms

        def look_up(value: Lanes) -> NDArray[np.unsignedinteger[Any]]:
            distance = value.view(f"u{value.itemsize}") - np.array(least).astype(value.dtype).view(f"u{value.itemsize}")
            arms_of: NDArray[np.unsignedinteger[Any]] = table[np.minimum(distance, np.array(span, distance.dtype))]
            return arms_of

        return look_up

    def search(value: Lanes) -> NDArray[np.unsignedinteger[Any]]:
        known = labels.astype(value.dtype)
        position = np.minimum(np.searchsorted(known, value), len(known) - 1)
        return np.where(known[position] == value, arms[position], small(default))

    return search


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
    site: str | None

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
                lanes = chunk.take_step(lanes, self.site)
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
                lanes = chunk.take_step(lanes, self.site)


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
