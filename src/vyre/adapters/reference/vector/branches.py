"""Branches: the lanes part ways, and those that are left come together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from vyre.adapters.lanes.types import Lanes
from vyre.adapters.reference.vector.affine import Affine, Extent, Split, share_workgroups
from vyre.adapters.reference.vector.chunk import Chunk
from vyre.adapters.reference.vector.lanes_context import Context, Gather, select, union
from vyre.adapters.reference.vector.values import EvaluateTruth, EvaluateWord
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
