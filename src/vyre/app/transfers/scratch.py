"""Device memory in which a session packs what it reads; it grows and is used again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from vyre.adapters.forks import process_lock, refuse_within
from vyre.app.resident import ResidentArray, make_resident
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.ports.resident_buffer import ResidentBuffer

_LEAST: Final = 64 * 1024


class Scratch:
    """Memory that one thread at a time uses."""

    def __init__(self, lease: BackendLease) -> None:
        self._lease = lease
        self._array: ResidentArray | None = None
        self._lock: Final = process_lock()

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[ResidentBuffer]:
        """Yields memory of at least ``nbytes`` bytes, whose content is undefined.

        Raises ``DeviceOutOfMemory``, and ``InvalidResource`` in a closed session.
        """
        refuse_within(self._lock, "memory for packed results")
        with self._lock, sealed:
            array, lease = self._array, self._lease
            epoch = lease.backend.lifecycle.epoch
            if array is None or array.nbytes < nbytes or array.closed or array.buffer.epoch != epoch:
                if array is not None:
                    self._array = None
                    array.close()
                size = max(_LEAST, 1 << (nbytes - 1).bit_length()) if nbytes else _LEAST
                array = make_resident(lease.backend.require_memory(), size, "packed results")
                lease.adopt(array)
                self._array = array
            yield array.buffer
