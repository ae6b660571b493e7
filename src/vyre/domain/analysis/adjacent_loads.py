"""Loads, in one straight run of statements, of the elements ``e, e + 1, ...`` of a buffer that nothing writes.

Lanes that load such elements one after the other, each from a place of its own, read rows of a matrix by columns.  A
processor whose gathers are slow had better read the rows, and transpose them.  Linear in the loads, but for sorting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from vyre.domain.analysis.index_flow import Event, IndexFlow, Step
from vyre.domain.analysis.index_values import Form
from vyre.domain.ir.expr import Load
from vyre.domain.ir.program import Program

ROW: Final = 4
"""The elements of a group are a multiple of this number."""
LONGEST: Final = 16
"""The most elements of a group."""


class AdjacentGroup(NamedTuple):
    """Loads of consecutive elements: ``nodes`` has one for each, in the order of the elements.

    ``number`` tells it from the other groups of the program.
    """

    number: int
    nodes: tuple[Load, ...]


class AdjacentLoad(NamedTuple):
    """A load of a group: that of its element number ``place``."""

    group: AdjacentGroup
    place: int


class AdjacentLoads:
    """The grouped loads of a program, keyed by node objects; nodes that occur several times are in no group."""

    __slots__ = ("_members", "_program")

    def __init__(self, program: Program, members: dict[int, AdjacentLoad]) -> None:
        self._program = program  # keeps the nodes alive, so that no other object gets the id of one of them
        self._members = members

    def of(self, load: Load) -> AdjacentLoad | None:
        """Returns the place of a load in its group; None if it is in none."""
        return self._members.get(id(load))


def adjacent_loads(program: Program, flow: IndexFlow) -> AdjacentLoads:
    """Returns the groups of a program; ``flow`` are the facts of the same program."""
    buffers = program.buffers_by_name
    members: dict[int, AdjacentLoad] = {}
    count = 0
    for run in flow.runs:
        once = (event for event in run if event.step is Step.LOAD and flow.indices[id(event.node)] is not None)
        for elements in _by_form(once):
            if buffers[next(iter(elements.values()))[0].buffer].is_writable:
                continue
            for first, length in _stretches(sorted(elements)):
                group = AdjacentGroup(count, tuple(elements[first + place][0] for place in range(length)))
                count += 1
                for place in range(length):
                    members.update((id(node), AdjacentLoad(group, place)) for node in elements[first + place])
    return AdjacentLoads(program, members)


def _by_form(loads: Iterable[Event]) -> list[dict[int, list[Load]]]:
    """Returns the loads of each buffer and form of index, by the constant of the index."""
    groups: dict[tuple[str, Form], dict[int, list[Load]]] = {}
    for event in loads:
        node, index = event.node, event.at
        if index is not None and isinstance(node, Load):
            groups.setdefault((node.buffer, index.form), {}).setdefault(index.constant, []).append(node)
    return list(groups.values())


def _stretches(constants: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the first number and the length of groups among ascending numbers."""
    start = 0
    for end in range(1, len(constants) + 1):
        if end < len(constants) and constants[end] == constants[end - 1] + 1:
            continue
        while end - start >= ROW:
            length = min((end - start) // ROW * ROW, LONGEST)
            yield constants[start], length
            start += length
        start = end
