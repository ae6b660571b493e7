"""The facet of the lifecycle of a device, and the lifecycle of backends that have no device of their own."""

from __future__ import annotations

from typing import Protocol

from vyre.domain.errors import UnsupportedFeature
from vyre.domain.names import BackendId


class DeviceLifecycle(Protocol):
    """Preparation, loss and recovery of the device of a backend."""

    @property
    def epoch(self) -> int:
        """Returns the device epoch, which every recovery increases; buffers and pipelines of an older epoch are
        refused.
        """

    def prepare(self) -> None:
        """Opens the device, if it is not open, so that the first dispatch need not do so."""

    def flush(self) -> None:
        """Waits until all submitted work has ended."""

    def close(self) -> None:
        """Releases the device and everything that the backend holds on it."""

    def device_lost(self) -> bool:
        """Returns whether the device context can no longer be used."""

    def recover(self) -> None:
        """Replaces a lost device context and begins a new epoch."""


class NullLifecycle:
    """The lifecycle of backends without a queue and without a device of their own."""

    __slots__ = ("_backend",)

    def __init__(self, backend: BackendId) -> None:
        self._backend = backend

    @property
    def epoch(self) -> int:
        """Returns 0, because the epoch never changes."""
        return 0

    def prepare(self) -> None:
        """Does nothing."""
        return

    def flush(self) -> None:
        """Does nothing."""
        return

    def close(self) -> None:
        """Does nothing."""
        return

    def device_lost(self) -> bool:
        """Returns False."""
        return False

    def recover(self) -> None:
        """Raises ``UnsupportedFeature``."""
        raise UnsupportedFeature(feature="device recovery", backend=self._backend)
