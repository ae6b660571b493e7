"""Detects data races by observing every access of a run under the canonical schedule.

A data race is two accesses to one element by different lanes, at least one of them not a load, not both atomic, and not
ordered by a barrier of sufficient scope.  Lanes of a workgroup are ordered by its barriers; nothing orders two
workgroups (grid barriers cut a program into segments, each of which is observed separately).  Stores of equal bits that
are not read are allowed; they are noted.

For every element it suffices to keep, of each kind of access, two that differ in lane or stored bits since the last
barrier of the running workgroup, and two that differ in stored bits from before it and from other workgroups: if any
access conflicts with a new one, one of these does, or earlier accesses conflicted with each other already, after which
the element is not observed further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from vyre.adapters.reference.engine import Memory, RunOptions
from vyre.adapters.reference.scalar_oracle import ScalarKernel
from vyre.adapters.reference.scalar_state import Location, Workgroup
from vyre.domain.errors import DataRaceError, StepBudgetExceeded, TrapError
from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch
from vyre.domain.races import DataRace, LanePlace, RacingAccess

LISTED: Final = 1000
"""Maximum number of races and of notes that are kept; more are likely to have the same cause."""


class RaceReport(NamedTuple):
    """The result of an observed run: ``races``, and ``notes``, which are pairs of stores of equal bits."""

    races: tuple[DataRace, ...]
    notes: tuple[DataRace, ...]


class _Kind(IdentityEnum):
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


class _Access(NamedTuple):
    """One access.  ``data``: the stored bytes.  ``loc``: its source location, for messages only; it is not compared."""

    kind: _Kind
    lane: LanePlace
    data: bytes
    loc: Location

    def told(self) -> RacingAccess:
        """Returns the access as it is reported to users."""
        return RacingAccess(self.kind.value, self.lane, self.loc)


_CONFLICTS: Final = {
    _Kind.LOAD: (_Kind.STORE, _Kind.ATOMIC),
    _Kind.STORE: (_Kind.LOAD, _Kind.STORE, _Kind.ATOMIC),
    _Kind.ATOMIC: (_Kind.LOAD, _Kind.STORE),
}


class _Element:
    """The accesses to one element that are kept."""

    __slots__ = ("before", "epoch", "group", "others", "raced", "recent")

    def __init__(self) -> None:
        self.raced = False
        self.group = self.epoch = -1
        self.others: dict[_Kind, list[_Access]] = {}
        self.before: dict[_Kind, list[_Access]] = {}
        self.recent: dict[_Kind, list[_Access]] = {}

    def move_to(self, group: int, epoch: int) -> None:
        """Classifies the kept accesses by their order relative to that workgroup after that many barriers."""
        if self.group != group:
            for accesses in (self.before, self.recent):
                _merge(accesses, self.others)
            self.before, self.recent = {}, {}
        elif self.epoch != epoch:
            _merge(self.recent, self.before)
            self.recent = {}
        self.group, self.epoch = group, epoch

    def unordered(self, kind: _Kind) -> list[_Access]:
        """Returns kept accesses of a kind that are not ordered before an access that happens now."""
        return self.others.get(kind, []) + self.recent.get(kind, [])


def _merge(source: Mapping[_Kind, list[_Access]], target: dict[_Kind, list[_Access]]) -> None:
    for kind, accesses in source.items():
        known = target.setdefault(kind, [])
        for access in accesses:
            if len(known) < 2 and all(access.data != other.data for other in known):
                known.append(access)


def _remember(target: dict[_Kind, list[_Access]], access: _Access) -> None:
    known = target.setdefault(access.kind, [])
    if len(known) < 2 and all(access.data != other.data or access.lane != other.lane for other in known):
        known.append(access)


class RaceTracer:
    """``Tracer`` that collects races and notes.

    ``units``: for each buffer the size of an element in bytes, as far as races are concerned.
    """

    def __init__(self, units: Mapping[str, int], sizes: Mapping[str, int], workgroup_memory: frozenset[str]) -> None:
        self._units = units
        self._sizes = sizes
        self._workgroup_memory = workgroup_memory
        self._elements: dict[str, dict[int, _Element]] = {name: {} for name in units}
        self._group = -1
        self._epoch = 0
        self._lanes: list[LanePlace] = []
        self._races: dict[tuple[str, int], DataRace] = {}
        self._notes: dict[tuple[str, int], DataRace] = {}

    def report(self) -> RaceReport:
        """Returns the races and notes so far."""
        return RaceReport(tuple(self._races.values()), tuple(self._notes.values()))

    def workgroup(self, workgroup: Workgroup, /) -> None:
        self._group += 1
        self._lanes = [workgroup.place(lane) for lane in range(workgroup.size)]
        for name in self._workgroup_memory:
            self._elements[name] = {}

    def barrier(self) -> None:
        self._epoch += 1

    def load(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        self._access(buffer, start, nbytes, _Kind.LOAD, lane, b"", loc)

    def store(self, buffer: str, start: int, data: bytes, lane: int, loc: Location, /) -> None:
        self._access(buffer, start, len(data), _Kind.STORE, lane, data, loc)

    def atomic(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        self._access(buffer, start, nbytes, _Kind.ATOMIC, lane, b"", loc)

    def _access(self, buffer: str, start: int, nbytes: int, kind: _Kind, lane: int, data: bytes, loc: Location) -> None:
        unit, elements = self._units[buffer], self._elements[buffer]
        for offset in range(0, nbytes, unit):
            position = start + offset
            element = elements.get(position)
            if element is None:
                element = elements[position] = _Element()
            if not element.raced:
                access = _Access(kind, self._lanes[lane], data[offset : offset + unit], loc)
                element.move_to(self._group, self._epoch)
                self._compare(buffer, position, element, access)
                _remember(element.recent, access)

    def _compare(self, buffer: str, position: int, element: _Element, access: _Access) -> None:
        for kind in _CONFLICTS[access.kind]:
            for other in element.unordered(kind):
                if other.lane == access.lane:
                    continue
                race = DataRace(buffer, position // self._sizes[buffer], other.told(), access.told())
                if kind is _Kind.STORE and access.kind is _Kind.STORE and other.data == access.data:
                    _list_first(self._notes, race)
                    continue
                element.raced = True
                _list_first(self._races, race)
                return


def _list_first(races: dict[tuple[str, int], DataRace], race: DataRace) -> None:
    """Adds the first race of each element, up to ``LISTED``."""
    if len(races) < LISTED:
        races.setdefault((race.buffer, race.element), race)


class RaceCheckKernel:
    """The ``Engine`` of observed runs: runs a program on the oracle; raises ``DataRaceError`` if it has races.

    Reports are passed to ``receive``, if it is given, and races are no error then.
    """

    def __init__(
        self, program: Program, spec: Mapping[str, Literal], receive: Callable[[RaceReport], object] | None = None
    ) -> None:
        self._kernel = ScalarKernel(program, spec)
        self._receive = receive
        copied = {
            name
            for s in walk_statements(program.body)
            if isinstance(s, AsyncLoad | AsyncStore)
            for name in (s.source, s.destination)
        }
        self._sizes = {b.name: b.element.size for b in program.buffers if isinstance(b.element, ScalarType)}
        # Copies move bytes, so in the buffers that they access every byte is an element.
        self._units = {name: 1 if name in copied else size for name, size in self._sizes.items()}
        self._workgroup_memory = frozenset(b.name for b in program.buffers if b.is_workgroup)

    def run(self, memory: Memory, launch: Launch, options: RunOptions, /) -> None:
        """Implements ``Kernel.run``; also raises ``DataRaceError``."""
        tracer = RaceTracer(self._units, self._sizes, self._workgroup_memory)
        failure: TrapError | StepBudgetExceeded | None = None
        try:
            # The verdict holds for every schedule, so the observed one need not be the requested one.
            self._kernel.run(memory, launch, replace(options, chunk_workgroups=None), tracer)
        except (TrapError, StepBudgetExceeded) as error:
            failure = error
        report = tracer.report()
        if self._receive is not None:
            self._receive(report)
        elif report.races:
            raise DataRaceError(races=report.races, notes=report.notes) from failure
        if failure is not None:
            raise failure
