"""Steps that resident workers run: a ring whose jobs are the commands of steps that were bound beforehand.

A run of a part is an entry of the ring with a row for each step of each round, or several entries one after the other
where there are more rows than an entry has.  Workers take the rows in waves, without Python between two of them.  The
ring is opened with the first run.  A backend keeps at most ``RINGS`` of them; the one that was used least recently is
given back, and its steps open another with their next run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from ctypes import Array, addressof, c_int64
from typing import Final
from weakref import WeakValueDictionary

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.commands import Command, CommandList, flat
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.pool.ring import MOST_ROWS, Ring, RingCode, RingSpec, StepTable, Wave, read_status
from vyre.adapters.cpu.pool.worker_pool import SLICE_NS
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.launch import ended_error
from vyre.adapters.cpu.runtime.resident import CpuMemory, PreparedStep
from vyre.adapters.forks import process_lock, refuse_within
from vyre.adapters.host.memory import in_turn, turns_of
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import DeviceOutOfMemory, DispatchFailed, InvalidResource
from vyre.domain.unique import Unique
from vyre.ports.interrupts import sealed, undisturbed
from vyre.ports.ownership import check_ownership
from vyre.ports.persistent import StepsRan
from vyre.ports.requests import ResidentStep

RINGS: Final = 16
"""Rings that the steps of one backend have at once, of those of the process."""
_CAPACITY: Final = 2
_ROW: Final = at.StepsStatus.row // 8
_NS: Final = at.Status.ns // 8
_NO_CODE: Final = RingCode((), 0, None)


class _Part:
    """The steps of a part in the order of their waves, with the table that workers read."""

    __slots__ = ("_codes", "prepared", "table", "widths")

    def __init__(self, prepared: Sequence[PreparedStep], widths: Sequence[int]) -> None:
        self.widths: Final = tuple(widths)
        self.use(prepared)

    def use(self, prepared: Sequence[PreparedStep]) -> None:
        """Makes the table.  Steps that an old table has are not under way."""
        self.prepared = tuple(prepared)
        self._codes = tuple({(id(one.shape), id(one.choice), id(one.loaded)): one for one in prepared}.values())
        commands: list[Command] = []
        places: list[tuple[int, int, float | None]] = []
        end = 0
        for step in self.prepared:
            commands += step.commands
            begin, end = end, end + len(flat(step.commands))
            places.append((begin, end, step.pipeline.config.timeout_s))
        waves, first = [], 0
        for width in self.widths:
            waves.append(Wave(tuple(places[first : first + width])))
            first += width
        self.table = StepTable(CommandList(commands), waves)

    @property
    def is_current(self) -> bool:
        """Returns whether all steps have the code and the placement that new ones would have."""
        return all(step.is_current for step in self._codes)  # what many steps have in common is looked at once


class CpuKeptSteps(Unique):
    """``KeptSteps`` of the backend."""

    def __init__(
        self, owner: CpuPersistentSteps, device: CpuDevice, parts: Sequence[tuple[Sequence[PreparedStep], list[int]]]
    ) -> None:
        self._owner, self._device = owner, device
        self._parts: Final = tuple(_Part(prepared, widths) for prepared, widths in parts)
        steps = [step for part in self._parts for step in part.prepared]
        self._buffers: Final = tuple({id(buffer): buffer for step in steps for buffer in step.buffers}.values())
        self._turns: Final = turns_of(buffer for step in steps for buffer in step.counted)
        limits = [step.pipeline.config.timeout_s for step in steps]
        self._longest: Final = max((limit for limit in limits if limit is not None), default=None)
        self._status: Final[Array[c_int64]] = (c_int64 * (at.StepsStatus.BYTES // 8))()
        self._ring: Ring | None = None
        self._lock: Final = process_lock()
        self._closed = False
        self._counts: Final = {"launches": 0, "jobs": 0, "submissions": 0, "waits": 0, "wakes": 0}

    def run(self, part: int, times: int, /) -> StepsRan:
        began = self._device.counters.now_ns()
        chosen, before = self._parts[part], self._counts["submissions"]
        ns = 0
        refuse_within(self._lock, "a sequence that keeps running")
        with self._lock, sealed:
            self._check()
            if times and chosen.prepared:
                if not chosen.is_current:
                    self._renew(chosen)
                ns = in_turn(self._turns, self._submitted, chosen, times)
        if len(chosen.prepared) == 1 and times:
            step = chosen.prepared[0]
            step.pipeline.learn(step.shape, ns // times, times)
        timing = DispatchTiming(self._device.counters.now_ns() - began, ns, launches=0)
        return StepsRan(timing, self._counts["submissions"] - before)

    def counters(self) -> Mapping[str, int]:
        counts, ring = dict(self._counts), self._ring
        if ring is not None:
            _add(counts, ring.counts)
        return counts

    def close(self) -> None:
        """Implements ``KeptSteps.close``; a run that is under way in another thread is stopped."""
        self._closed = True
        if self._device.is_inherited:  # the parent's: nothing of it runs here
            return
        with self._lock, sealed:
            self._give_back()
        self._owner.forget(self)
        self._device.closed_engine(self)

    def drain(self) -> bool:
        """Waits until no run is under way."""
        with self._lock, sealed:
            return True

    def park(self) -> bool:
        """Gives the ring back unless a run is under way; returns whether it did."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._give_back()
        finally:
            self._lock.release()
        return True

    # ---------------------------------------------------------------- details
    def _check(self) -> None:
        if self._closed:
            raise InvalidResource("the kept steps were closed", fix="keep them again.")
        self._device.check()
        for buffer in self._buffers:
            if buffer.closed:
                check_ownership(self._device.backend, 0, self._buffers)

    def _renew(self, part: _Part) -> None:
        """Takes better code, which has come since the steps were prepared."""
        part.use([step if step.is_current else step.renewed() for step in part.prepared])
        if self._ring is not None:
            self._ring.use_steps([one.table for one in self._parts])

    def _opened(self) -> Ring:
        """Returns the ring, which is opened unless it is."""
        ring = self._ring
        self._owner.make_room(self)
        if ring is None:
            runners = min(self._device.threads, at.MOST_RUNNERS)
            spec = RingSpec(_CAPACITY, runners, (1, 1, 1), (), (), 1, self._longest, None, 0, steps=True)
            ring = self._device.ring(spec, _NO_CODE)
            ring.use_steps([part.table for part in self._parts])
            self._ring = ring
            self._counts["launches"] += 1
        return ring

    def _submitted(self, part: _Part, times: int) -> int:
        """Runs so many rounds, in as few entries as there can be, and returns the time of them in ns."""
        at_once = MOST_ROWS // len(part.prepared)
        return sum(self._entered(part, min(at_once, times - first)) for first in range(0, times, at_once))

    def _entered(self, part: _Part, rounds: int) -> int:
        """Runs so many rounds as one entry, and returns the time from the first step to the last in ns."""
        ring, status, table = self._opened(), self._status, part.table
        number, pool = ring.progress[0], ring.pool
        status[0] = status[_NS] = 0
        ring.write(number, rounds * table.steps, table.address, addressof(status))
        try:
            ring.publish(table.first_width)
            if pool.is_unwatched():
                pool.await_begin()
            while not ring.wait(number, SLICE_NS):
                if (self._closed or pool.closed) and not ring.has_ended(number):
                    self._device.check()  # a backend that is closed closes its steps, too
                    what = "its steps were" if self._closed else "the pool of worker threads is"
                    raise DispatchFailed(f"the run was stopped because {what} closed", fix="close them after the run.")
                pool.await_begin()
        except BaseException:  # an interrupt, before or after the entry was published
            ring.stop(StopReason.INTERRUPTED)
            self._give_back()
            raise
        self._counts["submissions"] += 1
        self._counts["waits"] += 1
        if status[0]:
            raise self._error(part)
        return status[_NS]

    def _give_back(self) -> None:
        ring, self._ring = self._ring, None
        if ring is not None:
            ring.close()
            _add(self._counts, ring.counts)

    def _error(self, part: _Part) -> Exception:
        status = self._status
        read = read_status(status[:])
        assert read is not None
        if read.outcome is Outcome.OUT_OF_MEMORY:
            return DeviceOutOfMemory(requested=part.table.commands.scratch_bytes)
        owner = part.prepared[status[_ROW] % len(part.prepared)].all_owners[read.kernel]
        return ended_error(self._device, owner, read.outcome, read.reason, read.lane, read.address, read.tag)


class CpuPersistentSteps:
    """``PersistentSteps`` of the backend."""

    def __init__(self, device: CpuDevice, memory: CpuMemory) -> None:
        self._device, self._memory = device, memory
        self._order: OrderedDict[int, None] = OrderedDict()
        self._known: WeakValueDictionary[int, CpuKeptSteps] = WeakValueDictionary()
        self._lock = process_lock()

    @property
    def workers(self) -> int:
        """Returns how many steps run at once, at most."""
        return min(self._device.threads, at.MOST_RUNNERS)

    @property
    def most_steps(self) -> int:
        """Returns the most steps of one part."""
        return MOST_ROWS

    def keep(self, parts: Sequence[Sequence[Sequence[ResidentStep]]], /) -> CpuKeptSteps:
        self._device.open()
        known: dict[int, PreparedStep] = {}  # a step that comes again does so in another wave
        for step in (step for waves in parts for wave in waves for step in wave):
            if id(step) not in known:
                known[id(step)] = self._memory.prepare_step(step, copy=True)
        kept_parts = [
            ([known[id(step)] for wave in waves for step in wave], [len(wave) for wave in waves]) for waves in parts
        ]
        kept = CpuKeptSteps(self, self._device, kept_parts)
        self._device.opened_engine(kept)
        return kept

    def make_room(self, kept: CpuKeptSteps) -> None:
        """Has the rings of others given back until these steps may have one, the oldest first."""
        with self._lock, sealed:
            self._order[id(kept)] = None
            self._order.move_to_end(id(kept))
            self._known[id(kept)] = kept
            most = len(self._order) - RINGS
            for key in list(self._order)[: max(0, most)]:
                other = self._known.get(key)
                if other is None or undisturbed(other.park):  # which holds a lock without a block for a moment
                    self._order.pop(key, None)

    def forget(self, kept: CpuKeptSteps) -> None:
        """Forgets steps that have no ring any longer."""
        with self._lock, sealed:
            self._order.pop(id(kept), None)


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name in ("jobs", "wakes"):
        counts[name] += more[name]
