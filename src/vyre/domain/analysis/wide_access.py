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
from vyre.domain.ir.program import Program
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

    ``aligned16`` means that every binding starts at a multiple of 16 bytes; without it only workgroup and
    private buffers are grouped, which must start at such a multiple.  ``noalias`` means that no written binding
    overlaps another one; without it a store to any binding is a barrier between loads from any other.
    """
    grouping = _Grouping(program, bounds, aligned16, noalias)
    for run in bounds.flow.runs:
        grouping.run(run)
    return WideFacts(program, grouping.members)


_Key: TypeAlias = tuple[str, Form, int, int]
"""Buffer, index without its constant, the constant of the first element, and the largest width of a group."""
_Elements: TypeAlias = dict[int, list[Event]]
"""Accesses by their distance from the first element, in program order."""


class _Candidates:
    """Accesses that may form groups, by buffer and form of the index."""

    def __init__(self, bindings: frozenset[str]) -> None:
        self._open: dict[str, dict[Form, dict[_Key, _Elements]]] = {}
        self._bindings = bindings
        self.bound: Final[set[str]] = set()
        """The buffers among them to which the caller binds memory."""

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the buffers."""
        return tuple(self._open)

    def elements(self, key: _Key) -> _Elements:
        """Returns the accesses of a candidate, which may be new."""
        name, form, _, _ = key
        if name not in self._open and name in self._bindings:
            self.bound.add(name)
        return self._open.setdefault(name, {}).setdefault(form, {}).setdefault(key, {})

    def take(self, name: str, *, but: Form | None = None) -> list[tuple[_Key, _Elements]]:
        """Removes the candidates of a buffer, except those with the form ``but``, and returns them."""
        forms = self._open.pop(name, {})
        kept = None if but is None else forms.pop(but, None)
        if but is not None and kept is not None:
            self._open[name] = {but: kept}
        else:
            self.bound.discard(name)
        return [item for elements in forms.values() for item in elements.items()]

    def take_one(self, key: _Key) -> list[tuple[_Key, _Elements]]:
        """Removes one candidate and returns it."""
        return [(key, self._open[key[0]][key[1]].pop(key))]


class _Grouping:
    def __init__(self, program: Program, bounds: BoundsFacts, aligned16: bool, noalias: bool) -> None:
        self._buffers = program.buffers_by_name
        self._indices = bounds.flow.indices
        self._aligned16 = aligned16
        self._noalias = noalias
        self._bindings = frozenset(b.name for b in program.buffers if b.is_bound)
        self._loads = _Candidates(self._bindings)
        self._stores = _Candidates(self._bindings)
        self._positions: dict[int, int] = {}
        """The position of each node in its run."""
        self.members: dict[int, WideAccess] = {}

    def run(self, events: Iterable[Event]) -> None:
        for position, event in enumerate(events):
            self._positions[id(event.node)] = position
            match event.step:
                case Step.ASSIGN:
                    self._close_all(self._stores)
                case Step.LOAD:
                    self._close_touched(self._stores, event.node.buffer)  # type: ignore[union-attr]
                    self._add(self._loads, event)
                case Step.STORE:
                    self._store(event)
                case _:  # pragma: no cover
                    assert_never(event.step)
        self._close_all(self._loads)
        self._close_all(self._stores)

    def _store(self, event: Event) -> None:
        assert isinstance(event.node, Store)
        name = event.node.buffer
        self._close_touched(self._loads, name)
        if event.at is None:  # it may be any element
            self._close_touched(self._stores, name)
            return
        form = event.at.form
        # Elements that differ from this one by a constant other than 0 are other elements.
        self._close_touched(self._stores, name, but=form)
        key = self._key(event)
        if key is not None and event.at.constant - key[2] in self._stores.elements(key):
            self._close(self._stores.take_one(key))
        self._add(self._stores, event)

    def _add(self, groups: _Candidates, event: Event) -> None:
        key = self._key(event)
        if key is not None and event.at is not None:
            groups.elements(key).setdefault(event.at.constant - key[2], []).append(event)

    def _key(self, event: Event) -> _Key | None:
        """Returns the key of the group to which the access can belong; None if there is none."""
        node, index = event.node, event.at
        if index is None or self._indices[id(node)] is None or not isinstance(node, Load | Store):
            return None
        buffer = self._buffers[node.buffer]
        width = min(_WIDEST.get(buffer.element, 1), 1 << index.form.align)
        if width < _PAIR or (buffer.is_bound and not self._aligned16):
            return None
        return node.buffer, index.form, index.constant & -width, width

    def _close_touched(self, groups: _Candidates, name: str, but: Form | None = None) -> None:
        """Ends the candidates in memory that the buffer may share, except its own with the form ``but``."""
        if groups:
            if not self._noalias and name in self._bindings:
                for other in groups.bound - {name}:
                    self._close(groups.take(other))
            self._close(groups.take(name, but=but))

    def _close_all(self, groups: _Candidates) -> None:
        for name in groups.names:
            self._close(groups.take(name))

    def _close(self, candidates: list[tuple[_Key, _Elements]]) -> None:
        """Makes groups of the candidates that are complete."""
        for key, elements in candidates:
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
