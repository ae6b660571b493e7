"""Adjacent loads or stores that can be merged into one access of 8 or 16 bytes.

A group consists of the accesses, in one straight run of statements, to the elements ``e, e + 1, ...`` of one buffer,
where ``e`` is certainly a multiple of their number (2, or 4 for elements of 4 bytes) and the last of them is
certainly in range, so that all are; in between there is no branch, barrier, atomic or asynchronous copy, and no
access to the same memory that forbids moving them together.  Linear in the accesses.

An emitter, walking statements in order, uses it as follows:

- At a load in a group: the first member that it reaches loads the whole group, from the address of this member's own
  index less ``lane`` elements; each member's value is the group's register number ``lane``.
- At a store in a group: keep the value, as it is to be stored, as register number ``lane``; at the member that is
  ``last``, store all of them, to the address of its own index less ``lane`` elements.  No local changes between the
  first and the last.

No member needs a bounds check.  Groups compare by identity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias, assert_never

from vyre.domain.analysis.bounds_checks import BoundsFacts
from vyre.domain.analysis.index_flow import Event, Step
from vyre.domain.analysis.index_values import Form
from vyre.domain.ir.expr import Load
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import ScalarType

WIDE_BYTES: Final = 16
_PAIR: Final = 2


class WideGroup:
    """A group of ``width`` adjacent elements of ``buffer``."""

    __slots__ = ("buffer", "width")

    def __init__(self, buffer: str, width: int) -> None:
        self.buffer: str = buffer
        self.width: int = width


class WideAccess(NamedTuple):
    """One access of a group, to element number ``lane``.  ``last`` means that no other member comes later."""

    group: WideGroup
    lane: int
    last: bool


class WideFacts:
    """The grouped accesses of a program, keyed by node objects; nodes that occur several times are in no group."""

    __slots__ = ("_members", "_program")

    def __init__(self, program: Program, members: dict[int, WideAccess]) -> None:
        self._program = program  # keeps the nodes alive, so that no other object gets the id of one of them
        self._members = members

    def of(self, access: Load | Store) -> WideAccess | None:
        """Returns the group membership of an access, or None."""
        return self._members.get(id(access))


def wide_facts(program: Program, bounds: BoundsFacts, *, aligned16: bool, noalias: bool) -> WideFacts:
    """Returns the groups of a program; ``bounds`` are the facts of the same program.

    ``aligned16`` means that every binding starts at a multiple of 16 bytes; without it only workgroup buffers are
    grouped, which must start at such a multiple.  ``noalias`` means that no written binding overlaps another one;
    without it a store to any binding is a barrier between loads from any other.
    """
    grouping = _Grouping(program, bounds, aligned16, noalias)
    for run in bounds.flow.runs:
        grouping.run(run)
    return WideFacts(program, grouping.members)


_Key: TypeAlias = tuple[str, Form, int, int]
"""Buffer, index without its constant, the constant of the first element, and the largest width of a group."""
_Elements: TypeAlias = dict[int, list[Event]]
"""Accesses by their distance from the first element, in program order."""


class _Grouping:
    def __init__(self, program: Program, bounds: BoundsFacts, aligned16: bool, noalias: bool) -> None:
        self._buffers = program.buffers_by_name
        self._indices = bounds.flow.indices
        self._aligned16 = aligned16
        self._noalias = noalias
        self._loads: dict[_Key, _Elements] = {}
        self._stores: dict[_Key, _Elements] = {}
        self._positions: dict[int, int] = {}
        """The position of each node in its run."""
        self.members: dict[int, WideAccess] = {}

    def run(self, events: Iterable[Event]) -> None:
        for position, event in enumerate(events):
            self._positions[id(event.node)] = position
            match event.step:
                case Step.ASSIGN:
                    self._close(self._stores, list(self._stores))
                case Step.LOAD:
                    self._close_touched(self._stores, event.node.buffer)  # type: ignore[union-attr]
                    self._add(self._loads, event)
                case Step.STORE:
                    self._store(event)
                case _:  # pragma: no cover
                    assert_never(event.step)
        self._close(self._loads, list(self._loads))
        self._close(self._stores, list(self._stores))

    def _store(self, event: Event) -> None:
        assert isinstance(event.node, Store) and event.at is not None
        name, form = event.node.buffer, event.at.form
        self._close_touched(self._loads, name)
        # Elements that differ from this one by a constant other than 0 are other elements.
        others = [key for key in self._stores if self._may_meet(key[0], name) and key[:2] != (name, form)]
        self._close(self._stores, others)
        key = self._key(event)
        if key is not None and event.at.constant - key[2] in self._stores.get(key, ()):
            self._close(self._stores, [key])
        self._add(self._stores, event)

    def _add(self, groups: dict[_Key, _Elements], event: Event) -> None:
        key = self._key(event)
        if key is not None and event.at is not None:
            groups.setdefault(key, {}).setdefault(event.at.constant - key[2], []).append(event)

    def _key(self, event: Event) -> _Key | None:
        """Returns the key of the group to which the access can belong; None if there is none."""
        node, index = event.node, event.at
        if index is None or self._indices[id(node)] is None or not isinstance(node, Load | Store):
            return None
        buffer = self._buffers[node.buffer]
        width = min(_widest(buffer), 1 << index.form.align)
        if width < _PAIR or not (buffer.is_workgroup or self._aligned16):
            return None
        return node.buffer, index.form, index.constant & -width, width

    def _close_touched(self, groups: dict[_Key, _Elements], name: str) -> None:
        if groups:
            self._close(groups, [key for key in groups if self._may_meet(key[0], name)])

    def _may_meet(self, one: str, other: str) -> bool:
        """Returns whether the two buffers may share memory."""
        if one == other:
            return True
        return not (self._noalias or self._buffers[one].is_workgroup or self._buffers[other].is_workgroup)

    def _close(self, groups: dict[_Key, _Elements], keys: list[_Key]) -> None:
        """Ends these candidates; those that are complete become groups."""
        for key in keys:
            elements = groups.pop(key)
            name, _, _, widest = key
            if not self._group(name, elements, 0, widest) and widest > _PAIR:
                self._group(name, elements, 0, _PAIR)
                self._group(name, elements, _PAIR, _PAIR)

    def _group(self, name: str, elements: _Elements, first: int, width: int) -> bool:
        lanes = [elements.get(first + lane, []) for lane in range(width)]
        if not all(lanes) or not any(event.proven for event in lanes[-1]):
            return False
        group = WideGroup(name, width)
        last = max(self._positions[id(event.node)] for lane in lanes for event in lane)
        for number, lane in enumerate(lanes):
            for event in lane:
                key = id(event.node)
                self.members[key] = WideAccess(group, number, self._positions[key] == last)
        return True


def _widest(buffer: Buffer) -> int:
    """Returns the number of elements in a wide access: 1 if there is none for this element type."""
    return _WIDEST.get(buffer.element, 1)


_WIDEST: Final[dict[object, int]] = {
    dtype: WIDE_BYTES // dtype.size
    for dtype in (
        ScalarType.U32,
        ScalarType.I32,
        ScalarType.F32,
        ScalarType.BOOL,
        ScalarType.U64,
        ScalarType.I64,
        ScalarType.F64,
    )
}
