"""Streams with the events of one dispatch, kept for reuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.seam import CudaCallError, Event, Stream
from vyre.adapters.forks import process_lock

KEPT: Final = 128


class StreamLease(NamedTuple):
    """A stream for one user.  ``started`` and ``ended`` time the kernels; ``done`` marks the end of all work on the
    stream.
    """

    stream: Stream
    started: Event
    ended: Event
    done: Event


class StreamPool(DeviceMember):
    """The streams of a device.  Call its methods inside ``device.calls``; they raise ``CudaCallError``."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._idle: list[StreamLease] = []
        self._live: dict[StreamLease, None] = {}
        self._lock = process_lock()
        device.add(self)

    def acquire(self) -> StreamLease:
        """Returns a lease whose stream is idle."""
        with self._lock:
            if self._idle:
                lease = self._idle.pop()
                self._live[lease] = None
                return lease
        lease = self._new()
        with self._lock:
            self._live[lease] = None
        return lease

    def give_back(self, lease: StreamLease) -> None:
        """Keeps ``lease``, whose stream is idle, for reuse; does nothing with a lease of an earlier epoch."""
        self._end(lease, keep=True)

    def free(self, lease: StreamLease) -> None:
        """Destroys ``lease``, whose stream is idle; does nothing with a lease of an earlier epoch."""
        self._end(lease, keep=False)

    def _end(self, lease: StreamLease, *, keep: bool) -> None:
        with self._lock:
            if lease not in self._live:
                return
            del self._live[lease]
            if keep and len(self._idle) < KEPT:
                self._idle.append(lease)
                return
        self._destroy(lease)

    def busy_streams(self) -> Sequence[Stream]:
        """Returns the streams that are leased."""
        with self._lock:
            return [lease.stream for lease in tuple(self._live)]

    def release(self) -> None:
        """Destroys every stream and event."""
        with self._lock:
            leases = [*self._live, *self._idle]
        self.forget()
        release_all([partial(self._destroy, lease) for lease in leases])

    def forget(self) -> None:
        """Drops every stream and event without a driver call."""
        with self._lock:
            self._idle.clear()
            self._live.clear()

    def _new(self) -> StreamLease:
        driver = self._device.driver
        undo: list[Callable[[], None]] = []
        try:
            stream = driver.stream_create()
            undo.append(partial(driver.stream_destroy, stream))
            started = driver.event_create(timing=True)
            undo.append(partial(driver.event_destroy, started))
            ended = driver.event_create(timing=True)
            undo.append(partial(driver.event_destroy, ended))
            return StreamLease(stream, started, ended, driver.event_create(blocking=True))
        except CudaCallError as error:
            self._device.roll_back(error, undo)
            raise

    def _destroy(self, lease: StreamLease) -> None:
        if self._device.waits_for_streams:  # for this one, too; it is idle, and ``close`` destroys it
            self._device.discard(partial(self._destroy, lease))
            return
        driver = self._device.driver
        events = (lease.started, lease.ended, lease.done)
        release_all([*(partial(driver.event_destroy, e) for e in events), partial(driver.stream_destroy, lease.stream)])
