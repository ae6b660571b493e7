"""The barriers between the stages of a joined program, found from the elements that their lanes access."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

from vyre.domain.analysis.index_values import Value
from vyre.domain.fusion.indices import Found, Indices, Limits
from vyre.domain.fusion.stages import StageBarrier
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.expr import Atomic, Load
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, Body, Store, operands, walk_statements
from vyre.domain.ir.walk import unique_nodes

_NONE: Final = StageBarrier.NONE
_GRID: Final = StageBarrier.GRID


class Element(NamedTuple):
    """The element that a stage accesses, and how; ``at`` is None if it is unknown.

    ``only`` and ``limits`` are those of ``Found``.
    """

    at: Value | None
    writes: bool
    atomic: AtomicOp | None = None
    only: Hashable = None
    limits: Limits = frozenset()


StageAccesses = Mapping[str, frozenset[Element]]
"""The accesses of one stage by the name of the buffer in the joined program."""


def stage_accesses(body: Body, indices: Indices) -> StageAccesses:
    """Returns the accesses of a stage's body in the joined program."""
    touched: defaultdict[str, set[Element]] = defaultdict(set)
    for stmt in walk_statements(body):
        nodes: list[Load | Store | Atomic] = [
            node for node in unique_nodes(operands(stmt)) if isinstance(node, Load | Atomic)
        ]
        if isinstance(stmt, Store):
            nodes.append(stmt)
        elif isinstance(stmt, AsyncLoad | AsyncStore):
            for name, touch in accesses(stmt):
                touched[name].add(Element(None, touch is Touch.WRITE))
        for node in nodes:
            access: Found | None = indices.accesses.get(id(node))
            if access is not None:
                touched[access.buffer].add(Element(access.at, access.writes, access.atomic, access.only, access.limits))
    return {name: frozenset(elements) for name, elements in touched.items()}


class Dependences:
    """The barriers that stages need, found pair by pair."""

    def __init__(self, stages: Sequence[StageAccesses], indices: Indices, workgroups: int, lanes: int) -> None:
        self._stages = stages
        self._indices = indices
        self._workgroups = workgroups
        self._lanes = lanes

    def elements(self, stage: int, name: str) -> frozenset[Element]:
        """Returns the elements of a buffer that a stage accesses."""
        return self._stages[stage].get(name, frozenset())

    def between(self, earlier: int, later: int) -> Mapping[str, StageBarrier]:
        """Returns, for each buffer in which the two stages conflict, the lanes that a barrier between must order.

        NONE: an element that both access, and one of them writes, is accessed by one lane alone.
        """
        before, after = self._stages[earlier], self._stages[later]
        barriers: dict[str, StageBarrier] = {}
        for name, elements in after.items():
            kinds = {
                self._relation(first, second)
                for first in before.get(name, ())
                for second in elements
                if first.writes or second.writes
            }
            if kinds:
                barriers[name] = max(kinds, key=lambda kind: kind.value)
        return barriers

    def _relation(self, one: Element, other: Element) -> StageBarrier:
        first, second = one.at, other.at
        if one.atomic is not None and one.atomic is other.atomic:
            return _NONE  # it commutes: a stage whose result depends on the order is not joined
        alike = one.atomic is None and other.atomic is None  # the language wants a barrier around atomics
        if self._lanes == 1 and alike:
            return _NONE
        if first is not None and second is not None:
            if first is second and self._indices.tells_lanes_apart(first, (one.limits, other.limits)):
                return _NONE if alike else StageBarrier.WORKGROUP
            if self._workgroups > 1:
                block = self._indices.elements_of_a_workgroup(first)
                if block is not None and block == self._indices.elements_of_a_workgroup(second):
                    return StageBarrier.WORKGROUP
        return StageBarrier.WORKGROUP if self._workgroups == 1 else _GRID

    def is_pointwise(self, name: str) -> bool:
        """Returns whether every access of a buffer, in all stages, is to one element that belongs to its lane."""
        elements = [element for stage in self._stages for element in stage.get(name, ())]
        if len({(element.at, element.only) for element in elements}) != 1:
            return False
        index = elements[0].at
        return index is not None and self._indices.tells_lanes_apart(index, [element.limits for element in elements])


def place_barriers(count: int, dependences: Dependences) -> tuple[StageBarrier, ...]:
    """Returns what stands before each stage but the first: as little as orders it after all stages before."""
    placed: list[StageBarrier] = []
    for later in range(1, count):
        needed = _NONE
        for earlier in range(later):
            crossed = max((barrier.value for barrier in placed[earlier:]), default=0)
            for barrier in dependences.between(earlier, later).values():
                if barrier.value > max(crossed, needed.value):
                    needed = barrier
        placed.append(needed)
    return tuple(placed)
