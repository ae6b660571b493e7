"""Data races that follow from the indices of accesses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.analysis.index_flow import Event, IndexFlow, Step
from vyre.domain.analysis.index_values import Atom, Form, signed
from vyre.domain.ir.expr import IdKind, Literal, Load
from vyre.domain.ir.program import Dim3
from vyre.domain.ir.stmt import Assign, Store
from vyre.domain.lints.lanes import UNKNOWN, Lanes, Reach

Strides: TypeAlias = tuple[tuple[int, int], ...]
_AXES: Final = "xyz"
_MOST: Final = 64
"""The largest number of accesses to one buffer that are compared with each other in one run of statements."""
_DEPTH: Final = 8
"""The largest depth of operators through which an index is followed."""


def one_element(stmt: Store, lanes: Lanes, reach: Reach) -> str | None:
    """Returns a message if several lanes of a workgroup store different values to one element, else None."""
    axes = lanes.differs(stmt.index)
    if axes & UNKNOWN:
        return None
    value = lanes.differs(stmt.value)
    for axis, name in enumerate(_AXES):
        if not axes & 1 << axis and value & 1 << axis and reach.lanes(axis) > 1:
            return f"lanes that differ along {name} store their own values to one element of `{stmt.buffer}`"
    return None


class NearRace(NamedTuple):
    """A store and another access to the same element by a neighbouring lane."""

    store: Store
    other: Load | Store
    axis: int
    distance: int
    """The number of lanes by which the accesses differ."""

    def __str__(self) -> str:
        access = "loads" if isinstance(self.other, Load) else "stores to"
        apart = f"{abs(self.distance)} {'further on' if self.distance > 0 else 'before it'} along {_AXES[self.axis]}"
        return f"a lane stores to the element of `{self.store.buffer}` that the lane {apart} {access}"


def near_races(flow: IndexFlow, sizes: Dim3) -> Iterator[NearRace]:
    """Yields pairs of accesses without a barrier between them whose indices differ by whole lanes.

    A pair of stores is reported once, for the second of them.
    """
    axes = _Axes(flow, sizes)
    for run in flow.runs:
        groups: dict[tuple[str, Form], list[Event]] = {}
        for event in run:
            if event.at is not None and not isinstance(event.node, Assign) and event.at.form.terms:
                groups.setdefault((event.node.buffer, event.at.form), []).append(event)
        for (_, form), events in groups.items():
            strides = axes.strides(form) if len(events) > 1 else ()
            if strides:
                for index, event in enumerate(events[:_MOST]):
                    if event.step is Step.STORE:
                        loads = [other for other in events[index + 1 : _MOST] if other.step is Step.LOAD]
                        yield from _near(event, [*events[:index], *loads], strides)


def _near(event: Event, others: list[Event], strides: Strides) -> Iterator[NearRace]:
    store = event.node
    assert isinstance(store, Store) and event.at is not None
    for other in others:
        assert other.at is not None and not isinstance(other.node, Assign)
        apart = signed(event.at.constant - other.at.constant)
        if apart == 0 or (isinstance(other.node, Store) and _equal_literals(store, other.node)):
            continue
        for axis, stride in strides:
            if apart % stride == 0:
                yield NearRace(store, other.node, axis, apart // stride)


def _equal_literals(a: Store, b: Store) -> bool:
    """Returns whether both stores write equal bits, which several lanes may do."""
    return isinstance(a.value, Literal) and a.value == b.value


class _Axes:
    """The axes of the workgroup that the atoms of indices follow, as bits, with ``UNKNOWN``."""

    def __init__(self, flow: IndexFlow, sizes: Dim3) -> None:
        self._known: dict[Atom, int] = dict.fromkeys(flow.uniform, 0)
        self._lanes: dict[Atom, int] = {}
        for (kind, axis), value in flow.ids.items():
            if value.atom is not None:
                is_lane = kind in (IdKind.LOCAL, IdKind.GLOBAL) and sizes[axis] > 1
                self._known[value.atom] = 1 << axis if is_lane else 0
                if is_lane:
                    self._lanes[value.atom] = axis

    def strides(self, form: Form) -> Strides:
        """Returns the axes along which neighbouring lanes are a constant number of elements apart, and that number."""
        strides = []
        for atom, stride in form.terms:
            axis = self._lanes.get(atom)
            if axis is None:
                continue
            others = [self._of(other) for other, _ in form.terms if other is not atom]
            if not any(bits & (1 << axis | UNKNOWN) for bits in others):
                strides.append((axis, stride))
        return tuple(strides)

    def _of(self, atom: Atom, depth: int = _DEPTH) -> int:
        axes = self._known.get(atom)
        if axes is None:
            if atom.left is None or atom.right is None or depth == 0:
                return UNKNOWN
            operands = [term for value in (atom.left, atom.right) for term, _ in value.form.terms]
            axes = 0
            for operand in operands:
                axes |= self._of(operand, depth - 1)
            self._known[atom] = axes
        return axes
