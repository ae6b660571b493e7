"""Reads of many ranges as one list of copies, which one native call runs."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.commands import CommandList
from vyre.adapters.cpu.runtime.addresses import writable_address
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.launch import run_failed
from vyre.adapters.forks import process_lock, refuse_within
from vyre.adapters.host.memory import HostBuffer
from vyre.domain.errors import InvalidResource
from vyre.ports.interrupts import sealed
from vyre.ports.ownership import check_ownership
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.ports.gathering import Column, Ranges

SHORT_BYTES: Final = 1 << 20
"""The most bytes that the calling thread copies, which nothing can interrupt."""
_CLOSED: Final = attrgetter("_closed")


class CpuGathering:
    """``GatheredReads`` of the backend."""

    def __init__(self, device: CpuDevice) -> None:
        self._device: CpuDevice = device

    def bind(self, buffers: Sequence[ResidentBuffer], ranges: Ranges, /) -> CpuGather:
        check_ownership(self._device.backend, 0, buffers)
        return CpuGather(self._device, [each for each in buffers if isinstance(each, HostBuffer)], ranges)


class CpuGather:
    """``BoundGather``: copies whose destinations are written before each run."""

    def __init__(self, device: CpuDevice, buffers: Sequence[HostBuffer], ranges: Ranges) -> None:
        import numpy as np

        which, offsets, nbytes, places = ranges
        self._device, self._buffers = device, tuple(buffers)
        self._kept: Final = [buffer.data for buffer in buffers]  # lives as long as this, also if a buffer is closed
        sizes = np.array([data.nbytes for data in self._kept], np.int64)
        starts = np.array([buffer.address for buffer in buffers], np.int64)
        _check(offsets, nbytes, sizes[which], "its buffer")
        self._places: Final = places
        self._end: Final = int((places + nbytes).max()) if len(places) else 0
        self._total: Final = int(nbytes.sum())
        _check(places, nbytes, self._end, "the host memory")
        self._words: Final = np.zeros((len(which), at.COMMAND_WORDS), np.int64)
        self._words[:, 0] = at.COPY
        self._words[:, 2] = starts[which] + offsets
        self._words[:, 3] = nbytes
        memory: Any = self._words
        self._commands: Final = CommandList(copies=(c_int64 * self._words.size).from_buffer(memory))
        self._lock: Final = process_lock()

    def __call__(self, into: memoryview, /) -> None:
        """Implements ``BoundGather``."""
        if any(map(_CLOSED, self._buffers)):
            check_ownership(self._device.backend, 0, self._buffers)
        if into.nbytes < self._end:
            raise InvalidResource(f"{self._end} bytes are read into {into.nbytes}", fix="pass at least as many.")
        counters = self._device.counters
        counters.downloads += 1
        counters.downloaded_bytes += self._total
        if not self._total:
            return
        refuse_within(self._lock, "a read of ranges")
        with self._lock, sealed:
            self._words[:, 1] = writable_address(into) + self._places
            job = self._device.job(self._commands)
            job.keep = self, into
            short = self._total <= SHORT_BYTES
            outcome = self._device.run_short(job) if short else self._device.run(job)
        if outcome:
            raise run_failed(self._device, job, outcome, ())


def _check(start: Column, nbytes: Column, limit: Column | int, where: str) -> None:
    """Raises ``InvalidResource`` unless every range lies in ``[0, limit)``."""
    wrong = (start < 0) | (nbytes < 0) | (start + nbytes > limit)
    if wrong.any():
        raise InvalidResource(f"range {int(wrong.argmax())} does not lie within {where}", fix="stay within the memory.")
